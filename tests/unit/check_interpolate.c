/* Texts with ${...}: what each form gives, what is refused and where, limits; and groups of regular expressions. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/text/interpolate.h"
#include "common/text/regex.h"

#define S(text_) ((struct span){ (const uint8_t *)(text_), sizeof(text_) - 1 })

static struct buf out, why;

static void
setup(void)
{
	buf_init(&out, 4096);
	buf_init(&why, 4096);
}

static void
teardown(void)
{
	buf_done(&out);
	buf_done(&why);
}

static enum tv_err
eval(const char *text)
{
	static const struct span groups[] = { S("geo-db-eu"), S("db"), S(""), S("7") };
	const struct interpolation v = { .full = S("geo-db-eu"), .prefix = S("geo-"), .suffix = S("db-eu"), .segment = S(""),
	    .groups = groups, .group_count = 4 };

	buf_reset(&out);
	buf_reset(&why);
	return interpolate(span_str(text), &v, &out, &why);
}

static const struct { const char *text, *result; } good[] = {
	{ "", "" }, { "plain $ text { } \\n \"", "plain $ text { } \\n \"" }, { "${name.full}", "geo-db-eu" },
	{ "a-${name.prefix}-b-${name.suffix}-c", "a-geo--b-db-eu-c" }, { "[${agent.segment}]", "[]" },
	{ "${ name.full }", "geo-db-eu" }, { "${match(0)}", "geo-db-eu" }, { "${match(1)}", "db" }, { "[${match(2)}]", "[]" },
	{ "[${match(4)}${match(99)}]", "[]" }, { "[${match(-1)}]", "[]" }, { "${match( 1 )}", "db" }, { "${match(\"1\")}", "db" },
	{ "${match(match(3) - 6)}", "db" }, { "$${name.full}", "${name.full}" }, { "$$${name.full}", "$${name.full}" },
	{ "$$", "$$" }, { "$", "$" }, { "${1}", "1" }, { "${1 + 2 * 3}", "7" }, { "${(1 + 2) * 3}", "9" }, { "${7 / 2}-${7 % 4}", "3-3" },
	{ "${-3 + 1}", "-2" }, { "${1 - -1}", "2" }, { "${10 - 2 - 3}", "5" }, { "${match(3) * 2}", "14" },
	{ "${\"text\"}", "text" }, { "${\"a \\\"q\\\" \\\\ \\t\"}", "a \"q\" \\ \t" }, { "${\"<${name.suffix}>\"}", "<db-eu>" },
	{ "${\"${\"${match(1)}\"}\"}", "db" }, { "x${\"\"}y", "xy" }, { "${match(\"${3 - 2}\")}", "db" },
	{ "${-9 / -1}", "9" }, { "${5 % -1}", "0" },
};

START_TEST(good_ones)
{
	ck_assert_msg(eval(good[_i].text) == TV_OK, "%s: %s", good[_i].text, buf_cstr(&why));
	ck_assert_str_eq(buf_cstr(&out), good[_i].result);
}
END_TEST

static const struct { const char *text; enum tv_err err; const char *why; } bad[] = {
	{ "${", TV_EFORMAT, "1:3: expected an expression" }, { "${}", TV_EFORMAT, "1:3: expected an expression" },
	{ "a\nb ${name.full", TV_EFORMAT, "2:3: expected } for this ${" }, { "${name.full name.full}", TV_EFORMAT, "1:13: expected }" },
	{ "${match(1}", TV_EFORMAT, "1:10: expected )" }, { "${match()}", TV_EFORMAT, "1:9: expected an expression" },
	{ "${\"x}", TV_EFORMAT, "1:4: expected \" for this text" }, { "${\"\\x\"}", TV_EFORMAT, "1:5: unknown escape sequence" },
	{ "${\"\\", TV_EFORMAT, "1:5: unknown escape sequence" },
	{ "${(1}", TV_EFORMAT, "1:5: expected )" }, { "${1 +}", TV_EFORMAT, "1:6: expected an expression" },
	{ "${123456789012345678}", TV_EFORMAT, "1:3: a number has at most 17 digits" },
	{ "${name.nope}", TV_EINVAL, "1:3: unknown variable accessed: name.nope" },
	{ "${name}", TV_EINVAL, "1:3: unknown variable accessed: name" }, { "${ -}", TV_EFORMAT, "1:5: expected an expression" },
	{ "${shout(1)}", TV_EINVAL, "1:3: unknown function called: shout" }, { "${1 / 0}", TV_EINVAL, "1:5: divide by zero" },
	{ "${1 % (2 - 2)}", TV_EINVAL, "1:5: divide by zero" }, { "${name.full + 1}", TV_EINVAL, "1:13: not a number: geo-db-eu" },
	{ "${match(agent.segment)}", TV_EINVAL, "1:3: not a number: " }, { "${match(\"-\")}", TV_EINVAL, "1:3: not a number: -" },
	{ "${-\"1234567890123456789\"}", TV_EINVAL, "1:3: not a number: 1234567890123456789" },
};

START_TEST(bad_ones)
{
	ck_assert_msg(eval(bad[_i].text) == bad[_i].err, "%s", bad[_i].text);
	ck_assert_str_eq(buf_cstr(&why), bad[_i].why);
}
END_TEST

START_TEST(limits)
{
	struct buf text = BUF_INIT(1u << 20);

	for (int i = 0; i < 100; i++)
		buf_puts(&text, i == 0 ? "${" : "match(");
	ck_assert_int_eq(eval(buf_cstr(&text)), TV_EFORMAT);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&why), "nested too deeply"));
	buf_reset(&text);
	for (int i = 0; i < 100000; i++)
		buf_u8(&text, i == 0 ? '$' : i == 1 ? '{' : '-');
	ck_assert_int_eq(eval(buf_cstr(&text)), TV_EFORMAT);
	buf_reset(&text);
	for (int i = 0; i < 1000; i++)
		buf_puts(&text, "${name.full}");
	ck_assert_int_eq(eval(buf_cstr(&text)), TV_ELIMIT);
	ck_assert_uint_le(out.len, 4096);
	buf_done(&text);
}
END_TEST

/* -- groups -- */

static const struct { struct span pattern, text; const char *groups[5]; } finds[] = {
	{ S("^geo-(.*)-([^-]+)$"), S("geo-db-eu"), { "geo-db-eu", "db", "eu", NULL } },
	{ S("b(.)"), S("abcbd"), { "bc", "c", NULL } }, { S("(a)|(b)"), S("b"), { "b", "", "b", NULL } },
	{ S("(?:x)(?P<n>y)(z)?"), S("xy"), { "xy", "y", "", NULL } }, { S("x"), S("abc"), { NULL } },
	{ S(""), S("abc"), { "", NULL } }, { S("(a|ab)(c|bcd)"), S("abcd"), { "abcd", "a", "bcd", NULL } },
	{ S("(.)+"), S("abc"), { "abc", "c", NULL } }, { S("a(.)b"), S("a\xff" "b"), { "a\xef\xbf\xbd" "b", "\xef\xbf\xbd", NULL } },
};

START_TEST(groups)
{
	struct regex *re = regex_new_groups(finds[_i].pattern, &why);
	struct span got[5];
	uint64_t steps = 100000;
	unsigned n, i;

	ck_assert_ptr_nonnull(re);
	ck_assert_int_eq(regex_match(re, finds[_i].text, &steps, got, 5, &n), TV_OK);
	for (i = 0; finds[_i].groups[i] != NULL; i++) {
		ck_assert_uint_lt(i, n);
		ck_assert_msg(span_eqs(got[i], finds[_i].groups[i]), "%u: %.*s", i, (int)got[i].len, (const char *)got[i].p);
	}
	ck_assert_uint_eq(n, i);
	ck_assert_int_eq(regex_match(re, finds[_i].text, &steps, got, 1, &n), TV_OK);	/* no more than there is room for */
	ck_assert_uint_le(n, 1);
	regex_free(re);
}
END_TEST

START_TEST(groups_within_budget)
{
	struct regex *re = regex_new_groups(S("^(a+)+$"), &why);
	struct buf text = BUF_INIT(8192);
	uint64_t steps = 400000;
	struct span got[2];
	unsigned n = 7;

	for (int i = 0; i < 1000; i++)
		buf_u8(&text, 'a');
	buf_puts(&text, "!");
	ck_assert_int_eq(regex_match(re, buf_span(&text), &steps, got, 2, &n), TV_ELIMIT);
	ck_assert_uint_eq(n, 0);
	regex_free(re);
	ck_assert_ptr_null(regex_new_groups(S("(a)\\1"), &why));
	buf_done(&text);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("interpolate");
	TCase *t = tcase_create("interpolate");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, good_ones, 0, sizeof(good) / sizeof(good[0]));
	tcase_add_loop_test(t, bad_ones, 0, sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(t, limits);
	tcase_add_loop_test(t, groups, 0, sizeof(finds) / sizeof(finds[0]));
	tcase_add_test(t, groups_within_budget);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
