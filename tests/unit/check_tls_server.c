/*
 * The server's side of TLS, against OpenSSL's client on a socketpair: a key that is nowhere but at the signer, threads,
 * tickets and what binds them, clients' certificates, bytes cut anywhere, and all ways of ending badly.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/net/tls.h"
#include "common/proc/thread.h"
#include "rpcd/tls/tls_renewal.h"
#include "rpcd/tls/tls_server.h"

static struct ev_loop *loop;
static struct tls_server *server;
static unsigned signed_count;
/* The signer's door: while it is shut, all that ask wait there until their deadline. */
static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static bool shut;
static enum tv_err signer_says;

struct certificate {
	EVP_PKEY *key;
	X509 *cert;
};
static struct certificate authority, stranger, of_server, of_client;

/* -- certificates ------------------------------------------------------------ */

static void
add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX c;

	X509V3_set_ctx(&c, issuer, cert, NULL, NULL, 0);
	X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &c, nid, value);
	ck_assert_ptr_nonnull(e);
	ck_assert_int_eq(X509_add_ext(cert, e, -1), 1);
	X509_EXTENSION_free(e);
}

/* by NULL: an authority of its own. */
static struct certificate
certificate_new(EVP_PKEY *key, const char *name, const struct certificate *by, const char *alternative, long seconds)
{
	static long serial;
	struct certificate c = { key, X509_new() };
	X509_NAME *n = X509_get_subject_name(c.cert);

	ck_assert_ptr_nonnull(key);
	X509_set_version(c.cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(c.cert), ++serial);
	X509_gmtime_adj(X509_getm_notBefore(c.cert), -100);
	X509_gmtime_adj(X509_getm_notAfter(c.cert), seconds);
	X509_set_pubkey(c.cert, key);
	X509_NAME_add_entry_by_txt(n, "CN", MBSTRING_UTF8, (const unsigned char *)name, -1, -1, 0);
	X509_set_issuer_name(c.cert, by == NULL ? n : X509_get_subject_name(by->cert));
	if (by == NULL)
		add_extension(c.cert, c.cert, NID_basic_constraints, "critical,CA:TRUE");
	if (alternative != NULL)
		add_extension(c.cert, c.cert, NID_subject_alt_name, alternative);
	EVP_PKEY *signer = by == NULL ? key : by->key;
	ck_assert_int_gt(X509_sign(c.cert, signer, EVP_PKEY_is_a(signer, "ED25519") ? NULL : EVP_sha256()), 0);
	return c;
}

static void
certificate_done(struct certificate *c)
{
	EVP_PKEY_free(c->key);
	X509_free(c->cert);
}

static char *
pem_of(const struct certificate *c, size_t *len)
{
	BIO *b = BIO_new(BIO_s_mem());
	char *p, *text;

	PEM_write_bio_X509(b, c->cert);
	*len = (size_t)BIO_get_mem_data(b, &p);
	text = malloc(*len);
	memcpy(text, p, *len);
	BIO_free(b);
	return text;
}

/* -- the signer -------------------------------------------------------------- */

static enum tv_err
make_signature(enum keys_alg alg, struct span what, uint8_t *sig, size_t *len)
{
	static const char *const digests[] = { "SHA256", "SHA384", "SHA512" };
	EVP_MD_CTX *m = EVP_MD_CTX_new();
	EVP_PKEY_CTX *c;

	ck_assert_int_eq(EVP_DigestSignInit_ex(m, &c, alg == KEYS_ED25519 ? NULL : digests[alg % 3], NULL, NULL,
	    of_server.key, NULL), 1);
	if (alg >= KEYS_RSA_PSS_SHA256 && alg <= KEYS_RSA_PSS_SHA512) {
		EVP_PKEY_CTX_set_rsa_padding(c, RSA_PKCS1_PSS_PADDING);
		EVP_PKEY_CTX_set_rsa_pss_saltlen(c, RSA_PSS_SALTLEN_DIGEST);
	}
	int rc = EVP_DigestSign(m, sig, len, what.p, what.len);
	EVP_MD_CTX_free(m);
	return rc == 1 ? TV_OK : TV_EINVAL;
}

static enum tv_err
sign(void *ctx, uint64_t number, enum keys_alg alg, struct span what, uint8_t *sig, size_t *len, struct mono deadline)
{
	enum tv_err err = TV_OK;

	ck_assert_ptr_eq(ctx, &signed_count);
	ck_assert_uint_eq(number, 7);
	ck_assert_uint_le(what.len, KEYS_WHAT_BYTES_MAX);
	pthread_mutex_lock(&door);
	while (shut && err == TV_OK)
		if (!thread_wait_until(&opened, &door, deadline))
			err = TV_ETIMEOUT;
	if (err == TV_OK)
		err = signer_says;
	signed_count += err == TV_OK;
	pthread_mutex_unlock(&door);
	return err == TV_OK ? make_signature(alg, what, sig, len) : err;
}

static void
signer_shut(bool now)
{
	pthread_mutex_lock(&door);
	shut = now;
	pthread_cond_broadcast(&opened);
	pthread_mutex_unlock(&door);
}

/* -- one connection ---------------------------------------------------------- */

struct pair {
	int fd[2];			/* ours, the client's */
	struct tls_conn *t;
	SSL *client;
	bool changed;
	int shaken;			/* of the server */
};

static void
on_changed(void *ctx)
{
	struct pair *p = ctx;

	p->changed = true;
}

static void
pair_open(struct pair *p, SSL_CTX *ctx, SSL_SESSION *session, const char *name)
{
	*p = (struct pair){ .shaken = 0 };
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p->fd), 0);
	p->t = tls_accept(server, p->fd[0], on_changed, p);
	ck_assert_ptr_nonnull(p->t);
	p->client = SSL_new(ctx);
	SSL_set_fd(p->client, p->fd[1]);
	SSL_set_connect_state(p->client);
	if (session != NULL) {
		SSL_SESSION *own = SSL_SESSION_dup(session);	/* TLS 1.3: the client would use each once */

		ck_assert_int_eq(SSL_set_session(p->client, own), 1);
		SSL_SESSION_free(own);
	}
	if (name != NULL)
		SSL_set_tlsext_host_name(p->client, name);
}

static void
pair_close(struct pair *p)
{
	if (SSL_is_init_finished(p->client))
		SSL_set_shutdown(p->client, SSL_SENT_SHUTDOWN);	/* or its session would not be used again */
	SSL_free(p->client);
	tls_end(p->t);
	close(p->fd[0]);
	if (p->fd[1] >= 0)
		close(p->fd[1]);
}

/* Until the loop has the handshake again. */
static void
await_thread(struct pair *p)
{
	while (tls_is_away(p->t))
		ev_run(loop, EVRUN_ONCE);
}

static int
shake_server(struct pair *p)
{
	while ((p->shaken = tls_shake(p->t)) == 0 && tls_is_away(p->t))
		await_thread(p);
	return p->shaken;
}

/* Both sides as far as they get. */
static bool
pair_shake(struct pair *p)
{
	int done = 0;

	for (int i = 0; i < 20 && (done != 1 || p->shaken == 0); i++) {
		if (done != 1)
			done = SSL_do_handshake(p->client);
		if (p->shaken == 0)
			shake_server(p);
	}
	return done == 1 && p->shaken == 1;
}

/* A word each way; then the client has its ticket, too. */
static void
pair_talk(struct pair *p)
{
	char text[64];

	ck_assert_int_eq(SSL_write(p->client, "question", 8), 8);
	ck_assert_int_eq(tls_conn_seal.read(p->t, text, sizeof(text)), 8);
	ck_assert_int_eq(memcmp(text, "question", 8), 0);
	ck_assert_int_eq(tls_conn_seal.write(p->t, "answer", 6), 6);
	ck_assert_int_eq(SSL_read(p->client, text, sizeof(text)), 6);
}

static SSL_SESSION *newest;

static int
on_session(SSL *ssl, SSL_SESSION *session)
{
	(void)ssl;
	SSL_SESSION_free(newest);
	newest = session;
	return 1;
}

static SSL_CTX *
client_new(int version)
{
	SSL_CTX *c = SSL_CTX_new(TLS_client_method());

	SSL_CTX_set_min_proto_version(c, version);
	SSL_CTX_set_max_proto_version(c, version);
	SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(c, on_session);
	return c;
}

static void
client_certificate(SSL_CTX *c, const struct certificate *cert)
{
	ck_assert_int_eq(SSL_CTX_use_certificate(c, cert->cert), 1);
	ck_assert_int_eq(SSL_CTX_use_PrivateKey(c, cert->key), 1);
}

/* A whole conversation; was it resumed? */
static bool
converse(SSL_CTX *c, SSL_SESSION *session, const char *name)
{
	struct pair p;

	pair_open(&p, c, session, name);
	ck_assert(pair_shake(&p));
	pair_talk(&p);
	bool resumed = SSL_session_reused(p.client);
	pair_close(&p);
	return resumed;
}

static struct tls_server_stats
stats_now(void)
{
	struct tls_server_stats s;

	tls_server_stats(server, &s);
	return s;
}

/* -- servers ----------------------------------------------------------------- */

static enum tv_err
identify(enum tls_ask ask, const struct certificate *ca, bool only_tls13, const char *ciphers, char *why, size_t cap)
{
	size_t len, ca_len = 0;
	char *chain = pem_of(&of_server, &len), *cas = ca == NULL ? NULL : pem_of(ca, &ca_len);
	enum tv_err err = tls_server_identify(server, &(struct tls_identity){
		.chain = span_of(chain, len), .key = 7, .ca = span_of(cas, ca_len), .ask = ask,
		.only_tls13 = only_tls13, .ciphers = ciphers,
	}, why, cap);

	free(chain);
	free(cas);
	return err;
}

static void
identify_well(enum tls_ask ask, const struct certificate *ca)
{
	char why[512] = "";

	ck_assert_msg(identify(ask, ca, false, NULL, why, sizeof(why)) == TV_OK, "%s", why);
}

static void
server_open(EVP_PKEY *key, struct mono timeout, unsigned waiting)
{
	of_server = certificate_new(key, "server", &authority, "DNS:server.dc1.consul", 1000);
	server = tls_server_new(&(struct tls_server_conf){
		.loop = loop, .sign = sign, .ctx = &signed_count, .h2 = true, .handshake_timeout = timeout,
		.waiting_max = waiting,
	});
	ck_assert_ptr_nonnull(server);
}

static void
setup(void)
{
	char why[512];

	ck_assert_int_ge(sodium_init(), 0);
	ck_assert_int_eq(tls_begin(why, sizeof(why)), TV_OK);
	loop = ev_loop_new(0);
	signed_count = 0;
	shut = false;
	signer_says = TV_OK;
	authority = certificate_new(EVP_EC_gen("P-256"), "authority", NULL, NULL, 1000);
	stranger = certificate_new(EVP_EC_gen("P-256"), "stranger", NULL, NULL, 1000);
	of_client = certificate_new(EVP_EC_gen("P-256"), "client", &authority,
	    "IP:127.0.0.1,URI:spiffe://dc1/web,DNS:web.example", 1000);
}

static void
teardown(void)
{
	signer_shut(false);
	tls_server_free(server);
	server = NULL;
	SSL_SESSION_free(newest);
	newest = NULL;
	certificate_done(&authority);
	certificate_done(&stranger);
	certificate_done(&of_server);
	certificate_done(&of_client);
	ev_loop_destroy(loop);
}

static void
server_usual(void)
{
	server_open(EVP_EC_gen("P-256"), MONO_S(10), 0);
	identify_well(TLS_ASK_NOTHING, NULL);
}

static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };

/* -- tests ------------------------------------------------------------------- */

static EVP_PKEY *
key_of_kind(int i)
{
	switch (i) {
	case 0: return EVP_EC_gen("P-256");
	case 1: return EVP_EC_gen("P-384");
	case 2: return EVP_EC_gen("P-521");
	case 3: return EVP_RSA_gen(2048);
	case 4: return EVP_RSA_gen(3072);
	default: return EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	}
}

START_TEST(each_kind_of_key_signs_elsewhere)
{
	server_open(key_of_kind(_i / 2), MONO_S(10), 0);
	identify_well(TLS_ASK_NOTHING, NULL);
	SSL_CTX *c = client_new(versions[_i % 2]);
	SSL_CTX_set_verify(c, SSL_VERIFY_PEER, NULL);
	X509_STORE_add_cert(SSL_CTX_get_cert_store(c), authority.cert);
	ck_assert(!converse(c, NULL, NULL));
	ck_assert_uint_eq(signed_count, 1);
	ck_assert_uint_eq(stats_now().full, 1);
	ck_assert_uint_eq(_i % 2 ? stats_now().tls13 : stats_now().tls12, 1);
	SSL_CTX_free(c);
}
END_TEST

START_TEST(rsa_signs_in_each_way)
{
	static const char *const lists[] = { "RSA+SHA256", "RSA+SHA384", "RSA+SHA512", "RSA-PSS+SHA256",
	    "RSA-PSS+SHA384", "RSA-PSS+SHA512" };

	server_open(EVP_RSA_gen(2048), MONO_S(10), 0);
	identify_well(TLS_ASK_NOTHING, NULL);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		SSL_CTX *c = client_new(TLS1_2_VERSION);

		ck_assert_int_eq(SSL_CTX_set1_sigalgs_list(c, lists[i]), 1);
		ck_assert(!converse(c, NULL, NULL));
		SSL_CTX_free(c);
	}
	ck_assert_uint_eq(signed_count, 6);
}
END_TEST

/* A group that was not guessed costs a round more (HelloRetryRequest). */
START_TEST(second_hello_is_answered)
{
	server_usual();
	SSL_CTX *c = client_new(TLS1_3_VERSION);
	ck_assert_int_eq(SSL_CTX_set1_groups_list(c, "P-521:P-256"), 1);
	ck_assert(!converse(c, NULL, NULL));
	ck_assert_uint_eq(signed_count, 1);
	SSL_CTX_free(c);
}
END_TEST

/* Who knows what will be asked for can send the second hello with the first: a thread does not read it. */
START_TEST(second_hello_comes_too_early)
{
	server_usual();
	SSL_CTX *c = client_new(TLS1_3_VERSION);
	char hellos[4096];
	struct pair p, again;
	ssize_t n, m;

	ck_assert_int_eq(SSL_CTX_set1_groups_list(c, "P-521:P-256"), 1);
	pair_open(&p, c, NULL, NULL);
	ck_assert_int_eq(SSL_do_handshake(p.client), -1);
	ck_assert_int_gt(n = recv(p.fd[0], hellos, sizeof(hellos), MSG_PEEK), 0);
	ck_assert_int_eq(shake_server(&p), 0);
	ck_assert_int_eq(SSL_do_handshake(p.client), -1);
	ck_assert_int_gt(m = recv(p.fd[0], hellos + n, sizeof(hellos) - (size_t)n, MSG_PEEK), 0);
	ck_assert_int_eq(shake_server(&p), 0);
	pair_close(&p);
	pair_open(&again, c, NULL, NULL);
	ck_assert_int_eq(send(again.fd[1], hellos, (size_t)(n + m), 0), n + m);
	ck_assert_int_eq(shake_server(&again), -1);
	ck_assert_uint_eq(signed_count, 1);
	ck_assert_uint_eq(stats_now().failed_other, 1);
	pair_close(&again);
	SSL_CTX_free(c);
}
END_TEST

START_TEST(protocol_is_chosen)
{
	static const struct { const char *asks; size_t n; bool works, h2; } rows[] = {
		{ "\x08http/1.1\x02h2", 12, true, true }, { "\x08http/1.1", 9, true, false }, { "", 0, true, false },
		{ "\x04smtp", 5, false, false },
	};

	server_usual();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		SSL_CTX *c = client_new(versions[i % 2]);
		struct pair p;

		SSL_CTX_set_alpn_protos(c, (const unsigned char *)rows[i].asks, (unsigned)rows[i].n);
		pair_open(&p, c, NULL, NULL);
		ck_assert_int_eq(pair_shake(&p), rows[i].works);
		if (rows[i].works)
			ck_assert_int_eq(tls_is_h2(p.t), rows[i].h2);
		pair_close(&p);
		SSL_CTX_free(c);
	}
	ck_assert_uint_eq(stats_now().failed_no_match, 1);
}
END_TEST

START_TEST(resumed_without_the_signer)
{
	server_usual();
	SSL_CTX *c = client_new(versions[_i]);
	ck_assert(!converse(c, NULL, "a.example"));
	ck_assert_ptr_nonnull(newest);
	SSL_SESSION_up_ref(newest);
	SSL_SESSION *first = newest;
	char why[512];
	signer_shut(true);
	ck_assert(converse(c, first, "a.example"));
	ck_assert(converse(c, newest, "A.Example"));
	signer_shut(false);
	/* Another name, and none: a session of its own. */
	ck_assert(!converse(c, first, "b.example"));
	ck_assert(!converse(c, first, NULL));
	/* The certificate is another one: what was agreed stays. */
	identify_well(TLS_ASK_NOTHING, NULL);
	ck_assert(converse(c, first, "a.example"));
	/* Suites were taken out. */
	ck_assert_int_eq(identify(TLS_ASK_NOTHING, NULL, false, "ECDHE-ECDSA-AES256-GCM-SHA384", why, sizeof(why)),
	    TV_OK);
	ck_assert(!converse(c, first, "a.example"));
	/* Clients are asked now: all begin again. */
	identify_well(TLS_ASK, &authority);
	ck_assert(!converse(c, first, "a.example"));
	ck_assert_uint_eq(stats_now().resumed, 3);
	SSL_SESSION_free(first);
	SSL_CTX_free(c);
}
END_TEST

START_TEST(clients_certificate_names_it)
{
	server_usual();
	identify_well(TLS_REQUIRE, &authority);
	SSL_CTX *c = client_new(versions[_i]);
	struct pair p;

	client_certificate(c, &of_client);
	for (int i = 0; i < 2; i++) {
		pair_open(&p, c, newest, "a.example");
		ck_assert(pair_shake(&p));
		ck_assert_int_eq(SSL_session_reused(p.client), i);
		ck_assert_str_eq(tls_peer_san(p.t), "uri:spiffe://dc1/web");
		pair_talk(&p);
		pair_close(&p);
	}
	ck_assert_uint_eq(stats_now().client_certs, 2);
	/* Other authorities: the session is none of theirs, nor is the certificate. */
	identify_well(TLS_REQUIRE, &stranger);
	pair_open(&p, c, newest, "a.example");
	ck_assert(!pair_shake(&p) || SSL_read(p.client, &p.shaken, 1) <= 0);
	ck_assert_int_eq(p.shaken, -1);
	pair_close(&p);
	ck_assert_uint_eq(stats_now().failed_client_cert, 1);
	SSL_CTX_free(c);
}
END_TEST

/* TLS 1.2 admits a client's key only on a curve of the key exchange: P-384 is one, P-521 is none.  TLS 1.3 has both. */
START_TEST(clients_keys_have_curves)
{
	static const struct { const char *curve; bool works[2]; } rows[] = {
		{ "P-384", { true, true } }, { "P-521", { false, true } },
	};

	server_usual();
	identify_well(TLS_REQUIRE, &authority);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct certificate other = certificate_new(EVP_EC_gen(rows[i].curve), "other", &authority, NULL, 1000);
		SSL_CTX *c = client_new(versions[_i]);
		struct pair p;

		client_certificate(c, &other);
		pair_open(&p, c, NULL, NULL);
		ck_assert_int_eq(pair_shake(&p), rows[i].works[_i]);
		pair_close(&p);
		SSL_CTX_free(c);
		certificate_done(&other);
	}
	ck_assert_uint_eq(stats_now().failed_client_cert, _i == 0 ? 1 : 0);
}
END_TEST

/* One that expires does so for its tickets, too. */
START_TEST(expired_certificate_resumes_nothing)
{
	struct certificate brief = certificate_new(EVP_EC_gen("P-256"), "brief", &authority, NULL, 4);
	SSL_CTX *c = client_new(versions[_i]);
	struct pair p;

	server_usual();
	identify_well(TLS_REQUIRE, &authority);
	client_certificate(c, &brief);
	ck_assert(!converse(c, NULL, NULL));
	while (X509_cmp_current_time(X509_get0_notAfter(brief.cert)) > 0)
		poll(NULL, 0, 50);
	pair_open(&p, c, newest, NULL);
	pair_shake(&p);
	ck_assert_int_eq(p.shaken, -1);
	ck_assert_uint_eq(stats_now().failed_client_cert, 1);
	pair_close(&p);
	SSL_CTX_free(c);
	certificate_done(&brief);
}
END_TEST

/* So does one that vouches for it, also where each ticket was had for another one. */
START_TEST(expired_authority_resumes_nothing)
{
	struct certificate brief = certificate_new(EVP_EC_gen("P-256"), "brief", NULL, NULL, 4),
	    client = certificate_new(EVP_EC_gen("P-256"), "client", &brief, NULL, 1000);
	SSL_CTX *c = client_new(versions[_i]);
	struct pair p;

	server_usual();
	identify_well(TLS_REQUIRE, &brief);
	client_certificate(c, &client);
	ck_assert(!converse(c, NULL, NULL));
	ck_assert(converse(c, newest, NULL));
	ck_assert(converse(c, newest, NULL));
	while (X509_cmp_current_time(X509_get0_notAfter(brief.cert)) > 0)
		poll(NULL, 0, 50);
	pair_open(&p, c, newest, NULL);
	pair_shake(&p);
	ck_assert_int_eq(p.shaken, -1);
	ck_assert_uint_eq(stats_now().failed_client_cert, 1);
	pair_close(&p);
	SSL_CTX_free(c);
	certificate_done(&brief);
	certificate_done(&client);
}
END_TEST

START_TEST(clients_that_show_none)
{
	struct pair p;
	SSL_CTX *c = client_new(versions[_i]);

	server_usual();
	identify_well(TLS_ASK, &authority);
	pair_open(&p, c, NULL, NULL);
	ck_assert(pair_shake(&p));
	ck_assert_ptr_null(tls_peer_san(p.t));
	pair_close(&p);
	identify_well(TLS_REQUIRE, &authority);
	pair_open(&p, c, NULL, NULL);
	pair_shake(&p);
	ck_assert_int_eq(p.shaken, -1);
	ck_assert_uint_eq(stats_now().failed_client_cert, 1);
	pair_close(&p);
	/* A bad one is worse than none. */
	identify_well(TLS_ASK, &stranger);
	client_certificate(c, &of_client);
	pair_open(&p, c, NULL, NULL);
	pair_shake(&p);
	ck_assert_int_eq(p.shaken, -1);
	pair_close(&p);
	SSL_CTX_free(c);
}
END_TEST

START_TEST(odd_names_are_printable)
{
	static const struct { const char *name, *alternative, *shown; } rows[] = {
		{ "plain", NULL, "cn:plain" }, { "a\nb\x1b[2J", NULL, "cn:a\\x0ab\\x1b[2J" },
		{ "x", "email:a@b.example,DNS:c.example", "email:a@b.example" }, { "x", "IP:10.0.0.1", "cn:x" },
	};

	server_usual();
	identify_well(TLS_REQUIRE, &authority);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct certificate odd = certificate_new(EVP_EC_gen("P-256"), rows[i].name, &authority,
		    rows[i].alternative, 1000);
		SSL_CTX *c = client_new(TLS1_3_VERSION);
		struct pair p;

		client_certificate(c, &odd);
		pair_open(&p, c, NULL, NULL);
		ck_assert(pair_shake(&p));
		ck_assert_str_eq(tls_peer_san(p.t), rows[i].shown);
		pair_close(&p);
		SSL_CTX_free(c);
		certificate_done(&odd);
	}
}
END_TEST

/* With the signer silent: resumption goes on, others wait until their deadline and no longer. */
START_TEST(silent_signer_delays_only_those_who_need_it)
{
	SSL_CTX *c = client_new(versions[_i]);
	struct pair p, kept, waiting[6];

	server_open(EVP_EC_gen("P-256"), MONO_S(1000), 0);
	tls_server_set_timeout(server, MONO_MS(300));
	identify_well(TLS_ASK_NOTHING, NULL);
	pair_open(&kept, c, NULL, NULL);
	ck_assert(pair_shake(&kept));
	pair_talk(&kept);
	signer_shut(true);
	for (size_t i = 0; i < 6; i++) {
		pair_open(&waiting[i], c, NULL, NULL);
		ck_assert_int_eq(SSL_do_handshake(waiting[i].client), -1);
		ck_assert_int_eq(tls_shake(waiting[i].t), 0);
		ck_assert(tls_is_away(waiting[i].t));
	}
	pair_talk(&kept);
	ck_assert(converse(c, newest, NULL));
	for (size_t i = 0; i < 6; i++) {
		ck_assert_int_eq(shake_server(&waiting[i]), -1);
		ck_assert(waiting[i].changed);
		pair_close(&waiting[i]);
	}
	ck_assert_uint_eq(stats_now().failed_signer, 6);
	signer_shut(false);
	ck_assert(!converse(c, NULL, NULL));
	pair_talk(&kept);
	pair_close(&kept);
	pair_open(&p, c, NULL, NULL);
	signer_says = TV_ENOENT;
	pair_shake(&p);
	ck_assert_int_eq(p.shaken, -1);
	pair_close(&p);
	SSL_CTX_free(c);
}
END_TEST

/* Ended while a thread has it, and while it is in the queue. */
START_TEST(ended_while_away)
{
	SSL_CTX *c = client_new(versions[_i]);
	struct pair p[8];

	server_usual();
	signer_shut(true);
	for (size_t i = 0; i < 8; i++) {
		pair_open(&p[i], c, NULL, NULL);
		ck_assert_int_eq(SSL_do_handshake(p[i].client), -1);
		ck_assert_int_eq(tls_shake(p[i].t), 0);
	}
	for (size_t i = 0; i < 8; i++) {
		pair_close(&p[i]);
		ck_assert(!p[i].changed);
	}
	signer_shut(false);
	ck_assert(!converse(c, NULL, NULL));
	SSL_CTX_free(c);
}
END_TEST

START_TEST(full_queue_refuses)
{
	SSL_CTX *c = client_new(TLS1_3_VERSION);
	struct pair p[8];
	unsigned failed = 0;

	server_open(EVP_EC_gen("P-256"), MONO_S(10), 2);
	identify_well(TLS_ASK_NOTHING, NULL);
	signer_shut(true);
	for (size_t i = 0; i < 8; i++) {
		pair_open(&p[i], c, NULL, NULL);
		ck_assert_int_eq(SSL_do_handshake(p[i].client), -1);
		(void)tls_shake(p[i].t);
	}
	while (stats_now().refused_full < 2)
		ev_run(loop, EVRUN_ONCE);
	signer_shut(false);
	for (size_t i = 0; i < 8; i++) {
		if (!pair_shake(&p[i]))
			failed++;
		pair_close(&p[i]);
	}
	ck_assert_uint_eq(failed, 2);
	ck_assert_uint_eq(stats_now().refused_full, 2);
	SSL_CTX_free(c);
}
END_TEST

/* -- bytes ------------------------------------------------------------------- */

/* At most so many bytes. */

static bool
carry(int from, int to, size_t piece)
{
	char b[4096];
	ssize_t n = recv(from, b, piece, MSG_DONTWAIT);

	if (n > 0)
		ck_assert_int_eq(send(to, b, (size_t)n, 0), n);
	return n > 0;
}

START_TEST(bytes_come_one_by_one)
{
	SSL_CTX *c = client_new(versions[_i]);
	struct pair p;
	int between[2], done = 0;
	char text[64];

	server_usual();
	pair_open(&p, c, NULL, "a.example");
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, between), 0);
	SSL_set_fd(p.client, between[0]);
	while (done != 1 || p.shaken != 1) {
		bool moved = done != 1 && (done = SSL_do_handshake(p.client)) == 1;

		moved |= carry(between[1], p.fd[1], 1);
		if (p.shaken == 0)
			shake_server(&p);
		ck_assert_int_ge(p.shaken, 0);
		moved |= carry(p.fd[1], between[1], 4096);
		ck_assert(moved || p.shaken == 1);
	}
	ck_assert_int_eq(SSL_write(p.client, "question", 8), 8);
	ssize_t n;
	errno = EAGAIN;
	while ((n = tls_conn_seal.read(p.t, text, sizeof(text))) < 0) {
		ck_assert_int_eq(errno, EAGAIN);
		ck_assert(carry(between[1], p.fd[1], 1));
	}
	ck_assert_int_eq(n, 8);
	close(between[0]);
	close(between[1]);
	pair_close(&p);
	SSL_CTX_free(c);
}
END_TEST

/* The client's first bytes end anywhere. */
START_TEST(hello_is_cut)
{
	SSL_CTX *c = client_new(versions[_i]);
	char hello[2048];
	size_t len;
	uint64_t cut = 0;

	server_usual();
	for (size_t at = 0;; at++) {
		struct pair p;

		pair_open(&p, c, NULL, "a.example");
		(void)SSL_do_handshake(p.client);
		len = (size_t)recv(p.fd[0], hello, sizeof(hello), 0);
		if (at >= len) {
			pair_close(&p);
			break;
		}
		ck_assert_int_eq(send(p.fd[1], hello, at, 0), at);
		shutdown(p.fd[1], SHUT_WR);
		ck_assert_int_eq(shake_server(&p), -1);
		cut++;
		pair_close(&p);
	}
	ck_assert_uint_gt(cut, 100);
	ck_assert_uint_eq(stats_now().failed_cut, cut);
	SSL_CTX_free(c);
}
END_TEST

START_TEST(end_and_cut_are_told_apart)
{
	SSL_CTX *c = client_new(versions[_i]);
	struct pair p;
	char text[8];

	server_usual();
	pair_open(&p, c, NULL, NULL);
	ck_assert(pair_shake(&p));
	pair_talk(&p);
	ck_assert_int_eq(tls_conn_seal.read(p.t, text, sizeof(text)), -1);
	ck_assert_int_eq(errno, EAGAIN);
	SSL_shutdown(p.client);
	ck_assert_int_eq(tls_conn_seal.read(p.t, text, sizeof(text)), 0);
	tls_say_end(p.t);
	ck_assert_int_eq(SSL_shutdown(p.client), 1);
	pair_close(&p);

	pair_open(&p, c, NULL, NULL);
	ck_assert(pair_shake(&p));
	pair_talk(&p);
	close(p.fd[1]);
	p.fd[1] = -1;
	errno = EAGAIN;
	ck_assert_int_eq(tls_conn_seal.read(p.t, text, sizeof(text)), -1);
	ck_assert_int_eq(errno, 0);
	pair_close(&p);
	SSL_CTX_free(c);
}
END_TEST

/* More than the socket takes, to a client that reads late. */
START_TEST(long_answer)
{
	enum { LONG = 3 << 20 };
	SSL_CTX *c = client_new(versions[_i]);
	char *out = malloc(LONG), *in = malloc(LONG);
	size_t sent = 0, got = 0, stalls = 0;
	struct pair p;

	for (size_t i = 0; i < LONG; i++)
		out[i] = (char)(i * 2654435761u >> 13);
	server_usual();
	pair_open(&p, c, NULL, NULL);
	ck_assert(pair_shake(&p));
	while (got < LONG) {
		while (sent < LONG) {
			ssize_t n = tls_conn_seal.write(p.t, out + sent, LONG - sent);

			if (n < 0) {
				ck_assert_int_eq(errno, EAGAIN);
				stalls++;
				break;
			}
			sent += (size_t)n;
		}
		int n = SSL_read(p.client, in + got, (int)(LONG - got));
		ck_assert_int_gt(n, 0);
		got += (size_t)n;
	}
	ck_assert_uint_gt(stalls, 0);
	ck_assert_int_eq(memcmp(in, out, LONG), 0);
	free(in);
	free(out);
	pair_close(&p);
	SSL_CTX_free(c);
}
END_TEST

START_TEST(plain_http_gets_a_sentence)
{
	static const char http[] = "GET /v1/status/leader HTTP/1.1\r\nHost: a\r\n\r\n";
	struct pair p;
	SSL_CTX *c = client_new(TLS1_3_VERSION);
	char text[512];

	server_usual();
	pair_open(&p, c, NULL, NULL);
	ck_assert_int_eq(send(p.fd[1], http, sizeof(http) - 1, 0), sizeof(http) - 1);
	ck_assert_int_eq(shake_server(&p), -1);
	ssize_t n = recv(p.fd[1], text, sizeof(text) - 1, 0);
	ck_assert_int_gt(n, 0);
	text[n] = '\0';
	ck_assert_ptr_nonnull(strstr(text, "400 Bad Request"));
	ck_assert_ptr_nonnull(strstr(text, "HTTP request to an HTTPS server"));
	pair_close(&p);
	pair_open(&p, c, NULL, NULL);
	ck_assert_int_eq(send(p.fd[1], "\xff\xff\xff\xff garbage of a stranger", 26, 0), 26);
	ck_assert_int_eq(shake_server(&p), -1);
	pair_close(&p);
	ck_assert_uint_eq(stats_now().failed_not_tls, 2);
	SSL_CTX_free(c);
}
END_TEST

/* A client cannot keep the loop busy with records that carry nothing. */
START_TEST(flood_of_key_updates_ends)
{
	SSL_CTX *c = client_new(TLS1_3_VERSION);
	struct pair p;
	char text[8], *bytes;

	server_usual();
	pair_open(&p, c, NULL, NULL);
	ck_assert(pair_shake(&p));
	/* Written at once: small writes would fill the socket with little. */
	BIO *flood = BIO_new(BIO_s_mem());
	SSL_set0_wbio(p.client, flood);
	while (BIO_get_mem_data(flood, &bytes) < 128 << 10) {
		ck_assert_int_eq(SSL_key_update(p.client, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
		ck_assert_int_eq(SSL_do_handshake(p.client), 1);
	}
	ck_assert_int_gt(send(p.fd[1], bytes, 128 << 10, 0), 64 << 10);
	ck_assert_int_eq(tls_conn_seal.read(p.t, text, sizeof(text)), -1);
	ck_assert_int_eq(errno, EPROTO);
	pair_close(&p);
	SSL_CTX_free(c);
}
END_TEST

START_TEST(nothing_is_negotiated_again)
{
	SSL_CTX *c = client_new(TLS1_2_VERSION);
	struct pair p;
	char text[8];

	server_usual();
	pair_open(&p, c, NULL, NULL);
	ck_assert(pair_shake(&p));
	ck_assert_int_eq(SSL_renegotiate(p.client), 1);
	(void)SSL_do_handshake(p.client);
	(void)tls_conn_seal.read(p.t, text, sizeof(text));
	ck_assert_int_le(SSL_do_handshake(p.client), 0);
	ck_assert_uint_eq(signed_count, 1);
	pair_close(&p);
	SSL_CTX_free(c);
}
END_TEST

/* -- identities -------------------------------------------------------------- */

START_TEST(bad_identity_keeps_the_old_one)
{
	SSL_CTX *c = client_new(TLS1_3_VERSION);
	char why[512] = "";
	size_t len;

	server_usual();
	ck_assert_int_ne(tls_server_identify(server, &(struct tls_identity){ .chain = span_str("nothing") }, why,
	    sizeof(why)), TV_OK);
	ck_assert_str_ne(why, "");
	ck_assert_int_ne(identify(TLS_REQUIRE, NULL, false, NULL, why, sizeof(why)), TV_OK);
	ck_assert_int_ne(identify(TLS_ASK_NOTHING, NULL, false, "NONE-SUCH", why, sizeof(why)), TV_OK);
	char *chain = pem_of(&of_server, &len);
	ck_assert_int_ne(tls_server_identify(server, &(struct tls_identity){ .chain = span_of(chain, len - 60) }, why,
	    sizeof(why)), TV_OK);
	free(chain);
	ck_assert(!converse(c, NULL, NULL));
	SSL_CTX_free(c);
}
END_TEST

/* A handshake that has begun ends with what it began with. */
START_TEST(replaced_under_way)
{
	SSL_CTX *c = client_new(versions[_i]);
	struct pair p;

	server_usual();
	signer_shut(true);
	pair_open(&p, c, NULL, NULL);
	ck_assert_int_eq(SSL_do_handshake(p.client), -1);
	ck_assert_int_eq(tls_shake(p.t), 0);
	identify_well(TLS_REQUIRE, &stranger);
	signer_shut(false);
	ck_assert(pair_shake(&p));
	pair_talk(&p);
	pair_close(&p);
	SSL_CTX_free(c);
}
END_TEST

START_TEST(versions_and_suites)
{
	SSL_CTX *c = client_new(TLS1_2_VERSION);
	char why[512];
	struct pair p;

	server_usual();
	ck_assert_int_eq(identify(TLS_ASK_NOTHING, NULL, true, NULL, why, sizeof(why)), TV_OK);
	pair_open(&p, c, NULL, NULL);
	pair_shake(&p);
	ck_assert_int_eq(p.shaken, -1);
	pair_close(&p);
	ck_assert_uint_eq(stats_now().failed_no_match, 1);
	ck_assert_int_eq(identify(TLS_ASK_NOTHING, NULL, false, "ECDHE-ECDSA-CHACHA20-POLY1305", why, sizeof(why)),
	    TV_OK);
	pair_open(&p, c, NULL, NULL);
	ck_assert(pair_shake(&p));
	ck_assert_str_eq(SSL_get_cipher(p.client), "ECDHE-ECDSA-CHACHA20-POLY1305");
	pair_close(&p);
	SSL_CTX_free(c);
}
END_TEST

/* What rpcd.conf says holds at once, and what the files say, whichever comes first. */
START_TEST(renewed_by_files_and_configuration)
{
	char text[] = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
	char *suites[] = { text };
	struct rpcd_conf conf = { .https_port = 8501, .https_handshake_timeout = MONO_S(10) };
	struct rpcd_tls *https = &conf.tls[RPCD_TLS_HTTPS];
	SSL_CTX *c = client_new(TLS1_2_VERSION);
	size_t len, ca_len;
	struct pair p;

	server_open(EVP_EC_gen("P-256"), MONO_S(10), 0);
	struct tls_renewal *r = tls_renewal_new(loop, server, &conf);
	char *chain = pem_of(&of_server, &len), *ca = pem_of(&authority, &ca_len);
	struct keys_files files = { .chain = span_of(chain, len), .number = 7,
	    .not_after = clock_wall_ns() / 1000000000 + 1000 };

	ck_assert_int_ne(tls_renewal_take(r, &(struct keys_files){ .chain = span_str("none") }), TV_OK);
	ck_assert_int_eq(tls_renewal_take(r, &files), TV_OK);
	ck_assert(!converse(c, NULL, NULL));
	/* Authorities are asked for that are not there yet. */
	https->verify_incoming = https->verify_incoming_given = true;
	tls_renewal_reload(r);
	ck_assert(!converse(c, NULL, NULL));
	files.ca = span_of(ca, ca_len);
	ck_assert_int_eq(tls_renewal_take(r, &files), TV_OK);
	pair_open(&p, c, NULL, NULL);
	pair_shake(&p);
	ck_assert_int_eq(p.shaken, -1);
	pair_close(&p);
	https->verify_incoming = false;
	https->suites = (struct conf_list){ .items = suites, .count = 1 };
	tls_renewal_reload(r);
	pair_open(&p, c, NULL, NULL);
	ck_assert(pair_shake(&p));
	ck_assert_str_eq(SSL_get_cipher(p.client), "ECDHE-ECDSA-AES256-GCM-SHA384");
	pair_close(&p);
	https->min_version = RPCD_TLS_1_3;
	https->min_version_given = true;
	tls_renewal_reload(r);
	pair_open(&p, c, NULL, NULL);
	ck_assert(!pair_shake(&p));
	pair_close(&p);
	tls_renewal_free(r);
	free(chain);
	free(ca);
	SSL_CTX_free(c);
}
END_TEST

START_TEST(warned_in_time)
{
	uint64_t warned = UINT64_MAX;
	unsigned count = 0;

	server_usual();
	ck_assert_uint_eq(tls_renewal_days(1000, 1000), 0);
	ck_assert_uint_eq(tls_renewal_days(0, 1000), 0);
	ck_assert_uint_eq(tls_renewal_days(1000 + 86399, 1000), 0);
	ck_assert_uint_eq(tls_renewal_days(1000 + 14 * 86400, 1000), 14);
	for (uint64_t days = 90; days < UINT64_MAX; days--) {
		if (!tls_renewal_is_due(days, warned))
			continue;
		warned = days;
		count++;
	}
	ck_assert_uint_eq(count, 6);
	ck_assert(!tls_renewal_is_due(30, UINT64_MAX));
	ck_assert(tls_renewal_is_due(29, UINT64_MAX));
	ck_assert(tls_renewal_is_due(0, 1));
	ck_assert(!tls_renewal_is_due(0, 0));
}
END_TEST

static Suite *
suite(void)
{
	Suite *s = suite_create("tls_server");
	TCase *t = tcase_create("tls_server");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, each_kind_of_key_signs_elsewhere, 0, 12);
	tcase_add_test(t, rsa_signs_in_each_way);
	tcase_add_test(t, second_hello_is_answered);
	tcase_add_test(t, second_hello_comes_too_early);
	tcase_add_test(t, protocol_is_chosen);
	tcase_add_loop_test(t, resumed_without_the_signer, 0, 2);
	tcase_add_loop_test(t, clients_certificate_names_it, 0, 2);
	tcase_add_loop_test(t, clients_keys_have_curves, 0, 2);
	tcase_add_loop_test(t, expired_certificate_resumes_nothing, 0, 2);
	tcase_add_loop_test(t, expired_authority_resumes_nothing, 0, 2);
	tcase_add_loop_test(t, clients_that_show_none, 0, 2);
	tcase_add_test(t, odd_names_are_printable);
	tcase_add_loop_test(t, silent_signer_delays_only_those_who_need_it, 0, 2);
	tcase_add_loop_test(t, ended_while_away, 0, 2);
	tcase_add_test(t, full_queue_refuses);
	tcase_add_loop_test(t, bytes_come_one_by_one, 0, 2);
	tcase_add_loop_test(t, hello_is_cut, 0, 2);
	tcase_add_loop_test(t, end_and_cut_are_told_apart, 0, 2);
	tcase_add_loop_test(t, long_answer, 0, 2);
	tcase_add_test(t, plain_http_gets_a_sentence);
	tcase_add_test(t, flood_of_key_updates_ends);
	tcase_add_test(t, nothing_is_negotiated_again);
	tcase_add_test(t, bad_identity_keeps_the_old_one);
	tcase_add_loop_test(t, replaced_under_way, 0, 2);
	tcase_add_test(t, versions_and_suites);
	tcase_add_test(t, renewed_by_files_and_configuration);
	tcase_add_test(t, warned_in_time);
	suite_add_tcase(s, t);
	return s;
}

int
main(void)
{
	SRunner *r = srunner_create(suite());

	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
