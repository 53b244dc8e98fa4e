/*
 * Checkpoints and snapshots.
 *
 * Checkpoint: state/ is flushed in a thread once enough was applied, then the log is cut, keeping
 * trailing_logs entries and whatever a live follower still needs.
 * Sending: a follower behind the log gets a copy of the state, written by a thread to snapshot-INDEX.tmp and sent in
 * chunks as the core asks.  One file serves all followers; it goes when none needs it.
 * Receiving: chunks go to snapshot-recv.tmp; the whole file is verified and loaded beside the old state, which
 * stays until the new one is complete (S204).  Temporary files are removed at start.
 */
#ifndef TV_RAFTD_SNAPSHOT_SNAPSHOTS_H
#define TV_RAFTD_SNAPSHOT_SNAPSHOTS_H

#include "common/net/chan.h"
#include "raftd/raftd.h"

struct snapshots;

struct snapshots *snapshots_new(struct raftd *d);
void snapshots_free(struct snapshots *s);
/* The core has no log for this follower, which needs a state from which the log goes on at index `first`. */
void snapshots_needed(struct snapshots *s, raft_id id, uint64_t first);
/* One chunk to a follower, as the core ordered it; see struct links_hooks. */
enum tv_err snapshots_send(struct raftd *d, struct chan *c, const struct raft_send *send);
/* A chunk arrived; m is borrowed until return. */
void snapshots_chunk(struct raftd *d, const struct raft_msg *m);
/* A client's archive became the state at this index: the log that brought it is of no use any more. */
void snapshots_restored(struct snapshots *s, uint64_t index);
/* Name and value pairs for info. */
void snapshots_info(const struct snapshots *s, figure_fn *fn, void *ctx);
/* Does a checkpoint wait for the thread? */
bool snapshots_due(struct snapshots *s);
/* A received snapshot is being loaded: the state must not be touched. */
bool snapshots_installing(const struct snapshots *s);

#endif
