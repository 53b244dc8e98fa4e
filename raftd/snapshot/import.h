/*
 * A client's archive on its way into the state of all servers.
 *
 * The leader takes the archive to a file, looks through it, and stages it by log entries (import_leader.h).  Each server then
 * loads what is staged beside its state, in a thread, while applying goes on; RESTORE_COMMIT only puts it in place.
 * A server whose loading is not through by then stops applying and waits for it: its old state serves stale reads,
 * others wait.  What can fail on one server only (a full disk) is tried again; a bad archive is bad on all of them, and
 * the old state stays (S51).
 */
#ifndef TV_RAFTD_SNAPSHOT_IMPORT_H
#define TV_RAFTD_SNAPSHOT_IMPORT_H

#include "raftd/engine/engine.h"

struct import;

struct import *import_new(struct raftd *d);
/* After engine_drain() and jobs_stop(). */
void import_free(struct import *r);
/* Once per turn of the loop. */
void import_turn(struct import *r);

/* A RESTORE_COMMIT of this id is the next entry to be applied: see struct engine_hooks. */
enum restore_verdict import_commit(struct raftd *d, const char *id, uint64_t index, uint64_t term);
/* No entry may be applied now. */
bool import_pausing(const struct import *r);
/* Name and value pairs for info. */
void import_info(struct import *r, figure_fn *fn, void *ctx);

#endif
