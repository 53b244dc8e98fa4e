/* Jobs in a thread: in order, one at a time, what came of them on the loop, and none lost at the end. */
#include <check.h>
#include <pthread.h>
#include <stdbool.h>
#include <semaphore.h>
#include <stdlib.h>

#include "common/proc/jobs.h"

#define COUNT 1000

static struct ev_loop *loop;
static struct jobs *jobs;
static pthread_t loop_thread;
static unsigned worked, finished, halts;
static sem_t go_on;
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
	jobs = jobs_new(loop, "jobs");
	worked = finished = halts = 0;
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

static void
halt(void *ctx)
{
	(void)ctx;
	while (sem_wait(&go_on) != 0)
		;
	halts++;
}

/* Begins the same again, as one does whose work was not all. */
static void
halted(void *ctx)
{
	ck_assert(!jobs_busy(jobs));
	if (++finished < 3)
		ck_assert_int_eq(jobs_add_only(jobs, halt, halted, ctx), TV_OK);
}

START_TEST(one_only)
{
	sem_init(&go_on, 0, 0);
	ck_assert(!jobs_busy(jobs));
	ck_assert(jobs_end_within(jobs, MONO_ZERO));
	ck_assert_int_eq(jobs_add_only(jobs, halt, halted, NULL), TV_OK);
	ck_assert(jobs_busy(jobs));
	ck_assert_int_eq(jobs_add_only(jobs, halt, halted, NULL), TV_EAGAIN);
	ck_assert(!jobs_end_within(jobs, MONO_MS(30)));
	sem_post(&go_on);
	ck_assert(jobs_end_within(jobs, MONO_S(60)));
	ck_assert_uint_eq(halts, 1);
	ck_assert_uint_eq(finished, 0);			/* that is the loop's */
	ck_assert(jobs_busy(jobs));
	ck_assert_int_eq(jobs_add_only(jobs, halt, halted, NULL), TV_EAGAIN);
	sem_post(&go_on);
	sem_post(&go_on);
	while (finished < 3)
		ev_run(loop, EVRUN_ONCE);
	ck_assert(!jobs_busy(jobs));
	ck_assert_uint_eq(halts, 3);
	jobs_stop(jobs);
	ck_assert_int_eq(jobs_add_only(jobs, halt, halted, NULL), TV_ESYS);
}
END_TEST

/* What begins the same again when it is done is refused at the end. */
static void
halted_at_the_end(void *ctx)
{
	finished++;
	ck_assert_int_eq(jobs_add_only(jobs, halt, halted_at_the_end, ctx), TV_ESYS);
}

START_TEST(the_end_of_one)
{
	sem_init(&go_on, 0, 1);
	ck_assert_int_eq(jobs_add_only(jobs, halt, halted_at_the_end, NULL), TV_OK);
	jobs_stop(jobs);
	ck_assert_uint_eq(finished, 1);
	ck_assert(!jobs_busy(jobs));
	ck_assert(jobs_end_within(jobs, MONO_ZERO));
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
	tcase_add_test(t, one_only);
	tcase_add_test(t, the_end_of_one);
	tcase_add_test(t, none_at_all);
	suite_add_tcase(s, t);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
