/* Token buckets: the rate, the burst, tables that are full. */
#include <check.h>
#include <stdlib.h>

#include "rpcd/api/buckets.h"

#define S INT64_C(1000000000)

/* How many of `asked` requests at this moment find one in the bucket. */
static unsigned
taken(int64_t *at, const struct bucket_rate *r, int64_t now, unsigned asked)
{
	unsigned n = 0;

	for (unsigned i = 0; i < asked; i++)
		if (bucket_wait(*at, r, now) == 0) {
			bucket_take(at, r, now);
			n++;
		}
	return n;
}

static const struct { uint64_t thousandths; unsigned burst_s, first, in_ten_seconds; } rates[] = {
	{ 1000, 10, 10, 10 }, { 5000, 10, 50, 50 }, { 500, 10, 5, 5 }, { 100, 10, 1, 1 }, { 1, 10, 1, 0 },
	{ 1000000000, 10, 10000000, 10000000 }, { 3000, 0, 1, 1 }, { 3000, 1, 3, 3 }, { 7000, 10, 70, 70 },
};

START_TEST(a_burst_and_then_the_rate)
{
	struct bucket_rate r = bucket_rate_of(rates[_i].thousandths, rates[_i].burst_s);
	unsigned n, asked = rates[_i].first + 100;
	int64_t at = 0, now = 77 * S;

	n = taken(&at, &r, now, asked);
	ck_assert_uint_eq(n, rates[_i].first);
	ck_assert_int_gt(bucket_wait(at, &r, now), 0);
	n = taken(&at, &r, now + 10 * S, asked);
	ck_assert_msg(n == rates[_i].in_ten_seconds || n == rates[_i].in_ten_seconds + 1, "%u", n);
	/* However long there was no request, no more than the burst is there. */
	n = taken(&at, &r, now + 100000 * S, asked);
	ck_assert_uint_eq(n, rates[_i].first);
}
END_TEST

START_TEST(the_wait_is_exact)
{
	struct bucket_rate r = bucket_rate_of(250, 4);		/* one in four seconds */
	int64_t at = 0, now = 5 * S;

	ck_assert_uint_eq(taken(&at, &r, now, 2), 1);
	ck_assert_int_eq(bucket_wait(at, &r, now), 4 * S);
	ck_assert_int_eq(bucket_wait(at, &r, now + S), 3 * S);
	ck_assert_int_eq(bucket_wait(at, &r, now + 4 * S - 1), 1);
	ck_assert_int_eq(bucket_wait(at, &r, now + 4 * S), 0);
}
END_TEST

START_TEST(no_limit_is_none)
{
	struct bucket_rate r = { .step = 0 };

	ck_assert_int_eq(bucket_wait(INT64_MAX / 2, &r, 1), 0);
}
END_TEST

/* At a slower rate it was emptied for long; at the new one it is full after the new one's time. */
START_TEST(another_rate_holds_at_once)
{
	struct bucket_rate slow = bucket_rate_of(1, 10), fast = bucket_rate_of(10000, 10);
	int64_t at = 0, now = S;

	ck_assert_uint_eq(taken(&at, &slow, now, 5), 1);
	ck_assert_int_eq(bucket_wait(at, &slow, now), 1000 * S);
	ck_assert_int_eq(bucket_wait(at, &fast, now), S / 10);
	ck_assert_uint_eq(taken(&at, &fast, now + 1000 * S, 500), 100);
}
END_TEST

START_TEST(each_key_has_its_own)
{
	struct bucket_rate r = bucket_rate_of(1000, 1);
	struct buckets b;

	ck_assert(buckets_init(&b, 2));
	for (uint64_t key = 0; key < 16; key++)
		ck_assert_uint_eq(taken(&buckets_of(&b, key + 1, S)[key % 2], &r, S, 3), 1);
	for (uint64_t key = 0; key < 16; key++) {
		ck_assert_uint_eq(taken(&buckets_of(&b, key + 1, S)[key % 2], &r, S, 3), 0);
		ck_assert_uint_eq(taken(&buckets_of(&b, key + 1, S)[1 - key % 2], &r, S, 3), 1);
	}
	ck_assert_uint_eq(b.forgotten, 0);
	buckets_done(&b);
	ck_assert_ptr_null(b.slots);
}
END_TEST

/* A flood of keys forgets buckets of the flood, and never the one that is emptiest. */
START_TEST(a_flood_forgets_itself)
{
	struct bucket_rate r = bucket_rate_of(1000, 10);
	struct buckets b;
	unsigned served = 0;
	int64_t now = S;

	ck_assert(buckets_init(&b, 1));
	ck_assert_uint_eq(taken(buckets_of(&b, 5, now), &r, now, 20), 10);
	for (uint64_t key = 100; key < 100100; key++) {
		now += 1000;
		bucket_take(buckets_of(&b, key, now), &r, now);
		served += taken(buckets_of(&b, 5, now), &r, now, 1);
	}
	ck_assert_uint_eq(served, 0);		/* a tenth of a second has passed */
	ck_assert_uint_gt(b.forgotten, 99000);
	/* When they are full they are forgotten without loss. */
	b.forgotten = 0;
	now += 100 * S;
	for (uint64_t key = 1; key < 9; key++)
		(void)buckets_of(&b, key, now);
	ck_assert_uint_eq(b.forgotten, 0);
	buckets_done(&b);
}
END_TEST

/* No key is the one of free places. */
START_TEST(a_key_of_zero)
{
	struct bucket_rate r = bucket_rate_of(1000, 1);
	struct buckets b;

	ck_assert(buckets_init(&b, 4));
	ck_assert_uint_eq(taken(buckets_of(&b, 0, S), &r, S, 3), 1);
	ck_assert_uint_eq(taken(buckets_of(&b, 0, S), &r, S, 3), 0);
	buckets_done(&b);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("buckets");
	TCase *t = tcase_create("buckets");
	SRunner *sr;
	int failed;

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, a_burst_and_then_the_rate, 0, sizeof(rates) / sizeof(rates[0]));
	tcase_add_test(t, the_wait_is_exact);
	tcase_add_test(t, no_limit_is_none);
	tcase_add_test(t, another_rate_holds_at_once);
	tcase_add_test(t, each_key_has_its_own);
	tcase_add_test(t, a_flood_forgets_itself);
	tcase_add_test(t, a_key_of_zero);
	suite_add_tcase(s, t);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? 0 : 1;
}
