/* Sealed blocks and the key ring (S174).  The peers' bytes are compared in check_gossip_wire. */
#include <check.h>
#include <sodium.h>
#include <stdlib.h>

#include "common/base/rng.h"
#include "gossipd/core/wire/gcm.h"
#include "gossipd/core/wire/seal.h"

static const uint8_t nonce[SEAL_NONCE_BYTES] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };

static struct span
key_of(uint8_t fill, size_t len)
{
	static uint8_t keys[256][SEAL_KEY_BYTES_MAX];

	for (unsigned i = 0; i < SEAL_KEY_BYTES_MAX; i++)
		keys[fill][i] = (uint8_t)(fill + i);
	return span_of(keys[fill], len);
}

static void
hex(const char *text, uint8_t *out)
{
	for (size_t i = 0; text[2 * i] != '\0'; i++)
		out[i] = (uint8_t)strtoul((char[]){ text[2 * i], text[2 * i + 1], '\0' }, NULL, 16);
}

/* Test cases 4, 10 and 16 of the GCM specification (McGrew, Viega): all three key lengths, with additional data. */
START_TEST(test_gcm_published)
{
	static const struct {
		size_t key_len;
		const char *key, *out;
	} cases[] = {
		{ 16, "feffe9928665731c6d6a8f9467308308",
		    "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
		    "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091"
		    "5bc94fbc3221a5db94fae95ae7121a47" },
		{ 24, "feffe9928665731c6d6a8f9467308308feffe9928665731c",
		    "3980ca0b3c00e841eb06fac4872a2757859e1ceaa6efd984628593b40ca1e19c"
		    "7d773d00c144c525ac619d18c84a3f4718e2448b2fe324d9ccda2710"
		    "2519498e80f1478f37ba55bd6d27618c" },
		{ 32, "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
		    "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
		    "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662"
		    "76fc6ece0f4e1768cddf8853bb2d551b" },
	};
	uint8_t iv[12], aad[20], plain[60], key[32], want[76], got[76], back[60];

	hex("cafebabefacedbaddecaf888", iv);
	hex("feedfacedeadbeeffeedfacedeadbeefabaddad2", aad);
	hex("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525"
	    "b16aedf5aa0de657ba637b39", plain);
	for (size_t i = 0; i < 3; i++) {
		struct span k = span_of(key, cases[i].key_len);

		hex(cases[i].key, key);
		hex(cases[i].out, want);
		gcm_seal(k, iv, span_of(aad, 20), span_of(plain, 60), got);
		ck_assert_mem_eq(got, want, 76);
		gcm_seal_soft(k, iv, span_of(aad, 20), span_of(plain, 60), got);
		ck_assert_mem_eq(got, want, 76);
		ck_assert(gcm_open(k, iv, span_of(aad, 20), span_of(want, 76), back));
		ck_assert_mem_eq(back, plain, 60);
		ck_assert(gcm_open_soft(k, iv, span_of(aad, 20), span_of(want, 76), back));
		want[75] ^= 1;
		ck_assert(!gcm_open(k, iv, span_of(aad, 20), span_of(want, 76), back));
		ck_assert(!gcm_open_soft(k, iv, span_of(aad, 20), span_of(want, 76), back));
	}
}
END_TEST

/* The two implementations agree on every length around the block size. */
START_TEST(test_hardware_and_soft_agree)
{
	struct span key = key_of(32, 32);
	uint8_t in[100], a[116], b[116], back[100];
	struct rng r;

	rng_seed(&r, 5);
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)rng_u64(&r);
	for (size_t n = 0; n <= sizeof(in); n++) {
		gcm_seal(key, nonce, span_of(in, n % 21), span_of(in, n), a);
		gcm_seal_soft(key, nonce, span_of(in, n % 21), span_of(in, n), b);
		ck_assert_mem_eq(a, b, n + GCM_TAG_BYTES);
		ck_assert(gcm_open(key, nonce, span_of(in, n % 21), span_of(b, n + GCM_TAG_BYTES), back));
		ck_assert(n == 0 || memcmp(back, in, n) == 0);
		ck_assert(gcm_open_soft(key, nonce, span_of(in, n % 21), span_of(a, n + GCM_TAG_BYTES), back));
	}
}
END_TEST

START_TEST(test_round_trip)
{
	static const size_t lens[] = { 16, 24, 32 };
	uint8_t in[70], out[200];

	memset(in, 'm', sizeof(in));
	for (unsigned k = 0; k < 3; k++) {
		for (uint8_t version = 0; version <= 1; version++) {
			for (size_t n = 0; n <= sizeof(in); n++) {
				struct seal_ring ring = { .count = 0 };
				struct buf b = BUF_INIT(200);
				size_t len;

				ck_assert_int_eq(seal_ring_add(&ring, key_of(7, lens[k])), TV_OK);
				seal_put(&b, &ring, version, nonce, span_str("label"), span_of(in, n));
				ck_assert_uint_eq(b.len, seal_size(version, n));
				ck_assert_uint_le(b.len, n + (version == 0 ? SEAL_OVERHEAD_V0 : SEAL_OVERHEAD));
				ck_assert_uint_eq(b.data[0], version);
				ck_assert_int_eq(seal_open(&ring, span_str("label"), buf_span(&b), out, sizeof(out), &len), TV_OK);
				ck_assert(span_eq(span_of(out, len), span_of(in, n)));
				buf_done(&b);
			}
		}
	}
}
END_TEST

/*
 * One changed bit, another label, another key, any truncation: refused.  The wire leaves one bit
 * open: the tag does not cover the version byte, so 0 and 1 can be exchanged (only the padding differs).
 */
START_TEST(test_tampering)
{
	struct seal_ring ring = { .count = 0 }, other = { .count = 0 };
	struct buf b = BUF_INIT(256);
	uint8_t out[256];
	size_t len;

	seal_ring_add(&ring, key_of(1, 32));
	seal_ring_add(&other, key_of(2, 32));
	seal_put(&b, &ring, (uint8_t)_i, nonce, span_str("aad"), span_str("a message for the pool"));
	for (size_t bit = 1; bit < 8 * b.len; bit++) {
		b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		ck_assert_int_ne(seal_open(&ring, span_str("aad"), buf_span(&b), out, sizeof(out), &len), TV_OK);
		ck_assert_uint_eq(len, 0);
		b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	for (size_t n = 0; n < b.len; n++)
		ck_assert_int_ne(seal_open(&ring, span_str("aad"), span_of(b.data, n), out, sizeof(out), &len), TV_OK);
	ck_assert_int_eq(seal_open(&ring, SPAN_NONE, buf_span(&b), out, sizeof(out), &len), TV_EAUTH);
	ck_assert_int_eq(seal_open(&other, span_str("aad"), buf_span(&b), out, sizeof(out), &len), TV_EAUTH);
	ck_assert_int_eq(seal_open(&ring, span_str("aad"), buf_span(&b), out, 3, &len), TV_ELIMIT);
	ck_assert_int_eq(seal_open(&ring, span_str("aad"), buf_span(&b), out, sizeof(out), &len), TV_OK);
	ck_assert_int_eq(seal_open(&ring, SPAN_NONE, SPAN_NONE, out, sizeof(out), &len), TV_EFORMAT);
	buf_done(&b);
}
END_TEST

/* Peers trust the last byte of version 0; a key holder's bad padding must not hurt us. */
START_TEST(test_bad_padding)
{
	static const uint8_t pads[] = { 0, 17, 33, 255 };
	struct seal_ring ring = { .count = 0 };
	uint8_t plain[32] = { 0 }, out[64], block[SEAL_OVERHEAD + 32];
	size_t len;

	seal_ring_add(&ring, key_of(1, 16));
	for (size_t i = 0; i < sizeof(pads); i++) {
		plain[31] = pads[i];
		block[0] = 0;
		memcpy(block + 1, nonce, sizeof(nonce));
		gcm_seal(key_of(1, 16), nonce, SPAN_NONE, span_of(plain, 32), block + 13);
		ck_assert_int_eq(seal_open(&ring, SPAN_NONE, span_of(block, sizeof(block)), out, sizeof(out), &len), TV_EFORMAT);
	}
}
END_TEST

START_TEST(test_ring)
{
	struct seal_ring r = { .count = 0 };
	uint8_t out[64];
	struct buf b = BUF_INIT(64);
	size_t len;

	ck_assert_int_eq(seal_ring_add(&r, key_of(1, 15)), TV_EINVAL);
	ck_assert_int_eq(seal_ring_add(&r, SPAN_NONE), TV_EINVAL);
	ck_assert_int_eq(seal_ring_add(&r, key_of(1, 16)), TV_OK);
	ck_assert_int_eq(seal_ring_add(&r, key_of(2, 24)), TV_OK);
	ck_assert_int_eq(seal_ring_add(&r, key_of(3, 32)), TV_OK);
	ck_assert_int_eq(seal_ring_add(&r, key_of(2, 24)), TV_OK);
	ck_assert_uint_eq(r.count, 3);
	ck_assert_int_eq(seal_ring_use(&r, key_of(9, 16)), TV_ENOENT);
	ck_assert_uint_eq(r.moves, 0);
	ck_assert_int_eq(seal_ring_use(&r, key_of(3, 32)), TV_OK);
	ck_assert_int_eq(seal_ring_use(&r, key_of(3, 32)), TV_OK);
	ck_assert_uint_eq(r.moves, 1);
	ck_assert_uint_eq(r.keys[0].bytes[0], 3);		/* 3 1 2: the others keep their order */
	ck_assert_uint_eq(r.keys[1].bytes[0], 1);
	ck_assert_uint_eq(r.keys[2].bytes[0], 2);
	ck_assert_int_eq(seal_ring_remove(&r, key_of(3, 32)), TV_ECONFLICT);
	ck_assert_int_eq(seal_ring_remove(&r, key_of(9, 16)), TV_OK);
	ck_assert_int_eq(seal_ring_remove(&r, key_of(1, 16)), TV_OK);
	ck_assert_uint_eq(r.moves, 2);
	ck_assert_uint_eq(r.count, 2);
	ck_assert_uint_eq(r.keys[1].bytes[0], 2);

	seal_put(&b, &r, 1, nonce, SPAN_NONE, span_str("x"));	/* under 3, opened by a ring where 3 is last */
	ck_assert_int_eq(seal_ring_use(&r, key_of(2, 24)), TV_OK);
	ck_assert_int_eq(seal_open(&r, SPAN_NONE, buf_span(&b), out, sizeof(out), &len), TV_OK);
	ck_assert_int_eq(seal_ring_remove(&r, key_of(3, 32)), TV_OK);
	ck_assert_int_eq(seal_open(&r, SPAN_NONE, buf_span(&b), out, sizeof(out), &len), TV_EAUTH);
	buf_done(&b);

	seal_ring_wipe(&r);
	ck_assert(sodium_is_zero((const uint8_t *)&r, sizeof(r)));
	for (uint8_t i = 0; i < SEAL_KEYS_MAX; i++)
		ck_assert_int_eq(seal_ring_add(&r, key_of((uint8_t)(i + 1), 32)), TV_OK);
	ck_assert_int_eq(seal_ring_add(&r, key_of(99, 32)), TV_ELIMIT);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("seal");
	TCase *tc = tcase_create("seal");
	SRunner *sr = srunner_create(s);
	int failed;

	if (sodium_init() < 0)
		return 1;
	tcase_add_test(tc, test_gcm_published);
	tcase_add_test(tc, test_hardware_and_soft_agree);
	tcase_add_test(tc, test_round_trip);
	tcase_add_loop_test(tc, test_tampering, 0, 2);
	tcase_add_test(tc, test_bad_padding);
	tcase_add_test(tc, test_ring);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? 0 : 1;
}
