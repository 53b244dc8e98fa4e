/*
 * Operations of one entry that are all or nothing.
 *
 * Between begin and commit or fail, inside the applying of an entry, the group's operations are applied like any others,
 * one after the other; each sees what those before it did.  After fail nothing of them is left: records, indexes, tallies
 * and snapshots are as they were, and watches are fired by what is outside of the group only.  What an operation answered
 * is its result's, which the caller keeps or drops.  Groups may hold groups.
 *
 * A group costs less than 1 us beside its operations; fail reads the write-ahead log of what is undone, from the disk where
 * it is long.  An error of Berkeley DB goes to f->failed as always; after begin one of the two ends is called in any case.
 * An operation may empty f->work (TOMBSTONE_REAP does): what the caller needs after it lives elsewhere.
 */
#ifndef TV_RAFTD_FSM_GROUP_H
#define TV_RAFTD_FSM_GROUP_H

#include "raftd/fsm/read/watch.h"

struct fsm_group {
	DB_TXN *outer;
	struct touches_mark touches;
	uint64_t index[FX_COUNT], tally[FT_COUNT];
};
void fsm_group_begin(struct fsm *f, struct fsm_group *g);
void fsm_group_commit(struct fsm *f, struct fsm_group *g);
void fsm_group_fail(struct fsm *f, struct fsm_group *g);

#endif
