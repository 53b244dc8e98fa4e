/*
 * The way of a write into the log: checks and fills in by the state machine, then the queue of this turn.
 */
#ifndef TV_RAFTD_ENGINE_PROPOSE_H
#define TV_RAFTD_ENGINE_PROPOSE_H

#include "raftd/engine/engine.h"

/*
 * fsm_prepare() and engine_propose().  On an error p->done is not called, and *text says why (borrowed from the
 * arena, or static; empty: tv_strerror).
 */
enum tv_err propose_args(struct raftd *d, struct proposal *p, uint16_t op, struct span args, struct arena *a,
    struct span *text);
/*
 * The same of a write whose right depends on the state: premises, as fsm_judge() gives them, or "".  It is applied only if they
 * still hold.  Until every server knows of premises it is proposed without them.
 */
enum tv_err propose_judged(struct raftd *d, struct proposal *p, uint16_t op, struct span args, struct span premises, struct arena *a,
    struct span *text);
/*
 * The same of a record of the server's own, not packed yet; then done is called.  why: room for the sentence, which is ""
 * if there is none; or NULL.
 */
enum tv_err propose_record(struct raftd *d, struct proposal *p, uint16_t op, const void *rec, proposal_done *done,
    char *why, size_t cap);
/* A random UUID; randomness is fetched in bulk, not per call. */
void uuid_make(char out[37]);

#endif
