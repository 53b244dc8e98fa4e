/* Key pairs, and tokens that are signed with them. */
#ifndef TV_TESTS_UNIT_JWT_KIT_H
#define TV_TESTS_UNIT_JWT_KIT_H

#include <check.h>
#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <gnutls/x509.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/base/buf.h"

/* A fresh private key. */
static inline gnutls_privkey_t
jwt_kit_key(gnutls_pk_algorithm_t algorithm, unsigned bits)
{
	gnutls_privkey_t key;

	ck_assert_int_eq(gnutls_privkey_init(&key), 0);
	ck_assert_int_eq(gnutls_privkey_generate2(key, algorithm, bits, 0, NULL, 0), 0);
	return key;
}

/* Its public half. */
static inline struct span
jwt_kit_pem(gnutls_privkey_t key, struct arena *a)
{
	gnutls_pubkey_t pub;
	gnutls_datum_t pem;
	struct span out;

	ck_assert_int_eq(gnutls_pubkey_init(&pub), 0);
	ck_assert_int_eq(gnutls_pubkey_import_privkey(pub, key, 0, 0), 0);
	ck_assert_int_eq(gnutls_pubkey_export2(pub, GNUTLS_X509_FMT_PEM, &pem), 0);
	out = arena_copy(a, span_of(pem.data, pem.size));
	gnutls_free(pem.data);
	gnutls_pubkey_deinit(pub);
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

/* The signature of some bytes, as it stands in a token; half: of ECDSA, bytes of either number, else 0. */
static inline struct span
jwt_kit_signature(gnutls_privkey_t key, gnutls_sign_algorithm_t how, size_t half, struct span text, struct arena *a)
{
	gnutls_datum_t data = { (unsigned char *)(uintptr_t)text.p, (unsigned)text.len }, sig, r, s;
	struct span out;

	ck_assert_int_eq(gnutls_privkey_sign_data2(key, how, 0, &data, &sig), 0);
	if (half == 0) {
		out = arena_copy(a, span_of(sig.data, sig.size));
	} else {
		uint8_t *two = arena_alloc(a, 2 * half);
		const gnutls_datum_t *parts[2] = { &r, &s };

		ck_assert_int_eq(gnutls_decode_rs_value(&sig, &r, &s), 0);
		for (unsigned i = 0; i < 2; i++) {
			size_t skip = parts[i]->size > half ? parts[i]->size - half : 0, n = parts[i]->size - skip;

			memcpy(two + i * half + half - n, parts[i]->data + skip, n);
		}
		gnutls_free(r.data);
		gnutls_free(s.data);
		out = span_of(two, 2 * half);
	}
	gnutls_free(sig.data);
	return out;
}

/* A token of this head and these claims; key NULL: with an empty signature. */
static inline struct span
jwt_kit_token(gnutls_privkey_t key, gnutls_sign_algorithm_t how, size_t half, const char *head, const char *claims, struct arena *a)
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
	jwt_kit_token(key_, GNUTLS_SIGN_ECDSA_SHA256, 32, "{\"alg\":\"ES256\",\"typ\":\"JWT\"}", claims_, arena_)

#endif
