/* How threads are started; see thread.h. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/proc/thread.h"

struct beginning {
	char name[THREAD_NAME_BYTES];
	void *(*start)(void *arg);
	void *arg;
};

/* A thread can name itself only: another one's name is a file below /proc, which the walls hide. */
static void *
thread_main(void *arg)
{
	struct beginning b = *(struct beginning *)arg;

	free(arg);
	(void)pthread_setname_np(pthread_self(), b.name);
	return b.start(b.arg);
}

static int
start_thread(pthread_t *out, const pthread_attr_t *attr, const char *name, void *(*start)(void *arg), void *arg)
{
	struct beginning *b = malloc(sizeof(*b));
	sigset_t all, old;
	int ret;

	if (b == NULL)
		return ENOMEM;
	*b = (struct beginning){ .start = start, .arg = arg };
	(void)snprintf(b->name, sizeof(b->name), "%s", name);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(out, attr, thread_main, b);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ret != 0)
		free(b);
	return ret;
}

int
thread_start(pthread_t *out, const char *name, void *(*start)(void *arg), void *arg)
{
	return start_thread(out, NULL, name, start, arg);
}

int
thread_start_detached(const char *name, size_t stack_bytes, void *(*start)(void *arg), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;
	int ret = pthread_attr_init(&attr);

	if (ret != 0)
		return ret;
	if (stack_bytes > 0)
		ret = pthread_attr_setstacksize(&attr, stack_bytes);
	if (ret == 0)
		ret = pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (ret == 0)
		ret = start_thread(&thread, &attr, name, start, arg);
	(void)pthread_attr_destroy(&attr);
	return ret;
}

bool
thread_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, struct mono end)
{
	const struct timespec until = { end.ns / MONO_S(1).ns, end.ns % MONO_S(1).ns };

	return pthread_cond_clockwait(cond, lock, CLOCK_MONOTONIC, &until) == 0;
}
