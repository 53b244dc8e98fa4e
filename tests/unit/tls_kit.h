/* Certificates that are made in a test, and a server's end for them. */
#ifndef TV_TESTS_UNIT_TLS_KIT_H
#define TV_TESTS_UNIT_TLS_KIT_H

#include <check.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#pragma GCC diagnostic ignored "-Wunused-function"

struct tls_kit_cert {
	EVP_PKEY *key;
	X509 *cert;
};

#define TLS_KIT_DAY (24L * 3600)

/* alt: as OpenSSL has it, "DNS:a.example,IP:127.0.0.1"; NULL: an authority.  issuer NULL: it signs itself.  In seconds from now. */
static struct tls_kit_cert
tls_kit_make(const char *name, const char *alt, const struct tls_kit_cert *issuer, long from, long until)
{
	static long serial = 1;
	struct tls_kit_cert c = { .key = EVP_EC_gen("P-256"), .cert = X509_new() };
	const struct tls_kit_cert *by = issuer == NULL ? &c : issuer;
	X509_NAME *subject = X509_get_subject_name(c.cert);
	X509V3_CTX ctx;
	const char *const extensions[][2] = {
		{ "basicConstraints", alt == NULL ? "critical,CA:TRUE" : "critical,CA:FALSE" }, { "subjectAltName", alt },
		{ "subjectKeyIdentifier", "hash" }, { "authorityKeyIdentifier", issuer == NULL ? NULL : "keyid" },
	};

	ck_assert(c.key != NULL && c.cert != NULL);
	ck_assert_int_eq(X509_set_version(c.cert, 2), 1);
	ck_assert_int_eq(ASN1_INTEGER_set(X509_get_serialNumber(c.cert), serial++), 1);
	ck_assert(X509_gmtime_adj(X509_getm_notBefore(c.cert), from) != NULL);
	ck_assert(X509_gmtime_adj(X509_getm_notAfter(c.cert), until) != NULL);
	ck_assert_int_eq(X509_set_pubkey(c.cert, c.key), 1);
	ck_assert_int_eq(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const uint8_t *)name, -1, -1, 0), 1);
	ck_assert_int_eq(X509_set_issuer_name(c.cert, X509_get_subject_name(by->cert)), 1);
	X509V3_set_ctx(&ctx, by->cert, c.cert, NULL, NULL, 0);
	for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]); i++) {
		X509_EXTENSION *e;

		if (extensions[i][1] == NULL)
			continue;
		ck_assert_ptr_nonnull(e = X509V3_EXT_conf(NULL, &ctx, extensions[i][0], extensions[i][1]));
		ck_assert_int_eq(X509_add_ext(c.cert, e, -1), 1);
		X509_EXTENSION_free(e);
	}
	ck_assert_int_gt(X509_sign(c.cert, by->key, EVP_sha256()), 0);
	return c;
}

static void
tls_kit_free(struct tls_kit_cert *c)
{
	EVP_PKEY_free(c->key);
	X509_free(c->cert);
	*c = (struct tls_kit_cert){ .key = NULL };
}

/* In PEM, one behind the other; the caller frees it.  key: the private one of the first. */
static char *
tls_kit_pem(const struct tls_kit_cert *first, const struct tls_kit_cert *second, bool key)
{
	BIO *out = BIO_new(BIO_s_mem());
	char *bytes, *text;
	long n;

	if (first != NULL)
		ck_assert_int_eq(key ? PEM_write_bio_PrivateKey(out, first->key, NULL, NULL, 0, NULL, NULL) :
		    PEM_write_bio_X509(out, first->cert), 1);
	if (second != NULL)
		ck_assert_int_eq(PEM_write_bio_X509(out, second->cert), 1);
	n = BIO_get_mem_data(out, &bytes);
	ck_assert_ptr_nonnull(text = strndup(bytes == NULL ? "" : bytes, (size_t)n));
	BIO_free(out);
	return text;
}

#endif
