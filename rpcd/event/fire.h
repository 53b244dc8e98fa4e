/* Firing a user event at this node's gossipd: OP_EVENT_FIRE. */
#ifndef TV_RPCD_EVENT_FIRE_H
#define TV_RPCD_EVENT_FIRE_H

#include "rpcd/route/route.h"

/* Of OP_GOSSIP: done gets the event as the API shows it, or an error.  v is borrowed. */
struct route_provider fire_provider(struct members *v);

#endif
