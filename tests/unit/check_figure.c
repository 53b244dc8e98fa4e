/* Figures as pairs of texts, in their order. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "common/base/figure.h"

static void
append_pair(void *ctx, const char *name, const char *value)
{
	char *all = ctx;

	snprintf(all + strlen(all), 128 - strlen(all), "%s=%s;", name, value);
}

START_TEST(in_decimal)
{
	char all[128] = "";

	figure_put(append_pair, all, "none", 0);
	figure_put(append_pair, all, "most", UINT64_MAX);
	ck_assert_str_eq(all, "none=0;most=18446744073709551615;");
}
END_TEST

START_TEST(in_order)
{
	char all[128] = "";
	unsigned evaluated = 0;

	FIGURES_PUT(append_pair, all, { "b", ++evaluated }, { "a", 7 }, { "c", 1u << 31 });
	ck_assert_str_eq(all, "b=1;a=7;c=2147483648;");
	ck_assert_uint_eq(evaluated, 1);
	figures_put(append_pair, all, NULL, 0);
	ck_assert_str_eq(all, "b=1;a=7;c=2147483648;");
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("figure");
	TCase *t = tcase_create("figure");
	SRunner *r;
	int failed;

	tcase_add_test(t, in_decimal);
	tcase_add_test(t, in_order);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
