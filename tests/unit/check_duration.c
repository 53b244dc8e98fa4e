/* Durations: Go's own forms both ways, and what Go refuses. */
#include <check.h>
#include <inttypes.h>
#include <string.h>

#include "common/text/duration.h"

#define SECOND INT64_C(1000000000)
#define HOUR (3600 * SECOND)

static const struct {
	const char *text;
	int64_t ns;
} good[] = {
	{ "0", 0 },
	{ "+0", 0 },
	{ "-0", 0 },
	{ "5s", 5 * SECOND },
	{ "30s", 30 * SECOND },
	{ "1478s", 1478 * SECOND },
	{ "-5s", -5 * SECOND },
	{ "+5s", 5 * SECOND },
	{ "5.0s", 5 * SECOND },
	{ "5.6s", 5600 * SECOND / 1000 },
	{ "5.s", 5 * SECOND },
	{ ".5s", SECOND / 2 },
	{ "1.004s", 1004 * SECOND / 1000 },
	{ "1.0040s", 1004 * SECOND / 1000 },
	{ "100.00100s", 100001 * SECOND / 1000 },
	{ "10ns", 10 },
	{ "11us", 11000 },
	{ "12\xc2\xb5s", 12000 },
	{ "12\xce\xbcs", 12000 },
	{ "13ms", 13000000 },
	{ "15m", 900 * SECOND },
	{ "16h", 16 * HOUR },
	{ "3h30m", 3 * HOUR + 1800 * SECOND },
	{ "10.5s4m", 240 * SECOND + 10500 * SECOND / 1000 },
	{ "-2m3.4s", -(123400 * SECOND / 1000) },
	{ "1h2m3s4ms5us6ns", HOUR + 123 * SECOND + 4005006 },
	{ "0.3333333333333333333h", 1200 * SECOND },
	{ "9007199254740993ns", INT64_C(9007199254740993) },
	{ "9223372036854775807ns", INT64_MAX },
	{ "-9223372036854775808ns", INT64_MIN },
	{ "9223372036.854775807s", INT64_MAX },
	{ "0.100000000000000000000h", 360 * SECOND },
	{ "0.830103483285477580700h", INT64_C(2988372539827) },
};

static const struct {
	const char *text;
	enum tv_err err;
} bad[] = {
	{ "", TV_EFORMAT }, { "3", TV_EFORMAT }, { "-", TV_EFORMAT }, { "s", TV_EFORMAT }, { ".", TV_EFORMAT },
	{ "-.", TV_EFORMAT }, { ".s", TV_EFORMAT }, { "+.s", TV_EFORMAT }, { "1d", TV_EFORMAT }, { "5 s", TV_EFORMAT },
	{ " 5s", TV_EFORMAT }, { "5s ", TV_EFORMAT }, { "1h 2m", TV_EFORMAT }, { "--5s", TV_EFORMAT },
	{ "0x1s", TV_EFORMAT }, { "abc", TV_EFORMAT }, { "10S", TV_EFORMAT }, { "1s2", TV_EFORMAT },
	{ "1e3s", TV_EFORMAT }, { "\xb5s", TV_EFORMAT }, { "1\xb5s", TV_EFORMAT },
	{ "9223372036854775808ns", TV_ELIMIT }, { "-9223372036854775809ns", TV_ELIMIT },
	{ "9223372036854775.808us", TV_ELIMIT }, { "3000000h", TV_ELIMIT }, { "99999999999999999999s", TV_ELIMIT },
	{ "9223372036854ms775us808ns", TV_ELIMIT },
};

static void
print(int64_t ns, char *dst, size_t cap)
{
	struct buf b = BUF_INIT(64);

	duration_print(ns, &b);
	ck_assert(!b.failed && b.len < cap);
	memcpy(dst, buf_cstr(&b), b.len + 1);
	buf_done(&b);
}

START_TEST(parses)
{
	int64_t ns = 42;

	ck_assert_msg(duration_parse(span_str(good[_i].text), &ns) == TV_OK, "%s", good[_i].text);
	ck_assert_msg(ns == good[_i].ns, "%s: %" PRId64, good[_i].text, ns);
}
END_TEST

START_TEST(prints_what_it_parses)
{
	int64_t ns;
	char text[64];

	print(good[_i].ns, text, sizeof(text));
	ck_assert_int_eq(duration_parse(span_str(text), &ns), TV_OK);
	ck_assert_msg(ns == good[_i].ns, "%s", text);
}
END_TEST

START_TEST(refuses)
{
	int64_t ns = 42;

	ck_assert_msg(duration_parse(span_str(bad[_i].text), &ns) == bad[_i].err, "%s", bad[_i].text);
	ck_assert_msg(ns == 42, "the result is untouched");
}
END_TEST

START_TEST(prints_as_go)
{
	static const struct {
		int64_t ns;
		const char *text;
	} rows[] = {
		{ 0, "0s" }, { 1, "1ns" }, { 1100, "1.1\xc2\xb5s" }, { 2200000, "2.2ms" },
		{ 3300 * SECOND / 1000, "3.3s" },
		{ 10 * SECOND, "10s" }, { 90 * SECOND, "1m30s" }, { HOUR, "1h0m0s" },
		{ 300 * SECOND + 1000000, "5m0.001s" },
		{ -250000000, "-250ms" }, { INT64_MAX, "2562047h47m16.854775807s" },
		{ INT64_MIN, "-2562047h47m16.854775808s" },
	};
	char text[64];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		print(rows[i].ns, text, sizeof(text));
		ck_assert_str_eq(text, rows[i].text);
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("duration");
	TCase *t = tcase_create("go");
	SRunner *r;
	int failed;

	tcase_add_loop_test(t, parses, 0, (int)(sizeof(good) / sizeof(good[0])));
	tcase_add_loop_test(t, prints_what_it_parses, 0, (int)(sizeof(good) / sizeof(good[0])));
	tcase_add_loop_test(t, refuses, 0, (int)(sizeof(bad) / sizeof(bad[0])));
	tcase_add_test(t, prints_as_go);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
