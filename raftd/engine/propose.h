/*
 * The way of a write into the log: checks and fills in by the state machine, then the queue of this turn.
 */
#ifndef TV_WRITES_H
#define TV_WRITES_H

#include "raftd/engine/engine.h"

/*
 * fsm_prepare() and engine_propose().  On an error p->done is not called, and *text says why (borrowed from the
 * arena, or static; empty: tv_strerror).
 */
enum tv_err write_start(struct raftd *d, struct proposal *p, uint16_t op, struct span args, struct arena *a,
    struct span *text);
/* A random UUID; randomness is fetched in bulk, not per call. */
void uuid_make(char out[37]);

#endif
