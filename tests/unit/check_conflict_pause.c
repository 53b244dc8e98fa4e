/* A node that lost its name waits longer each time. */
#include "config.h"

#include <check.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gossipd/conflict_pause.h"
#include "tests/unit/scratch.h"

#define S INT64_C(1000000000)
#define BEGIN (INT64_C(1700000000) * S)

static void
setup(void)
{
	scratch_open();
}

static int64_t
lost_at(int64_t seconds, unsigned want_count)
{
	unsigned count = 0;
	struct mono pause = conflict_pause(scratch_path("."), BEGIN + seconds * S, &count);

	ck_assert_uint_eq(count, want_count);
	return pause.ns / S;
}

START_TEST(longer_each_time)
{
	static const int64_t want[] = { 0, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300 };
	int64_t now = 0;

	for (unsigned i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		ck_assert_int_eq(lost_at(now, i + 1), want[i]);
		now += want[i] + 3;
	}
	ck_assert_int_eq(lost_at(now + 899, 1), 0);	/* 300 + 3 + 899 s after the last one */
	ck_assert_int_eq(lost_at(now + 1700, 2), 2);
	ck_assert_int_eq(lost_at(now + 1600, 1), 0);	/* the clock went back */
}
END_TEST

START_TEST(what_the_file_says_is_not_trusted)
{
	static const char *const texts[] = { "", "x", "-1 5\n", "99999999999999999999 1\n", "7\n",
		"7 99999999999999999999\n", "\xff\xff\xff" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		scratch_write(CONFLICT_PAUSE_NAME, texts[i], 0600);
		ck_assert_int_eq(lost_at(1, 1), 0);
	}
	ck_assert_int_eq(unlink(scratch_path(CONFLICT_PAUSE_NAME)), 0);
	ck_assert_int_eq(mkdir(scratch_path(CONFLICT_PAUSE_NAME), 0700), 0);
	ck_assert_int_eq(lost_at(1, 1), 0);
	ck_assert_int_eq(lost_at(2, 1), 0);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("conflict_pause");
	TCase *t = tcase_create("pause");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, scratch_close);
	tcase_add_test(t, longer_each_time);
	tcase_add_test(t, what_the_file_says_is_not_trusted);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
