/*
 * Opening the data: the log, and then the state beside the server that already runs.
 *
 * The log says which term and vote this server gave, what it holds and the members: with it alone a server votes, follows,
 * stores and acknowledges.  So it is read first, in a thread, and the server begins.  The state, which after a crash takes
 * as long to open as the disk takes to read what Berkeley DB's recovery wants to see, is opened in a thread meanwhile.
 *
 * The state comes first where the log does not stand for itself: a fresh server, whose log says nothing (it must not
 * found a cluster beside a state that lost its log), and one that was installing a snapshot, which replaces the log too.
 *
 * A disk without room is waited for, in either step.
 */
#ifndef TV_RAFTD_OPENING_H
#define TV_RAFTD_OPENING_H

#include "raftd/raftd.h"

struct opening;
struct raft;

struct opening_events {
	/* fsm_options.relieved, with d. */
	void (*relieved)(void *ctx);
	/*
	 * d->log, d->meta and d->id are there, and the core, which the function called takes over.  d->fsm is there when it had to come
	 * first.  An error ends the process.
	 */
	enum tv_err (*log_open)(struct raftd *d, struct raft *core);
	/* d->fsm is there.  Once, after log_open. */
	enum tv_err (*state_open)(struct raftd *d);
};

/* NULL: no memory. */
struct opening *opening_new(struct raftd *d, const struct opening_events *events);
/* Begins; what comes of it is told by the events, never before this returns, or by the end of the process.  TV_ESYS: no thread. */
enum tv_err opening_start(struct opening *o);
/*
 * No more events.  False: the thread is still at work after a moment, with what it was given (the log, the state or both), and
 * there is no telling how long the disk will take: end the process without closing those, as a crash would.
 */
bool opening_stop(struct opening *o);
/* Does the thread use the log?  After opening_stop(). */
bool opening_holds_log(const struct opening *o);
/* After opening_stop() said true.  NULL: nothing. */
void opening_free(struct opening *o);

#endif
