/* LZW: round trips, limits, malformed streams.  The peers' bytes are compared in check_gossip_wire. */
#include <check.h>
#include <stdlib.h>

#include "common/base/rng.h"
#include "gossipd/core/wire/lzw.h"

static struct lzw_table table;

static void
round_trip(struct span in)
{
	struct buf b = BUF_INIT(1 << 22);
	uint8_t *out = malloc(in.len + 1);
	size_t len;

	memset(&table, 0xa5, sizeof(table));		/* its contents must not matter */
	lzw_encode(&table, in, &b);
	ck_assert(!b.failed);
	ck_assert_int_eq(lzw_size(buf_span(&b), in.len, &len), TV_OK);
	ck_assert_uint_eq(len, in.len);
	ck_assert_int_eq(lzw_decode(buf_span(&b), out, in.len, &len), TV_OK);
	ck_assert(span_eq(span_of(out, len), in));
	if (in.len > 0) {
		ck_assert_int_eq(lzw_size(buf_span(&b), in.len - 1, &len), TV_ELIMIT);
		ck_assert_int_eq(lzw_decode(buf_span(&b), out, in.len - 1, &len), TV_ELIMIT);
	}
	free(out);
	buf_done(&b);
}

/* Few letters give long strings and full tables; many give wide codes early. */
START_TEST(test_random)
{
	static uint8_t in[60000];
	struct rng r;

	rng_seed(&r, (uint64_t)_i);
	for (unsigned round = 0; round < 40; round++) {
		size_t n = rng_below(&r, sizeof(in));
		uint64_t letters = 1 + rng_below(&r, 1u << (1 + round % 8));

		for (size_t i = 0; i < n; i++)
			in[i] = (uint8_t)rng_below(&r, letters);
		round_trip(span_of(in, n));
	}
}
END_TEST

START_TEST(test_every_short_length)
{
	uint8_t in[700];

	for (size_t n = 0; n <= sizeof(in); n++) {
		memset(in, 'x', n);
		round_trip(span_of(in, n));
		for (size_t i = 0; i < n; i++)
			in[i] = (uint8_t)(i * 7);
		round_trip(span_of(in, n));
	}
}
END_TEST

START_TEST(test_empty)
{
	struct buf b = BUF_INIT(16);
	uint8_t out[1];
	size_t len;

	lzw_encode(&table, SPAN_NONE, &b);
	ck_assert(span_eq(buf_span(&b), span_of("\x00\x03\x02", 3)));
	ck_assert_int_eq(lzw_decode(buf_span(&b), out, 0, &len), TV_OK);
	ck_assert_uint_eq(len, 0);
	buf_done(&b);
}
END_TEST

START_TEST(test_no_room_to_write)
{
	struct buf b = BUF_INIT(10);
	uint8_t in[100];

	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)i;
	lzw_encode(&table, span_of(in, sizeof(in)), &b);
	ck_assert(b.failed);
	ck_assert_uint_le(b.len, 10);
	buf_done(&b);
}
END_TEST

START_TEST(test_truncated)
{
	struct buf b = BUF_INIT(4096);
	const char *text = "to be or not to be or to be or not to be";
	uint8_t out[64];
	size_t len;

	lzw_encode(&table, span_str(text), &b);
	for (size_t n = 0; n < b.len; n++) {
		uint8_t *cut = malloc(n > 0 ? n : 1);

		memcpy(cut, b.data, n);
		ck_assert_int_eq(lzw_decode(span_of(cut, n), out, sizeof(out), &len), TV_EOF);
		ck_assert_int_eq(lzw_size(span_of(cut, n), sizeof(out), &len), TV_EOF);
		free(cut);
	}
	buf_done(&b);
}
END_TEST

/* Codes by hand, 9 bits each, low bits first. */
static struct span
codes(const unsigned *code, unsigned count, uint8_t *out)
{
	uint32_t acc = 0;
	unsigned nbits = 0;
	size_t len = 0;

	for (unsigned i = 0; i < count; i++) {
		acc |= code[i] << nbits;
		for (nbits += 9; nbits >= 8; nbits -= 8, acc >>= 8)
			out[len++] = (uint8_t)acc;
	}
	out[len++] = (uint8_t)acc;
	return span_of(out, len);
}

START_TEST(test_codes)
{
	static const struct {
		const char *what;
		unsigned code[8], count;
		enum tv_err err;
		const char *plain;
	} cases[] = {
		{ "no clear at the start", { 'a', 'b', 257 }, 3, TV_OK, "ab" },
		{ "the code about to be defined", { 256, 'a', 258, 257 }, 4, TV_OK, "aaa" },
		{ "one beyond it", { 256, 'a', 259, 257 }, 4, TV_EFORMAT, "" },
		{ "a string first", { 256, 258, 257 }, 3, TV_EFORMAT, "" },
		{ "a string after a clear", { 'a', 'b', 256, 258, 257 }, 5, TV_EFORMAT, "" },
		{ "clear in the middle", { 256, 'a', 'b', 258, 256, 'c', 257 }, 7, TV_OK, "ababc" },
		{ "nothing but the end", { 257 }, 1, TV_OK, "" },
		{ "clears and no end", { 256, 256, 256 }, 3, TV_EOF, "" },
	};
	uint8_t in[16], out[16];
	size_t len;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct span s = codes(cases[i].code, cases[i].count, in);

		ck_assert_msg(lzw_decode(s, out, sizeof(out), &len) == cases[i].err, "%s", cases[i].what);
		if (cases[i].err == TV_OK)
			ck_assert_msg(span_eqs(span_of(out, len), cases[i].plain), "%s", cases[i].what);
	}
}
END_TEST

/* After the table is full (no clear from the writer) the reader goes on without new entries. */
START_TEST(test_full_table)
{
	static uint8_t in[16384], out[65536];
	uint64_t acc = 0;
	unsigned nbits = 0, width = 9, hi = 257, over = 512;
	size_t n = 0, len;

	for (unsigned i = 0; i < 6000; i++) {
		unsigned code = i == 5998 ? 4095 : i == 5999 ? 257 : (i * 31) & 0xff;

		acc |= (uint64_t)code << nbits;
		for (nbits += width; nbits >= 8; nbits -= 8, acc >>= 8)
			in[n++] = (uint8_t)acc;
		if (++hi == over && width < 12) {
			width++;
			over *= 2;
		}
	}
	in[n++] = (uint8_t)acc;
	ck_assert_int_eq(lzw_decode(span_of(in, n), out, sizeof(out), &len), TV_OK);
	ck_assert_uint_eq(len, 5998 + 2);		/* code 4095 is a string of two */
	ck_assert_uint_eq(out[5997], (5997 * 31) & 0xff);
}
END_TEST

/* S169: a stream that expands a thousandfold stops at the limit, and measuring it takes no memory. */
START_TEST(test_bomb)
{
	struct buf b = BUF_INIT(1 << 22);
	uint8_t *zeros = calloc(1, 8 << 20);
	uint8_t out[1000];
	size_t len;

	lzw_encode(&table, span_of(zeros, 8 << 20), &b);
	ck_assert_uint_lt(b.len, (8 << 20) / 1000);
	ck_assert_int_eq(lzw_decode(buf_span(&b), out, sizeof(out), &len), TV_ELIMIT);
	ck_assert_int_eq(lzw_size(buf_span(&b), 1 << 20, &len), TV_ELIMIT);
	ck_assert_int_eq(lzw_size(buf_span(&b), 8 << 20, &len), TV_OK);
	free(zeros);
	buf_done(&b);
}
END_TEST

START_TEST(test_garbage)
{
	uint8_t in[300], out[4096];
	struct rng r;
	size_t a, b;

	rng_seed(&r, (uint64_t)_i + 1000);
	for (unsigned round = 0; round < 2000; round++) {
		size_t n = rng_below(&r, sizeof(in));
		enum tv_err err;

		for (size_t i = 0; i < n; i++)
			in[i] = (uint8_t)rng_u64(&r);
		err = lzw_decode(span_of(in, n), out, sizeof(out), &a);
		ck_assert_int_eq(lzw_size(span_of(in, n), sizeof(out), &b), err);
		if (err == TV_OK)
			ck_assert_uint_eq(a, b);
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("lzw");
	TCase *tc = tcase_create("lzw");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_loop_test(tc, test_random, 0, 4);
	tcase_add_test(tc, test_every_short_length);
	tcase_add_test(tc, test_empty);
	tcase_add_test(tc, test_no_room_to_write);
	tcase_add_test(tc, test_truncated);
	tcase_add_test(tc, test_codes);
	tcase_add_test(tc, test_full_table);
	tcase_add_test(tc, test_bomb);
	tcase_add_loop_test(tc, test_garbage, 0, 4);
	tcase_set_timeout(tc, 60);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? 0 : 1;
}
