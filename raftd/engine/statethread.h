/*
 * The threads of the state: one applies, others read beside it.  The loop hands in work and is told what came of it; it looks at no
 * page itself.
 */
#ifndef TV_RAFTD_ENGINE_STATETHREAD_H
#define TV_RAFTD_ENGINE_STATETHREAD_H

#include <ev.h>

#include "common/base/err.h"

struct fsm;
struct statethread;

/* NULL: no memory or no thread.  f is borrowed. */
struct statethread *statethread_new(struct ev_loop *loop, struct fsm *f);
/*
 * Waits for work that runs; what was not begun, and every `done`, is dropped: whoever handed in a ctx frees it in its own end.
 * From then on calls are refused (TV_ESYS).  NULL: nothing.
 */
void statethread_stop(struct statethread *s);
/* After statethread_stop(). */
void statethread_free(struct statethread *s);

/*
 * work runs in a thread that may wait, with a reader of the state between fsm_read_begin() and fsm_read_end(); done on the loop
 * afterwards, never before this returns.  ctx lives until done.  TV_ENOMEM, TV_ESYS: neither is called.
 */
enum tv_err statethread_call(struct statethread *s, void (*work)(struct fsm *reader, void *ctx), void (*done)(void *ctx),
    void *ctx);
/* The same in the applying thread, between batches: work may change the state, or replace it. */
enum tv_err statethread_between(struct statethread *s, void (*work)(struct fsm *f, void *ctx), void (*done)(void *ctx),
    void *ctx);

#endif
