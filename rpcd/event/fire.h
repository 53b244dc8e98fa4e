/* Firing a user event at this node's gossipd: OP_EVENT_FIRE. */
#ifndef TV_FIRE_H
#define TV_FIRE_H

#include "rpcd/route/route.h"

struct fire;

/* done comes once, later, with the event as the API shows it, or an error.  NULL: *err says why; nothing was fired. */
struct fire *fire_start(struct view *v, const struct op_request *q, struct mono timeout, route_done *done, void *ctx,
    enum tv_err *err);
/* Frees it without done; the event may be fired all the same. */
void fire_cancel(struct fire *f);

#endif
