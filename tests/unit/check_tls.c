/*
 * TLS of both ends on a socketpair: handshakes, records that are cut at each byte, ends and cuts, names and authorities,
 * files that are none, floods of records without data.
 */
#include "config.h"

#include <errno.h>
#include <openssl/err.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/net/tls_client.h"
#include "tests/unit/scratch.h"
#include "tests/unit/tls_kit.h"

static struct tls_kit_cert ca, other_ca, leaf, own;

/* -- both ends -- */

struct ends {
	SSL_CTX *ctx;
	struct tls_client *client;
	SSL *c, *s;
	int fd[2];			/* of the client, of the server */
	char why[2][TLS_WHY_BYTES];
};

static SSL_CTX *
server_context(const struct tls_kit_cert *cert)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

	ck_assert(ctx != NULL && tls_context_prepare(ctx));
	ck_assert_int_eq(SSL_CTX_use_certificate(ctx, cert->cert), 1);
	ck_assert_int_eq(SSL_CTX_use_PrivateKey(ctx, cert->key), 1);
	return ctx;
}

static struct tls_client *
client_of(const char *ca_file, const char *cert_file, const char *key_file)
{
	const struct tls_client_conf conf = { .ca_file = ca_file, .cert_file = cert_file, .key_file = key_file };
	char why[512] = "";
	struct tls_client *c = tls_client_new(&conf, why, sizeof(why));

	ck_assert_msg(c != NULL, "%s", why);
	return c;
}

static void
ends_open(struct ends *e, SSL_CTX *ctx, struct tls_client *client, const struct tls_peer *peer)
{
	*e = (struct ends){ .ctx = ctx, .client = client };
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, e->fd), 0);
	ck_assert_ptr_nonnull(e->c = tls_client_open(client, e->fd[0], peer));
	ck_assert_ptr_nonnull(e->s = SSL_new(ctx));
	ck_assert(tls_session_set_socket(e->s, e->fd[1]));
	SSL_set_accept_state(e->s);
}

static void
ends_close(struct ends *e)
{
	tls_session_free(e->c);
	tls_session_free(e->s);
	for (int i = 0; i < 2; i++)
		if (e->fd[i] >= 0)
			close(e->fd[i]);
}

/* The results of both, when neither can go on. */
static void
shake(struct ends *e, int result[2])
{
	result[0] = result[1] = 0;
	for (int i = 0; i < 40; i++)
		for (int j = 0; j < 2; j++)
			if (result[j] == 0)
				result[j] = tls_session_shake(j == 0 ? e->c : e->s, e->why[j]);
}

static void
shake_well(struct ends *e)
{
	int result[2];

	shake(e, result);
	ck_assert_msg(result[0] == 1 && result[1] == 1, "%d %s, %d %s", result[0], e->why[0], result[1], e->why[1]);
}

static void
begin(void)
{
	char *pem;

	signal(SIGPIPE, SIG_IGN);
	char why[256];
	ck_assert_int_eq(tls_begin(why, sizeof(why)), TV_OK);
	scratch_open();
	ca = tls_kit_make("Test CA", NULL, NULL, -60, TLS_KIT_DAY);
	other_ca = tls_kit_make("Other CA", NULL, NULL, -60, TLS_KIT_DAY);
	leaf = tls_kit_make("leaf", "DNS:a.example,DNS:*.b.example,IP:127.0.0.1,IP:::1", &ca, -60, TLS_KIT_DAY);
	own = tls_kit_make("own", "DNS:client.example", &ca, -60, TLS_KIT_DAY);
	scratch_write("ca.pem", pem = tls_kit_pem(&ca, NULL, false), 0644);
	free(pem);
	scratch_write("other.pem", pem = tls_kit_pem(&other_ca, NULL, false), 0644);
	free(pem);
	scratch_write("both.pem", pem = tls_kit_pem(&other_ca, &ca, false), 0644);
	free(pem);
	scratch_write("own.pem", pem = tls_kit_pem(&own, &ca, false), 0644);
	free(pem);
	scratch_write("own.key", pem = tls_kit_pem(&own, NULL, true), 0600);
	free(pem);
	scratch_write("leaf.key", pem = tls_kit_pem(&leaf, NULL, true), 0600);
	free(pem);
}

static void
end(void)
{
	tls_kit_free(&ca);
	tls_kit_free(&other_ca);
	tls_kit_free(&leaf);
	tls_kit_free(&own);
	scratch_close();
}

/* -- bytes -- */

static void
write_whole(SSL *s, const uint8_t *bytes, size_t n)
{
	while (n > 0) {
		ssize_t done = tls_seal.write(s, bytes, n);

		ck_assert_int_gt(done, 0);
		bytes += done;
		n -= (size_t)done;
	}
}

/* Of either version, both ways; the protocol that both know; many bytes to a slow reader. */
START_TEST(talks)
{
	static uint8_t big[300000], got[sizeof(big)];
	const struct tls_peer peer = { .name = "a.example", .protocol = "h2" };
	int version = _i == 0 ? TLS1_2_VERSION : TLS1_3_VERSION;
	struct tls_client *client = client_of(scratch_path("ca.pem"), NULL, NULL);
	SSL_CTX *ctx = server_context(&leaf);
	const uint8_t *protocol = NULL;
	unsigned refused = 0, len = 0;
	size_t sent = 0, came = 0;
	struct ends e;

	ck_assert_int_eq(SSL_CTX_set_max_proto_version(ctx, version), 1);
	ends_open(&e, ctx, client, &peer);
	ck_assert_int_eq(tls_session_shake(e.c, e.why[0]), 0);
	ck_assert(!tls_session_wants_write(e.c));
	shake_well(&e);
	ck_assert_int_eq(SSL_version(e.c), version);
	ck_assert_str_eq(SSL_get_servername(e.s, TLSEXT_NAMETYPE_host_name), "a.example");
	SSL_get0_alpn_selected(e.c, &protocol, &len);
	ck_assert_uint_eq(len, 0);	/* the server knows none */
	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (uint8_t)(i * 7 ^ i >> 8);
	while (came < sizeof(big)) {
		ssize_t n = tls_seal.write(e.c, big + sent, sizeof(big) - sent);

		ck_assert(n > 0 || errno == EAGAIN || sent == sizeof(big));
		refused += n < 0;
		sent += n > 0 ? (size_t)n : 0;
		if (n > 0)
			continue;
		n = tls_seal.read(e.s, got + came, 5000 < sizeof(got) - came ? 5000 : sizeof(got) - came);
		ck_assert(n > 0 || (n < 0 && errno == EAGAIN));
		came += n > 0 ? (size_t)n : 0;
	}
	ck_assert_uint_gt(refused, 2);
	ck_assert_mem_eq(big, got, sizeof(big));
	ck_assert(tls_seal.read(e.s, got, 1) == -1 && errno == EAGAIN && !tls_seal.is_pending(e.s));
	ck_assert(tls_seal.read(e.c, got, 1) == -1 && errno == EAGAIN);	/* tickets are no data */
	ends_close(&e);
	tls_client_leave(client);
	SSL_CTX_free(ctx);
}
END_TEST

/* What has been taken from the socket already is told of, and half a record is not. */
START_TEST(tells_what_is_pending)
{
	const struct tls_peer peer = { .name = "127.0.0.1" };
	struct tls_client *client = client_of(scratch_path("both.pem"), NULL, NULL);
	SSL_CTX *ctx = server_context(&leaf);
	uint8_t bytes[4096];
	struct ends e;
	int wire[2];
	ssize_t all;

	ends_open(&e, ctx, client, &peer);
	shake_well(&e);
	ck_assert_ptr_null(SSL_get_servername(e.s, TLSEXT_NAMETYPE_host_name));
	write_whole(e.s, (const uint8_t *)"one", 3);
	write_whole(e.s, (const uint8_t *)"two", 3);
	ck_assert_int_eq(tls_seal.read(e.c, bytes, 2), 2);
	ck_assert(tls_seal.is_pending(e.c));
	ck_assert_int_eq(tls_seal.read(e.c, bytes, sizeof(bytes)), 1);
	ck_assert(tls_seal.is_pending(e.c));		/* the second record, which the socket has no more */
	ck_assert_int_eq(tls_seal.read(e.c, bytes, sizeof(bytes)), 3);
	ck_assert(!tls_seal.is_pending(e.c));
	/* A record that comes byte by byte. */
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, wire), 0);
	ck_assert_int_eq(SSL_set_wfd(e.s, wire[0]), 1);
	write_whole(e.s, (const uint8_t *)"three", 5);
	all = read(wire[1], bytes, sizeof(bytes));
	ck_assert_int_gt(all, 20);
	for (ssize_t i = 0; i < all; i++) {
		uint8_t text[8];

		ck_assert_int_eq(write(e.fd[1], bytes + i, 1), 1);
		ssize_t n = tls_seal.read(e.c, text, sizeof(text));
		ck_assert(i + 1 < all ? n == -1 && errno == EAGAIN && !tls_seal.is_pending(e.c) :
		    n == 5 && memcmp(text, "three", 5) == 0);
	}
	close(wire[0]);
	close(wire[1]);
	ends_close(&e);
	tls_client_leave(client);
	SSL_CTX_free(ctx);
}
END_TEST

/* A connection that ends behind any byte of the handshake fails with a sentence; so does one whose bytes are changed. */
START_TEST(handshake_cut_anywhere)
{
	const struct tls_peer peer = { .name = "a.example" };
	struct tls_client *client = client_of(scratch_path("ca.pem"), NULL, NULL);
	SSL_CTX *ctx = server_context(&leaf);
	size_t all = 0;

	for (int change = 0; change < 2; change++)
		for (size_t cut = 0; cut == 0 || cut < all; cut += change == 1 && cut > 200 ? 7 : 1) {
			uint8_t flight[8192];
			int wire[2], result;
			struct ends e;

			ends_open(&e, ctx, client, &peer);
			ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, wire), 0);
			ck_assert_int_eq(SSL_set_wfd(e.s, wire[0]), 1);
			ck_assert_int_eq(tls_session_shake(e.c, e.why[0]), 0);
			ck_assert_int_eq(tls_session_shake(e.s, e.why[1]), 0);
			ssize_t n = read(wire[1], flight, sizeof(flight));
			ck_assert_int_gt(n, 500);
			all = (size_t)n;	/* a byte more or less, by the signature */
			cut = cut < all ? cut : all - 1;
			if (change)
				flight[cut] ^= 0x40;
			ck_assert_int_ge(write(e.fd[1], flight, change ? all : cut), 0);
			shutdown(e.fd[1], SHUT_WR);
			result = tls_session_shake(e.c, e.why[0]);
			/* The last digit of the first record's version means nothing. */
			ck_assert_msg(result == (change && cut == 2 ? 1 : -1), "%s at %zu of %zu", change ? "changed" : "cut", cut, all);
			ck_assert(result == 1 || strncmp(e.why[0], "tls: ", 5) == 0 || strncmp(e.why[0], "x509: ", 6) == 0);
			if (!change)
				ck_assert_str_eq(e.why[0], "tls: the peer ended the connection");
			close(wire[0]);
			close(wire[1]);
			ends_close(&e);
		}
	tls_client_leave(client);
	SSL_CTX_free(ctx);
}
END_TEST

START_TEST(end_and_cut_are_two)
{
	const struct tls_peer peer = { .name = "::1" };
	struct tls_client *client = client_of(scratch_path("ca.pem"), NULL, NULL);
	SSL_CTX *ctx = server_context(&leaf);
	uint8_t bytes[16];
	struct ends e;

	/* The end, said; the other direction goes on. */
	ends_open(&e, ctx, client, &peer);
	shake_well(&e);
	write_whole(e.s, (const uint8_t *)"last", 4);
	tls_session_end(e.s);
	tls_session_end(e.s);
	ck_assert_int_eq(tls_seal.read(e.c, bytes, sizeof(bytes)), 4);
	ck_assert_int_eq(tls_seal.read(e.c, bytes, sizeof(bytes)), 0);
	write_whole(e.c, (const uint8_t *)"more", 4);
	ck_assert_int_eq(tls_seal.read(e.s, bytes, sizeof(bytes)), 4);
	tls_session_end(e.c);
	ck_assert_int_eq(tls_seal.read(e.s, bytes, sizeof(bytes)), 0);
	ends_close(&e);
	/* No word for it. */
	ends_open(&e, ctx, client, &peer);
	shake_well(&e);
	close(e.fd[1]);
	e.fd[1] = -1;
	ck_assert_int_eq(tls_seal.read(e.c, bytes, sizeof(bytes)), -1);
	ck_assert_int_eq(errno, 0);
	tls_session_failure(e.c, 0, e.why[0]);
	ck_assert_str_eq(e.why[0], "tls: the peer ended the connection");
	ends_close(&e);
	ends_open(&e, ctx, client, &peer);
	shake_well(&e);
	close(e.fd[1]);
	e.fd[1] = -1;
	ck_assert_int_eq(tls_seal.write(e.c, "x", 1), -1);
	ck_assert_int_eq(errno, EPIPE);
	ends_close(&e);
	/* What is no TLS. */
	ends_open(&e, ctx, client, &peer);
	shake_well(&e);
	ck_assert_int_eq(write(e.fd[1], "HTTP/1.1 400 Bad Request\r\n", 26), 26);
	ck_assert_int_eq(tls_seal.read(e.c, bytes, sizeof(bytes)), -1);
	ck_assert_int_eq(errno, EPROTO);
	ck_assert_int_eq(tls_seal.read(e.c, bytes, sizeof(bytes)), -1);
	ck_assert_int_ne(errno, EAGAIN);
	ends_close(&e);
	tls_client_leave(client);
	SSL_CTX_free(ctx);
}
END_TEST

/* New keys again and again, and no data: the reader gives up in one turn, and does not go on as long as they come. */
START_TEST(flood_without_data)
{
	const struct tls_peer peer = { .name = "a.example" };
	struct tls_client *client = client_of(scratch_path("ca.pem"), NULL, NULL);
	SSL_CTX *ctx = server_context(&leaf);
	uint8_t bytes[16];
	struct ends e;

	for (int flood = 0; flood < 2; flood++) {
		BIO *out = BIO_new(BIO_s_mem());
		char *all;

		ends_open(&e, ctx, client, &peer);
		shake_well(&e);
		SSL_set0_wbio(e.c, out);
		for (int i = 0; i < (flood ? 6000 : 100); i++) {
			ck_assert_int_eq(SSL_key_update(e.c, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
			ck_assert_int_eq(SSL_do_handshake(e.c), 1);
		}
		write_whole(e.c, (const uint8_t *)"data", 4);
		long len = BIO_get_mem_data(out, &all);
		ck_assert_int_eq(write(e.fd[0], all, (size_t)len), len);
		ssize_t n = tls_seal.read(e.s, bytes, sizeof(bytes));
		ck_assert(flood ? n == -1 && errno == EPROTO : n == 4);
		ends_close(&e);
	}
	tls_client_leave(client);
	SSL_CTX_free(ctx);
}
END_TEST

/* -- certificates -- */

static void
expect(const struct tls_kit_cert *cert, const char *authorities, const char *name, const char *sentence)
{
	const struct tls_peer peer = { .name = name }, any = { .name = name, .skip_verify = true };
	struct tls_client *client = client_of(authorities, NULL, NULL);
	SSL_CTX *ctx = server_context(cert);
	struct ends e;
	int result[2];

	ends_open(&e, ctx, client, &peer);
	shake(&e, result);
	if (sentence == NULL) {
		ck_assert_msg(result[0] == 1, "%s: %s", name, e.why[0]);
	} else {
		ck_assert_msg(result[0] == -1, "%s", name);
		ck_assert_msg(strstr(e.why[0], sentence) != NULL, "%s: %s", name, e.why[0]);
		ck_assert(result[1] != -1 || strncmp(e.why[1], "remote error: tls: ", 19) == 0);
	}
	ends_close(&e);
	ends_open(&e, ctx, client, &any);
	shake_well(&e);
	ends_close(&e);
	tls_client_leave(client);
	SSL_CTX_free(ctx);
}

START_TEST(whose_certificate_is_good)
{
	struct tls_kit_cert old = tls_kit_make("old", "DNS:a.example", &ca, -2 * TLS_KIT_DAY, -TLS_KIT_DAY);
	struct tls_kit_cert soon = tls_kit_make("soon", "DNS:a.example", &ca, TLS_KIT_DAY, 2 * TLS_KIT_DAY);
	struct tls_kit_cert itself = tls_kit_make("itself", "DNS:a.example", NULL, -60, TLS_KIT_DAY);
	char wild[] = "DNS:a.example\x01\x7f,DNS:b", *pem = tls_kit_pem(&itself, NULL, false);
	struct tls_kit_cert odd = tls_kit_make("odd", wild, &ca, -60, TLS_KIT_DAY);
	const char *trusted = scratch_path("ca.pem"), *mismatch = "x509: The certificate is NOT trusted. The name in the "
	    "certificate does not match the expected";

	scratch_write("itself.pem", pem, 0644);
	free(pem);
	expect(&leaf, trusted, "a.example", NULL);
	expect(&leaf, trusted, "A.Example", NULL);
	expect(&leaf, trusted, "x.b.example", NULL);
	expect(&leaf, trusted, "x.y.b.example", mismatch);
	expect(&leaf, trusted, "127.0.0.1", NULL);
	expect(&leaf, trusted, "::1", NULL);
	expect(&leaf, trusted, "127.0.0.2", mismatch);
	expect(&leaf, trusted, "::2", mismatch);
	expect(&leaf, trusted, "c.example", "expected: it is for a.example, *.b.example, 127.0.0.1, ::1");
	expect(&odd, trusted, "c.example", "it is for a.example??, b");
	expect(&leaf, scratch_path("other.pem"), "a.example", "x509: The certificate is NOT trusted. The certificate issuer is unknown");
	expect(&itself, trusted, "a.example", "The certificate issuer is unknown");
	expect(&itself, scratch_path("itself.pem"), "a.example", NULL);
	expect(&old, trusted, "a.example", "uses expired certificate");
	expect(&soon, trusted, "a.example", "uses not yet valid certificate");
	expect(&leaf, NULL, "a.example", "The certificate issuer is unknown");	/* the system's */
	tls_kit_free(&old);
	tls_kit_free(&soon);
	tls_kit_free(&itself);
	tls_kit_free(&odd);
}
END_TEST

/* A server that asks for one: shown, and not; in TLS 1.3 the refusal comes behind the handshake. */
START_TEST(our_own_certificate)
{
	const struct tls_peer peer = { .name = "a.example" };
	int version = _i == 0 ? TLS1_2_VERSION : TLS1_3_VERSION;
	struct tls_client *without = client_of(scratch_path("ca.pem"), NULL, NULL);
	struct tls_client *with = client_of(scratch_path("ca.pem"), scratch_path("own.pem"), scratch_path("own.key"));
	SSL_CTX *ctx = server_context(&leaf), *lent = SSL_CTX_new(TLS_client_method());
	char name[64], byte;
	int result[2];
	struct ends e;
	X509 *shown;

	ck_assert_int_eq(SSL_CTX_set_max_proto_version(ctx, version), 1);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	ck_assert_int_eq(X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), ca.cert), 1);
	ends_open(&e, ctx, with, &peer);
	shake_well(&e);
	ck_assert_ptr_nonnull(shown = SSL_get0_peer_certificate(e.s));
	X509_NAME_get_text_by_NID(X509_get_subject_name(shown), NID_commonName, name, sizeof(name));
	ck_assert_str_eq(name, "own");
	ends_close(&e);
	ends_open(&e, ctx, without, &peer);
	shake(&e, result);
	ck_assert_int_eq(result[1], -1);
	if (version == TLS1_3_VERSION) {
		ck_assert_int_eq(result[0], 1);
		ck_assert_int_eq(tls_seal.read(e.c, &byte, 1), -1);
		ck_assert_int_eq(errno, EPROTO);
		tls_session_failure(e.c, EPROTO, e.why[0]);
	}
	ck_assert_str_eq(e.why[0], version == TLS1_3_VERSION ? "remote error: tls: certificate required" :
	    "remote error: tls: handshake failure");
	ends_close(&e);
	int64_t left = tls_client_not_after(with) - time(NULL);
	ck_assert(left > TLS_KIT_DAY - 120 && left <= TLS_KIT_DAY && tls_client_not_after(without) == 0);
	/* As libcurl gets it. */
	ck_assert(tls_client_lend(with, lent));
	ends_open(&e, ctx, with, &peer);
	SSL_free(e.c);
	ck_assert_ptr_nonnull(e.c = SSL_new(lent));
	SSL_set_verify(e.c, SSL_VERIFY_PEER, NULL);
	ck_assert(tls_session_set_socket(e.c, e.fd[0]));
	SSL_set_connect_state(e.c);
	shake_well(&e);
	ends_close(&e);
	SSL_CTX_free(lent);
	SSL_CTX_free(ctx);
	tls_client_leave(tls_client_join(with));
	tls_client_leave(with);
	tls_client_leave(without);
	tls_client_leave(NULL);
}
END_TEST

static void
refused(const char *ca_file, const char *ca_folder, const char *cert_file, const char *key_file, int error, const char *sentence)
{
	const struct tls_client_conf conf = { ca_file, ca_folder, cert_file, key_file };
	char why[512] = "";

	errno = 0;
	ck_assert_msg(tls_client_new(&conf, why, sizeof(why)) == NULL, "%s", sentence);
	ck_assert_int_eq(errno, error);
	ck_assert_msg(strstr(why, sentence) != NULL, "%s", why);
}

START_TEST(files_that_are_none)
{
	char *here = strdup(scratch_path("folder")), *locked, why[512], *text;
	const struct tls_client_conf conf = { .ca_file = "", .ca_folder = here };
	BIO *out = BIO_new(BIO_s_mem());
	char broken[4096];

	refused(scratch_path("none.pem"), NULL, NULL, NULL, ENOENT, "none.pem: No such file or directory");
	refused(scratch_path(""), NULL, NULL, NULL, EINVAL, "Invalid argument");
	ck_assert_int_eq(mkfifo(scratch_path("fifo"), 0600), 0);
	refused(scratch_path("fifo"), NULL, NULL, NULL, EINVAL, "fifo: Invalid argument");
	scratch_write("empty", "", 0644);
	refused(scratch_path("empty"), NULL, NULL, NULL, 0, "empty: there is no certificate in it");
	refused(scratch_path("own.key"), NULL, NULL, NULL, 0, "own.key: there is no certificate in it");
	text = tls_kit_pem(&ca, &ca, false);
	snprintf(broken, sizeof(broken), "%s", text);
	broken[strlen(broken) - 40] ^= 1;
	broken[strlen(broken) - 60] = '!';
	scratch_write("broken.pem", broken, 0644);
	free(text);
	refused(scratch_path("broken.pem"), NULL, NULL, NULL, 0, "broken.pem: one of its certificates is none");
	refused(NULL, scratch_path("nowhere"), NULL, NULL, ENOENT, "nowhere: No such file");
	ck_assert_int_eq(mkdir(here, 0755), 0);
	refused(NULL, here, NULL, NULL, 0, "folder: there is no file with a certificate in it");
	scratch_write("folder/.hidden", "not looked at", 0644);
	scratch_write("folder/ca.pem", text = tls_kit_pem(&ca, NULL, false), 0644);
	free(text);
	refused(NULL, NULL, scratch_path("own.pem"), NULL, 0, "a certificate and its key are given together");
	refused(NULL, NULL, NULL, scratch_path("own.key"), 0, "a certificate and its key are given together");
	refused(NULL, NULL, scratch_path("own.pem"), scratch_path("own.pem"), 0, "there is no private key in it");
	refused(NULL, NULL, scratch_path("own.key"), scratch_path("own.key"), 0, "own.key: there is no certificate in it");
	refused(NULL, NULL, scratch_path("own.pem"), scratch_path("leaf.key"), 0, "leaf.key: the key is not that of the certificate");
	ck_assert_int_eq(PEM_write_bio_PKCS8PrivateKey(out, own.key, EVP_aes_128_cbc(), "secret", 6, NULL, NULL), 1);
	long n = BIO_get_mem_data(out, &locked);
	text = strndup(locked, (size_t)n);
	scratch_write("locked.key", text, 0600);
	free(text);
	BIO_free(out);
	refused(NULL, NULL, scratch_path("own.pem"), scratch_path("locked.key"), 0, "or one with a password");
	struct tls_client *c = tls_client_new(&conf, why, sizeof(why));
	ck_assert_msg(c != NULL, "%s", why);
	char name[2 * TLS_NAME_BYTES];
	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	ck_assert_ptr_null(tls_client_open(c, 0, &(struct tls_peer){ .name = name }));
	ck_assert_ptr_null(tls_client_open(c, 0, &(struct tls_peer){ .name = "" }));
	ck_assert_ptr_null(tls_client_open(c, 0, &(struct tls_peer){ .name = "a", .protocol = "" }));
	tls_client_leave(c);
	scratch_write("folder/none", "no certificate", 0644);
	refused(NULL, here, NULL, NULL, 0, "folder/none: there is no certificate in it");
	free(here);
}
END_TEST

/* Ours is asked for by ALPN; a server that knows others only says so. */
static int
choose(SSL *s UNUSED, const uint8_t **out, uint8_t *out_len, const uint8_t *in, unsigned in_len, void *known)
{
	return SSL_select_next_proto((uint8_t **)(uintptr_t)out, out_len, known, (unsigned)strlen(known), in, in_len) ==
	    OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

START_TEST(protocols)
{
	static char known[] = "\x08http/1.1\x02h2", others[] = "\x08http/1.1";
	const struct tls_peer peer = { .name = "a.example", .protocol = "h2" };
	struct tls_client *client = client_of(scratch_path("ca.pem"), NULL, NULL);
	SSL_CTX *ctx = server_context(&leaf);
	const uint8_t *got = NULL;
	int result[2];
	unsigned len = 0;
	struct ends e;

	SSL_CTX_set_alpn_select_cb(ctx, choose, known);
	ends_open(&e, ctx, client, &peer);
	shake_well(&e);
	SSL_get0_alpn_selected(e.c, &got, &len);
	ck_assert(len == 2 && memcmp(got, "h2", 2) == 0);
	ends_close(&e);
	SSL_CTX_set_alpn_select_cb(ctx, choose, others);
	ends_open(&e, ctx, client, &peer);
	shake(&e, result);
	ck_assert_int_eq(result[0], -1);
	ck_assert_str_eq(e.why[0], "remote error: tls: no application protocol");
	ends_close(&e);
	ends_open(&e, ctx, client, &peer);
	ck_assert_int_eq(write(e.fd[1], "SSH-2.0-OpenSSH_9.2\r\n", 21), 21);
	ck_assert_int_eq(tls_session_shake(e.c, e.why[0]), -1);
	ck_assert_msg(strncmp(e.why[0], "tls: ", 5) == 0, "%s", e.why[0]);
	ends_close(&e);
	SSL_CTX_free(ctx);
	tls_client_leave(client);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("tls");
	TCase *tc = tcase_create("tls");

	tcase_add_unchecked_fixture(tc, begin, end);
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, talks, 0, 2);
	tcase_add_test(tc, tells_what_is_pending);
	tcase_add_test(tc, handshake_cut_anywhere);
	tcase_add_test(tc, end_and_cut_are_two);
	tcase_add_test(tc, flood_without_data);
	tcase_add_test(tc, whose_certificate_is_good);
	tcase_add_loop_test(tc, our_own_certificate, 0, 2);
	tcase_add_test(tc, files_that_are_none);
	tcase_add_test(tc, protocols);
	suite_add_tcase(s, tc);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
