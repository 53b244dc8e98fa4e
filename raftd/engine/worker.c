/* One background job at a time. */
#include <errno.h>
#include <signal.h>
#include <time.h>

#include "raftd/engine/worker.h"

static void *
thread_main(void *arg)
{
	struct worker *w = arg;

	(void)pthread_setname_np(pthread_self(), "work");
	w->work(w->ctx);
	ev_async_send(w->loop, &w->async);
	return NULL;
}

static void
collect(struct worker *w)
{
	if (!w->running)
		return;
	if (!w->joined)
		pthread_join(w->thread, NULL);
	w->running = w->joined = false;
	w->done(w->ctx);
}

static void
on_async(struct ev_loop *loop, ev_async *a, int revents)
{
	(void)loop;
	(void)revents;
	collect(a->data);
}

void
worker_init(struct worker *w, struct ev_loop *loop)
{
	*w = (struct worker){ .loop = loop };
	ev_async_init(&w->async, on_async);
	w->async.data = w;
	ev_async_start(loop, &w->async);
}

enum tv_err
worker_start(struct worker *w, void (*work)(void *ctx), void (*done)(void *ctx), void *ctx)
{
	sigset_t all, old;

	if (w->running)
		return TV_EAGAIN;
	w->work = work;
	w->done = done;
	w->ctx = ctx;
	sigfillset(&all);		/* signals are the loop's */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	errno = pthread_create(&w->thread, NULL, thread_main, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	w->running = errno == 0;
	return w->running ? TV_OK : TV_ESYS;
}

bool
worker_ends_within(struct worker *w, struct mono time)
{
	struct timespec until;

	if (!w->running || w->joined)
		return true;
	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += (long)(time.ns % MONO_S(1).ns);
	until.tv_sec += time.ns / MONO_S(1).ns + until.tv_nsec / MONO_S(1).ns;
	until.tv_nsec %= MONO_S(1).ns;
	w->joined = pthread_timedjoin_np(w->thread, NULL, &until) == 0;
	return w->joined;
}

void
worker_stop(struct worker *w)
{
	if (w->loop == NULL)
		return;
	collect(w);
	ev_async_stop(w->loop, &w->async);
}
