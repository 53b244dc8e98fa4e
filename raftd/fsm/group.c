/*
 * Operations of one entry that are all or nothing.
 *
 * Records go back with a transaction inside that of the batch: Berkeley DB takes it back by its write-ahead log, so memory
 * does not grow with what the group changes.  What is in memory goes back to a copy.  A single operation has no need of
 * that: it decides before it changes anything.
 */
#include "raftd/fsm/group.h"
#include "raftd/fsm/table/table.h"

void
fsm_group_begin(struct fsm *f, struct fsm_group *g)
{
	memcpy(g->index, f->index, sizeof(g->index));
	memcpy(g->tally, f->tally, sizeof(g->tally));
	g->touches = touches_mark(f->touches);
	tbl_nest(f, &g->outer);
}

void
fsm_group_commit(struct fsm *f, struct fsm_group *g)
{
	tbl_unnest(f, g->outer, true);
}

void
fsm_group_fail(struct fsm *f, struct fsm_group *g)
{
	tbl_unnest(f, g->outer, false);
	memcpy(f->index, g->index, sizeof(f->index));
	memcpy(f->tally, g->tally, sizeof(f->tally));
	touches_cut(f->touches, g->touches);
}
