/* Arrays that grow: what they hold stays, and so does all where there is no memory. */
#include <check.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/base/array.h"

START_TEST(holds_what_it_held)
{
	uint32_t *v = NULL;
	size_t cap = 0;

	for (uint32_t i = 0; i < 10000; i++) {
		ck_assert(array_reserve(&v, &cap, i + 1, sizeof(*v)));
		ck_assert_uint_gt(cap, i);
		v[i] = i;
	}
	for (uint32_t i = 0; i < 10000; i++)
		ck_assert_uint_eq(v[i], i);
	ck_assert_uint_eq(cap, 16384);
	free(v);
}
END_TEST

START_TEST(many_at_once)
{
	uint64_t *v = NULL;
	size_t cap = 0;

	ck_assert(array_reserve(&v, &cap, 0, sizeof(*v)));
	ck_assert_ptr_null(v);
	ck_assert(array_reserve(&v, &cap, 1000, sizeof(*v)));
	ck_assert_uint_eq(cap, 1024);
	v[999] = 7;
	ck_assert(array_reserve(&v, &cap, 1024, sizeof(*v)));
	ck_assert_uint_eq(cap, 1024);
	free(v);
}
END_TEST

START_TEST(too_many)
{
	uint64_t *v = NULL, *before;
	size_t cap = 0;

	ck_assert(array_reserve(&v, &cap, 3, sizeof(*v)));
	v[2] = 5;
	before = v;
	ck_assert(!array_reserve(&v, &cap, SIZE_MAX, sizeof(*v)));
	ck_assert(!array_reserve(&v, &cap, SIZE_MAX / 4, sizeof(*v)));
	ck_assert(!array_reserve(&v, &cap, SIZE_MAX / sizeof(*v), sizeof(*v)));
	ck_assert_ptr_eq(v, before);
	ck_assert_uint_eq(v[2], 5);
	ck_assert_uint_eq(cap, 16);
	free(v);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("array");
	TCase *t = tcase_create("array");
	SRunner *r;
	int failed;

	tcase_add_test(t, holds_what_it_held);
	tcase_add_test(t, many_at_once);
	tcase_add_test(t, too_many);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
