/* TLS by OpenSSL, see tls.h. */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/tls.h"

#define RECORD_BYTES_MAX ((size_t)SSL3_RT_MAX_PLAIN_LENGTH)
#define ALERT_REASONS 1000		/* OpenSSL's reason for an alert is this and the alert's number */

/* -- the socket -- */

/*
 * Bytes of the socket for one step of a session.  A record has 17 KiB at most, a handshake TLS_HANDSHAKE_BYTES_MAX of
 * certificates; a peer that sends more at a time sends records without data (tickets, new keys), as long as we read.
 */
#define STEP_BYTES_MAX (TLS_HANDSHAKE_BYTES_MAX + (64u << 10))

static int
wire_read(BIO *bio, char *dst, size_t room, size_t *got)
{
	struct tls_wire *w = BIO_get_data(bio);
	ssize_t n;

	BIO_clear_retry_flags(bio);
	if (w->aside != NULL) {
		errno = EAGAIN;
		BIO_set_retry_read(bio);
		return 0;
	}
	if (w->step_bytes >= w->step_max) {
		errno = EPROTO;
		return 0;
	}
	n = stream_socket_read(w->fd, dst, room, false);
	w->drained = n < (ssize_t)room;
	if (n > 0) {
		w->step_bytes += (uint32_t)n;
		*got = (size_t)n;
		return 1;
	}
	w->ended = w->ended || n == 0;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(bio);
	return 0;
}

static int
wire_write(BIO *bio, const char *src, size_t n, size_t *done)
{
	struct tls_wire *w = BIO_get_data(bio);
	struct iovec part = { (void *)(uintptr_t)src, n };
	ssize_t sent;

	BIO_clear_retry_flags(bio);
	if (w->aside != NULL) {
		buf_put(w->aside, src, n);
		*done = n;
		return !w->aside->failed;
	}
	if ((sent = stream_socket_write(w->fd, &part, 1)) >= 0) {
		*done = (size_t)sent;
		return 1;
	}
	if (errno == EAGAIN || errno == EINTR)
		BIO_set_retry_write(bio);
	return 0;
}

static long
wire_control(BIO *bio, int what, long number UNUSED, void *arg UNUSED)
{
	const struct tls_wire *w = BIO_get_data(bio);

	return what == BIO_CTRL_EOF ? w->ended : what == BIO_CTRL_FLUSH;
}

static int
wire_destroy(BIO *bio)
{
	struct tls_wire *w = BIO_get_data(bio);

	if (w != NULL && w->owned)
		free(w);
	return 1;
}

/* Of tls_begin(), for the life of the process. */
static BIO_METHOD *wire_method;
static int wire_type;

static bool
make_wire_method(void)
{
	int type = BIO_TYPE_SOURCE_SINK | BIO_get_new_index();
	BIO_METHOD *m = wire_method != NULL ? NULL : BIO_meth_new(type, "stream");

	if (m == NULL)
		return wire_method != NULL;
	if (BIO_meth_set_read_ex(m, wire_read) != 1 || BIO_meth_set_write_ex(m, wire_write) != 1 ||
	    BIO_meth_set_ctrl(m, wire_control) != 1 || BIO_meth_set_destroy(m, wire_destroy) != 1) {
		BIO_meth_free(m);
		return false;
	}
	wire_method = m;
	wire_type = type;
	return true;
}

bool
tls_session_set_wire(SSL *s, struct tls_wire *w)
{
	BIO *bio = wire_method == NULL ? NULL : BIO_new(wire_method);

	if (bio == NULL)
		return false;
	BIO_set_data(bio, w);
	BIO_set_init(bio, 1);
	SSL_set_bio(s, bio, bio);
	return true;
}

bool
tls_session_set_socket(SSL *s, int fd)
{
	struct tls_wire *w = malloc(sizeof(*w));

	if (w == NULL)
		return false;
	*w = (struct tls_wire){ .fd = fd, .step_max = STEP_BYTES_MAX, .owned = true };
	if (tls_session_set_wire(s, w))
		return true;
	free(w);
	return false;
}

/* Another step of it, if its bytes are those of our socket. */
static void
begin_step(SSL *s)
{
	BIO *bio = SSL_get_rbio(s);

	ERR_clear_error();
	if (wire_method != NULL && bio != NULL && BIO_method_type(bio) == wire_type)
		((struct tls_wire *)BIO_get_data(bio))->step_bytes = 0;
	errno = 0;
}

/* -- the library, and what contexts have -- */

enum tv_err
tls_begin(char *errbuf, size_t cap)
{
	/*
	 * The first word on openssl.cnf holds: libcurl asks for it, and gets what is there.  The default provider is a
	 * part of the library, and sentences are, too: they come with the first context, and need no file.
	 */
	if (OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL) != 1 || !make_wire_method())
		return tv_fail(errbuf, cap, TV_ENOMEM, "OpenSSL does not start: out of memory");
	return TV_OK;
}

/* Where a key has a password: no one is there to be asked for it. */
static int
no_password(char *dst, int cap, int writing UNUSED, void *ctx UNUSED)
{
	if (cap > 0)
		dst[0] = '\0';
	return -1;
}

bool
tls_context_prepare(SSL_CTX *ctx)
{
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_clear_options(ctx, SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_LEGACY_SERVER_CONNECT);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
	    SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY);	/* one call must not go on as long as a peer sends tickets */
	SSL_CTX_set_read_ahead(ctx, 1);			/* one read(2) for a record and not two */
	SSL_CTX_set_max_cert_list(ctx, TLS_HANDSHAKE_BYTES_MAX);
	SSL_CTX_set_default_passwd_cb(ctx, no_password);
	return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 &&
	    SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) == 1;
}

/* -- sentences -- */

/* Those of an alert, as Go has them. */
static const char *
alert_text(int alert)
{
	static const struct { int alert; const char *text; } texts[] = {
		{ SSL_AD_UNEXPECTED_MESSAGE, "unexpected message" }, { SSL_AD_BAD_RECORD_MAC, "bad record MAC" },
		{ SSL_AD_RECORD_OVERFLOW, "record overflow" }, { SSL_AD_HANDSHAKE_FAILURE, "handshake failure" },
		{ SSL_AD_BAD_CERTIFICATE, "bad certificate" },
		{ SSL_AD_UNSUPPORTED_CERTIFICATE, "unsupported certificate" },
		{ SSL_AD_CERTIFICATE_REVOKED, "revoked certificate" },
		{ SSL_AD_CERTIFICATE_EXPIRED, "expired certificate" },
		{ SSL_AD_CERTIFICATE_UNKNOWN, "unknown certificate" },
		{ SSL_AD_ILLEGAL_PARAMETER, "illegal parameter" },
		{ SSL_AD_UNKNOWN_CA, "unknown certificate authority" }, { SSL_AD_ACCESS_DENIED, "access denied" },
		{ SSL_AD_DECODE_ERROR, "error decoding message" }, { SSL_AD_DECRYPT_ERROR, "error decrypting message" },
		{ SSL_AD_PROTOCOL_VERSION, "protocol version not supported" },
		{ SSL_AD_INSUFFICIENT_SECURITY, "insufficient security level" },
		{ SSL_AD_INTERNAL_ERROR, "internal error" },
		{ SSL_AD_INAPPROPRIATE_FALLBACK, "inappropriate fallback" },
		{ SSL_AD_USER_CANCELLED, "user canceled" }, { SSL_AD_NO_RENEGOTIATION, "no renegotiation" },
		{ SSL_AD_MISSING_EXTENSION, "missing extension" },
		{ SSL_AD_UNSUPPORTED_EXTENSION, "unsupported extension" },
		{ SSL_AD_UNRECOGNIZED_NAME, "unrecognized name" },
		{ SSL_AD_CERTIFICATE_REQUIRED, "certificate required" },
		{ SSL_AD_NO_APPLICATION_PROTOCOL, "no application protocol" },
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].alert == alert)
			return texts[i].text;
	return SSL_alert_desc_string_long(alert);
}

/* What the peer's certificate has for names: "a.example, b.example, 192.0.2.1", cut where there is no room. */
static void
put_names(X509 *cert, char *dst, size_t cap)
{
	GENERAL_NAMES *all = cert == NULL ? NULL : X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
	struct buf out = BUF_INIT(cap - 1);

	for (int i = 0; i < sk_GENERAL_NAME_num(all); i++) {
		const GENERAL_NAME *one = sk_GENERAL_NAME_value(all, i);
		char ip[ADDR_IP_BYTES];

		if (one->type == GEN_DNS)
			for (int j = 0; j <= one->d.dNSName->length; j++) {
				int c = j < one->d.dNSName->length ? one->d.dNSName->data[j] : 0;

				if (j == 0 && out.len > 0)
					buf_puts(&out, ", ");
				if (c != 0)	/* what a stranger wrote goes to logs and to the API */
					buf_u8(&out, c > ' ' && c < 0x7f ? (uint8_t)c : '?');
			}
		else if (one->type == GEN_IPADD && (one->d.iPAddress->length == 4 || one->d.iPAddress->length == 16)) {
			struct addr a = addr_of_bytes(one->d.iPAddress->data, (size_t)one->d.iPAddress->length);

			buf_printf(&out, "%s%s", out.len > 0 ? ", " : "", addr_ip(&a, ip));
		}
	}
	snprintf(dst, cap, "%.*s", (int)out.len, out.len > 0 ? (const char *)out.data : "");
	buf_done(&out);
	GENERAL_NAMES_free(all);
}

/* Of the certificate that had another name, in the handshake that fails for it. */
static _Thread_local char other_names[256];

int
tls_session_note_names(int good, X509_STORE_CTX *verify)
{
	int error = X509_STORE_CTX_get_error(verify);

	if (!good && (error == X509_V_ERR_HOSTNAME_MISMATCH || error == X509_V_ERR_IP_ADDRESS_MISMATCH))
		put_names(X509_STORE_CTX_get0_cert(verify), other_names, sizeof(other_names));
	return good;
}

/* In GnuTLS' words, where it has some: checks had them before. */
static void
why_unverified(long verdict, char why[TLS_WHY_BYTES])
{
	switch (verdict) {
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		snprintf(why, TLS_WHY_BYTES, "x509: The certificate is NOT trusted. The name in the certificate does "
		    "not match the expected%s%s", other_names[0] != '\0' ? ": it is for " : "", other_names);
		return;
	case X509_V_ERR_CERT_HAS_EXPIRED:
		snprintf(why, TLS_WHY_BYTES, "x509: The certificate is NOT trusted. The certificate chain uses expired "
		    "certificate");
		return;
	case X509_V_ERR_CERT_NOT_YET_VALID:
		snprintf(why, TLS_WHY_BYTES, "x509: The certificate is NOT trusted. The certificate chain uses not yet "
		    "valid certificate");
		return;
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
		snprintf(why, TLS_WHY_BYTES, "x509: The certificate is NOT trusted. The certificate issuer is unknown");
		return;
	default:
		snprintf(why, TLS_WHY_BYTES, "x509: The certificate is NOT trusted: %s",
		    X509_verify_cert_error_string(verdict));
	}
}

void
tls_session_failure(SSL *s, int error, char why[TLS_WHY_BYTES])
{
	unsigned long e = ERR_peek_last_error();
	int reason = ERR_GET_REASON(e);
	long verdict = SSL_get_verify_result(s);

	if (ERR_GET_LIB(e) == ERR_LIB_SSL && reason == SSL_R_CERTIFICATE_VERIFY_FAILED && verdict != X509_V_OK)
		why_unverified(verdict, why);
	else if (ERR_GET_LIB(e) == ERR_LIB_SSL && reason > ALERT_REASONS && reason < ALERT_REASONS + 256)
		snprintf(why, TLS_WHY_BYTES, "remote error: tls: %s", alert_text(reason - ALERT_REASONS));
	else if (ERR_GET_LIB(e) == ERR_LIB_SSL && reason == SSL_R_UNEXPECTED_EOF_WHILE_READING)
		snprintf(why, TLS_WHY_BYTES, "tls: the peer ended the connection");
	else if (e != 0 && !ERR_SYSTEM_ERROR(e) && ERR_reason_error_string(e) != NULL)
		snprintf(why, TLS_WHY_BYTES, "tls: %s", ERR_reason_error_string(e));
	else
		snprintf(why, TLS_WHY_BYTES, "tls: %s", error != 0 ? strerror(error) : "the peer ended the connection");
}

/* -- bytes -- */

/* The errno of what OpenSSL says of a call that gave n; errno is still the socket's. */
static int
errno_of(SSL *s, int n)
{
	int system = errno;

	switch (SSL_get_error(s, n)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
	case SSL_ERROR_WANT_X509_LOOKUP:
		return EAGAIN;
	case SSL_ERROR_SYSCALL:
		return system == EAGAIN || system == EINTR ? EPROTO : system;
	default:
		return ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING ? 0 : EPROTO;
	}
}

int
tls_session_shake(SSL *s, char why[TLS_WHY_BYTES])
{
	begin_step(s);
	other_names[0] = '\0';
	int rc = SSL_do_handshake(s);

	if (rc == 1)
		return 1;
	int error = errno_of(s, rc);
	if (error == EAGAIN)
		return 0;
	tls_session_failure(s, error, why);
	return -1;
}

bool
tls_session_wants_write(const SSL *s)
{
	return SSL_want_write(s);
}

void
tls_session_end(SSL *s)
{
	if (SSL_is_init_finished(s) && (SSL_get_shutdown(s) & SSL_SENT_SHUTDOWN) == 0) {
		ERR_clear_error();
		(void)SSL_shutdown(s);
	}
}

void
tls_session_free(SSL *s)
{
	SSL_free(s);
}

static ssize_t
tls_read(void *sealed, void *dst, size_t room)
{
	SSL *s = sealed;
	size_t got;

	begin_step(s);
	for (;;) {
		if (SSL_read_ex(s, dst, room, &got) == 1)
			return (ssize_t)got;
		/* A record that was no data ends the call, too, and then the socket was not asked for more. */
		bool dry = errno == EAGAIN || SSL_want_write(s);
		if (SSL_get_error(s, 0) == SSL_ERROR_ZERO_RETURN)
			return 0;
		int error = errno_of(s, 0);
		if (error != EAGAIN || dry) {
			errno = error;
			return -1;
		}
		ERR_clear_error();
		errno = 0;
	}
}

static ssize_t
tls_write(void *sealed, const void *src, size_t n)
{
	SSL *s = sealed;
	size_t done;

	if (n == 0)
		return 0;
	begin_step(s);
	if (SSL_write_ex(s, src, n < RECORD_BYTES_MAX ? n : RECORD_BYTES_MAX, &done) == 1)
		return (ssize_t)done;
	errno = errno_of(s, 0);
	if (errno == 0)
		errno = EPROTO;
	return -1;
}

/* A part of a record is none that can be read: then the last read wanted more. */
static bool
tls_is_pending(const void *sealed)
{
	const SSL *s = sealed;

	return SSL_has_pending(s) && !SSL_want_read(s);
}

const struct stream_seal tls_seal = { .read = tls_read, .write = tls_write, .is_pending = tls_is_pending };
