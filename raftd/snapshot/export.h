/*
 * Snapshots for clients: the state at one index, written by a thread as an archive (fsm/archive.h) to
 * snapshot-save-ID.tmp, and read from there piece by piece.  Applying goes on meanwhile; packing is the thread's work, so
 * the loop only ever reads a piece of a file.  A save that nobody reads any more is removed.
 */
#ifndef TV_RAFTD_SNAPSHOT_EXPORT_H
#define TV_RAFTD_SNAPSHOT_EXPORT_H

#include "raftd/raftd.h"

struct exports;
struct request;

struct exports *export_new(struct raftd *d);
/* After worker_stop(). */
void export_free(struct exports *s);
/* The operations SNAPSHOT_SAVE, SNAPSHOT_READ, and SNAPSHOT_END of a save; each answers now or later. */
void export_begin(struct exports *s, struct request *q);
void export_read(struct exports *s, struct request *q, struct span id, uint64_t offset);
/* False: no such save. */
bool export_end(struct exports *s, struct span id);

#endif
