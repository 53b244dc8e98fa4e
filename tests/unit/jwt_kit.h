/* Key pairs, and tokens that are signed with them. */
#ifndef TV_TESTS_UNIT_JWT_KIT_H
#define TV_TESTS_UNIT_JWT_KIT_H

#include <check.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/base/buf.h"

/* A fresh private key: "RSA" of so many bits, "ED25519", "ED448", or a curve of ECDSA as OpenSSL names it. */
static inline EVP_PKEY *
jwt_kit_key(const char *type, unsigned bits)
{
	EVP_PKEY *key = strcmp(type, "RSA") == 0 ? EVP_PKEY_Q_keygen(NULL, NULL, type, (size_t)bits) :
	    strncmp(type, "ED", 2) == 0 ? EVP_PKEY_Q_keygen(NULL, NULL, type) : EVP_PKEY_Q_keygen(NULL, NULL, "EC", type);

	ck_assert_ptr_nonnull(key);
	return key;
}

/* Its public half. */
static inline struct span
jwt_kit_pem(EVP_PKEY *key, struct arena *a)
{
	BIO *mem = BIO_new(BIO_s_mem());
	struct span out;
	char *pem;
	long n;

	ck_assert_int_eq(PEM_write_bio_PUBKEY(mem, key), 1);
	n = BIO_get_mem_data(mem, &pem);
	out = arena_copy(a, span_of((const uint8_t *)pem, (size_t)n));
	BIO_free(mem);
	return out;
}

static inline void
jwt_kit_base64(struct span in, struct buf *out)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	uint32_t bits = 0;
	unsigned have = 0;

	for (size_t i = 0; i < in.len; i++) {
		bits = bits << 8 | in.p[i];
		for (have += 8; have >= 6; have -= 6)
			buf_u8(out, (uint8_t)digits[bits >> (have - 6) & 63]);
		bits &= (1u << have) - 1;
	}
	if (have > 0)
		buf_u8(out, (uint8_t)digits[bits << (6 - have) & 63]);
}

/*
 * The signature of some bytes, as it stands in a token.  how: a digest, "PSS-" and a digest, or "" for EdDSA; half: of
 * ECDSA, bytes of either number, else 0.
 */
static inline struct span
jwt_kit_signature(EVP_PKEY *key, const char *how, size_t half, struct span text, struct arena *a)
{
	bool pss = strncmp(how, "PSS-", 4) == 0;
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	EVP_PKEY_CTX *ctx;
	uint8_t sig[1024];
	size_t n = sizeof(sig);
	struct span out;

	ck_assert_int_eq(EVP_DigestSignInit_ex(md, &ctx, how[0] == '\0' ? NULL : how + (pss ? 4 : 0), NULL, NULL, key, NULL), 1);
	if (pss) {
		ck_assert_int_eq(EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PSS_PADDING), 1);
		ck_assert_int_eq(EVP_PKEY_CTX_set_rsa_pss_saltlen(ctx, RSA_PSS_SALTLEN_DIGEST), 1);
	}
	ck_assert_int_eq(EVP_DigestSign(md, sig, &n, text.p, text.len), 1);
	EVP_MD_CTX_free(md);
	if (half == 0) {
		out = arena_copy(a, span_of(sig, n));
	} else {
		const unsigned char *at = sig;
		ECDSA_SIG *both = d2i_ECDSA_SIG(NULL, &at, (long)n);
		uint8_t *two = arena_alloc(a, 2 * half);

		ck_assert_ptr_nonnull(both);
		ck_assert_int_eq(BN_bn2binpad(ECDSA_SIG_get0_r(both), two, (int)half), (int)half);
		ck_assert_int_eq(BN_bn2binpad(ECDSA_SIG_get0_s(both), two + half, (int)half), (int)half);
		ECDSA_SIG_free(both);
		out = span_of(two, 2 * half);
	}
	return out;
}

/* A token of this head and these claims; key NULL: with an empty signature. */
static inline struct span
jwt_kit_token(EVP_PKEY *key, const char *how, size_t half, const char *head, const char *claims, struct arena *a)
{
	struct buf b = BUF_INIT(1u << 20);
	struct span text, out;

	jwt_kit_base64(span_str(head), &b);
	buf_u8(&b, '.');
	jwt_kit_base64(span_str(claims), &b);
	text = arena_copy(a, buf_span(&b));
	buf_u8(&b, '.');
	if (key != NULL)
		jwt_kit_base64(jwt_kit_signature(key, how, half, text, a), &b);
	out = arena_copy(a, buf_span(&b));
	buf_done(&b);
	return out;
}

#define JWT_KIT_ES256(key_, claims_, arena_) \
	jwt_kit_token(key_, "SHA256", 32, "{\"alg\":\"ES256\",\"typ\":\"JWT\"}", claims_, arena_)

#endif
