/*
 * Sessions.  A handshake begins on the loop.  Where it needs our certificate, and so a signature, it pauses
 * (conn_certificate()) and leaves for a thread with its first bytes read; what it then writes waits in memory, and the
 * loop has it again before anything more is read.  So all but the signature happens on the loop: tickets are made and
 * read there, and clients' certificates verified.
 */
#include <errno.h>
#include <openssl/err.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/net/source.h"
#include "common/net/tls.h"
#include "rpcd/tls/tls_int.h"

/*
 * Bytes of the socket for one step of a session: two records, one of which may have no data; a handshake needs these
 * for a client's certificates.  More are a flood of records without data (keys that are renewed, RFC 8446, 4.6.3), and
 * would keep the loop: each costs more than its few bytes say.
 */
#define STEP_BYTES_MAX (36u << 10)
#define OUT_MAX (1u << 20)		/* our first flight: the chain, and names of authorities */
#define DROP_BYTES 4096

/* To a client that speaks HTTP where TLS is spoken: Go's server says it so. */
static const char not_https[] =
    "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    "Client sent an HTTP request to an HTTPS server.\n";

struct tls_conn *
tls_accept(struct tls_server *s, int fd, void (*changed)(void *ctx), void *ctx)
{
	struct tls_conn *t;

	if (s->identity == NULL || (t = calloc(1, sizeof(*t))) == NULL)
		return NULL;
	t->server = s;
	t->wire = (struct tls_wire){ .fd = fd, .step_max = STEP_BYTES_MAX };
	t->changed = changed;
	t->ctx = ctx;
	t->deadline = mono_add(clock_mono(), s->conf.handshake_timeout);
	t->ssl = SSL_new(s->identity->ssl);
	if (t->ssl == NULL || SSL_set_app_data(t->ssl, t) != 1 || !tls_session_set_wire(t->ssl, &t->wire)) {
		SSL_free(t->ssl);
		free(t);
		ERR_clear_error();
		return NULL;
	}
	SSL_set_accept_state(t->ssl);
	t->identity = s->identity;
	t->identity->shares++;
	return t;
}

static void
away_free(struct away *a)
{
	if (a == NULL)
		return;
	buf_done(&a->out);
	free(a);
}

static void
conn_free(struct tls_conn *t)
{
	away_free(t->away);
	SSL_free(t->ssl);
	identity_release(t->identity);
	free(t->peer_name);
	free(t);
}

void
tls_end(struct tls_conn *t)
{
	if (t == NULL)
		return;
	if (tls_is_away(t) && !handshakes_withdraw(t->server->handshakes, &t->away->handshake))
		t->away->abandoned = true;
	else
		conn_free(t);
}

/* -- what a session may be resumed for --------------------------------------- */

/* The name that the client asks for (RFC 6066, 3), in lower case; none: empty. */
static struct span
asked_name(SSL *ssl)
{
	const unsigned char *p;
	size_t n, list, len;

	if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &p, &n) != 1 || n < 5)
		return SPAN_NONE;
	list = (size_t)p[0] << 8 | p[1];
	len = (size_t)p[3] << 8 | p[4];
	if (list != n - 2 || p[2] != TLSEXT_NAMETYPE_host_name || len > n - 5 || len > TLSEXT_MAXLEN_host_name)
		return SPAN_NONE;		/* OpenSSL refuses it, in its time */
	return span_of(p + 5, len);
}

/*
 * Before tickets are read: a session is resumed for the same name, the same suites and authorities and the same
 * question for a certificate only.  A client that sends its second hello with the first has no answer to it yet, and a
 * thread would read its tickets.
 */
int
conn_hello(SSL *ssl, int *alert, void *arg UNUSED)
{
	const struct tls_conn *t = SSL_get_app_data(ssl);
	struct span name = asked_name(ssl);
	uint8_t lower[TLSEXT_MAXLEN_host_name], bound[BINDING_BYTES];

	if (t->wire.aside != NULL) {
		*alert = SSL_AD_UNEXPECTED_MESSAGE;
		return SSL_CLIENT_HELLO_ERROR;
	}
	for (size_t i = 0; i < name.len; i++)
		lower[i] = ascii_lower(name.p[i]);
	crypto_generichash(bound, sizeof(bound), lower, name.len, t->identity->binding, BINDING_BYTES);
	if (SSL_set_session_id_context(ssl, bound, sizeof(bound)) == 1)
		return SSL_CLIENT_HELLO_SUCCESS;
	*alert = SSL_AD_INTERNAL_ERROR;
	return SSL_CLIENT_HELLO_ERROR;
}

/* -- handshakes: in a thread ------------------------------------------------- */

/* Is a certificate needed?  Then a signature, too, which the loop does not wait for. */
int
conn_certificate(SSL *ssl, void *arg UNUSED)
{
	const struct tls_conn *t = SSL_get_app_data(ssl);

	return t->wire.aside != NULL ? 1 : -1;
}

void
conn_work(struct handshake *k)
{
	struct away *a = MAP_ENTRY((void *)k, struct away, handshake);
	char why[TLS_WHY_BYTES];

	a->conn->wire.aside = &a->out;
	tls_provider_sign_until(a->deadline);
	/* It ends where more is to be read, and goes on from there; or fails, and fails again. */
	a->result = tls_session_shake(a->conn->ssl, why);
	a->reason = a->result < 0 ? ERR_peek_last_error() : 0;
	a->signing = tls_provider_signed();
	ERR_clear_error();
	a->conn->wire.aside = NULL;
}

/* -- handshakes: on the loop ------------------------------------------------- */

void
conn_returned(struct handshake *k)
{
	struct away *a = MAP_ENTRY((void *)k, struct away, handshake);
	struct tls_conn *t = a->conn;

	if (a->abandoned)
		conn_free(t);
	else
		t->changed(t->ctx);
}

void
conn_displaced(struct handshake *k)
{
	struct away *a = MAP_ENTRY((void *)k, struct away, handshake);
	struct tls_conn *t = a->conn;

	t->server->stats.refused_full++;
	t->failed = true;
	conn_returned(k);
}

static uint64_t
peer_source(int fd)
{
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);

	return getpeername(fd, (struct sockaddr *)&from, &len) == 0 ? source_of((struct sockaddr *)&from) : 0;
}

/* To a thread.  -1: no place, no memory. */
static int
conn_leave(struct tls_conn *t)
{
	struct tls_server *s = t->server;

	if (t->away == NULL) {
		if ((t->away = calloc(1, sizeof(*t->away))) == NULL)
			return -1;
		t->away->conn = t;
		t->away->deadline = t->deadline;
		buf_init(&t->away->out, OUT_MAX);
	}
	t->away->result = 0;
	if (handshakes_put(s->handshakes, &t->away->handshake, peer_source(t->wire.fd)))
		return 0;
	s->stats.refused_full++;
	t->failed = true;
	return -1;
}

/* A client that speaks plain HTTP here gets a sentence. */
static void
explain_https(const struct tls_conn *t)
{
	struct iovec part = { (void *)not_https, sizeof(not_https) - 1 };
	uint8_t rest[DROP_BYTES];

	/* What is unread when the socket is closed would have it reset, and the sentence lost. */
	(void)stream_socket_read(t->wire.fd, rest, sizeof(rest), false);
	(void)stream_socket_write(t->wire.fd, &part, 1);
}

static uint64_t *
failure_counter(struct tls_server *s, unsigned long error, enum tv_err signing)
{
	struct tls_server_stats *st = &s->stats;
	int reason = ERR_GET_REASON(error);

	if (signing != TV_OK)
		return &st->failed_signer;
	if (error == 0 || ERR_SYSTEM_ERROR(error))
		return &st->failed_cut;
	if (ERR_GET_LIB(error) != ERR_LIB_SSL)
		return &st->failed_other;
	if (reason >= SSL_AD_REASON_OFFSET)
		return &st->failed_refused;
	switch (reason) {
	case SSL_R_UNEXPECTED_EOF_WHILE_READING:
		return &st->failed_cut;
	case SSL_R_HTTP_REQUEST:
	case SSL_R_HTTPS_PROXY_REQUEST:
	case SSL_R_WRONG_VERSION_NUMBER:
	case SSL_R_UNEXPECTED_MESSAGE:
	case SSL_R_BAD_RECORD_TYPE:
	case SSL_R_RECORD_LENGTH_MISMATCH:
	case SSL_R_PACKET_LENGTH_TOO_LONG:
		return &st->failed_not_tls;
	case SSL_R_NO_SHARED_CIPHER:
	case SSL_R_UNSUPPORTED_PROTOCOL:
	case SSL_R_VERSION_TOO_LOW:
	case SSL_R_NO_SUITABLE_KEY_SHARE:
	case SSL_R_NO_SUITABLE_GROUPS:
	case SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS:
	case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
	case SSL_R_NO_APPLICATION_PROTOCOL:
		return &st->failed_no_match;
	case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
	case SSL_R_CERTIFICATE_VERIFY_FAILED:
	case SSL_R_EXCESSIVE_MESSAGE_SIZE:
	case SSL_R_WRONG_CURVE:
		return &st->failed_client_cert;
	default:
		return &st->failed_other;
	}
}

/* Counts why it failed.  What an operator can help is told, too. */
static int
conn_failed(struct tls_conn *t, unsigned long error, enum tv_err signing, const char *why)
{
	struct tls_server *s = t->server;
	uint64_t *counter = failure_counter(s, error, signing);

	t->failed = true;
	++*counter;
	if (counter == &s->stats.failed_client_cert && log_allow(&s->refusals, "tls"))
		log_warn("tls", "a client's certificate was refused: %s", why);
	else if (counter == &s->stats.failed_signer && log_allow(&s->refusals, "tls"))
		log_warn("tls", "a handshake ended without a signature: %s", tv_strerror(signing));
	else
		log_debug("tls", "a handshake failed: %s", why);
	if (ERR_GET_LIB(error) == ERR_LIB_SSL && ERR_GET_REASON(error) == SSL_R_HTTP_REQUEST)
		explain_https(t);
	ERR_clear_error();
	return -1;
}

static int
conn_stands(struct tls_conn *t)
{
	struct tls_server_stats *st = &t->server->stats;
	const X509 *peer = SSL_get0_peer_certificate(t->ssl);

	if (peer != NULL && (t->peer_name = peer_name_of(peer)) == NULL) {
		st->failed_other++;
		t->failed = true;
		return -1;
	}
	t->stands = true;
	st->client_certs += peer != NULL;
	++*(SSL_session_reused(t->ssl) ? &st->resumed : &st->full);
	++*(SSL_version(t->ssl) == TLS1_3_VERSION ? &st->tls13 : &st->tls12);
	return 1;
}

/* Writes what waits in memory: true: all of it has left, or cannot. */
static bool
flush_away(struct tls_conn *t)
{
	struct buf *out = &t->away->out;

	while (out->len > 0) {
		struct iovec part = { out->data, out->len };
		ssize_t n = stream_socket_write(t->wire.fd, &part, 1);

		if (n < 0)
			return errno != EAGAIN && errno != EINTR;	/* the session finds out */
		buf_drop(out, (size_t)n);
	}
	return true;
}

/* After a thread had it: what it wrote leaves, before anything else. */
static int
conn_resume(struct tls_conn *t)
{
	struct away *a = t->away;

	if (!flush_away(t))
		return 0;
	if (a->result < 0) {
		const char *why = ERR_reason_error_string(a->reason);

		return conn_failed(t, a->reason, a->signing, why != NULL ? why : "the peer ended the connection");
	}
	away_free(a);
	t->away = NULL;
	return 1;
}

int
tls_shake(struct tls_conn *t)
{
	char why[TLS_WHY_BYTES];
	int rc;

	if (t->failed || t->stands || tls_is_away(t))
		return t->failed ? -1 : t->stands;
	if (t->away != NULL && (rc = conn_resume(t)) <= 0)
		return rc;
	rc = tls_session_shake(t->ssl, why);
	if (rc == 1)
		return conn_stands(t);
	if (rc < 0)
		return conn_failed(t, ERR_peek_last_error(), TV_OK, why);
	return SSL_want_x509_lookup(t->ssl) ? conn_leave(t) : 0;
}

bool
tls_wants_write(const struct tls_conn *t)
{
	if (tls_is_away(t))
		return false;
	return t->away != NULL ? t->away->out.len > 0 : tls_session_wants_write(t->ssl);
}

bool
tls_is_away(const struct tls_conn *t)
{
	return t->away != NULL && t->away->handshake.place.here;
}

bool
tls_is_h2(const struct tls_conn *t)
{
	const unsigned char *name;
	unsigned len;

	SSL_get0_alpn_selected(t->ssl, &name, &len);
	return span_eqs(span_of(name, len), "h2");
}

const char *
tls_peer_san(const struct tls_conn *t)
{
	return t->peer_name;
}

void
tls_say_end(struct tls_conn *t)
{
	if (t->stands && !t->failed)
		tls_session_end(t->ssl);
}

/* -- bytes ------------------------------------------------------------------- */

static ssize_t
conn_read(void *sealed, void *dst, size_t room)
{
	struct tls_conn *t = sealed;
	ssize_t n;

	if (t->failed || !t->stands) {
		errno = EPROTO;
		return -1;
	}
	n = tls_seal.read(t->ssl, dst, room);
	t->failed = n < 0 && errno != EAGAIN;
	return n;
}

static ssize_t
conn_write(void *sealed, const void *src, size_t n)
{
	struct tls_conn *t = sealed;
	ssize_t done;

	if (t->failed || !t->stands) {
		errno = EPIPE;
		return -1;
	}
	done = tls_seal.write(t->ssl, src, n);
	t->failed = done < 0 && errno != EAGAIN;
	return done;
}

static bool
conn_is_pending(const void *sealed)
{
	const struct tls_conn *t = sealed;

	return t->stands && !t->failed && tls_seal.is_pending(t->ssl);
}

void
tls_has_news(struct tls_conn *t)
{
	t->wire.drained = false;
}

bool
tls_may_have_more(const struct tls_conn *t)
{
	return !t->wire.drained || conn_is_pending(t);
}

const struct stream_seal tls_conn_seal = { .read = conn_read, .write = conn_write, .is_pending = conn_is_pending };
