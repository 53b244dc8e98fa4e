/*
 * Blocking queries whose tokens change: a wait with a token that is deleted, or may less than before, is to end.
 *
 * After a change of access control the tokens of all waits are resolved again, one after the other in a thread, and those whose
 * rights are others now look again.  While there are many changes the walks keep a distance of 100 ms.  That a token expires is
 * the business of the query's own timer.
 */
#ifndef TV_RAFTD_SERVE_TOKEN_WATCH_H
#define TV_RAFTD_SERVE_TOKEN_WATCH_H

#include "raftd/request/request.h"

/* NULL: no memory. */
struct token_watch *token_watch_new(struct raftd *d);
/* After statethread_stop(), and when no request waits. */
void token_watch_free(struct token_watch *w);
/* It begins to wait, with q->rights; without them nothing happens. */
void token_watch_add(struct request *q);
/* It waits no more, or never did. */
void token_watch_remove(struct request *q);

#endif
