/*
 * The leader's part of a restore: an archive comes in pieces to snapshot-upload.tmp, is looked through by a thread, goes
 * into the log piece by piece (a few entries on their way at once), and is committed once it is loaded here.  One at a
 * time.  Until the commit is proposed whatever goes wrong changes nothing; the client is told what.
 */
#ifndef TV_RAFTD_SNAPSHOT_IMPORT_LEADER_H
#define TV_RAFTD_SNAPSHOT_IMPORT_LEADER_H

#include "raftd/fsm/fsm.h"
#include "raftd/raftd.h"

struct import_leader;
struct request;

struct import_leader *import_leader_new(struct raftd *d);
void import_leader_free(struct import_leader *u);
/* RESTORE_OPEN, _WRITE, _APPLY and _STATUS; args: a snapshot_ask. */
void import_leader_open(struct request *q, const void *args);
void import_leader_write(struct request *q, const void *args);
void import_leader_apply(struct request *q, const void *args);
void import_leader_status(struct request *q, const void *args);
void import_leader_cancel(struct import_leader *u, struct span id);
/* staged: what is staged now, or NULL; loaded: bytes of it that were loaded so far. */
void import_leader_turn(struct import_leader *u, const struct fsm_stage *staged, uint64_t loaded);
/* It cannot be loaded here. */
void import_leader_fail(struct import_leader *u, const char *id, const char *why);
/* Is anything to be done in import_leader_turn()? */
bool import_leader_busy(const struct import_leader *u);
/* Is the staged restore of this id this upload's, and still going on? */
bool import_leader_owns(const struct import_leader *u, const char *id);

#endif
