/* Jobs in a thread: in order, one at a time, what came of them on the loop, and none lost at the end. */
#include <check.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/proc/jobs.h"

#define COUNT 1000

static struct ev_loop *loop;
static struct jobs *jobs;
static pthread_t loop_thread;
static unsigned worked, finished;
static bool at_once;

static void
work(void *ctx)
{
	ck_assert(!pthread_equal(pthread_self(), loop_thread));
	ck_assert_uint_eq(*(unsigned *)ctx, worked);
	worked++;
}

static void
done(void *ctx)
{
	ck_assert(pthread_equal(pthread_self(), loop_thread));
	ck_assert(!at_once);
	ck_assert_uint_eq(*(unsigned *)ctx, finished);
	finished++;
}

static void
setup(void)
{
	loop = ev_loop_new(0);
	loop_thread = pthread_self();
	jobs = jobs_new(loop);
	worked = finished = 0;
}

static void
teardown(void)
{
	jobs_free(jobs);
	ev_loop_destroy(loop);
}

START_TEST(in_order)
{
	unsigned numbers[COUNT];

	for (unsigned i = 0; i < COUNT; i++) {
		numbers[i] = i;
		at_once = true;
		ck_assert_int_eq(jobs_add(jobs, work, done, &numbers[i]), TV_OK);
		at_once = false;
		if (i % 100 == 99)
			ev_run(loop, EVRUN_NOWAIT);
	}
	while (finished < COUNT)
		ev_run(loop, EVRUN_ONCE);
	ck_assert_uint_eq(worked, COUNT);
	jobs_stop(jobs);
}
END_TEST

START_TEST(the_end)
{
	unsigned numbers[COUNT];

	for (unsigned i = 0; i < COUNT; i++) {
		numbers[i] = i;
		ck_assert_int_eq(jobs_add(jobs, work, done, &numbers[i]), TV_OK);
	}
	jobs_stop(jobs);
	ck_assert_uint_eq(worked, COUNT);
	ck_assert_uint_eq(finished, COUNT);
	ck_assert_int_eq(jobs_add(jobs, work, done, &numbers[0]), TV_ESYS);
	jobs_stop(jobs);
}
END_TEST

START_TEST(none_at_all)
{
	jobs_stop(jobs);
	jobs_stop(NULL);
	jobs_free(NULL);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("jobs");
	TCase *t = tcase_create("all");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, in_order);
	tcase_add_test(t, the_end);
	tcase_add_test(t, none_at_all);
	suite_add_tcase(s, t);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
