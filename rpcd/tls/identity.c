/* What a server is: its certificate, and which clients it lets in; a context of OpenSSL. */
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/tls.h"
#include "rpcd/tls/tls_int.h"

/* A key of its own for each session, and AEAD; AES with 128 bits costs least, its hash above all. */
#define CIPHERS "ECDHE+AESGCM+AES128:ECDHE+AESGCM+AES256:ECDHE+CHACHA20"	/* of TLS 1.2 */
#define SUITES "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"	/* of TLS 1.3 */
/* P-384 for clients of TLS 1.2 whose certificates have such keys; rpcd-keys signs for these alone (may_sign.c). */
#define GROUPS "X25519:P-256:P-384"
/* What the signer knows (enum keys_alg). */
#define SIGNATURES "ECDSA+SHA256:ECDSA+SHA384:ECDSA+SHA512:ed25519:RSA-PSS+SHA256:RSA-PSS+SHA384:RSA-PSS+SHA512:" \
	"RSA+SHA256:RSA+SHA384:RSA+SHA512"
#define SECURITY_LEVEL 2		/* 112 bits: no SHA-1, no RSA below 2048 bits */
#define CLIENT_CHAIN_MAX 5		/* certificates between a client's and its authority */
#define CLIENT_CHAIN_BYTES_MAX (32u << 10)
#define AUTHORITY_NAMES_BYTES_MAX (8u << 10)	/* that clients are told of; more: none */

/* The next certificate of a PEM text.  NULL: there is none, or (*bad) it is none. */
static X509 *
next_certificate(BIO *text, const struct tls_server *s, SSL_CTX *ctx, bool *bad)
{
	X509 *cert = X509_new_ex(tls_provider_library(s->provider), NULL);
	pem_password_cb *refuse = SSL_CTX_get_default_passwd_cb(ctx);	/* without it a terminal would be asked */

	ERR_clear_error();
	if (cert != NULL && PEM_read_bio_X509(text, &cert, refuse, NULL) != NULL)
		return cert;
	*bad = ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE;
	X509_free(cert);
	ERR_clear_error();
	return NULL;
}

static bool
add_certificate(SSL_CTX *ctx, X509 *cert, bool first)
{
	if (first)
		return SSL_CTX_use_certificate(ctx, cert) == 1;
	return SSL_CTX_add1_chain_cert(ctx, cert) == 1;
}

static enum tv_err
use_chain(struct tls_server *s, SSL_CTX *ctx, struct span pem, char *errbuf, size_t cap)
{
	BIO *text = BIO_new_mem_buf(pem.p, (int)pem.len);
	bool bad = text == NULL, first = true;
	X509 *cert;

	while (!bad && (cert = next_certificate(text, s, ctx, &bad)) != NULL) {
		bad = !add_certificate(ctx, cert, first);
		first = false;
		X509_free(cert);
	}
	BIO_free(text);
	if (!bad && !first)
		return TV_OK;
	const char *why = ERR_reason_error_string(ERR_peek_last_error());

	return tv_fail(errbuf, cap, TV_EFORMAT, "the certificate for HTTPS cannot be used: %s",
	    first && !bad ? "there is none" : why != NULL ? why : "malformed");
}

static enum tv_err
use_key(struct tls_server *s, SSL_CTX *ctx, uint64_t number, char *errbuf, size_t cap)
{
	const EVP_PKEY *public = X509_get0_pubkey(SSL_CTX_get0_certificate(ctx));
	EVP_PKEY *key = public == NULL ? NULL : tls_provider_key(s->provider, public, number);
	bool ok = key != NULL && SSL_CTX_use_PrivateKey(ctx, key) == 1;

	EVP_PKEY_free(key);
	if (ok)
		return TV_OK;
	return tv_fail(errbuf, cap, TV_EINVAL, "the certificate for HTTPS has a key that cannot be used: EC, RSA and "
	    "Ed25519 can");
}

/* -- clients ----------------------------------------------------------------- */

/* Names of authorities help a client that has several certificates; a long list is left out. */
static void
announce_authorities(SSL_CTX *ctx, STACK_OF(X509_NAME) *names, size_t bytes)
{
	if (bytes <= AUTHORITY_NAMES_BYTES_MAX)
		SSL_CTX_set_client_CA_list(ctx, names);
	else
		sk_X509_NAME_pop_free(names, X509_NAME_free);
}

static bool
add_authority(X509_STORE *store, STACK_OF(X509_NAME) *names, X509 *cert, size_t *bytes)
{
	X509_NAME *name = X509_NAME_dup(X509_get_subject_name(cert));
	int len = name == NULL ? -1 : i2d_X509_NAME(name, NULL);

	if (len < 0 || X509_STORE_add_cert(store, cert) != 1 || sk_X509_NAME_push(names, name) <= 0) {
		X509_NAME_free(name);
		return false;
	}
	*bytes += (size_t)len;
	return true;
}

static enum tv_err
use_authorities(struct tls_server *s, SSL_CTX *ctx, struct span pem, char *errbuf, size_t cap)
{
	BIO *text = BIO_new_mem_buf(pem.p, (int)pem.len);
	STACK_OF(X509_NAME) *names = sk_X509_NAME_new_null();
	bool bad = text == NULL || names == NULL;
	size_t bytes = 0, count = 0;
	X509 *cert;

	while (!bad && (cert = next_certificate(text, s, ctx, &bad)) != NULL) {
		bad = !add_authority(SSL_CTX_get_cert_store(ctx), names, cert, &bytes);
		count++;
		X509_free(cert);
	}
	BIO_free(text);
	if (!bad && count > 0) {
		announce_authorities(ctx, names, bytes);
		return TV_OK;
	}
	sk_X509_NAME_pop_free(names, X509_NAME_free);
	return tv_fail(errbuf, cap, TV_EFORMAT, "the authorities of clients' certificates cannot be used: %s",
	    count == 0 && !bad ? "there are none" : "malformed");
}

/* Each certificate of the file is an authority, also one that another one has signed: as Consul has it. */
static enum tv_err
ask_clients(struct tls_server *s, SSL_CTX *ctx, const struct tls_identity *id, char *errbuf, size_t cap)
{
	int mode = SSL_VERIFY_PEER | (id->ask == TLS_REQUIRE ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0);

	if (id->ask == TLS_ASK_NOTHING) {
		SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
		return TV_OK;
	}
	SSL_CTX_set_verify(ctx, mode, NULL);
	SSL_CTX_set_verify_depth(ctx, CLIENT_CHAIN_MAX);
	SSL_CTX_set_max_cert_list(ctx, CLIENT_CHAIN_BYTES_MAX);
	(void)X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(ctx), X509_V_FLAG_PARTIAL_CHAIN);
	return use_authorities(s, ctx, id->ca, errbuf, cap);
}

/* -- the context ------------------------------------------------------------- */

/* h2 first; a client that asks for neither speaks something else here (RFC 7301, 3.2). */
static int
choose_protocol(SSL *ssl UNUSED, const unsigned char **out, unsigned char *len, const unsigned char *in,
    unsigned in_len, void *arg)
{
	static const unsigned char ours[] = "\x02h2\x08http/1.1";
	const struct tls_server *s = arg;
	unsigned skip = s->conf.h2 ? 0 : 3;

	if (SSL_select_next_proto((unsigned char **)out, len, ours + skip, sizeof(ours) - 1 - skip, in, in_len) ==
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_OK;
	return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static bool
prepare_context(struct tls_server *s, SSL_CTX *ctx, const struct tls_identity *id)
{
	if (!tls_context_prepare(ctx) || !tickets_serve(s->tickets, ctx))
		return false;
	SSL_CTX_set_options(ctx, SSL_OP_PRIORITIZE_CHACHA);
	SSL_CTX_set_security_level(ctx, SECURITY_LEVEL);
	SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, s);
	SSL_CTX_set_client_hello_cb(ctx, conn_hello, NULL);
	SSL_CTX_set_cert_cb(ctx, conn_certificate, NULL);
	return SSL_CTX_set_max_early_data(ctx, 0) == 1 && SSL_CTX_set1_groups_list(ctx, GROUPS) == 1 &&
	    SSL_CTX_set1_sigalgs_list(ctx, SIGNATURES) == 1 && SSL_CTX_set_ciphersuites(ctx, SUITES) == 1 &&
	    (!id->only_tls13 || SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1);
}

/* Suites, too: a ticket of TLS 1.2 would bring back one that was taken out. */
static void
bind_identity(struct identity *i, const struct tls_identity *id)
{
	const char *ciphers = id->ciphers != NULL ? id->ciphers : CIPHERS;
	uint8_t ask = (uint8_t)id->ask;
	crypto_generichash_state h;

	crypto_generichash_init(&h, NULL, 0, sizeof(i->binding));
	crypto_generichash_update(&h, &ask, 1);
	crypto_generichash_update(&h, (const uint8_t *)ciphers, strlen(ciphers) + 1);
	crypto_generichash_update(&h, id->ca.p, id->ca.len);
	crypto_generichash_final(&h, i->binding, sizeof(i->binding));
}

static enum tv_err
fill_context(struct tls_server *s, SSL_CTX *ctx, const struct tls_identity *id, char *errbuf, size_t cap)
{
	enum tv_err err;

	if (!prepare_context(s, ctx, id))
		return tv_fail(errbuf, cap, TV_ENOMEM, "no memory for TLS");
	if (SSL_CTX_set_cipher_list(ctx, id->ciphers != NULL ? id->ciphers : CIPHERS) != 1)
		return tv_fail(errbuf, cap, TV_EINVAL, "tls_cipher_suites: OpenSSL has none of these");
	if ((err = use_chain(s, ctx, id->chain, errbuf, cap)) != TV_OK)
		return err;
	if ((err = use_key(s, ctx, id->key, errbuf, cap)) != TV_OK)
		return err;
	return ask_clients(s, ctx, id, errbuf, cap);
}

struct identity *
identity_new(struct tls_server *s, const struct tls_identity *id, char *errbuf, size_t cap)
{
	struct identity *i = calloc(1, sizeof(*i));

	if (i != NULL)
		i->ssl = SSL_CTX_new_ex(tls_provider_library(s->provider), NULL, TLS_server_method());
	if (i == NULL || i->ssl == NULL) {
		(void)tv_fail(errbuf, cap, TV_ENOMEM, "no memory for TLS");
	} else if (fill_context(s, i->ssl, id, errbuf, cap) == TV_OK) {
		i->shares = 1;
		bind_identity(i, id);
		ERR_clear_error();
		return i;
	}
	if (i != NULL)
		SSL_CTX_free(i->ssl);
	free(i);
	ERR_clear_error();
	return NULL;
}

void
identity_release(struct identity *i)
{
	if (i == NULL || --i->shares > 0)
		return;
	SSL_CTX_free(i->ssl);
	free(i);
}
