/*
 * Snapshots for clients: the state at one index, written by a thread as an archive (fsm/archive.h) to
 * snapshot-save-ID.tmp, and read from there piece by piece.  Applying goes on meanwhile; packing is the thread's work, so
 * the loop only ever reads a piece of a file.  A save that nobody reads any more is removed.
 */
#ifndef TV_RAFTD_SNAPSHOT_EXPORT_H
#define TV_RAFTD_SNAPSHOT_EXPORT_H

#include "raftd/raftd.h"

struct saves;
struct request;

struct saves *saves_new(struct raftd *d);
/* After worker_stop(). */
void saves_free(struct saves *s);
/* The operations SNAPSHOT_SAVE, SNAPSHOT_READ, and SNAPSHOT_END of a save; each answers now or later. */
void saves_begin(struct saves *s, struct request *q);
void saves_read(struct saves *s, struct request *q, struct span id, uint64_t offset);
/* False: no such save. */
bool saves_end(struct saves *s, struct span id);

#endif
