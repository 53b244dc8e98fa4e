/*
 * Pending calls on one channel: pairs answers with questions by frame id and
 * gives each a deadline.  One table per channel.
 */
#ifndef TV_COMMON_NET_CALLS_H
#define TV_COMMON_NET_CALLS_H

#include "common/net/chan.h"

struct calls;

/*
 * The answer, exactly once.  err TV_OK: body is the whole answer (FRAME_MORE parts
 * joined), borrowed.  Else why there is none: TV_ETIMEOUT, TV_ECLOSED (the channel went
 * away after the question may have been sent: outcome unknown), TV_ELIMIT.
 */
typedef void calls_done(void *ctx, enum tv_err err, struct span body);

struct calls *calls_new(struct ev_loop *loop, unsigned pending_max, size_t answer_max);
/* Fails all pending calls with TV_ECLOSED, then frees. */
void calls_free(struct calls *t);
/*
 * Sends a question on c and remembers it.  Returns its id (never 0), or 0 with *err set
 * to TV_ECLOSED or TV_ELIMIT; then nothing was sent and done will not be called.
 * timeout MONO_NEVER: none.
 */
uint64_t calls_start(struct calls *t, struct chan *c, uint16_t type, struct span body,
    struct mono timeout, calls_done *done, void *ctx, enum tv_err *err);
/* Forgets a call without calling done, and tells the peer with FRAME_CANCEL (same type and id, no body). */
void calls_cancel(struct calls *t, struct chan *c, uint64_t id);
/* Give it every frame with FRAME_REPLY; unknown ids are ignored (late answers). */
enum tv_err calls_frame(struct calls *t, const struct frame *f);
/* The channel went down: every pending call ends with `why`. */
void calls_fail_all(struct calls *t, enum tv_err why);
unsigned calls_pending(const struct calls *t);

#endif
