/* A question about the keys of the pools to this server's gossipd: OP_KEYRING. */
#ifndef TV_KEYASK_H
#define TV_KEYASK_H

#include "rpcd/route/route.h"

struct keyask;

/*
 * done comes once, later, with a list of keyring_pool, WAN first.  What gossipd refuses stands in each pool's Error.
 * NULL: *err says why; nothing was done.
 */
struct keyask *keyask_start(struct view *v, const struct op_request *q, const char *datacenter, struct mono timeout,
    route_done *done, void *ctx, enum tv_err *err);
/* Frees it without done; what was asked for may happen all the same. */
void keyask_cancel(struct keyask *k);

#endif
