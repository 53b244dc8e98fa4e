/* Noise: the public vectors, and what a forger or a wrong key gets. */
#include <check.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/noise.h"
#include "tests/unit/noise_vectors.h"

struct bytes {
	uint8_t p[512];
	size_t len;
};

static struct bytes
unhex(const char *text)
{
	struct bytes b = { .len = 0 };

	if (text != NULL)
		ck_assert_int_eq(sodium_hex2bin(b.p, sizeof(b.p), text, strlen(text), NULL, &b.len, NULL), 0);
	return b;
}

static struct noise_hs *
side(const struct noise_vector *v, bool initiator)
{
	struct bytes prologue = unhex(v->prologue), psk = unhex(v->psk);
	struct bytes e = unhex(initiator ? v->init_ephemeral : v->resp_ephemeral);
	struct bytes s = unhex(v->resp_static), rs = unhex(v->resp_static_public);
	struct noise_hs *hs = noise_hs_new(v->pattern, initiator, prologue.p, prologue.len, psk.p,
	    s.len > 0 && !initiator ? s.p : NULL, rs.len > 0 ? rs.p : NULL, e.p);

	ck_assert_ptr_nonnull(hs);
	return hs;
}

/* Writes message i on `from`, compares it with the vector, reads it on `to`. */
static void
handshake_message(const struct noise_vector *v, unsigned i, struct noise_hs *from, struct noise_hs *to)
{
	struct bytes payload = unhex(v->messages[i].payload), want = unhex(v->messages[i].ciphertext);
	uint8_t msg[512], back[512];
	size_t len = sizeof(msg), back_len = sizeof(back);

	ck_assert_int_eq(noise_hs_write(from, payload.p, payload.len, msg, &len), TV_OK);
	ck_assert_uint_eq(len, want.len);
	ck_assert_mem_eq(msg, want.p, len);
	ck_assert_int_eq(noise_hs_read(to, msg, len, back, &back_len), TV_OK);
	ck_assert_uint_eq(back_len, payload.len);
	ck_assert_mem_eq(back, payload.p, back_len);
}

START_TEST(vectors)
{
	const struct noise_vector *v = &noise_vectors[_i];
	struct noise_hs *init = side(v, true), *resp = side(v, false);
	struct noise_cipher is, ir, rs, rr;

	handshake_message(v, 0, init, resp);
	ck_assert(!noise_hs_done(init) && !noise_hs_done(resp));
	handshake_message(v, 1, resp, init);
	ck_assert(noise_hs_done(init) && noise_hs_done(resp));
	noise_hs_split(init, &is, &ir);
	noise_hs_split(resp, &rs, &rr);
	for (unsigned i = 2; i < 6; i++) {
		struct bytes payload = unhex(v->messages[i].payload), want = unhex(v->messages[i].ciphertext);
		uint8_t msg[512];

		ck_assert_int_eq(noise_seal(i % 2 == 0 ? &is : &rs, payload.p, payload.len, msg), TV_OK);
		ck_assert_mem_eq(msg, want.p, want.len);
		ck_assert_int_eq(noise_open(i % 2 == 0 ? &rr : &ir, msg, want.len, msg), TV_OK);
		ck_assert_mem_eq(msg, payload.p, payload.len);
	}
	noise_hs_free(init);
	noise_hs_free(resp);
}
END_TEST

/* Every single flipped bit of the first message is noticed. */
START_TEST(first_message_tampered)
{
	const struct noise_vector *v = &noise_vectors[_i];
	struct bytes msg = unhex(v->messages[0].ciphertext);
	uint8_t out[512];

	for (size_t bit = 0; bit < msg.len * 8; bit++) {
		struct noise_hs *resp = side(v, false);
		size_t len = sizeof(out);

		/* X25519 ignores the top bit of a point, but the hash does not. */
		msg.p[bit / 8] ^= (uint8_t)(1u << (bit % 8));
		ck_assert_int_eq(noise_hs_read(resp, msg.p, msg.len, out, &len), TV_EAUTH);
		msg.p[bit / 8] ^= (uint8_t)(1u << (bit % 8));
		len = sizeof(out);
		ck_assert_int_eq(noise_hs_read(resp, msg.p, msg.len, out, &len), TV_EINVAL);	/* poisoned */
		noise_hs_free(resp);
	}
}
END_TEST

START_TEST(first_message_truncated)
{
	const struct noise_vector *v = &noise_vectors[_i];
	struct bytes msg = unhex(v->messages[0].ciphertext);
	uint8_t out[512];

	for (size_t n = 0; n < msg.len; n++) {
		struct noise_hs *resp = side(v, false);
		size_t len = sizeof(out);

		ck_assert_int_eq(noise_hs_read(resp, msg.p, n, out, &len), n < 48 ? TV_EFORMAT : TV_EAUTH);
		noise_hs_free(resp);
	}
}
END_TEST

/* A fresh pair with random ephemeral keys; which secret differs is the case. */
static enum tv_err
try_pair(enum noise_pattern pattern, bool wrong_psk, bool wrong_static, bool wrong_prologue)
{
	uint8_t psk[32] = { 1 }, psk2[32] = { 2 }, s[32] = { 8 }, pub[32], s2[32] = { 16 }, pub2[32], msg[64], out[64];
	size_t len = sizeof(msg), out_len = sizeof(out);
	struct noise_hs *a, *b;
	enum tv_err err;

	crypto_scalarmult_base(pub, s);
	crypto_scalarmult_base(pub2, s2);
	a = noise_hs_new(pattern, true, (const uint8_t *)"p", 1, wrong_psk ? psk2 : psk, NULL,
	    wrong_static ? pub2 : pub, NULL);
	b = noise_hs_new(pattern, false, (const uint8_t *)(wrong_prologue ? "q" : "p"), 1, psk, s, pub, NULL);
	ck_assert_int_eq(noise_hs_write(a, NULL, 0, msg, &len), TV_OK);
	ck_assert_uint_eq(len, 48);
	err = noise_hs_read(b, msg, len, out, &out_len);
	noise_hs_free(a);
	noise_hs_free(b);
	return err;
}

START_TEST(wrong_keys)
{
	ck_assert_int_eq(try_pair(NOISE_NNPSK0, false, false, false), TV_OK);
	ck_assert_int_eq(try_pair(NOISE_NNPSK0, true, false, false), TV_EAUTH);
	ck_assert_int_eq(try_pair(NOISE_NNPSK0, false, true, false), TV_OK);	/* NN has no static key */
	ck_assert_int_eq(try_pair(NOISE_NNPSK0, false, false, true), TV_EAUTH);
	ck_assert_int_eq(try_pair(NOISE_NKPSK0, false, false, false), TV_OK);
	ck_assert_int_eq(try_pair(NOISE_NKPSK0, true, false, false), TV_EAUTH);
	ck_assert_int_eq(try_pair(NOISE_NKPSK0, false, true, false), TV_EAUTH);
	ck_assert_int_eq(try_pair(NOISE_NKPSK0, false, false, true), TV_EAUTH);
}
END_TEST

START_TEST(turns_and_arguments)
{
	uint8_t psk[32] = { 1 }, msg[64], out[64];
	size_t len = sizeof(msg);
	struct noise_hs *a = noise_hs_new(NOISE_NNPSK0, true, NULL, 0, psk, NULL, NULL, NULL);
	struct noise_hs *b = noise_hs_new(NOISE_NNPSK0, false, NULL, 0, psk, NULL, NULL, NULL);

	ck_assert_ptr_null(noise_hs_new(NOISE_NKPSK0, true, NULL, 0, psk, NULL, NULL, NULL));
	ck_assert_ptr_null(noise_hs_new(NOISE_NKPSK0, false, NULL, 0, psk, NULL, psk, NULL));
	ck_assert_ptr_null(noise_hs_new((enum noise_pattern)3, true, NULL, 0, psk, NULL, NULL, NULL));
	ck_assert_int_eq(noise_hs_write(b, NULL, 0, msg, &len), TV_EINVAL);
	ck_assert_int_eq(noise_hs_read(a, msg, 48, out, &len), TV_EINVAL);
	len = 47;
	ck_assert_int_eq(noise_hs_write(a, NULL, 0, msg, &len), TV_ELIMIT);
	len = 48;
	ck_assert_int_eq(noise_hs_write(a, NULL, 0, msg, &len), TV_OK);
	ck_assert_int_eq(noise_hs_write(a, NULL, 0, msg, &len), TV_EINVAL);
	noise_hs_free(a);
	noise_hs_free(b);
	noise_hs_free(NULL);
}
END_TEST

/* A point of low order would make the shared secret known to everybody. */
START_TEST(low_order_point)
{
	uint8_t psk[32] = { 1 }, msg[48] = { 0 }, out[64];
	size_t len = sizeof(out);
	uint8_t s[32] = { 8 }, pub[32];
	struct noise_hs *b;

	crypto_scalarmult_base(pub, s);
	b = noise_hs_new(NOISE_NKPSK0, false, NULL, 0, psk, s, pub, NULL);
	ck_assert_int_eq(noise_hs_read(b, msg, sizeof(msg), out, &len), TV_EAUTH);
	noise_hs_free(b);
}
END_TEST

START_TEST(transport)
{
	struct noise_cipher tx = { { 7 }, 0 }, rx = { { 7 }, 0 }, again;
	uint8_t sealed[64], out[64];

	ck_assert_int_eq(noise_seal(&tx, (const uint8_t *)"hello", 5, sealed), TV_OK);
	again = rx;
	sealed[3] ^= 1;
	ck_assert_int_eq(noise_open(&again, sealed, 21, out), TV_EAUTH);
	sealed[3] ^= 1;
	ck_assert_int_eq(noise_open(&rx, sealed, 15, out), TV_EFORMAT);
	ck_assert_int_eq(noise_open(&rx, sealed, 20, out), TV_EAUTH);
	ck_assert_int_eq(noise_open(&rx, sealed, 21, out), TV_OK);
	ck_assert_mem_eq(out, "hello", 5);
	ck_assert_int_eq(noise_open(&rx, sealed, 21, out), TV_EAUTH);		/* replayed */
	ck_assert_int_eq(noise_seal(&tx, NULL, 0, sealed), TV_OK);		/* empty */
	ck_assert_int_eq(noise_open(&rx, sealed, 16, out), TV_OK);
	tx.nonce = rx.nonce = UINT64_MAX - 1;
	ck_assert_int_eq(noise_seal(&tx, NULL, 0, sealed), TV_OK);
	ck_assert_int_eq(noise_open(&rx, sealed, 16, out), TV_OK);
	ck_assert_int_eq(noise_seal(&tx, NULL, 0, sealed), TV_ELIMIT);
	ck_assert_int_eq(noise_open(&rx, sealed, 16, out), TV_ELIMIT);
}
END_TEST

int
main(void)
{
	const int count = sizeof(noise_vectors) / sizeof(noise_vectors[0]);
	Suite *s = suite_create("noise");
	TCase *t = tcase_create("noise");
	SRunner *r;
	int failed;

	if (sodium_init() < 0)
		return 1;
	tcase_add_loop_test(t, vectors, 0, count);
	tcase_add_loop_test(t, first_message_tampered, 0, count);
	tcase_add_loop_test(t, first_message_truncated, 0, count);
	tcase_add_test(t, wrong_keys);
	tcase_add_test(t, turns_and_arguments);
	tcase_add_test(t, low_order_point);
	tcase_add_test(t, transport);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
