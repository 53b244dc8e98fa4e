/*
 * Sessions of TLS, at either end.  First byte: what follows.
 *
 *	s	bytes of a client for the server (rpcd/tls), which asks for a certificate and speaks HTTP/2
 *	c	bytes of a server for a client (common/net/tls_client.c)
 *	u, d	places, two bytes each, and what is changed there (XOR), of what goes up to the server or down from it, in a
 *		session of both with data both ways
 *
 * Raw bytes never make a session.  What one end reads is what the other has written, from its first byte on, whatever is
 * changed on the way; and with nothing changed it is all of it.
 */
#include <errno.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/log.h"
#include "common/net/tls_client.h"
#include "rpcd/tls/tls_server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TEXT_BYTES 20000u
#define ROUNDS_MAX 400

static struct ev_loop *loop;
static struct tls_server *server;
static struct tls_client *client;
static EVP_PKEY *key;
static uint8_t text[TEXT_BYTES];

/* -- what stays -- */

static enum tv_err
sign(void *ctx, uint64_t number UNUSED, enum keys_alg alg, struct span what, uint8_t *sig, size_t *len,
    struct mono deadline UNUSED)
{
	EVP_MD_CTX *m = EVP_MD_CTX_new();
	bool good = alg == KEYS_ECDSA_SHA256 && EVP_DigestSignInit_ex(m, NULL, "SHA256", NULL, NULL, ctx, NULL) == 1 &&
	    EVP_DigestSign(m, sig, len, what.p, what.len) == 1;

	EVP_MD_CTX_free(m);
	return good ? TV_OK : TV_EINVAL;
}

static void
write_file(const char *path, const char *bytes, size_t n)
{
	FILE *f = fopen(path, "w");

	TV_ASSERT(f != NULL && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

/* A certificate that is its own authority, of both ends. */
static X509 *
certificate(void)
{
	X509 *cert = X509_new();
	X509_EXTENSION *alt = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "DNS:a.example");

	TV_ASSERT(cert != NULL && alt != NULL && X509_set_version(cert, 2) == 1 &&
	    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1) == 1 && X509_gmtime_adj(X509_getm_notBefore(cert), -60) != NULL &&
	    X509_gmtime_adj(X509_getm_notAfter(cert), 1L << 24) != NULL && X509_set_pubkey(cert, key) == 1 &&
	    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_UTF8, (const uint8_t *)"a", -1, -1, 0) == 1 &&
	    X509_set_issuer_name(cert, X509_get_subject_name(cert)) == 1 && X509_add_ext(cert, alt, -1) == 1 &&
	    X509_sign(cert, key, EVP_sha256()) > 0);
	X509_EXTENSION_free(alt);
	return cert;
}

static void
prepare(void)
{
	char why[512] = "", folder[] = "/tmp/tv-fuzz-tls-XXXXXX", cert_path[64], key_path[64], *pem, *secret;
	BIO *mem = BIO_new(BIO_s_mem()), *private = BIO_new(BIO_s_mem());
	X509 *cert;

	log_init("fuzz", LOG_LVL_ERR, LOG_TO_STDERR);
	signal(SIGPIPE, SIG_IGN);
	TV_ASSERT(sodium_init() >= 0 && tls_begin(why, sizeof(why)) == TV_OK && (loop = ev_loop_new(0)) != NULL && (key = EVP_EC_gen("P-256")) != NULL);
	TV_ASSERT(mkdtemp(folder) != NULL && (cert = certificate()) != NULL && PEM_write_bio_X509(mem, cert) == 1 &&
	    PEM_write_bio_PrivateKey(private, key, NULL, NULL, 0, NULL, NULL) == 1);
	size_t n = (size_t)BIO_get_mem_data(mem, &pem), k = (size_t)BIO_get_mem_data(private, &secret);
	snprintf(cert_path, sizeof(cert_path), "%s/cert", folder);
	snprintf(key_path, sizeof(key_path), "%s/key", folder);
	write_file(cert_path, pem, n);
	write_file(key_path, secret, k);
	client = tls_client_new(&(struct tls_client_conf){ .ca_file = cert_path, .cert_file = cert_path, .key_file = key_path },
	    why, sizeof(why));
	TV_ASSERT(client != NULL && unlink(cert_path) == 0 && unlink(key_path) == 0 && rmdir(folder) == 0);
	server = tls_server_new(&(struct tls_server_conf){ .loop = loop, .sign = sign, .ctx = key, .h2 = true,
	    .handshake_timeout = MONO_S(3600) });
	struct span chain = span_of((const uint8_t *)pem, n);
	TV_ASSERT(server != NULL && tls_server_identify(server, &(struct tls_identity){ .chain = chain, .key = 1, .ca = chain,
	    .ask = TLS_ASK }, why, sizeof(why)) == TV_OK);
	X509_free(cert);
	BIO_free(mem);
	BIO_free(private);
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)(i * 11 ^ i >> 6);
}

/* -- one end -- */

struct end {
	int fd, wire;			/* its socket, and our end of that */
	struct tls_conn *server;
	SSL *client;
	int stands;			/* as of the handshake */
	bool over;
	size_t sent, got;
	size_t moved;			/* bytes that left it */
};

static void
on_changed(void *ctx UNUSED)
{
}

static void
end_open(struct end *e, bool is_server)
{
	int two[2];

	*e = (struct end){ .fd = -1 };
	TV_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, two) == 0);
	e->fd = two[0];
	e->wire = two[1];
	if (is_server)
		e->server = tls_accept(server, e->fd, on_changed, NULL);
	else
		e->client = tls_client_open(client, e->fd, &(struct tls_peer){ .name = "a.example", .protocol = "h2" });
	TV_ASSERT(e->server != NULL || e->client != NULL);
}

static void
end_close(struct end *e)
{
	tls_end(e->server);
	tls_session_free(e->client);
	close(e->fd);
	if (e->wire >= 0)
		close(e->wire);
}

static int
end_shake(struct end *e)
{
	char why[TLS_WHY_BYTES] = "";
	int rc;

	if (e->server == NULL) {
		rc = tls_session_shake(e->client, why);
		TV_ASSERT(rc >= 0 || strncmp(why, "tls: ", 5) == 0 || strncmp(why, "x509: ", 6) == 0 ||
		    strncmp(why, "remote error: tls: ", 19) == 0);
		return rc;
	}
	rc = tls_shake(e->server);
	while (rc == 0 && tls_is_away(e->server))
		ev_run(loop, EVRUN_ONCE);
	return rc != 0 ? rc : tls_shake(e->server);
}

/* Reads and writes what it can. */
static void
end_talk(struct end *e)
{
	const struct stream_seal *seal = e->server != NULL ? &tls_conn_seal : &tls_seal;
	void *sealed = e->server != NULL ? (void *)e->server : (void *)e->client;
	uint8_t room[700];
	ssize_t n = 1;

	while (!e->over && e->sent < sizeof(text) && (n = seal->write(sealed, text + e->sent, sizeof(text) - e->sent)) > 0)
		e->sent += (size_t)n;
	e->over = e->over || (n < 0 && errno != EAGAIN);
	while (!e->over && (n = seal->read(sealed, room, sizeof(room))) > 0) {
		TV_ASSERT((size_t)n <= sizeof(text) - e->got && memcmp(room, text + e->got, (size_t)n) == 0);
		e->got += (size_t)n;
	}
	e->over = e->over || n == 0 || errno != EAGAIN;
	TV_ASSERT(e->over || !seal->is_pending(sealed));
}

static void
end_step(struct end *e)
{
	if (e->stands == 0)
		e->stands = end_shake(e);
	if (e->stands == 1)
		end_talk(e);
	if ((e->stands < 0 || e->over) && e->fd >= 0)
		(void)shutdown(e->fd, SHUT_WR);
}

/* -- inputs -- */

static void
raw_bytes(bool to_server, struct span bytes)
{
	struct end e;

	end_open(&e, to_server);
	if (!to_server)
		end_step(&e);
	for (size_t at = 0; at < bytes.len && e.stands == 0;) {
		ssize_t n = write(e.wire, bytes.p + at, bytes.len - at);

		at += n > 0 ? (size_t)n : 0;
		end_step(&e);
		if (n < 0)
			break;
	}
	TV_ASSERT(e.stands != 1);
	shutdown(e.wire, SHUT_WR);
	end_step(&e);
	TV_ASSERT(e.stands == -1);
	end_close(&e);
}

/* Moves what came from one end to the other, changed; true: something did. */
static bool
carry(struct end *from, struct end *to, struct span changes, bool *changed)
{
	uint8_t room[4096];
	ssize_t n = to->wire < 0 ? -1 : read(from->wire, room, sizeof(room));

	if (n == 0)
		(void)shutdown(to->wire, SHUT_WR);
	if (n <= 0)
		return false;
	for (size_t i = 0; i + 3 <= changes.len; i += 3) {
		size_t at = (size_t)changes.p[i] << 8 | changes.p[i + 1];

		if (at >= from->moved && at < from->moved + (size_t)n) {
			room[at - from->moved] ^= changes.p[i + 2];
			*changed = *changed || changes.p[i + 2] != 0;
		}
	}
	from->moved += (size_t)n;
	return write(to->wire, room, (size_t)n) == n;
}

static void
changed_session(bool up, struct span changes)
{
	struct end c, s;
	bool changed = false, moved = true;

	end_open(&c, false);
	end_open(&s, true);
	for (int i = 0; i < ROUNDS_MAX && moved; i++) {
		end_step(&c);
		end_step(&s);
		moved = carry(&c, &s, up ? changes : SPAN_NONE, &changed);
		moved = carry(&s, &c, up ? SPAN_NONE : changes, &changed) || moved;
	}
	TV_ASSERT(changed || (c.got == sizeof(text) && s.got == sizeof(text)));
	end_close(&c);
	end_close(&s);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct span rest = size == 0 ? SPAN_NONE : span_of(data + 1, size - 1);

	if (server == NULL)
		prepare();
	if (size > 0 && (data[0] == 's' || data[0] == 'c'))
		raw_bytes(data[0] == 's', rest);
	else if (size > 0 && (data[0] == 'u' || data[0] == 'd'))
		changed_session(data[0] == 'u', rest);
	return 0;
}
