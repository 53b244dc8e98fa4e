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

struct restores;
struct upload;

struct restores *restores_new(struct raftd *d);
/* After engine_drain() and worker_stop(). */
void restores_free(struct restores *r);
/* The leader's part. */
struct upload *restores_upload(struct restores *r);
/* The client gave up: if it is not too late, nothing is changed. */
void restores_cancel(struct restores *r, struct span id);
/* Once per turn of the loop. */
void restores_turn(struct restores *r);

/* Disk that a state of so many bytes takes while it is loaded: tables, and their write-ahead log. */
uint64_t restores_need(uint64_t state_bytes);
/* The other way round: how large a state fits into this room. */
uint64_t restores_fit(uint64_t room);

/* A RESTORE_COMMIT of this id is the next entry to be applied: see struct engine_hooks. */
enum restore_verdict restores_commit(struct raftd *d, const char *id, uint64_t index, uint64_t term);
/* No entry may be applied now. */
bool restores_pausing(const struct restores *r);
/* Name and value pairs for info. */
void restores_info(struct restores *r, void (*fn)(void *ctx, const char *name, const char *value), void *ctx);

#endif
