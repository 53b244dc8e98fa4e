/* Threads that take jobs from a queue. */
#include <errno.h>

#include "common/base/assert.h"
#include "common/proc/thread.h"
#include "raftd/engine/lane.h"

/* The mutex is held before and after. */
static void
sleep_until_woken(struct lane *l)
{
	l->asleep++;
	pthread_mutex_unlock(&l->mutex);
	while (sem_wait(&l->wake) != 0)
		;			/* a signal: it takes none, but a debugger may */
	pthread_mutex_lock(&l->mutex);
}

/* The mutex is held. */
static void
take_some(struct lane *l, struct lane_jobs *some)
{
	STAILQ_INIT(some);
	for (unsigned i = 0; i < l->take && !STAILQ_EMPTY(&l->queue); i++) {
		struct lane_job *j = STAILQ_FIRST(&l->queue);

		STAILQ_REMOVE_HEAD(&l->queue, link);
		l->waiting--;
		STAILQ_INSERT_TAIL(some, j, link);
	}
}

static void *
thread_main(void *arg)
{
	struct lane_thread *t = arg;
	struct lane *l = t->lane;
	struct lane_jobs some;

	pthread_mutex_lock(&l->mutex);
	while (!l->stop) {
		take_some(l, &some);
		if (STAILQ_EMPTY(&some)) {
			sleep_until_woken(l);
			continue;
		}
		pthread_mutex_unlock(&l->mutex);
		l->ops->run(l->ctx, t->self, &some);
		pthread_mutex_lock(&l->mutex);
	}
	pthread_mutex_unlock(&l->mutex);
	l->ops->end(l->ctx, t->self);
	return NULL;
}

/* The mutex is held, or no other thread has the lane yet. */
static int
add_thread(struct lane *l)
{
	struct lane_thread *t = &l->threads[l->count];
	int ret;

	*t = (struct lane_thread){ .lane = l, .self = l->ops->begin(l->ctx) };
	if (t->self == NULL)
		return ENOMEM;
	ret = thread_start(&t->id, l->name, thread_main, t);
	if (ret == 0)
		l->count++;
	else
		l->ops->end(l->ctx, t->self);
	return ret;
}

enum tv_err
lane_start(struct lane *l, const char *name, unsigned max, unsigned take, const struct lane_ops *ops, void *ctx)
{
	TV_ASSERT(max >= 1 && max <= LANE_THREADS_MAX && take >= 1);
	*l = (struct lane){ .ops = ops, .ctx = ctx, .name = name, .max = max, .take = take };
	STAILQ_INIT(&l->queue);
	pthread_mutex_init(&l->mutex, NULL);
	sem_init(&l->wake, 0, 0);
	errno = add_thread(l);
	return errno == 0 ? TV_OK : TV_ESYS;
}

/* The mutex is held: as many threads go on as have something to do. */
static unsigned
to_wake(struct lane *l)
{
	unsigned wanted = (l->waiting + l->take - 1) / l->take, woken = wanted < l->asleep ? wanted : l->asleep;

	l->asleep -= woken;
	if (woken < wanted && l->count < l->max)
		(void)add_thread(l);	/* else those that there are do it later */
	return woken;
}

void
lane_push(struct lane *l, struct lane_jobs *jobs)
{
	struct lane_job *j;
	unsigned n = 0, woken;

	STAILQ_FOREACH(j, jobs, link)
		n++;
	if (n == 0)
		return;
	pthread_mutex_lock(&l->mutex);
	STAILQ_CONCAT(&l->queue, jobs);
	l->waiting += n;
	woken = to_wake(l);
	pthread_mutex_unlock(&l->mutex);
	while (woken-- > 0)
		sem_post(&l->wake);
}

void
lane_push_one(struct lane *l, struct lane_job *job)
{
	struct lane_jobs one = STAILQ_HEAD_INITIALIZER(one);

	STAILQ_INSERT_TAIL(&one, job, link);
	lane_push(l, &one);
}

void
lane_stop(struct lane *l, struct lane_jobs *left)
{
	unsigned woken;

	STAILQ_INIT(left);
	if (l->ops == NULL)
		return;
	pthread_mutex_lock(&l->mutex);
	l->stop = true;
	woken = l->asleep;
	l->asleep = 0;
	pthread_mutex_unlock(&l->mutex);
	while (woken-- > 0)
		sem_post(&l->wake);
	for (unsigned i = 0; i < l->count; i++)
		pthread_join(l->threads[i].id, NULL);
	STAILQ_CONCAT(left, &l->queue);
	l->waiting = 0;
	l->ops = NULL;
	sem_destroy(&l->wake);
	pthread_mutex_destroy(&l->mutex);
}
