/*
 * The shell of the Raft core: feeds it one input at a time and carries out its outputs in the order
 * of the contract (raftd/core/raft.h).
 *
 * One turn of the loop: messages, completions and requests come in through callbacks; before the loop sleeps, the
 * prepare watcher proposes everything queued as one batch, asks one ReadIndex round, hands the log batch to the
 * writer, applies what is committed, and serves reads.  Channels flush after that.
 */
#ifndef TV_ENGINE_H
#define TV_ENGINE_H

#include "raftd/engine/logthread.h"
#include "raftd/engine/proposals.h"
#include "raftd/raftd.h"
#include "raftd/engine/reads.h"

struct engine;

/* Restores the core from the log and the state.  NULL with a sentence in errbuf. */
struct engine *engine_new(struct raftd *d, char *errbuf, size_t cap);
/* Starts the watchers and the log thread.  TV_ENOMEM, TV_ESYS. */
enum tv_err engine_start(struct engine *e);
/* This server has left the cluster: no more elections of its own. */
void engine_retire(struct engine *e);
/* Does anybody wait for the outcome of a write? */
bool engine_writing(const struct engine *e);
/* Before the end: whoever waits for a write or a read is told that nobody knows. */
void engine_drain(struct engine *e);
void engine_free(struct engine *e);

/* -- inputs -- */
/* From a peer; payloads are borrowed until return. */
void engine_message(struct engine *e, const struct raft_msg *m);
/* Entries for messages in raft_msg_read(): scratch of this many. */
struct raft_entry *engine_scratch(struct engine *e, uint32_t *count);
void engine_reachable(struct engine *e, raft_id id, bool up);
/*
 * What engine_propose() queued before comes before it in the log, if the core takes it at all.  TV_ENOTLEADER, TV_ECONFLICT (a
 * change is pending, unknown server), TV_EAGAIN.
 */
enum tv_err engine_change(struct engine *e, const struct raft_change *change);
enum tv_err engine_transfer(struct engine *e, raft_id to);
/* Fresh server only. */
enum tv_err engine_bootstrap(struct engine *e, const struct raft_config *config);
/*
 * RAFT_IN_RECOVER: the configuration, its term and the new generation become durable in one step, then done is called.
 * The links must be silent already.  An error at once: nothing happened, done is not called.
 */
enum tv_err engine_recover(struct engine *e, const struct raft_config *config, uint64_t generation,
    logthread_job_done *done, void *ctx);
/* RAFT_IN_RETIRE: no part in anything any more; stale reads go on. */
void engine_fence(struct engine *e);
/* See RAFT_IN_SNAPSHOT_*, RAFT_IN_COMPACTED. */
void engine_snapshot_ready(struct engine *e, uint64_t index, uint64_t bytes);
void engine_snapshot_stored(struct engine *e, const struct raft_msg *m, uint64_t offset);
void engine_snapshot_installed(struct engine *e, const struct raft_msg *m);
void engine_compacted(struct engine *e, uint64_t index, uint64_t snapshot_index);

/* See RAFT_IN_DISK_SPACE. */
void engine_disk_space(struct engine *e, bool full);
/* This disk is full: a leader hands over to a voter with room, if there is one.  Was it tried? */
bool engine_hand_over_full(struct engine *e);
/* Why engine_propose() said TV_ENOSPACE: a sentence. */
void engine_no_space_text(struct engine *e, char *dst, size_t cap);

/*
 * Queues a write for this turn's batch.  TV_ENOTLEADER, TV_ENOLEADER, TV_ENOSPACE (nothing was done), TV_EAGAIN,
 * TV_ENOMEM: p->done is not called.  Else it is, exactly once.
 */
enum tv_err engine_propose(struct engine *e, struct proposal *p, uint16_t op, struct span args);
/* Joins this turn's ReadIndex round; w->deadline is set here. */
void engine_read(struct engine *e, struct read_wait *w);
/* Another turn soon, though no event is due. */
void engine_wake(struct engine *e);

/* -- what is -- */
struct raft *engine_core(struct engine *e);
struct logthread *engine_log(struct engine *e);
/* Fresh within the turn; borrowed. */
const struct raft_status *engine_status(struct engine *e);
bool engine_is_leader(struct engine *e);
/* Of the newest output of the core; 0 before the first. */
uint64_t engine_term(const struct engine *e);
uint64_t engine_applied(const struct engine *e);
uint64_t engine_commit(const struct engine *e);
/* The state is lost until a snapshot comes: nothing may be read. */
bool engine_stateless(const struct engine *e);
/* When a leader was heard last, or this server led itself (*self); 0: never since the start. */
struct mono engine_heard(struct engine *e, bool *self);
/* For answers: is a leader known, and how many ms ago was it heard (0 on the leader). */
bool engine_leader_known(struct engine *e, uint64_t *last_contact_ms);
/*
 * Entries first .. first+count-1 with payloads, from the cache or the log; valid until the next call or input.
 * NULL when they are gone (compacted); damaged ones stop the process.
 */
const struct raft_entry *engine_entries(struct engine *e, uint64_t first, uint32_t count, uint32_t *got);
/* Name and value pairs of the `raft:` section of info. */
void engine_info(struct engine *e, void (*fn)(void *ctx, const char *name, const char *value), void *ctx);

#endif
