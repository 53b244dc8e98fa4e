/*
 * Nodes of the catalog that gossip does not know (any more): those with a serfHealth check, which only members have, and of
 * whose name and id there is no member (reconcile_is_stray()).  A look goes through the catalog piece by piece, in a thread.
 */
#ifndef TV_RAFTD_LEADER_STRAYS_H
#define TV_RAFTD_LEADER_STRAYS_H

#include "raftd/leader/rules/reconcile.h"
#include "raftd/raftd.h"

struct strays;

struct stray {
	struct reconcile_node node;
	bool critical;			/* its serfHealth is */
	uint64_t index;			/* at which that was written */
};

/* Called on the loop for each one, which is borrowed. */
typedef void strays_found(void *ctx, const struct stray *s);

/* NULL: no memory. */
struct strays *strays_new(struct raftd *d, strays_found *found, void *ctx);
void strays_free(struct strays *s);
/* Begins a look, from the first node on, which is given up when gossip is not settled for that time (gossip_settled()). */
void strays_look(struct strays *s, struct mono settled);
/* Does a look go on?  Else: did the last one come to the end of the catalog? */
bool strays_are_looked_for(const struct strays *s);
bool strays_were_all_found(const struct strays *s);
/* Ends it; found is not called any more. */
void strays_stop(struct strays *s);
/* Goes on with it, if it waits for that: it does so after each piece, of at most STRAYS_PIECE nodes. */
void strays_turn(struct strays *s);
#define STRAYS_PIECE 64

#endif
