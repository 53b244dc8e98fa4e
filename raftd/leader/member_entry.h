/* The catalog entry of a gossip member: what it should be, and whether it is so. */
#ifndef TV_REGISTER_H
#define TV_REGISTER_H

#include "common/record/member.h"
#include "raftd/fsm/fsm.h"

/* Packs the arguments of OP_CATALOG_REGISTER; false without memory. */
bool register_args(const struct member *m, const char *dc, bool alive, struct buf *out);
/* Does the stored node say the same? */
bool register_same_node(const struct member *m, const struct node *stored);
/* Servers: is the service `consul` there as it should be?  Others: true. */
bool register_same_service(struct fsm *f, const struct member *m);

#endif
