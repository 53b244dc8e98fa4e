/*
 * A snapshot on its way in.  Chunks go to snapshot-recv.tmp; when it is complete and its checksum holds, it becomes
 * snapshot-install beside install-meta (index, term, configuration, checksum), both durable; then the state is
 * replaced and the log reset.  A crash on the way is finished at the next start, so log and state never disagree (S49).
 */
#ifndef TV_RAFTD_SNAPSHOT_SNAPSHOT_RECV_H
#define TV_RAFTD_SNAPSHOT_SNAPSHOT_RECV_H

#include "raftd/raftd.h"

struct snapshot_recv;

struct snapshot_recv *snapshot_recv_new(struct raftd *d);
void snapshot_recv_free(struct snapshot_recv *s);
void snapshot_recv_chunk(struct snapshot_recv *s, const struct raft_msg *m);
bool snapshot_recv_installing(const struct snapshot_recv *s);
/* Removes, in the worker, what an installation left behind, if there is anything; true while that runs. */
bool snapshot_recv_tidy(struct snapshot_recv *s);
/* At start: did a crash interrupt an installation, so that log and state must both be open to go on?  May wait for a disk. */
bool snapshot_recv_interrupted(struct raftd *d);
/*
 * At start, before the core: removes temporary files, and finishes an installation that a crash interrupted.
 * d->log is open, and d->fsm if there is one; d->meta is brought up to date.  A snapshot that is damaged or cannot be loaded is dropped, the
 * leader sends it again; an error means that state or log could not be written, with a sentence.
 */
enum tv_err snapshot_recv_recover(struct raftd *d, char *errbuf, size_t cap);

#endif
