/*
 * The leader's part of a restore: an archive comes in pieces to snapshot-upload.tmp, is looked through by a thread, goes
 * into the log piece by piece (a few entries on their way at once), and is committed once it is loaded here.  One at a
 * time.  Until the commit is proposed whatever goes wrong changes nothing; the client is told what.
 */
#ifndef TV_RAFTD_SNAPSHOT_IMPORT_LEADER_H
#define TV_RAFTD_SNAPSHOT_IMPORT_LEADER_H

#include "raftd/fsm/fsm.h"
#include "raftd/raftd.h"

struct upload;
struct request;

struct upload *upload_new(struct raftd *d);
void upload_free(struct upload *u);
/* RESTORE_OPEN, _WRITE, _APPLY and _STATUS; args: a snapshot_ask. */
void upload_open(struct request *q, const void *args);
void upload_write(struct request *q, const void *args);
void upload_apply(struct request *q, const void *args);
void upload_status(struct request *q, const void *args);
void upload_cancel(struct upload *u, struct span id);
/* staged: what is staged now, or NULL; loaded: bytes of it that were loaded so far. */
void upload_turn(struct upload *u, const struct fsm_stage *staged, uint64_t loaded);
/* It cannot be loaded here. */
void upload_fail(struct upload *u, const char *id, const char *why);
/* Is anything to be done in upload_turn()? */
bool upload_busy(const struct upload *u);
/* Is the staged restore of this id this upload's, and still going on? */
bool upload_owns(const struct upload *u, const char *id);

#endif
