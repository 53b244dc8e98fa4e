/*
 * The shell of the Raft core: feeds it one input at a time and carries out its outputs in the order
 * of the contract (raftd/core/raft.h).
 *
 * One turn of the loop: messages, completions and requests come in through callbacks; before the loop sleeps, the
 * prepare watcher proposes everything queued as one batch, asks one ReadIndex round, hands the log batch to the
 * writer, applies what is committed, and serves reads.  Channels flush after that.
 */
#ifndef TV_RAFTD_ENGINE_ENGINE_H
#define TV_RAFTD_ENGINE_ENGINE_H

#include "raftd/engine/disk_mark.h"
#include "raftd/engine/logthread.h"
#include "raftd/engine/proposals.h"
#include "raftd/engine/reads.h"
#include "raftd/raftd.h"

#define ENGINE_HOUSEKEEPING MONO_MS(100)	/* from one to the next: the loop sleeps no longer than that */

struct engine;
struct raft;
struct log_window;

/* What becomes of a committed RESTORE_COMMIT, the next entry to be applied. */
enum restore_verdict {
	RESTORE_ENTRY,		/* an entry as any other: there is nothing to take */
	RESTORE_WAIT,		/* not yet; engine_wake() when it is time to ask again */
	RESTORE_TAKEN,		/* the state is the restored one, at this entry's index */
	RESTORE_BROKEN,		/* this server's state is damaged */
};

/* What the engine needs of the folders above it.  Called on the loop, never while the core is being fed. */
struct engine_hooks {
	/* A message of the core leaves, in order (links.h). */
	void (*send)(struct raftd *d, const struct raft_send *s);
	/* What was sent in this turn leaves now, or as much of it as may at a time. */
	void (*flush)(struct raftd *d);
	/* A chunk of a snapshot came and the core wants it kept; m is borrowed until return. */
	void (*chunk)(struct raftd *d, const struct raft_msg *m);
	/* The core noticed something.  It has been logged; changes of role and leader are told by engine_on_status() too. */
	void (*notice)(struct raftd *d, const struct raft_notice *n);
	/* Would every server of the configuration apply an entry that needs this version of the state machine?  Else why names one that would not. */
	bool (*all_apply)(struct raftd *d, uint8_t version, char *why, size_t cap);
	/* These entries have been applied. */
	void (*applied)(struct raftd *d, const struct raft_entry *entries, uint32_t count);
	/* The entry at index replaces the state by what was staged under this id. */
	enum restore_verdict (*restore)(struct raftd *d, const char *id, uint64_t index, uint64_t term);
	/* May no entry be applied now, because the state is about to be replaced? */
	bool (*holds_state)(struct raftd *d);
	/* Serves clients whose reads were put off, at least one, and no new one after `until`; then answers leave.  Was there one? */
	bool (*serve)(struct raftd *d, struct mono until);
	/* Do clients or links have work for which nothing has to happen first? */
	bool (*waiting)(struct raftd *d);
	/* The end of a turn. */
	void (*turn)(struct raftd *d);
};

/*
 * The core as it was, from the log alone: d->log, d->meta and d->id are there.  conf: where d->conf may change meanwhile.  Any
 * thread, while no other thread uses d's.  NULL with a sentence in errbuf; raft_free().
 */
struct raft *engine_core(struct raftd *d, const struct raftd_conf *conf, char *errbuf, size_t cap);
/* The sentence about a log, that of d->meta, which ends before what the state has applied (S101). */
void engine_log_too_short(const struct raftd *d, uint64_t applied, char *errbuf, size_t cap);
/* Takes the core over, whatever comes of it; hooks must live as long.  Without a state until engine_state_open().  NULL: no memory. */
struct engine *engine_new(struct raftd *d, const struct engine_hooks *hooks, struct raft *core);
/* Starts the watchers and the log thread.  TV_ENOMEM, TV_ESYS. */
enum tv_err engine_start(struct engine *e);
/*
 * d->fsm and the threads of d->state are there now: what is committed is applied from here on, and this server may stand for
 * election.  Once, after engine_start().  TV_ECORRUPT with a sentence: state and log do not belong together, or the state is lost
 * and the caller must have the only reference.
 */
enum tv_err engine_state_open(struct engine *e, char *errbuf, size_t cap);
/* Before that: this server votes, stores and acknowledges, and nothing can be read or applied. */
bool engine_opening(const struct engine *e);
/* This server has left the cluster: no more elections of its own. */
void engine_retire(struct engine *e);
/* Does any caller wait for the outcome of a write? */
bool engine_writing(const struct engine *e);
/* Before the end: all that wait for a write or a read are told that the outcome is unknown. */
void engine_drain(struct engine *e);
void engine_free(struct engine *e);

/* -- inputs -- */
/* How far this server's disk has come, for others to remember. */
struct disk_mark engine_mark(struct engine *e);
/* What another server remembers of it.  The core is told when this disk holds less. */
void engine_heed_mark(struct engine *e, const struct disk_mark *seen);
/* From a peer; payloads are borrowed until return. */
void engine_message(struct engine *e, const struct raft_msg *m);
/* Entries for messages in raft_msg_read(): scratch of this many. */
struct raft_entry *engine_scratch(struct engine *e, uint32_t *count);
void engine_reachable(struct engine *e, raft_id id, bool up);
/* See RAFT_IN_GONE. */
void engine_gone(struct engine *e, raft_id id);
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
void engine_disk_space(struct raftd *d, bool full);
/* Why engine_propose() said TV_ENOSPACE: a sentence. */
void engine_no_space_text(struct engine *e, char *dst, size_t cap);

/*
 * May this operation be proposed, or would a server of an older version pass over it?  A server that has applied one like it
 * could; before the first one all must have said so.  False: why names one that has not.
 */
/* args: "": whatever they are; premises: with some behind it. */
bool engine_all_apply(struct engine *e, uint16_t op, struct span args, bool premises, char *why, size_t cap);
/*
 * Queues a write for this turn's batch.  TV_ENOTLEADER, TV_ENOLEADER, TV_ENOSPACE (nothing was done), TV_EAGAIN,
 * TV_ENOMEM: p->done is not called.  Else it is, exactly once.
 */
enum tv_err engine_propose(struct engine *e, struct proposal *p, uint16_t op, struct span args, struct span premises);
/* Joins this turn's ReadIndex round; w->deadline is set here. */
void engine_read(struct engine *e, struct read_wait *w);
/* Another turn soon, though no event is due. */
void engine_wake(struct engine *e);

/*
 * The status event: role, term, leader, committed configuration, or what this server says of itself (its cluster, a fence)
 * changed.  Subscribers, which come before engine_start(), are called each time, in the order of subscription.
 */
void engine_on_status(struct engine *e, void (*fn)(struct raftd *d));
void engine_status_changed(struct engine *e);

/* -- what is -- */
/* The newest configuration in the log, the newest committed one, and the one at an index; borrowed, see raft_config(). */
const struct raft_config *engine_config(struct engine *e);
const struct raft_config *engine_config_committed(struct engine *e);
const struct raft_config *engine_config_at(struct engine *e, uint64_t index);
/* raft_term_at(), raft_keeps_log(), raft_compact_limit(). */
uint64_t engine_term_at(struct engine *e, uint64_t index);
bool engine_keeps_log(struct engine *e, uint64_t index, uint64_t term);
uint64_t engine_compact_limit(struct engine *e);
struct logthread *engine_log(struct engine *e);
/* Fresh within the turn; borrowed. */
const struct raft_status *engine_status(struct engine *e);
bool engine_is_leader(struct engine *e);
/* Of the newest output of the core; 0 before the first. */
uint64_t engine_term(const struct engine *e);
uint64_t engine_applied(const struct engine *e);
/* The state is lost until a snapshot comes: nothing may be read. */
bool engine_stateless(const struct engine *e);
/* When a leader was heard last, or this server led itself (*self); 0: never since the start. */
struct mono engine_heard(struct engine *e, bool *self);
/* For answers: is a leader known, and how many ms ago was it heard (0 on the leader). */
bool engine_leader_known(struct engine *e, uint64_t *last_contact_ms);
/* For a follower that gets entries from the log; NULL: no memory.  log_window_free(). */
struct log_window *engine_window(struct engine *e);
/*
 * Up to count entries with payloads from first on, from the cache or through the window: *out, *got, valid until the next call or
 * input.  TV_EAGAIN: they are being read, the next turn that finds them will come.  TV_ENOENT: they are gone (compacted).
 * TV_ENOMEM.  TV_ECORRUPT, TV_ESYS: they are damaged, and the process is stopping.
 */
enum tv_err engine_entries_to_send(struct engine *e, struct log_window *w, uint64_t first, uint32_t count,
    const struct raft_entry **out, uint32_t *got);
/* Name and value pairs of the `raft:` section of info. */
void engine_info(struct engine *e, figure_fn *fn, void *ctx);

#endif
