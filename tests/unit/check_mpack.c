/* Msgpack: the written bytes at every border, all forms read, every truncation, counts that lie. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/record/mpack.h"

static struct buf out = BUF_INIT(1 << 20);

static void
fresh(void)
{
	out = BUF_INIT(1 << 20);
}

static void
drop(void)
{
	buf_done(&out);
}

static struct rd
over(void)
{
	return rd_span_over(buf_span(&out));
}

#define WROTE(text_) do { \
	ck_assert_uint_eq(out.len, sizeof(text_) - 1); \
	ck_assert_mem_eq(out.data, text_, out.len); \
	buf_reset(&out); \
} while (0)

START_TEST(integers_written)
{
	mpw_uint(&out, 0);			WROTE("\x00");
	mpw_uint(&out, 127);			WROTE("\x7f");
	mpw_uint(&out, 128);			WROTE("\xcc\x80");
	mpw_uint(&out, 255);			WROTE("\xcc\xff");
	mpw_uint(&out, 256);			WROTE("\xcd\x01\x00");
	mpw_uint(&out, 65535);			WROTE("\xcd\xff\xff");
	mpw_uint(&out, 65536);			WROTE("\xce\x00\x01\x00\x00");
	mpw_uint(&out, UINT32_MAX);		WROTE("\xce\xff\xff\xff\xff");
	mpw_uint(&out, UINT32_MAX + 1ull);	WROTE("\xcf\x00\x00\x00\x01\x00\x00\x00\x00");
	mpw_int(&out, 5);			WROTE("\x05");
	mpw_int(&out, -1);			WROTE("\xff");
	mpw_int(&out, -32);			WROTE("\xe0");
	mpw_int(&out, -33);			WROTE("\xd0\xdf");
	mpw_int(&out, -128);			WROTE("\xd0\x80");
	mpw_int(&out, -129);			WROTE("\xd1\xff\x7f");
	mpw_int(&out, -32768);			WROTE("\xd1\x80\x00");
	mpw_int(&out, -32769);			WROTE("\xd2\xff\xff\x7f\xff");
	mpw_int(&out, INT32_MIN);		WROTE("\xd2\x80\x00\x00\x00");
	mpw_int(&out, INT32_MIN - 1ll);		WROTE("\xd3\xff\xff\xff\xff\x7f\xff\xff\xff");
	mpw_int(&out, INT64_MIN);		WROTE("\xd3\x80\x00\x00\x00\x00\x00\x00\x00");
}
END_TEST

START_TEST(others_written)
{
	mpw_bool(&out, true);			WROTE("\xc3");
	mpw_bool(&out, false);			WROTE("\xc2");
	mpw_nil(&out);				WROTE("\xc0");
	mpw_f64(&out, 1.0);			WROTE("\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00");
	mpw_cstr(&out, "");			WROTE("\xa0");
	mpw_bin(&out, span_str("ab"));		WROTE("\xc4\x02""ab");
	mpw_raw_cstr(&out, "ab");		WROTE("\xa2""ab");
	mpw_array(&out, 15);			WROTE("\x9f");
	mpw_array(&out, 16);			WROTE("\xdc\x00\x10");
	mpw_array(&out, 65536);			WROTE("\xdd\x00\x01\x00\x00");
	mpw_map(&out, 15);			WROTE("\x8f");
	mpw_map(&out, 16);			WROTE("\xde\x00\x10");
	mpw_map(&out, 65536);			WROTE("\xdf\x00\x01\x00\x00");
}
END_TEST

/* The header of a text of n bytes in each of three dialects. */
START_TEST(lengths_written)
{
	static const struct { size_t n; const char *str, *bin, *raw; size_t str_len, bin_len, raw_len; } cases[] = {
		{ 31, "\xbf", "\xc4\x1f", "\xbf", 1, 2, 1 },
		{ 32, "\xd9\x20", "\xc4\x20", "\xda\x00\x20", 2, 2, 3 },
		{ 255, "\xd9\xff", "\xc4\xff", "\xda\x00\xff", 2, 2, 3 },
		{ 256, "\xda\x01\x00", "\xc5\x01\x00", "\xda\x01\x00", 3, 3, 3 },
		{ 65535, "\xda\xff\xff", "\xc5\xff\xff", "\xda\xff\xff", 3, 3, 3 },
		{ 65536, "\xdb\x00\x01\x00\x00", "\xc6\x00\x01\x00\x00", "\xdb\x00\x01\x00\x00", 5, 5, 5 },
	};
	static uint8_t text[65536];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct span s = span_of(text, cases[i].n);
		struct rd r;

		mpw_str(&out, s);
		ck_assert_uint_eq(out.len, cases[i].n + cases[i].str_len);
		ck_assert_mem_eq(out.data, cases[i].str, cases[i].str_len);
		buf_reset(&out);
		mpw_bin(&out, s);
		ck_assert_uint_eq(out.len, cases[i].n + cases[i].bin_len);
		ck_assert_mem_eq(out.data, cases[i].bin, cases[i].bin_len);
		buf_reset(&out);
		mpw_raw(&out, s);
		ck_assert_uint_eq(out.len, cases[i].n + cases[i].raw_len);
		ck_assert_mem_eq(out.data, cases[i].raw, cases[i].raw_len);
		r = over();
		ck_assert(span_eq(mpr_bytes(&r, cases[i].n), s) && rd_end(&r) == TV_OK);
		r = over();
		ck_assert_ptr_null(mpr_bytes(&r, cases[i].n - 1).p);
		ck_assert_int_eq(rd_end(&r), TV_ELIMIT);
		buf_reset(&out);
	}
}
END_TEST

START_TEST(integers_read)
{
	static const int64_t values[] = {
		0, 1, 127, 128, 255, 256, 65535, 65536, UINT32_MAX, UINT32_MAX + 1ll, INT64_MAX,
		-1, -32, -33, -128, -129, -32768, -32769, INT32_MIN, INT32_MIN - 1ll, INT64_MIN,
	};
	struct rd r;

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		mpw_int(&out, values[i]);
		r = over();
		ck_assert_int_eq(mpr_int(&r), values[i]);
		ck_assert_int_eq(rd_end(&r), TV_OK);
		r = over();
		ck_assert_uint_eq(mpr_uint(&r, UINT64_MAX), values[i] < 0 ? 0 : (uint64_t)values[i]);
		ck_assert_int_eq(rd_end(&r), values[i] < 0 ? TV_EFORMAT : TV_OK);
		r = over();
		ck_assert(mpr_f64(&r) == (double)values[i]);
		if (values[i] > 0) {
			r = over();
			(void)mpr_uint(&r, (uint64_t)values[i] - 1);
			ck_assert_int_eq(rd_end(&r), TV_EFORMAT);
		}
		buf_reset(&out);
	}
	mpw_uint(&out, UINT64_MAX);
	r = over();
	ck_assert_uint_eq(mpr_uint(&r, UINT64_MAX), UINT64_MAX);
	r = over();
	ck_assert(mpr_int(&r) == 0 && r.err == TV_EFORMAT);
}
END_TEST

/* The same number in forms wider than need be, as other writers send it. */
START_TEST(wide_forms)
{
	static const struct { const char *bytes; size_t len; } sevens[] = {
		{ "\x07", 1 }, { "\xcc\x07", 2 }, { "\xcd\x00\x07", 3 }, { "\xce\x00\x00\x00\x07", 5 },
		{ "\xcf\x00\x00\x00\x00\x00\x00\x00\x07", 9 }, { "\xd0\x07", 2 }, { "\xd1\x00\x07", 3 },
		{ "\xd2\x00\x00\x00\x07", 5 }, { "\xd3\x00\x00\x00\x00\x00\x00\x00\x07", 9 },
	};
	struct rd r;

	for (size_t i = 0; i < sizeof(sevens) / sizeof(sevens[0]); i++) {
		r = rd_over(sevens[i].bytes, sevens[i].len);
		ck_assert(mpr_uint(&r, 7) == 7 && rd_end(&r) == TV_OK);
		r = rd_over(sevens[i].bytes, sevens[i].len);
		ck_assert(mpr_int(&r) == 7 && rd_end(&r) == TV_OK);
		for (size_t n = 0; n < sevens[i].len; n++) {
			r = rd_over(sevens[i].bytes, n);
			ck_assert(mpr_uint(&r, 7) == 0 && rd_end(&r) == TV_EOF);
		}
	}
	r = rd_over("\xca\x3f\x80\x00\x00", 5);
	ck_assert(mpr_f64(&r) == 1.0 && rd_end(&r) == TV_OK);
	r = rd_over("\x01", 1);
	ck_assert(mpr_bool(&r) && rd_end(&r) == TV_OK);
	r = rd_over("\x02", 1);
	ck_assert(!mpr_bool(&r) && rd_end(&r) == TV_EFORMAT);
	r = rd_over("\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", 9);
	ck_assert(isnan(mpr_f64(&r)) && rd_end(&r) == TV_OK);
}
END_TEST

/* Each reader refuses every type that is not its own, and takes nothing of it as its value. */
START_TEST(wrong_types)
{
	for (unsigned c = 0; c < 256; c++) {
		uint8_t in[32] = { (uint8_t)c };
		struct rd r = rd_over(in, sizeof(in));
		enum mp_type type = mpr_peek(&r);
		bool number = type == MP_UINT || type == MP_INT, text = type == MP_STR || type == MP_BIN;

		ck_assert((type == MP_BAD) == (c == 0xc1));
		r = rd_over(in, sizeof(in)), (void)mpr_int(&r);
		ck_assert((r.err == TV_OK) == number);
		r = rd_over(in, sizeof(in)), (void)mpr_bytes(&r, 31);
		ck_assert((r.err == TV_OK) == text);
		r = rd_over(in, sizeof(in)), (void)mpr_bytes_or_nil(&r, 31);
		ck_assert((r.err == TV_OK) == (text || type == MP_NIL));
		r = rd_over(in, sizeof(in)), (void)mpr_array(&r);
		ck_assert((r.err == TV_OK) == (type == MP_ARRAY));
		r = rd_over(in, sizeof(in)), (void)mpr_map(&r);
		ck_assert((r.err == TV_OK) == (type == MP_MAP));
		r = rd_over(in, sizeof(in)), (void)mpr_f64(&r);
		ck_assert((r.err == TV_OK) == (number || type == MP_FLOAT));
		r = rd_over(in, sizeof(in));
		ck_assert(mpr_nil(&r) == (type == MP_NIL) && r.err == TV_OK);
	}
}
END_TEST

/* A count is not believed beyond the bytes that are there. */
START_TEST(counts_that_lie)
{
	static const struct { const char *bytes; size_t len; bool map; uint32_t count; } cases[] = {
		{ "\x93\x01\x01\x01", 4, false, 3 }, { "\x93\x01\x01", 3, false, 0 }, { "\x82\1\1\1\1", 5, true, 2 },
		{ "\x82\1\1\1", 4, true, 0 }, { "\xdc\xff\xff\x01", 4, false, 0 },
		{ "\xdd\xff\xff\xff\xff\x01", 6, false, 0 },
		{ "\xde\xff\xff\x01", 4, true, 0 }, { "\xdf\xff\xff\xff\xff\x01\x01", 7, true, 0 },
		{ "\xdd\0\0\0\1\1", 6, false, 1 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rd r = rd_over(cases[i].bytes, cases[i].len);
		uint32_t n = cases[i].map ? mpr_map(&r) : mpr_array(&r);

		ck_assert_uint_eq(n, cases[i].count);
		ck_assert_int_eq(r.err, cases[i].count > 0 ? TV_OK : TV_EOF);
	}
}
END_TEST

/* One of everything; skipped whole, and never beyond a truncation. */
START_TEST(skipping)
{
	static const char ext[] = "\xd4\x01x\xd5\x01xx\xd6\x01xxxx\xd7\x01xxxxxxxx\xd8\x01xxxxxxxxxxxxxxxx"
	    "\xc7\x02\x01xx\xc8\x00\x02\x01xx\xc9\x00\x00\x00\x02\x01xx";
	struct span value;
	struct rd r;

	mpw_array(&out, 17);
	mpw_map(&out, 2);
	mpw_cstr(&out, "a"), mpw_array(&out, 0);
	mpw_cstr(&out, "b"), mpw_map(&out, 0);
	for (int i = 0; i < 4; i++)
		mpw_int(&out, -(1ll << (i * 15)));
	mpw_nil(&out), mpw_bool(&out, true), mpw_f64(&out, 2.5), mpw_bin(&out, span_str("bin"));
	buf_put(&out, ext, sizeof(ext) - 1);
	r = over();
	value = mpr_value(&r);
	ck_assert_int_eq(rd_end(&r), TV_OK);
	ck_assert(span_eq(value, buf_span(&out)));
	for (size_t n = 0; n < out.len; n++) {
		r = rd_over(out.data, n);
		ck_assert_ptr_null(mpr_value(&r).p);
		ck_assert_int_eq(r.err, TV_EOF);
	}
	r = rd_over("\xc1", 1);
	mpr_skip(&r);
	ck_assert_int_eq(r.err, TV_EFORMAT);
}
END_TEST

START_TEST(nesting)
{
	uint8_t deep[MP_DEPTH_MAX + 2];
	struct rd r;

	memset(deep, 0x91, sizeof(deep));
	deep[MP_DEPTH_MAX - 1] = 0;			/* MP_DEPTH_MAX - 1 arrays around a number */
	r = rd_over(deep, MP_DEPTH_MAX);
	mpr_skip(&r);
	ck_assert_int_eq(rd_end(&r), TV_OK);
	deep[MP_DEPTH_MAX - 1] = 0x91;
	deep[MP_DEPTH_MAX] = 0;
	r = rd_over(deep, MP_DEPTH_MAX + 1);
	mpr_skip(&r);
	ck_assert_int_eq(r.err, TV_ELIMIT);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("mpack");
	TCase *t = tcase_create("mpack");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, fresh, drop);
	tcase_add_test(t, integers_written);
	tcase_add_test(t, others_written);
	tcase_add_test(t, lengths_written);
	tcase_add_test(t, integers_read);
	tcase_add_test(t, wide_forms);
	tcase_add_test(t, wrong_types);
	tcase_add_test(t, counts_that_lie);
	tcase_add_test(t, skipping);
	tcase_add_test(t, nesting);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
