/* Paths, query strings and numbers of requests. */
#include <check.h>
#include <stdlib.h>

#include "rpcd/api/gzip.h"
#include "rpcd/api/params.h"

static struct arena arena;

static void
setup(void)
{
	arena = ARENA_INIT(1u << 20);
}

static void
teardown(void)
{
	arena_done(&arena);
}

#define is(span_, text_) ck_assert_msg(span_eqs((span_), (text_)), "%.*s", (int)(span_).len, (const char *)(span_).p)

START_TEST(query)
{
	struct params p;

	ck_assert_int_eq(params_parse(span_str("a=1&b=x+y%2B&a=2&recurse&=v&c=&&d=1=2"), &arena, &p), TV_OK);
	ck_assert_uint_eq(p.n, 7);
	is(params_get(&p, "a"), "1");			/* the first counts */
	is(params_get(&p, "b"), "x y+");
	is(params_get(&p, "d"), "1=2");
	is(params_get(&p, ""), "v");
	ck_assert(params_has(&p, "recurse") && params_has(&p, "c") && !params_has(&p, "e"));
	ck_assert_ptr_null(params_get(&p, "e").p);
	ck_assert_int_eq(params_parse(span_str(""), &arena, &p), TV_OK);
	ck_assert_uint_eq(p.n, 0);
}
END_TEST

START_TEST(bad_escapes)
{
	static const char *const bad[] = { "x=%zz", "%", "a=%1", "%g0=1", "a=1&b=%%%" };
	struct params p;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(params_parse(span_str(bad[i]), &arena, &p) == TV_EFORMAT, "%s", bad[i]);
	struct span s;
	ck_assert_int_eq(path_decode(span_str("/v1/%4"), &arena, &s), TV_EFORMAT);
}
END_TEST

START_TEST(too_many)
{
	struct buf b = BUF_INIT(65536);
	struct params p;

	for (int i = 0; i < PARAMS_MAX; i++)
		buf_puts(&b, "k&");
	ck_assert_int_eq(params_parse(buf_span(&b), &arena, &p), TV_OK);
	ck_assert_uint_eq(p.n, PARAMS_MAX);
	buf_puts(&b, "k");
	ck_assert_int_eq(params_parse(buf_span(&b), &arena, &p), TV_ELIMIT);
	buf_done(&b);
}
END_TEST

START_TEST(encoding)
{
	struct buf b = BUF_INIT(65536);
	struct params p;

	ck_assert_int_eq(params_parse(span_str("release=a+b&cas=1&acquire=%26&cas=0"), &arena, &p), TV_OK);
	params_encode(&p, &b);
	ck_assert_str_eq(buf_cstr(&b), "acquire=%26&cas=1&cas=0&release=a+b");
	buf_reset(&b);
	path_encode(span_str("/v1/kv/a b?c%\xc3\xa9;="), &b);
	ck_assert_str_eq(buf_cstr(&b), "/v1/kv/a%20b%3Fc%25%C3%A9;=");
	buf_done(&b);
}
END_TEST

START_TEST(targets)
{
	static const struct { const char *in, *path, *query; } v[] = {
		{ "/v1/kv/a?raw", "/v1/kv/a", "raw" }, { "/v1/kv/a", "/v1/kv/a", "" }, { "/a?b?c", "/a", "b?c" },
		{ "http://h:1/v1/x?y", "/v1/x", "y" }, { "http://h", "/", "" }, { "http://h?q", "/", "q" },
		{ "*", "*", "" },
		{ "?x", "/", "x" },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct span path, q;

		target_split(span_str(v[i].in), &path, &q);
		is(path, v[i].path);
		is(q, v[i].query);
	}
}
END_TEST

START_TEST(cleaning)
{
	static const struct { const char *in, *out; } v[] = {
		{ "/", "/" }, { "/v1/kv/a", "/v1/kv/a" }, { "/v1/kv/a/", "/v1/kv/a/" }, { "/v1/kv//a", "/v1/kv/a" },
		{ "/v1/kv/./a", "/v1/kv/a" }, { "/v1/kv/../a", "/v1/a" }, { "/..", "/" }, { "/a/..", "/" },
		{ "//", "/" },
		{ "/a/.", "/a" }, { "/a/b/../", "/a/" }, { "v1", "/v1" }, { "/a/.../b", "/a/.../b" },
		{ "/a/..b", "/a/..b" },
		{ "/a/b//", "/a/b/" }, { "/../../x", "/x" },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct span s = path_clean(span_str(v[i].in), &arena);

		is(s, v[i].out);
		is(path_clean(s, &arena), v[i].out);
	}
}
END_TEST

START_TEST(printable)
{
	static const char *const good[] = { "/a b", "/\xc3\xa9\xe2\x82\xac", "/\xff\xfe", "/~", "/\xf0\x9f\x98\x80" };
	static const struct span bad[] = {
		{ (const uint8_t *)"/\x07", 2 }, { (const uint8_t *)"/a\0b", 4 }, { (const uint8_t *)"/\x7f", 2 },
		{ (const uint8_t *)"/\xc2\x85", 3 }, { (const uint8_t *)"/\xe2\x80\x8b", 4 },
		{ (const uint8_t *)"/\xef\xbb\xbf", 4 },
		{ (const uint8_t *)"/\n", 2 },
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		ck_assert_msg(path_printable(span_str(good[i])), "%s", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(!path_printable(bad[i]), "%zu", i);
}
END_TEST

START_TEST(path_escapes)
{
	struct span s;

	ck_assert_int_eq(path_decode(span_str("/v1/kv/a%2Fb+c%20d%3f%00"), &arena, &s), TV_OK);
	ck_assert(span_eq(s, span_of("/v1/kv/a/b+c d?\0", 16)));
}
END_TEST

START_TEST(numbers)
{
	static const struct { const char *in; enum tv_err err; uint64_t v; const char *why; } v[] = {
		{ "0", TV_OK, 0, NULL }, { "18446744073709551615", TV_OK, UINT64_MAX, NULL },
		{ "18446744073709551616", TV_ELIMIT, 0,
		    "strconv.ParseUint: parsing \"18446744073709551616\": value out of range" },
		{ "abc", TV_EFORMAT, 0, "strconv.ParseUint: parsing \"abc\": invalid syntax" },
		{ "", TV_EFORMAT, 0, "strconv.ParseUint: parsing \"\": invalid syntax" },
		{ "-1", TV_EFORMAT, 0, "strconv.ParseUint: parsing \"-1\": invalid syntax" },
		{ "1 ", TV_EFORMAT, 0, "strconv.ParseUint: parsing \"1 \": invalid syntax" },
		{ "\"\n", TV_EFORMAT, 0, "strconv.ParseUint: parsing \"\\\"\\n\": invalid syntax" },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct buf b = BUF_INIT(4096);
		uint64_t got;

		ck_assert_int_eq(u64_parse(span_str(v[i].in), &got), v[i].err);
		if (v[i].err == TV_OK) {
			ck_assert_uint_eq(got, v[i].v);
		} else {
			u64_why(span_str(v[i].in), &b);
			ck_assert_str_eq(buf_cstr(&b), v[i].why);
		}
		buf_done(&b);
	}
}
END_TEST

START_TEST(whole_numbers)
{
	static const struct { const char *in; enum tv_err err; int64_t v; } v[] = {
		{ "0", TV_OK, 0 }, { "-0", TV_OK, 0 }, { "+12", TV_OK, 12 }, { "-12", TV_OK, -12 }, { "007", TV_OK, 7 },
		{ "9223372036854775807", TV_OK, INT64_MAX }, { "-9223372036854775808", TV_OK, INT64_MIN },
		{ "9223372036854775808", TV_ELIMIT, 0 }, { "-9223372036854775809", TV_ELIMIT, 0 },
		{ "99999999999999999999", TV_ELIMIT, 0 }, { "", TV_EFORMAT, 0 }, { "-", TV_EFORMAT, 0 }, { "+", TV_EFORMAT, 0 },
		{ "--1", TV_EFORMAT, 0 }, { "1-", TV_EFORMAT, 0 }, { " 1", TV_EFORMAT, 0 },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		int64_t got;

		ck_assert_msg(i64_parse(span_str(v[i].in), &got) == v[i].err, "%s", v[i].in);
		ck_assert(v[i].err != TV_OK || got == v[i].v);
	}
}
END_TEST

START_TEST(accepting_gzip)
{
	static const char *const yes[] = { "gzip", "deflate, gzip", "*", "gzip;q=0.5", "GZIP, br",
	    "br;q=0, gzip ; q=1" };
	static const char *const no[] = { "", "deflate", "gzip;q=0", "gzip; q=0.0", "xgzip", "identity;q=1, *;q=0" };

	ck_assert(!gzip_accepted(NULL));
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		ck_assert_msg(gzip_accepted(yes[i]), "%s", yes[i]);
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		ck_assert_msg(!gzip_accepted(no[i]), "%s", no[i]);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("params");
	TCase *t = tcase_create("params");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, query);
	tcase_add_test(t, bad_escapes);
	tcase_add_test(t, too_many);
	tcase_add_test(t, encoding);
	tcase_add_test(t, targets);
	tcase_add_test(t, cleaning);
	tcase_add_test(t, printable);
	tcase_add_test(t, path_escapes);
	tcase_add_test(t, numbers);
	tcase_add_test(t, whole_numbers);
	tcase_add_test(t, accepting_gzip);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
