/*
 * The leader's part of a restore: an archive comes in pieces to snapshot-upload.tmp, is looked through by a thread, goes
 * into the log piece by piece (a few entries on their way at once), and is committed once it is loaded here.  One at a
 * time.  Until the commit is proposed whatever goes wrong changes nothing; the client is told what.
 */
#ifndef TV_RAFTD_SNAPSHOT_IMPORT_LEADER_H
#define TV_RAFTD_SNAPSHOT_IMPORT_LEADER_H

#include "raftd/fsm/fsm.h"
#include "raftd/request/request.h"

struct import_leader;

/* RESTORE_OPEN, _WRITE, _APPLY and _STATUS, and SNAPSHOT_END of a save as of a restore. */
extern const struct request_op import_ops[];

struct import_leader *import_leader_new(struct raftd *d);
void import_leader_free(struct import_leader *u);
/* staged: what is staged now, or NULL; loaded: bytes of it that were loaded so far. */
void import_leader_turn(struct import_leader *u, const struct fsm_stage *staged, uint64_t loaded);
/* The channel of this request is gone. */
void import_leader_forget(struct import_leader *u, const struct request *q);
/* It cannot be loaded here. */
void import_leader_fail(struct import_leader *u, const char *id, const char *why);
/* Is anything to be done in import_leader_turn()? */
bool import_leader_busy(const struct import_leader *u);
/* Is the staged restore of this id this upload's, and still going on? */
bool import_leader_owns(const struct import_leader *u, const char *id);

/* Disk that a state of so many bytes takes while it is loaded: tables, and their write-ahead log. */
uint64_t import_leader_need(uint64_t state_bytes);
/* The other way round: how large a state fits into this space. */
uint64_t import_leader_fit(uint64_t space);

#endif
