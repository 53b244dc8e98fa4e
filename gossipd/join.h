/*
 * Joins that gossipd begins by itself: the addresses of retry_join and retry_join_wan, the members
 * known before a restart, and (on servers) the WAN side of the datacenter's other servers.
 */
#ifndef TV_GOSSIPD_JOIN_H
#define TV_GOSSIPD_JOIN_H

#include "gossipd/engine.h"

/* settled: called once, when joiner_settled() has become true.  NULL: no memory. */
struct joiner *joiner_new(struct engine *e, void (*settled)(struct engine *e));
/* A pool was opened: starts its joins.  found is copied.  TV_ENOMEM. */
enum tv_err joiner_pool(struct joiner *j, enum gossip_pool kind, const struct addr *self,
    const struct snapshot_found *found);
void joiner_event(struct joiner *j, enum gossip_pool kind, const struct swim_event *ev);
void joiner_joined(struct joiner *j, enum gossip_pool kind, const struct swim_join *result);
/*
 * Have the members from before a restart been asked?  Until then our view lacks members that are there, and is not
 * shown.
 */
bool joiner_settled(const struct joiner *j);
/* Is this the source (common/net/source.h) of an address of retry_join or retry_join_wan? */
bool joiner_wants(const struct joiner *j, enum gossip_pool kind, uint64_t source);
void joiner_free(struct joiner *j);

#endif
