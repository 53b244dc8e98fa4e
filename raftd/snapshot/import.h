/*
 * A client's archive on its way into the state of all servers.
 *
 * The leader takes the archive to a file, looks through it, and stages it by log entries (upload.h).  Each server then
 * loads what is staged beside its state, in a thread, while applying goes on; RESTORE_COMMIT only puts it in place.
 * A server whose loading is not through by then stops applying and waits for it: its old state serves stale reads,
 * others wait.  What can fail on one server only (a full disk) is tried again; a bad archive is bad on all of them, and
 * the old state stays (S51).
 */
#ifndef TV_RESTORES_H
#define TV_RESTORES_H

#include "raftd/raftd.h"

struct restores;
struct request;

struct restores *restores_new(struct raftd *d);
/* After engine_drain() and worker_stop(). */
void restores_free(struct restores *r);
/* RESTORE_OPEN, _WRITE, _APPLY and _STATUS. */
void restores_op(struct restores *r, struct request *q, const struct snapshot_ask *ask);
/* The client gave up: if it is not too late, nothing is changed. */
void restores_cancel(struct restores *r, struct span id);
/* Once per turn of the loop. */
void restores_turn(struct restores *r);

/* Disk that a state of so many bytes takes while it is loaded: tables, and their write-ahead log. */
uint64_t restores_need(uint64_t state_bytes);
/* The other way round: how large a state fits into this room. */
uint64_t restores_fit(uint64_t room);

/* What to do with a RESTORE_COMMIT of this id, the next entry to be applied. */
enum restore_verdict {
	RESTORE_ENTRY,		/* an entry as any other: there is nothing to take */
	RESTORE_WAIT,		/* not yet; engine_wake() when it is time to ask again */
	RESTORE_TAKEN,		/* the state is the restored one, at this entry's index */
	RESTORE_BROKEN,		/* this server's state is damaged */
};
enum restore_verdict restores_commit(struct restores *r, const char *id, uint64_t index, uint64_t term);
/* No entry may be applied now. */
bool restores_pausing(const struct restores *r);
/* Name and value pairs for info. */
void restores_info(struct restores *r, void (*fn)(void *ctx, const char *name, const char *value), void *ctx);

#endif
