/*
 * The log writer thread.  Under the mutex: the queue of batches and jobs, the list of finished ones,
 * and the figures.  The thread works on what it took without the mutex.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/base/array.h"
#include "common/base/assert.h"
#include "common/base/clock.h"
#include "common/proc/thread.h"
#include "raftd/engine/logthread.h"

#define SPARES_MAX 8

enum job_type { JOB_WRITE, JOB_COMPACT, JOB_RESET, JOB_CLUSTER };

struct job {
	STAILQ_ENTRY(job) link;
	enum job_type type;
	uint64_t seq;
	struct log_batch batch;		/* JOB_WRITE: hard state, truncation; entries below */
	struct raft_entry *entries;	/* owned array, payloads borrowed */
	size_t cap;
	uint64_t index, snapshot_index, snapshot_term, generation;
	struct raft_config *config;	/* owned */
	char cluster_id[37];
	logthread_job_done *done;
	void *done_ctx;
	uint64_t epoch;			/* of the newest entry */
	uint64_t last_index, last_term;	/* result of a write */
	enum tv_err err;
	int sys;			/* errno of err */
};

STAILQ_HEAD(job_list, job);

struct logthread {
	struct ev_loop *loop;
	ev_async async;
	struct log_store *store;
	const struct logthread_events *events;
	void *ctx;
	pthread_t thread;

	/* loop side */
	struct job *open;		/* being filled */
	uint64_t seq;			/* of the open batch */
	uint64_t handed, done;		/* last number handed over; last one completed */
	uint64_t hard;			/* last one with a hard state or an identity */
	struct job_list spares;
	unsigned spare_count;
	bool failed;

	/* both sides, under the mutex */
	pthread_mutex_t mutex;
	struct job_list queue, finished;
	bool stop;
	bool asleep;			/* the thread waits for `wake`, which was not posted yet */
	struct mono busy_since;		/* start of the write or other job in progress, 0 */
	struct mono slowest, slow;	/* slow: from there on it counts as such; 0: never */
	uint64_t slow_syncs;
	struct histogram syncs;

	/* A condition would hand the thread a mutex that counts as contended: a system call more for every batch. */
	sem_t wake;
};

static void
job_free(struct job *j)
{
	if (j == NULL)
		return;
	free(j->config);
	free(j->entries);
	free(j);
}

void
logthread_syncs(struct logthread *t, struct histogram *took, uint64_t *slow)
{
	pthread_mutex_lock(&t->mutex);
	*took = t->syncs;
	*slow = t->slow_syncs;
	pthread_mutex_unlock(&t->mutex);
}

void
logthread_watch(struct logthread *t, struct mono slow)
{
	pthread_mutex_lock(&t->mutex);
	t->slow = slow;
	pthread_mutex_unlock(&t->mutex);
}

/* -- the thread -- */

/* Appends batch b to batch a: what b cuts goes from a. */
static enum tv_err
batch_merge(struct job *a, const struct job *b)
{
	const struct log_batch *from = &b->batch;
	struct log_batch *to = &a->batch;

	if (from->hard_changed) {
		to->hard_changed = true;
		to->term = from->term;
		to->vote = from->vote;
	}
	if (from->generation != 0)
		to->generation = from->generation;
	if (from->truncate_from != 0) {
		while (to->count > 0 && a->entries[to->count - 1].index >= from->truncate_from)
			to->count--;
		if (to->count == 0 && (to->truncate_from == 0 || from->truncate_from < to->truncate_from))
			to->truncate_from = from->truncate_from;
	}
	if (!array_reserve(&a->entries, &a->cap, to->count + from->count, sizeof(*a->entries)))
		return TV_ENOMEM;
	if (from->count > 0)
		memcpy(a->entries + to->count, b->entries, from->count * sizeof(*b->entries));
	to->count += from->count;
	if (from->count > 0)
		a->epoch = b->epoch;
	return TV_OK;
}

static enum tv_err
write_batch(struct logthread *t, struct job *j)
{
	j->batch.entries = j->entries;
	if (j->batch.count > 0) {
		j->last_index = j->entries[j->batch.count - 1].index;
		j->last_term = j->entries[j->batch.count - 1].term;
	}
	return log_write(t->store, &j->batch);
}

static enum tv_err
store_job(struct logthread *t, struct job *j)
{
	switch (j->type) {
	case JOB_COMPACT:
		return log_compact(t->store, j->index, j->snapshot_index, j->snapshot_term, j->config);
	case JOB_RESET:
		return log_reset(t->store, j->snapshot_index, j->snapshot_term, j->config);
	case JOB_CLUSTER:
		return log_set_cluster(t->store, j->cluster_id, j->generation);
	case JOB_WRITE:
		break;
	}
	return write_batch(t, j);
}

/* Each kind ends in a sync, and all that wait, wait for it: a disk that hangs in any of them counts as busy. */
static enum tv_err
run_job(struct logthread *t, struct job *j)
{
	struct mono start = clock_mono(), took;
	enum tv_err err;

	pthread_mutex_lock(&t->mutex);
	t->busy_since = start;
	pthread_mutex_unlock(&t->mutex);
	err = store_job(t, j);
	j->sys = errno;
	took = mono_sub(clock_mono(), start);
	pthread_mutex_lock(&t->mutex);
	t->busy_since = MONO_ZERO;
	if (took.ns > t->slowest.ns)
		t->slowest = took;
	histogram_add(&t->syncs, took);
	t->slow_syncs += t->slow.ns > 0 && took.ns > t->slow.ns;
	pthread_mutex_unlock(&t->mutex);
	return err;
}

/*
 * Moves jobs to finished, in order: writes next to each other become one.  After an error, which it returns, nothing is
 * done any more.
 */
static enum tv_err
run_all(struct logthread *t, struct job_list *jobs, struct job_list *finished, enum tv_err err)
{
	struct job *j, *n;

	while ((j = STAILQ_FIRST(jobs)) != NULL) {
		struct job_list merged = STAILQ_HEAD_INITIALIZER(merged);

		STAILQ_REMOVE_HEAD(jobs, link);
		while (err == TV_OK && j->type == JOB_WRITE && (n = STAILQ_FIRST(jobs)) != NULL && n->type == JOB_WRITE) {
			err = batch_merge(j, n);
			j->seq = n->seq;
			STAILQ_REMOVE_HEAD(jobs, link);
			STAILQ_INSERT_TAIL(&merged, n, link);
		}
		if (err == TV_OK)
			err = run_job(t, j);
		j->err = err;
		STAILQ_INSERT_TAIL(finished, j, link);
		STAILQ_FOREACH(n, &merged, link) {
			n->batch.count = 0;
			n->last_index = 0;
			n->err = err;
		}
		STAILQ_CONCAT(finished, &merged);
	}
	return err;
}

/* The mutex is held before and after. */
static void
sleep_until_woken(struct logthread *t)
{
	t->asleep = true;
	pthread_mutex_unlock(&t->mutex);
	while (sem_wait(&t->wake) != 0)
		;			/* a signal: it takes none, but a debugger may */
	pthread_mutex_lock(&t->mutex);
}

static void *
thread_main(void *arg)
{
	struct logthread *t = arg;
	enum tv_err err = TV_OK;

	pthread_mutex_lock(&t->mutex);
	for (;;) {
		struct job_list jobs = STAILQ_HEAD_INITIALIZER(jobs), out = STAILQ_HEAD_INITIALIZER(out);

		while (STAILQ_EMPTY(&t->queue) && !t->stop)
			sleep_until_woken(t);
		if (STAILQ_EMPTY(&t->queue))
			break;
		STAILQ_CONCAT(&jobs, &t->queue);
		pthread_mutex_unlock(&t->mutex);
		err = run_all(t, &jobs, &out, err);
		pthread_mutex_lock(&t->mutex);
		STAILQ_CONCAT(&t->finished, &out);
		pthread_mutex_unlock(&t->mutex);
		ev_async_send(t->loop, &t->async);	/* the same for the loop; it outlives this thread */
		pthread_mutex_lock(&t->mutex);
	}
	pthread_mutex_unlock(&t->mutex);
	return NULL;
}

/* -- the loop side -- */

static void
job_recycle(struct logthread *t, struct job *j)
{
	if (j->type != JOB_WRITE || t->spare_count >= SPARES_MAX || j->cap > 16384) {
		job_free(j);
		return;
	}
	j->batch = (struct log_batch){ 0 };
	j->last_index = j->last_term = 0;
	j->err = TV_OK;
	STAILQ_INSERT_HEAD(&t->spares, j, link);
	t->spare_count++;
}

static void
finish_job(struct logthread *t, struct job *j)
{
	if (j->seq > t->done)
		t->done = j->seq;
	if (j->err != TV_OK && !t->failed) {
		t->failed = true;
		t->events->on_failed(t->ctx, j->err, j->sys);
	}
	if (!t->failed && j->type == JOB_WRITE)
		t->events->on_written(t->ctx, t->done, j->last_index, j->last_term, j->epoch);
	else if (!t->failed)
		t->events->on_written(t->ctx, t->done, 0, 0, 0);
	if (j->done != NULL)
		j->done(j->done_ctx, j->err);
	job_recycle(t, j);
}

static void
on_async(struct ev_loop *loop UNUSED, ev_async *w, int revents UNUSED)
{
	struct logthread *t = w->data;
	struct job_list list = STAILQ_HEAD_INITIALIZER(list);
	struct job *j;

	pthread_mutex_lock(&t->mutex);
	STAILQ_CONCAT(&list, &t->finished);
	pthread_mutex_unlock(&t->mutex);
	while ((j = STAILQ_FIRST(&list)) != NULL) {
		STAILQ_REMOVE_HEAD(&list, link);
		finish_job(t, j);
	}
}

static struct job *
job_new(struct logthread *t, enum job_type type)
{
	struct job *j = STAILQ_FIRST(&t->spares);

	if (type == JOB_WRITE && j != NULL) {
		STAILQ_REMOVE_HEAD(&t->spares, link);
		t->spare_count--;
		return j;
	}
	j = calloc(1, sizeof(*j));
	if (j != NULL)
		j->type = type;
	return j;
}

static void
hand_over(struct logthread *t, struct job *j)
{
	bool asleep;

	j->seq = t->seq++;
	t->handed = j->seq;
	pthread_mutex_lock(&t->mutex);
	STAILQ_INSERT_TAIL(&t->queue, j, link);
	asleep = t->asleep;
	t->asleep = false;
	pthread_mutex_unlock(&t->mutex);
	if (asleep)
		(void)sem_post(&t->wake);	/* after it, or the thread would wake into a held mutex */
}

static struct job *
open_batch(struct logthread *t)
{
	if (t->open == NULL)
		t->open = job_new(t, JOB_WRITE);
	return t->open;
}

void
logthread_flush(struct logthread *t)
{
	struct job *j = t->open;

	if (j == NULL)
		return;
	t->open = NULL;
	hand_over(t, j);
}

void
logthread_hard(struct logthread *t, uint64_t term, raft_id vote)
{
	struct job *j = open_batch(t);

	TV_ASSERT(j != NULL);		/* a lost vote would be worse than stopping */
	j->batch.hard_changed = true;
	j->batch.term = term;
	j->batch.vote = vote;
	t->hard = t->seq;
}

void
logthread_truncate(struct logthread *t, uint64_t from)
{
	struct job cut = { .type = JOB_WRITE, .batch.truncate_from = from };
	struct job *j = open_batch(t);

	TV_ASSERT(j != NULL);
	(void)batch_merge(j, &cut);	/* adds no entries, so needs no memory */
}

void
logthread_generation(struct logthread *t, uint64_t generation)
{
	struct job *j = open_batch(t);

	TV_ASSERT(j != NULL);
	j->batch.generation = generation;
	t->hard = t->seq;
}

enum tv_err
logthread_append(struct logthread *t, const struct raft_entry *e, uint64_t epoch)
{
	struct job *j = open_batch(t);

	if (j == NULL)
		return TV_ENOMEM;
	if (!array_reserve(&j->entries, &j->cap, j->batch.count + 1, sizeof(*j->entries)))
		return TV_ENOMEM;
	j->entries[j->batch.count++] = *e;
	j->epoch = epoch;
	return TV_OK;
}

uint64_t
logthread_seq(const struct logthread *t)
{
	return t->seq;
}

uint64_t
logthread_barrier(const struct logthread *t)
{
	return t->open != NULL ? t->seq : t->handed;
}

uint64_t
logthread_hard_barrier(const struct logthread *t)
{
	return t->hard;
}

uint64_t
logthread_done(const struct logthread *t)
{
	return t->done;
}

/* A job besides writes: the open batch goes first, so that the order is the order of the calls. */
static struct job *
job_begin(struct logthread *t, enum job_type type, logthread_job_done *done, void *ctx)
{
	struct job *j = job_new(t, type);

	if (j == NULL)
		return NULL;
	logthread_flush(t);
	j->done = done;
	j->done_ctx = ctx;
	return j;
}

static enum tv_err
job_position(struct logthread *t, enum job_type type, uint64_t index, uint64_t snapshot_index, uint64_t snapshot_term,
    const struct raft_config *config, logthread_job_done *done, void *ctx)
{
	struct raft_config *copy = malloc(sizeof(*copy));
	struct job *j = copy == NULL ? NULL : job_begin(t, type, done, ctx);

	if (j == NULL) {
		free(copy);
		return TV_ENOMEM;
	}
	*copy = *config;
	j->config = copy;
	j->index = index;
	j->snapshot_index = snapshot_index;
	j->snapshot_term = snapshot_term;
	hand_over(t, j);
	return TV_OK;
}

enum tv_err
logthread_compact(struct logthread *t, uint64_t index, uint64_t snapshot_index, uint64_t snapshot_term,
    const struct raft_config *config, logthread_job_done *done, void *ctx)
{
	return job_position(t, JOB_COMPACT, index, snapshot_index, snapshot_term, config, done, ctx);
}

enum tv_err
logthread_reset(struct logthread *t, uint64_t snapshot_index, uint64_t snapshot_term,
    const struct raft_config *config, logthread_job_done *done, void *ctx)
{
	return job_position(t, JOB_RESET, 0, snapshot_index, snapshot_term, config, done, ctx);
}

enum tv_err
logthread_cluster(struct logthread *t, const char *cluster_id, uint64_t generation,
    logthread_job_done *done, void *ctx)
{
	struct job *j = job_begin(t, JOB_CLUSTER, done, ctx);

	if (j == NULL)
		return TV_ENOMEM;
	strncpy(j->cluster_id, cluster_id, sizeof(j->cluster_id) - 1);
	j->generation = generation;
	t->hard = t->seq;
	hand_over(t, j);
	return TV_OK;
}

struct mono
logthread_busy(struct logthread *t, struct mono now)
{
	struct mono since;

	pthread_mutex_lock(&t->mutex);
	since = t->busy_since;
	pthread_mutex_unlock(&t->mutex);
	return since.ns == 0 ? MONO_ZERO : mono_sub(now, since);
}

struct mono
logthread_slowest(struct logthread *t)
{
	struct mono out;

	pthread_mutex_lock(&t->mutex);
	out = t->slowest;
	t->slowest = MONO_ZERO;
	pthread_mutex_unlock(&t->mutex);
	return out;
}

struct logthread *
logthread_new(struct ev_loop *loop, struct log_store *store, const struct logthread_events *events, void *ctx)
{
	struct logthread *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return NULL;
	t->loop = loop;
	t->store = store;
	t->events = events;
	t->ctx = ctx;
	t->seq = 1;
	STAILQ_INIT(&t->queue);
	STAILQ_INIT(&t->finished);
	STAILQ_INIT(&t->spares);
	pthread_mutex_init(&t->mutex, NULL);
	(void)sem_init(&t->wake, 0, 0);
	ev_async_init(&t->async, on_async);
	t->async.data = t;
	ev_set_priority(&t->async, EV_MAXPRI);
	ev_async_start(loop, &t->async);
	errno = thread_start(&t->thread, "log", thread_main, t);
	if (errno != 0) {
		ev_async_stop(loop, &t->async);
		pthread_mutex_destroy(&t->mutex);
		(void)sem_destroy(&t->wake);
		free(t);
		return NULL;
	}
	return t;
}

void
logthread_free(struct logthread *t)
{
	struct job *j;

	if (t == NULL)
		return;
	logthread_flush(t);
	pthread_mutex_lock(&t->mutex);
	t->stop = true;
	pthread_mutex_unlock(&t->mutex);
	(void)sem_post(&t->wake);		/* once too often does no harm: it looks again */
	pthread_join(t->thread, NULL);
	ev_async_stop(t->loop, &t->async);
	STAILQ_CONCAT(&t->finished, &t->spares);
	while ((j = STAILQ_FIRST(&t->finished)) != NULL) {
		STAILQ_REMOVE_HEAD(&t->finished, link);
		job_free(j);
	}
	(void)sem_destroy(&t->wake);
	pthread_mutex_destroy(&t->mutex);
	free(t);
}
