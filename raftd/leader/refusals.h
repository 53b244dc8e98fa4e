/*
 * Members that the leader keeps out of the catalog because their name or id is that of a living one: what the log says of
 * them, each once a minute, with both parties, both addresses and the remedy.
 */
#ifndef TV_RAFTD_LEADER_REFUSALS_H
#define TV_RAFTD_LEADER_REFUSALS_H

#include "raftd/leader/rules/reconcile.h"
#include "raftd/raftd.h"

struct refusals;

/* NULL: no memory. */
struct refusals *refusals_new(struct raftd *d);
void refusals_free(struct refusals *r);
/* m is refused, for the reason and because of the member in *dec (RECONCILE_REFUSE). */
void refusals_log(struct refusals *r, const struct member *m, const struct reconcile_decision *dec);

#endif
