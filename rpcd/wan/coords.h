/*
 * Where the servers of all datacenters are, as the WAN pool sees it: asked from gossipd every few seconds, on servers
 * only.  While gossipd is away the last answer stays.
 */
#ifndef TV_PLACES_H
#define TV_PLACES_H

#include "common/record/coordinate.h"
#include "rpcd/gossip/members.h"

struct places;

/* NULL: no memory. */
struct places *places_new(struct ev_loop *loop, struct view *view);
void places_free(struct places *p);
/* Gossipd told something: asks at once when nothing is known yet.  Call from on_change of the view. */
void places_kick(struct places *p);
/* Coordinate of a WAN member ("node.datacenter"); false: not known. */
bool places_of(const struct places *p, struct span name, struct coordinate *out);
/* Estimated round trip from this server to a WAN member, ns; COORDINATE_FAR when that is not known. */
int64_t places_rtt_ns(const struct places *p, struct span name);

#endif
