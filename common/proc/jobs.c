/* Jobs in a thread, in order; see jobs.h. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "common/proc/jobs.h"

struct job {
	STAILQ_ENTRY(job) link;
	void (*work)(void *ctx);
	void (*done)(void *ctx);
	void *ctx;
};

STAILQ_HEAD(job_list, job);

struct jobs {
	struct ev_loop *loop;
	ev_async async;
	pthread_t thread;
	bool running, stopped;
	pthread_mutex_t lock;			/* guards what follows */
	pthread_cond_t wake;
	struct job_list queue, finished;
	bool stop;
};

static void *
thread_main(void *arg)
{
	struct jobs *j = arg;
	struct job *job;

	pthread_mutex_lock(&j->lock);
	for (;;) {
		while ((job = STAILQ_FIRST(&j->queue)) == NULL && !j->stop)
			pthread_cond_wait(&j->wake, &j->lock);
		if (job == NULL)
			break;
		STAILQ_REMOVE_HEAD(&j->queue, link);
		pthread_mutex_unlock(&j->lock);
		job->work(job->ctx);
		pthread_mutex_lock(&j->lock);
		STAILQ_INSERT_TAIL(&j->finished, job, link);
		ev_async_send(j->loop, &j->async);
	}
	pthread_mutex_unlock(&j->lock);
	return NULL;
}

static void
collect(struct jobs *j)
{
	struct job_list list = STAILQ_HEAD_INITIALIZER(list);
	struct job *job;

	pthread_mutex_lock(&j->lock);
	STAILQ_CONCAT(&list, &j->finished);
	pthread_mutex_unlock(&j->lock);
	while ((job = STAILQ_FIRST(&list)) != NULL) {
		STAILQ_REMOVE_HEAD(&list, link);
		if (job->done != NULL)
			job->done(job->ctx);
		free(job);
	}
}

static void
on_async(struct ev_loop *loop, ev_async *w, int revents)
{
	(void)loop;
	(void)revents;
	collect(w->data);
}

struct jobs *
jobs_new(struct ev_loop *loop)
{
	struct jobs *j = calloc(1, sizeof(*j));

	if (j == NULL)
		return NULL;
	j->loop = loop;
	STAILQ_INIT(&j->queue);
	STAILQ_INIT(&j->finished);
	pthread_mutex_init(&j->lock, NULL);
	pthread_cond_init(&j->wake, NULL);
	ev_async_init(&j->async, on_async);
	j->async.data = j;
	ev_async_start(loop, &j->async);
	return j;
}

/* The thread takes no signals: they are the loop's. */
static bool
start_thread(struct jobs *j)
{
	sigset_t all, old;

	if (j->running)
		return true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	errno = pthread_create(&j->thread, NULL, thread_main, j);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	j->running = errno == 0;
	return j->running;
}

enum tv_err
jobs_add(struct jobs *j, void (*work)(void *ctx), void (*done)(void *ctx), void *ctx)
{
	struct job *job;

	if (j->stopped || !start_thread(j))
		return TV_ESYS;
	job = malloc(sizeof(*job));
	if (job == NULL)
		return TV_ENOMEM;
	*job = (struct job){ .work = work, .done = done, .ctx = ctx };
	pthread_mutex_lock(&j->lock);
	STAILQ_INSERT_TAIL(&j->queue, job, link);
	pthread_cond_signal(&j->wake);
	pthread_mutex_unlock(&j->lock);
	return TV_OK;
}

void
jobs_stop(struct jobs *j)
{
	if (j == NULL || j->stopped)
		return;
	j->stopped = true;
	pthread_mutex_lock(&j->lock);
	j->stop = true;
	pthread_cond_signal(&j->wake);
	pthread_mutex_unlock(&j->lock);
	if (j->running)
		pthread_join(j->thread, NULL);
	collect(j);
	ev_async_stop(j->loop, &j->async);
}

void
jobs_free(struct jobs *j)
{
	if (j == NULL)
		return;
	pthread_cond_destroy(&j->wake);
	pthread_mutex_destroy(&j->lock);
	free(j);
}
