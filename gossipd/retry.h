/*
 * retry_join and retry_join_wan: targets (common/conf/target.h) that are dialled for ever until they are members.
 * Names and files are resolved again at each try.
 */
#ifndef TV_GOSSIPD_RETRY_H
#define TV_GOSSIPD_RETRY_H

#include "gossipd/engine.h"

struct retry;

/* Of a pool that is open; list is borrowed, and was checked.  NULL: no memory. */
struct retry *retry_new(struct engine *e, enum gossip_pool kind, const struct conf_list *list,
    const struct addr *self);
/* A join of JOIN_RETRY has ended. */
void retry_joined(struct retry *r, const struct swim_join *result);
/* Is this the source (common/net/source.h) of an address that a target has, or had when it was resolved last? */
bool retry_wants(const struct retry *r, uint64_t source);
void retry_free(struct retry *r);

#define RETRY_WAIT_FIRST MONO_S(1)	/* after a round in which no member answered; doubles up to retry_interval */
/*
 * Starts a one-shot timer: *wait +-25 %, so that nodes that lost each other together do not come back in step; the next
 * one is twice as long.
 */
void retry_wait_longer(const struct engine *e, ev_timer *w, struct mono *wait);

#endif
