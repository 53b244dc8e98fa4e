/* Threads: their names, their signals, their stacks, and what is left when none can be started. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/proc/thread.h"

struct seen {
	char name[32];
	bool blocked;			/* all signals that can be */
	bool detached;
	size_t stack;
	void *arg;
	sem_t done;			/* of a detached one */
};

static void *
look_around(void *arg)
{
	struct seen *s = arg;
	pthread_attr_t attr;
	sigset_t mask;
	int state;

	s->arg = arg;
	s->blocked = true;
	(void)pthread_getname_np(pthread_self(), s->name, sizeof(s->name));
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	for (int i = 1; i < SIGRTMAX; i++)
		if (i != SIGKILL && i != SIGSTOP && (i < 32 || i >= SIGRTMIN))	/* what is between is glibc's */
			s->blocked = s->blocked && sigismember(&mask, i) == 1;
	if (pthread_getattr_np(pthread_self(), &attr) == 0) {
		(void)pthread_attr_getstacksize(&attr, &s->stack);
		(void)pthread_attr_getdetachstate(&attr, &state);
		s->detached = state == PTHREAD_CREATE_DETACHED;
		(void)pthread_attr_destroy(&attr);
	}
	sem_post(&s->done);
	return s;
}

static bool
takes_signals(void)
{
	sigset_t mask;

	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	return sigismember(&mask, SIGTERM) == 0 && sigismember(&mask, SIGCHLD) == 0 && sigismember(&mask, SIGUSR1) == 1;
}

/* The caller's own mask, which is not empty, stays as it was. */
static void
block_one(void)
{
	sigset_t one;

	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	pthread_sigmask(SIG_SETMASK, &one, NULL);
}

START_TEST(joined)
{
	struct seen s = { .stack = 0 };
	char name[] = "a-thread";
	pthread_t t;
	void *result;

	sem_init(&s.done, 0, 0);
	block_one();
	ck_assert_int_eq(thread_start(&t, name, look_around, &s), 0);
	memset(name, 'x', sizeof(name) - 1);		/* it was copied */
	ck_assert(takes_signals());
	ck_assert_int_eq(pthread_join(t, &result), 0);
	ck_assert_ptr_eq(result, &s);
	ck_assert_ptr_eq(s.arg, &s);
	ck_assert(s.blocked && !s.detached);
}
END_TEST

START_TEST(names)
{
	static const char *const given[] = { "log", "", "fifteen-letters", "sixteen-letters-", "far more than a name may have" };
	static const char *const shown[] = { "log", "", "fifteen-letters", "sixteen-letters", "far more than a" };

	for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
		struct seen s = { .stack = 0 };
		pthread_t t;

		sem_init(&s.done, 0, 0);
		ck_assert_int_eq(thread_start(&t, given[i], look_around, &s), 0);
		pthread_join(t, NULL);
		ck_assert_str_eq(s.name, shown[i]);
	}
}
END_TEST

START_TEST(detached)
{
	struct seen s = { .stack = 0 };

	sem_init(&s.done, 0, 0);
	block_one();
	ck_assert_int_eq(thread_start_detached("alone", 512u << 10, look_around, &s), 0);
	ck_assert(takes_signals());
	while (sem_wait(&s.done) != 0)
		;
	ck_assert_str_eq(s.name, "alone");
	ck_assert(s.blocked && s.detached);
	ck_assert_uint_le(s.stack, 1u << 20);
	ck_assert_uint_ge(s.stack, 512u << 10);
	s.stack = 0;
	ck_assert_int_eq(thread_start_detached("alone", 0, look_around, &s), 0);
	while (sem_wait(&s.done) != 0)
		;
	ck_assert_uint_gt(s.stack, 1u << 20);
}
END_TEST

/* The caller is told, and nothing runs: a stack that is too small, and one that there is no memory for. */
START_TEST(none)
{
	struct seen s = { .stack = 0 };

	sem_init(&s.done, 0, 0);
	block_one();
	ck_assert_int_eq(thread_start_detached("alone", 1, look_around, &s), EINVAL);
	ck_assert_int_eq(thread_start_detached("alone", (size_t)1 << 60, look_around, &s), EAGAIN);
	ck_assert(takes_signals());
	ck_assert_ptr_null(s.arg);
	ck_assert_str_eq(s.name, "");
}
END_TEST

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static bool signalled;

static void *
signal_it(void *arg)
{
	pthread_mutex_lock(&lock);
	signalled = true;
	pthread_cond_signal(&cond);
	pthread_mutex_unlock(&lock);
	return arg;
}

START_TEST(waiting)
{
	struct mono begun = clock_mono(), end = mono_add(begun, MONO_MS(1050));
	pthread_t t;

	pthread_mutex_lock(&lock);
	while (thread_wait_until(&cond, &lock, end))
		;
	ck_assert(!mono_before(clock_mono(), end));
	ck_assert(!thread_wait_until(&cond, &lock, begun));	/* which has passed already */
	ck_assert(!thread_wait_until(&cond, &lock, MONO_ZERO));
	ck_assert_int_eq(thread_start(&t, "signals", signal_it, NULL), 0);
	while (!signalled)
		ck_assert(thread_wait_until(&cond, &lock, mono_add(begun, MONO_S(60))));
	pthread_mutex_unlock(&lock);
	pthread_join(t, NULL);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("thread");
	TCase *t = tcase_create("all");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_test(t, joined);
	tcase_add_test(t, names);
	tcase_add_test(t, detached);
	tcase_add_test(t, none);
	tcase_add_test(t, waiting);
	suite_add_tcase(s, t);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
