/* Who uses most: a table of fixed size. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpcd/api/usage.h"

#define S INT64_C(1000000000)

/* As a keyed hash would: names are spread over the sets. */
static uint64_t
key_of(uint64_t n)
{
	n = (n + 1) * UINT64_C(0x9e3779b97f4a7c15);
	return n ^ n >> 29;
}

static void
use(struct usage_table *t, uint64_t n, int64_t now)
{
	struct usage_entry *e = usage_of(t, key_of(n), now);
	char name[32];

	if (e->name[0] == '\0') {
		snprintf(name, sizeof(name), "c%llu", (unsigned long long)n);
		usage_name(e, span_str(name));
	}
	usage_add(&e->count, &(struct usage){ .requests = 1, .bytes_in = 10, .bytes_out = 100, .timed = 1, .ns = 5 });
}

START_TEST(few_are_exact)
{
	struct usage_table t = { .v = NULL };
	const struct usage_entry *v[USAGE_NAMES];

	ck_assert_uint_eq(usage_sorted(&t, v), 0);
	ck_assert_ptr_null(usage_find(&t, 5));
	for (unsigned n = 0; n < 20; n++)
		for (unsigned i = 0; i <= n; i++)
			use(&t, n, S * n);
	ck_assert_uint_eq(usage_sorted(&t, v), 20);
	for (unsigned n = 0; n < 20; n++) {
		char name[32];

		snprintf(name, sizeof(name), "c%u", 19 - n);
		ck_assert_str_eq(v[n]->name, name);
		ck_assert_uint_eq(v[n]->count.requests, 20 - n);
		ck_assert_uint_eq(v[n]->count.bytes_out, 100 * (20 - n));
		ck_assert_int_eq(v[n]->since_ns, S * (19 - n));
	}
	usage_done(&t);
}
END_TEST

/* Of a million names that come once, those that come often are found and stay, with exact counts. */
START_TEST(a_flood_hides_nobody)
{
	struct usage_table t = { .v = NULL };
	const struct usage_entry *v[USAGE_NAMES];
	int64_t now = S;

	for (uint64_t i = 0; i < 1000000; i++) {
		use(&t, 1000 + i, now += 1000);
		if (i % 100 == 0)
			for (uint64_t n = 0; n < 5; n++)
				for (unsigned k = 0; k < 5; k++)
					use(&t, n, now);
	}
	ck_assert_uint_eq(usage_sorted(&t, v), USAGE_NAMES);
	for (unsigned n = 0; n < 5; n++) {
		ck_assert_msg(v[n]->name[0] == 'c' && v[n]->name[1] < '5' && v[n]->name[2] == '\0', "%s", v[n]->name);
		ck_assert_uint_ge(v[n]->count.requests, 49000);
		ck_assert_uint_le(v[n]->count.requests, 50000);
	}
	usage_done(&t);
}
END_TEST

/* What was busy yesterday makes room for what is busy now. */
START_TEST(the_old_give_way)
{
	struct usage_table t = { .v = NULL };
	const struct usage_entry *v[USAGE_NAMES];
	unsigned young = 0, count;

	for (uint64_t n = 0; n < 1000; n++)
		for (unsigned i = 0; i < 1000; i++)
			use(&t, n, S);
	for (uint64_t n = 5000; n < 5020; n++)
		for (unsigned i = 0; i < 3; i++)
			use(&t, n, S + 86400 * S + (int64_t)i);
	count = usage_sorted(&t, v);
	for (unsigned i = 0; i < count; i++)
		young += v[i]->since_ns > S;
	ck_assert_uint_eq(young, 20);
	usage_done(&t);
}
END_TEST

START_TEST(names_can_be_printed)
{
	struct usage_entry e = { .key = 1 };
	char name[200];

	usage_name(&e, span_str("a b\nc\x80/\x1b[1m"));
	ck_assert_str_eq(e.name, "a?b?c?/?[1m");
	memset(name, 'x', sizeof(name));
	usage_name(&e, span_of(name, sizeof(name)));
	ck_assert_uint_eq(strlen(e.name), USAGE_NAME_BYTES - 1);
	usage_name(&e, SPAN_NONE);
	ck_assert_str_eq(e.name, "");
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("usage");
	TCase *t = tcase_create("usage");
	SRunner *sr;
	int failed;

	tcase_set_timeout(t, 60);
	tcase_add_test(t, few_are_exact);
	tcase_add_test(t, a_flood_hides_nobody);
	tcase_add_test(t, the_old_give_way);
	tcase_add_test(t, names_can_be_printed);
	suite_add_tcase(s, t);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? 0 : 1;
}
