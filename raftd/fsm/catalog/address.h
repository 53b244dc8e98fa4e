/* The index of addresses, in memory. */
#ifndef TV_RAFTD_FSM_CATALOG_ADDRESS_H
#define TV_RAFTD_FSM_CATALOG_ADDRESS_H

#include "common/base/figure.h"
#include "raftd/fsm/state.h"

/* NULL: no memory. */
struct addresses *addresses_new(void);
void addresses_free(struct addresses *x);
/* A record is about to be changed by the running batch; f->lock held, as in these two. */
void addresses_note(struct fsm *f, const struct tkey *k);
/* After a commit, before it is published. */
void addresses_publish(struct fsm *f);
/* The records are others. */
void addresses_forget(struct fsm *f);
void addresses_info(const struct fsm *f, figure_fn *fn, void *ctx);

#endif
