/*
 * Names that differ only by ASCII case.  Two members of ours must not have such names: everything above gossip compares
 * names without case.  To Serf's agents they are two members, and so are they here unless both are ours.
 *
 * The index holds, for each name without case, the member of ours that was found alive last.  Members that die stay in
 * it: the caller looks whether the one found still lives.  There is one entry for each name without case, so peers that
 * invent spellings of one name make no chain.
 */
#ifndef TV_GOSSIPD_CORE_SWIM_TWINS_H
#define TV_GOSSIPD_CORE_SWIM_TWINS_H

#include "gossipd/core/swim/intern.h"
#include "gossipd/core/swim/table.h"

struct twins {
	struct node **slots;		/* probed in line; slot_count is a power of 2, or 0 at first */
	uint32_t slot_count, count;
};

void twins_done(struct twins *w);
/* The member of ours that has this name without case, itself or a twin; NULL: none. */
struct node *twins_find(const struct twins *w, const struct table *t, struct span name);
/* From now on this one has its name without case.  TV_ENOMEM: nothing changed. */
enum tv_err twins_claim(struct twins *w, const struct table *t, struct node *n);
/* The record is about to be freed. */
void twins_drop(struct twins *w, const struct table *t, const struct node *n);

#endif
