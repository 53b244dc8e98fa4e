/* Spans, the bounded reader, the capped buffer, the arena, deadlines and frames. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/base/deadlines.h"
#include "common/base/hex.h"
#include "common/base/uuid.h"
#include "common/base/buf.h"
#include "common/base/rd.h"
#include "common/base/rng.h"
#include "common/net/frame.h"

/* -- spans ------------------------------------------------------------------ */

START_TEST(spans)
{
	struct span abc = span_str("abc"), ab = span_str("ab"), abd = span_str("abd"), none = SPAN_NONE;
	char dst[4];
	char *copy;

	ck_assert_int_lt(span_cmp(ab, abc), 0);
	ck_assert_int_gt(span_cmp(abc, ab), 0);
	ck_assert_int_lt(span_cmp(abc, abd), 0);
	ck_assert_int_eq(span_cmp(abc, abc), 0);
	ck_assert_int_eq(span_cmp(none, none), 0);
	ck_assert_int_lt(span_cmp(none, ab), 0);
	ck_assert_int_gt(span_cmp(span_of("\xff", 1), span_of("\x7f", 1)), 0);	/* bytes, not chars */
	ck_assert(span_starts(abc, ab) && span_starts(abc, none) && span_starts(none, none) && !span_starts(ab, abc));
	ck_assert(span_eq(none, span_str("")) && !span_eqs(abc, "abcd") && span_eqs(abc, "abc"));
	ck_assert(span_copy(abc, dst, sizeof(dst)));
	ck_assert_str_eq(dst, "abc");
	ck_assert(!span_copy(abc, dst, 3));
	ck_assert_str_eq(dst, "");
	ck_assert(!span_copy(span_of("a\0b", 3), dst, sizeof(dst)));
	ck_assert_str_eq(dst, "");
	ck_assert(!span_copy(abc, dst, 0));
	ck_assert(span_copy(none, dst, 1));
	copy = span_dup(abc);
	ck_assert_str_eq(copy, "abc");
	free(copy);
	copy = span_dup(none);
	ck_assert_str_eq(copy, "");
	free(copy);
}
END_TEST

START_TEST(uuids)
{
	static const char *const bad[] = { "", "6ba7b810-9dad-11d1-80b4-00c04fd430c",
		"6ba7b810-9dad-11d1-80b4-00c04fd430c80", "6ba7b810-9dad-11d1-80b400c04fd430c8--",
		"6ba7b8109-dad-11d1-80b4-00c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430g8" };
	uint8_t ones[UUID_BYTES];
	char text[UUID_CHARS + 1];
	uint8_t b[UUID_BYTES];

	ck_assert(uuid_parse(span_str("6BA7B810-9dad-11d1-80b4-00c04fd430c8"), b));
	ck_assert_uint_eq(b[0], 0x6b);
	ck_assert_uint_eq(b[15], 0xc8);
	uuid_text(b, text);
	ck_assert_str_eq(text, "6ba7b810-9dad-11d1-80b4-00c04fd430c8");
	memset(ones, 255, sizeof(ones));
	uuid_v4(ones, text);
	ck_assert_str_eq(text, "ffffffff-ffff-4fff-bfff-ffffffffffff");	/* version 4, variant 10 */
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(!uuid_parse(span_str(bad[i]), NULL), "%s", bad[i]);
	ck_assert(!uuid_parse(SPAN_NONE, NULL));
}
END_TEST

START_TEST(hexadecimal_digits)
{
	for (int c = -1; c < 256; c++) {
		const char *all = "0123456789abcdefABCDEF", *at = c > 0 ? strchr(all, c) : NULL;
		int want = at == NULL ? -1 : at - all < 16 ? (int)(at - all) : (int)(at - all) - 6;

		ck_assert_int_eq(hex_value(c), want);
	}
}
END_TEST

/* -- reader ------------------------------------------------------------------- */

static const uint8_t counting[] = {
	0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f,
	0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e,
	'x', 'y', 'z',
};

/* Takes every kind of field once; right where the input is whole. */
static enum tv_err
read_all(struct rd *r, bool whole)
{
	uint8_t a = rd_u8(r);
	uint16_t b = rd_u16be(r);
	uint32_t c = rd_u32be(r);
	uint64_t d = rd_u64be(r);
	uint16_t e = rd_u16le(r);
	uint32_t f = rd_u32le(r);
	uint64_t g = rd_u64le(r);
	struct span h = rd_bytes(r, 2), i = rd_rest(r);

	if (whole) {
		ck_assert(a == 1 && b == 0x0203 && c == 0x04050607 && d == 0x08090a0b0c0d0e0f);
		ck_assert(e == 0x0201 && f == 0x06050403 && g == 0x0e0d0c0b0a090807);
		ck_assert(span_eqs(h, "xy") && span_eqs(i, "z"));
	}
	return rd_end(r);
}

START_TEST(reads)
{
	struct rd r = rd_over(counting, sizeof(counting));

	ck_assert_int_eq(read_all(&r, true), TV_OK);
	ck_assert_uint_eq(rd_left(&r), 0);
	for (size_t n = 0; n < sizeof(counting) - 1; n++) {
		r = rd_over(counting, n);
		ck_assert_int_eq(read_all(&r, false), TV_EOF);
		ck_assert_uint_eq(rd_left(&r), 0);
		ck_assert_uint_eq(rd_u8(&r), 0);		/* and stays so */
		ck_assert_ptr_null(rd_bytes(&r, 0).p);
		ck_assert_ptr_null(rd_rest(&r).p);
	}
}
END_TEST

START_TEST(reader_errors)
{
	struct rd r = rd_over(counting, 3);

	ck_assert_uint_eq(rd_u8(&r), 1);
	ck_assert_int_eq(rd_end(&r), TV_EFORMAT);		/* trailing bytes */
	r = rd_over(counting, 3);
	rd_fail(&r, TV_ELIMIT);
	rd_fail(&r, TV_EFORMAT);				/* the first one stays */
	ck_assert_int_eq(rd_end(&r), TV_ELIMIT);
	r = rd_over(NULL, 0);
	ck_assert_int_eq(rd_end(&r), TV_OK);
	r = rd_over(counting, 3);
	ck_assert_ptr_null(rd_bytes(&r, SIZE_MAX).p);
	ck_assert_int_eq(rd_end(&r), TV_EOF);
}
END_TEST

/* -- buffer ------------------------------------------------------------------- */

START_TEST(writes)
{
	struct buf b = BUF_INIT(1000);
	struct rd r;

	buf_u8(&b, 1);
	buf_u16be(&b, 0x0203);
	buf_u32be(&b, 0x04050607);
	buf_u64be(&b, 0x08090a0b0c0d0e0f);
	buf_u16le(&b, 0x0201);
	buf_u32le(&b, 0x06050403);
	buf_u64le(&b, 0x0e0d0c0b0a090807);
	buf_puts(&b, "x");
	buf_put(&b, "y", 1);
	buf_putspan(&b, span_str("z"));
	ck_assert_uint_eq(b.len, sizeof(counting));
	ck_assert_mem_eq(b.data, counting, sizeof(counting));
	r = rd_span_over(buf_span(&b));
	ck_assert_int_eq(read_all(&r, true), TV_OK);
	buf_drop(&b, 1);
	ck_assert(b.len == sizeof(counting) - 1 && b.data[0] == 2);
	buf_drop(&b, b.len);
	ck_assert_uint_eq(b.len, 0);
	buf_printf(&b, "%d-%s", 42, "x");
	ck_assert_str_eq(buf_cstr(&b), "42-x");
	ck_assert_uint_eq(b.len, 4);
	buf_done(&b);
	ck_assert(b.data == NULL && b.max == 1000);
	buf_puts(&b, "again");
	ck_assert_str_eq(buf_cstr(&b), "again");
	buf_done(&b);
}
END_TEST

static bool
is_zero(const void *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (((const uint8_t *)bytes)[i] != 0)
			return false;
	return true;
}

/* Against a plain search: added, moved, removed, and taken in their order. */
START_TEST(deadlines_in_order)
{
	enum { COUNT = 500 };
	static struct deadline x[COUNT];
	struct deadlines d = { 0 };
	struct rng r;
	size_t in = 0;

	rng_seed(&r, 7);
	ck_assert_ptr_null(deadlines_first(&d));
	ck_assert(deadlines_reserve(&d, COUNT));
	for (unsigned step = 0; step < 100000; step++) {
		struct deadline *y = &x[rng_below(&r, COUNT)], *first = NULL;
		struct mono when = { (int64_t)rng_below(&r, 1000) };

		if (y->place == 0) {
			deadlines_move(&d, y, when);
			deadlines_add(&d, y);
			in++;
		} else if (rng_below(&r, 3) == 0) {
			deadlines_remove(&d, y);
			deadlines_remove(&d, y);
			in--;
		} else {
			deadlines_move(&d, y, when);
		}
		if (step % 16 != 0 || in == 0)
			continue;
		for (size_t i = 0; i < COUNT; i++)
			if (x[i].place != 0 && (first == NULL || mono_before(x[i].when, first->when)))
				first = &x[i];
		ck_assert_uint_eq(d.count, in);
		ck_assert_int_eq(deadlines_first(&d)->when.ns, first->when.ns);
	}
	for (struct mono last = { 0 }; in > 0; in--) {
		struct deadline *y = deadlines_first(&d);

		ck_assert(!mono_before(y->when, last));
		last = y->when;
		deadlines_remove(&d, y);
	}
	ck_assert_ptr_null(deadlines_first(&d));
	deadlines_done(&d);
}
END_TEST

START_TEST(secret_buffers)
{
	struct buf b = BUF_INIT(100000);

	b.secret = true;
	for (unsigned i = 0; i < 3000; i++)			/* grows several times */
		buf_printf(&b, "%u,", i);
	ck_assert(!b.failed);
	ck_assert_int_eq(memcmp(b.data, "0,1,2,", 6), 0);
	ck_assert_str_eq(buf_cstr(&b) + b.len - 6, ",2999,");
	buf_drop(&b, 1000);
	ck_assert(is_zero(b.data + b.len, b.cap - b.len));
	buf_drop(&b, 0);
	ck_assert_str_eq(buf_cstr(&b) + b.len - 6, ",2999,");
	buf_drop(&b, b.len);
	ck_assert(b.len == 0 && is_zero(b.data, b.cap));
	buf_puts(&b, "other");
	buf_reset(&b);
	ck_assert(is_zero(b.data, b.cap));
	buf_puts(&b, "again");
	buf_done(&b);
	ck_assert(b.secret && b.max == 100000 && b.data == NULL);
	/* A large one is not copied step by step, within its own limit. */
	b.max = 48u << 20;
	ck_assert_ptr_nonnull(buf_add(&b, 4u << 20));
	ck_assert_uint_eq(b.cap, 4u << 20);
	ck_assert_ptr_nonnull(buf_add(&b, 1));
	ck_assert_uint_eq(b.cap, 32u << 20);
	buf_done(&b);
	b.max = 6u << 20;
	ck_assert_ptr_nonnull(buf_add(&b, 5u << 20));
	ck_assert_uint_eq(b.cap, 6u << 20);
	buf_done(&b);
	buf_puts(&b, "and again");
	ck_assert_str_eq(buf_cstr(&b), "and again");
	buf_done(&b);
}
END_TEST

/* Each cap: what fits is written, what does not leaves the buffer as it was, and all later writes too. */
START_TEST(caps)
{
	for (size_t max = 0; max <= 300; max++) {
		struct buf b = BUF_INIT(max);
		size_t good = 0;

		for (size_t n = 1; !b.failed; n++) {
			uint8_t *p = buf_add(&b, n);

			ck_assert((p != NULL) == (good + n <= max));
			good += p != NULL ? n : 0;
			ck_assert_uint_eq(b.len, good);
			ck_assert_uint_le(b.cap, max);
			if (p != NULL)
				memset(p, (int)n, n);
		}
		buf_u8(&b, 1);
		buf_puts(&b, "x");
		buf_printf(&b, "%d", 1);
		ck_assert_ptr_null(buf_room(&b, 0));
		ck_assert_uint_eq(b.len, good);
		buf_reset(&b);
		ck_assert(!b.failed && b.len == 0);
		buf_done(&b);
	}
}
END_TEST

START_TEST(odd_sizes)
{
	struct buf b = BUF_INIT(SIZE_MAX);
	char text[2000];

	buf_u8(&b, 1);
	ck_assert_ptr_null(buf_room(&b, SIZE_MAX));		/* the sum would wrap */
	ck_assert(b.failed && b.len == 1);
	buf_done(&b);
	b = BUF_INIT(4096);
	memset(text, 'a', sizeof(text));
	for (size_t n = 250; n < 262; n++) {			/* around printf's own small buffer */
		buf_reset(&b);
		buf_printf(&b, "%.*s", (int)n, text);
		ck_assert_uint_eq(b.len, n);
		ck_assert_uint_eq(strlen(buf_cstr(&b)), n);
	}
	buf_put(&b, NULL, 0);
	ck_assert(!b.failed);
	buf_done(&b);
	b = BUF_INIT(3);
	buf_puts(&b, "abc");
	ck_assert_str_eq(buf_cstr(&b), "");			/* no room for the NUL */
	buf_done(&b);
}
END_TEST

/* -- arena -------------------------------------------------------------------- */

START_TEST(arenas)
{
	struct arena a = ARENA_INIT(1 << 20);
	uint8_t *before = NULL;

	for (size_t n = 0; n < 600; n++) {
		uint8_t *p = arena_alloc(&a, n);

		ck_assert_ptr_nonnull(p);
		ck_assert_uint_eq((uintptr_t)p % 16, 0);
		ck_assert_ptr_ne(p, before);
		for (size_t i = 0; i < n; i++)
			ck_assert_uint_eq(p[i], 0);
		memset(p, 0xff, n);
		before = p;
	}
	ck_assert(span_eqs(arena_copy(&a, span_str("copy")), "copy"));
	ck_assert_str_eq(arena_cstr(&a, span_str("text")), "text");
	ck_assert(span_eqs(arena_printf(&a, "%d%s", 7, "up"), "7up"));
	ck_assert_ptr_nonnull(arena_alloc(&a, 100000));		/* larger than a block */
	arena_reset(&a);
	ck_assert_uint_eq(a.used, 0);
	ck_assert_uint_eq(*(uint8_t *)arena_alloc(&a, 1), 0);	/* zeroed again */
	arena_done(&a);
}
END_TEST

START_TEST(arena_caps)
{
	struct arena a = ARENA_INIT(1000);
	unsigned n = 0;

	ck_assert_ptr_null(arena_alloc(&a, 1001));
	ck_assert_ptr_null(arena_alloc(&a, SIZE_MAX));
	ck_assert_ptr_null(arena_array(&a, SIZE_MAX / 2, 3));
	ck_assert_ptr_null(arena_array(&a, 3, SIZE_MAX / 2));
	ck_assert_ptr_nonnull(arena_array(&a, 0, 100));
	/* Even the smallest pieces use up the cap: a peer's empty lists are not free. */
	while (arena_alloc(&a, n % 2) != NULL)
		ck_assert_uint_le(++n, 1000);
	ck_assert_ptr_null(arena_cstr(&a, span_str("")));
	ck_assert_ptr_null(arena_copy(&a, span_str("x")).p);
	ck_assert_ptr_null(arena_printf(&a, "x").p);
	arena_reset(&a);
	ck_assert_ptr_nonnull(arena_alloc(&a, 900));
	arena_done(&a);
}
END_TEST

/* -- frames ------------------------------------------------------------------- */

START_TEST(frames)
{
	static const uint8_t want[] = { 3, 0, 0, 0, 0x22, 0x11, 2, 0, 8, 7, 6, 5, 4, 3, 2, 1, 'a', 'b', 'c' };
	struct frame f = { 0x1122, FRAME_MORE, 0x0102030405060708, span_str("abc") }, g;
	struct buf b = BUF_INIT(1000);
	size_t at;

	frame_write(&b, &f);
	ck_assert_uint_eq(b.len, sizeof(want));
	ck_assert_mem_eq(b.data, want, sizeof(want));
	for (size_t n = 0; n < b.len; n++)
		ck_assert_int_eq(frame_read(span_of(b.data, n), 3, &g), 0);
	ck_assert_int_eq(frame_read(buf_span(&b), 3, &g), (long)b.len);
	ck_assert(g.type == f.type && g.flags == f.flags && g.id == f.id && span_eqs(g.body, "abc"));
	ck_assert_int_eq(frame_read(buf_span(&b), 2, &g), TV_ELIMIT);
	ck_assert_int_eq(frame_read(span_of(b.data, 16), 2, &g), TV_ELIMIT);	/* told by the header alone */
	at = frame_open(&b, 1, 0, 0);
	frame_close(&b, at);
	ck_assert_int_eq(frame_read(span_of(b.data + at, 16), 0, &g), 16);
	ck_assert_uint_eq(g.body.len, 0);
	buf_done(&b);
}
END_TEST

START_TEST(frame_limits)
{
	uint8_t head[16] = { 0, 0, 0, 0xff };
	struct buf b = BUF_INIT(FRAME_BODY_BYTES_MAX + 100);
	struct frame f;
	size_t at;

	ck_assert_int_eq(frame_read(span_of(head, 16), SIZE_MAX, &f), TV_ELIMIT);
	head[3] = 4;			/* 64 MiB exactly */
	ck_assert_int_eq(frame_read(span_of(head, 16), SIZE_MAX, &f), 0);
	head[0] = 1;
	ck_assert_int_eq(frame_read(span_of(head, 16), SIZE_MAX, &f), TV_ELIMIT);
	at = frame_open(&b, 1, 0, 0);
	ck_assert_ptr_nonnull(buf_add(&b, FRAME_BODY_BYTES_MAX + 1));
	frame_close(&b, at);
	ck_assert(b.failed);		/* nobody would read it */
	buf_done(&b);
	b = BUF_INIT(20);
	at = frame_open(&b, 1, 0, 0);
	buf_puts(&b, "hello");
	frame_close(&b, at);
	ck_assert(b.failed && b.len == 16);
	buf_done(&b);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("core");
	TCase *t = tcase_create("core");
	SRunner *r;
	int failed;

	tcase_add_test(t, spans);
	tcase_add_test(t, uuids);
	tcase_add_test(t, hexadecimal_digits);
	tcase_add_test(t, reads);
	tcase_add_test(t, reader_errors);
	tcase_add_test(t, writes);
	tcase_add_test(t, secret_buffers);
	tcase_add_test(t, deadlines_in_order);
	tcase_add_test(t, caps);
	tcase_add_test(t, odd_sizes);
	tcase_add_test(t, arenas);
	tcase_add_test(t, arena_caps);
	tcase_add_test(t, frames);
	tcase_add_test(t, frame_limits);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
