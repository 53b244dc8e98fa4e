/*
 * Snapshots for clients: the state at one index, written by a thread as an archive (fsm/archive.h) to
 * snapshot-save-ID.tmp, and read from there piece by piece, by a thread too.  Applying goes on meanwhile.  A save that
 * no client reads any more is removed.
 */
#ifndef TV_RAFTD_SNAPSHOT_EXPORT_H
#define TV_RAFTD_SNAPSHOT_EXPORT_H

#include "raftd/request/request.h"

struct exports;

/* SNAPSHOT_SAVE and SNAPSHOT_READ. */
extern const struct request_op export_ops[];

struct exports *export_new(struct raftd *d);
/* The channel of this request is gone. */
void export_forget(struct exports *s, const struct request *q);
/* After jobs_stop() and statethread_stop(). */
void export_free(struct exports *s);
/* The client needs it no more.  False: no such save. */
bool export_end(struct exports *s, struct span id);

#endif
