/*
 * The log writer: a thread that owns log/ after start.
 *
 * The loop fills the open batch (hard state, truncation, entries) and flushes it once per turn; the thread
 * takes every batch that waits, merges them, and commits one synchronous transaction (group commit).
 * Other jobs (compaction, reset, cluster identity) keep their place in the order.  Every batch and job has a sequence
 * number; completions arrive on the loop in order.  A failed write is final: on_failed, once, and nothing after it.
 */
#ifndef TV_RAFTD_ENGINE_LOGTHREAD_H
#define TV_RAFTD_ENGINE_LOGTHREAD_H

#include <ev.h>

#include "common/base/histogram.h"
#include "raftd/store/store.h"

struct logthread;

struct logthread_events {
	/* Everything up to seq is durable.  index, term: last entry written and not cut again, 0 if none; epoch: as
	 * given with that entry. */
	void (*on_written)(void *ctx, uint64_t seq, uint64_t index, uint64_t term, uint64_t epoch);
	/* The store failed with this errno; the process must stop (S84). */
	void (*on_failed)(void *ctx, enum tv_err err, int sys);
};

/* Starts the thread; borrows the store.  NULL: no memory or no thread. */
struct logthread *logthread_new(struct ev_loop *loop, struct log_store *store, const struct logthread_events *events,
    void *ctx);
/* Finishes what is queued, joins the thread.  No more callbacks. */
void logthread_free(struct logthread *t);

/* -- the open batch -- */
void logthread_hard(struct logthread *t, uint64_t term, raft_id vote);
/* The entries of this batch belong to a new generation of the cluster; durable with them or not at all. */
void logthread_generation(struct logthread *t, uint64_t generation);
void logthread_truncate(struct logthread *t, uint64_t from);
/* The payload must stay until the batch is written.  epoch: raft_output.write_epoch, told back by on_written.
 * TV_ENOMEM. */
enum tv_err logthread_append(struct logthread *t, const struct raft_entry *e, uint64_t epoch);
/* Number that the open batch will have. */
uint64_t logthread_seq(const struct logthread *t);
/* What must be durable before everything given so far is: the open batch, or the last one handed over. */
uint64_t logthread_barrier(const struct logthread *t);
/* The same for terms, votes and the cluster's identity alone. */
uint64_t logthread_hard_barrier(const struct logthread *t);
uint64_t logthread_done(const struct logthread *t);
/* Hands the open batch over, if there is anything in it. */
void logthread_flush(struct logthread *t);

/* -- jobs in order; done runs on the loop, may be NULL -- */
typedef void logthread_job_done(void *ctx, enum tv_err err);
enum tv_err logthread_compact(struct logthread *t, uint64_t index, uint64_t snapshot_index, uint64_t snapshot_term,
    const struct raft_config *config, logthread_job_done *done, void *ctx);
enum tv_err logthread_reset(struct logthread *t, uint64_t snapshot_index, uint64_t snapshot_term,
    const struct raft_config *config, logthread_job_done *done, void *ctx);
enum tv_err logthread_cluster(struct logthread *t, const char *cluster_id, uint64_t generation,
    logthread_job_done *done, void *ctx);

/* How long the write or job now in progress has taken, 0 if none (any time, from the loop). */
struct mono logthread_busy(struct logthread *t, struct mono now);
/* Writes and jobs so far, each with one sync, and how many took longer than `slow` of logthread_watch(). */
void logthread_syncs(struct logthread *t, struct histogram *took, uint64_t *slow);
void logthread_watch(struct logthread *t, struct mono slow);
/* Longest one since the last call. */
struct mono logthread_slowest(struct logthread *t);

#endif
