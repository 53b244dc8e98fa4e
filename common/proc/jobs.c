/* Jobs in a thread, in order; see jobs.h. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "common/base/clock.h"
#include "common/proc/jobs.h"
#include "common/proc/thread.h"

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
	const char *name;
	pthread_t thread;
	bool running, stopped;
	unsigned pending;			/* added, and not collected yet */
	pthread_mutex_t lock;			/* guards what follows */
	pthread_cond_t wake, idle;
	struct job_list queue, finished;
	unsigned left;				/* to run, or running */
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
		if (--j->left == 0)
			pthread_cond_signal(&j->idle);
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
		j->pending--;
		if (job->done != NULL)
			job->done(job->ctx);
		free(job);
	}
}

static void
on_async(struct ev_loop *loop UNUSED, ev_async *w, int revents UNUSED)
{
	collect(w->data);
}

struct jobs *
jobs_new(struct ev_loop *loop, const char *name)
{
	struct jobs *j = calloc(1, sizeof(*j));

	if (j == NULL)
		return NULL;
	j->loop = loop;
	j->name = name;
	STAILQ_INIT(&j->queue);
	STAILQ_INIT(&j->finished);
	pthread_mutex_init(&j->lock, NULL);
	pthread_cond_init(&j->wake, NULL);
	pthread_cond_init(&j->idle, NULL);
	ev_async_init(&j->async, on_async);
	j->async.data = j;
	ev_async_start(loop, &j->async);
	return j;
}

enum tv_err
jobs_add(struct jobs *j, void (*work)(void *ctx), void (*done)(void *ctx), void *ctx)
{
	struct job *job;

	if (j->stopped)
		return TV_ESYS;
	if (!j->running && (errno = thread_start(&j->thread, j->name, thread_main, j)) != 0)
		return TV_ESYS;
	j->running = true;
	job = malloc(sizeof(*job));
	if (job == NULL)
		return TV_ENOMEM;
	*job = (struct job){ .work = work, .done = done, .ctx = ctx };
	j->pending++;
	pthread_mutex_lock(&j->lock);
	j->left++;
	STAILQ_INSERT_TAIL(&j->queue, job, link);
	pthread_cond_signal(&j->wake);
	pthread_mutex_unlock(&j->lock);
	return TV_OK;
}

enum tv_err
jobs_add_only(struct jobs *j, void (*work)(void *ctx), void (*done)(void *ctx), void *ctx)
{
	return jobs_busy(j) ? TV_EAGAIN : jobs_add(j, work, done, ctx);
}

bool
jobs_busy(const struct jobs *j)
{
	return j->pending > 0;
}

bool
jobs_end_within(struct jobs *j, struct mono time)
{
	struct mono end = mono_add(clock_mono(), time);
	bool ended;

	pthread_mutex_lock(&j->lock);
	while (j->left > 0 && thread_wait_until(&j->idle, &j->lock, end))
		;
	ended = j->left == 0;
	pthread_mutex_unlock(&j->lock);
	return ended;
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
	jobs_stop(j);
	pthread_cond_destroy(&j->wake);
	pthread_cond_destroy(&j->idle);
	pthread_mutex_destroy(&j->lock);
	free(j);
}
