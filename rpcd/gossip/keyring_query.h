/* A question about the keys of the pools to this server's gossipd: OP_KEYRING. */
#ifndef TV_RPCD_GOSSIP_KEYRING_QUERY_H
#define TV_RPCD_GOSSIP_KEYRING_QUERY_H

#include "common/record/ops.h"
#include "rpcd/gossip/members.h"

/*
 * Carries out OP_GOSSIP_SERVER operations for the router: members is the struct members that asks.  done comes once,
 * later, with a list of keyring_pool, WAN first.  What gossipd refuses stands in each pool's Error.  NULL: *err says
 * why; nothing was done.
 */
void *keyring_query_start(void *members, const struct op_request *q, struct mono timeout,
    void (*done)(void *ctx, const struct op_reply *reply), void *ctx, enum tv_err *err);
/* Frees it without done; what was asked for may happen all the same. */
void keyring_query_cancel(void *started);

#endif
