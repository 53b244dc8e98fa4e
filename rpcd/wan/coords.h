/*
 * Where the servers of all datacenters are, as the WAN pool sees it: asked from gossipd every few seconds, on servers
 * only.  While gossipd is away the last answer stays.
 */
#ifndef TV_RPCD_WAN_COORDS_H
#define TV_RPCD_WAN_COORDS_H

#include "common/record/coordinate.h"
#include "rpcd/gossip/members.h"

struct coords;

/* NULL: no memory. */
struct coords *coords_new(struct ev_loop *loop, struct members *members);
void coords_free(struct coords *p);
/* Gossipd told something: asks at once when nothing is known yet.  Call from on_change of the view. */
void coords_wake(struct coords *p);
/* Coordinate of a WAN member ("node.datacenter"); false: not known. */
bool coords_of(const struct coords *p, struct span name, struct coordinate *out);
/* Estimated round trip from this server to a WAN member, ns; COORDINATE_FAR when that is not known. */
int64_t coords_rtt_ns(const struct coords *p, struct span name);

#endif
