/*
 * A queue of jobs, and threads that take them from its head.  Jobs are begun in the order in which they came; with one thread
 * they end in that order, too.
 */
#ifndef TV_RAFTD_ENGINE_LANE_H
#define TV_RAFTD_ENGINE_LANE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "common/base/err.h"

#define LANE_THREADS_MAX 16

struct lane_job {			/* embedded in the job */
	STAILQ_ENTRY(lane_job) link;
};
STAILQ_HEAD(lane_jobs, lane_job);

struct lane_ops {
	/* What a thread works with: made by the thread that starts it (NULL: no memory), and ended by the thread itself. */
	void *(*begin)(void *ctx);
	void (*end)(void *ctx, void *self);
	/* Carries out some jobs, in order; they are its own from then on. */
	void (*run)(void *ctx, void *self, struct lane_jobs *some);
};

struct lane;
struct lane_thread {
	struct lane *lane;
	void *self;
	pthread_t id;
};

struct lane {				/* caller's storage, of one address; private */
	const struct lane_ops *ops;
	void *ctx;
	const char *name;
	unsigned max, take;
	struct lane_thread threads[LANE_THREADS_MAX];
	pthread_mutex_t mutex;
	sem_t wake;			/* posted once for each of `asleep` that is to go on */
	struct lane_jobs queue;
	unsigned count, asleep, waiting;	/* threads; those that sleep; jobs in the queue */
	bool stop;
};

/*
 * Starts one thread; more, up to max (LANE_THREADS_MAX), when jobs wait and none is free.  take: so many jobs at a time.  name: at
 * most 15 characters, of the threads.  TV_ESYS.
 */
enum tv_err lane_start(struct lane *l, const char *name, unsigned max, unsigned take, const struct lane_ops *ops, void *ctx);
/* Any thread.  Takes all of them over; the list is empty then. */
void lane_push(struct lane *l, struct lane_jobs *jobs);
void lane_push_one(struct lane *l, struct lane_job *job);
/*
 * Waits for jobs that run.  Those that were not begun go to `left`.  A lane that was never started is left alone.
 */
void lane_stop(struct lane *l, struct lane_jobs *left);

#endif
