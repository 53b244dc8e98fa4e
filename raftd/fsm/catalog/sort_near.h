/* An answer sorted by the distance from a node. */
#ifndef TV_RAFTD_FSM_CATALOG_SORT_NEAR_H
#define TV_RAFTD_FSM_CATALOG_SORT_NEAR_H

#include "common/base/rng.h"
#include "common/record/coordinate.h"
#include "raftd/fsm/state.h"

struct near_record { size_t at, len; int64_t rtt; uint64_t order; bool own; };
struct sort_near {
	struct fsm *f;
	bool active;			/* sorting is asked for, and its node has a coordinate */
	bool failed;			/* no memory */
	struct coordinate from;
	struct arena arena;
	struct buf last;		/* node of the last record, and how far it is */
	int64_t last_rtt;
	struct near_record *records;
	size_t count, cap;
	bool shuffled;			/* else what is equally far keeps its order */
	struct rng rng;
	struct buf own;			/* shuffled: the node that the answer is sorted from */
};
/* By q's Near or NearAddress; begun ones are ended. */
void sort_near_begin(struct sort_near *n, struct fsm *f, const struct catalog_read *q);
/* A record that belongs to this node was appended at this offset of the answer. */
void sort_near_note(struct sort_near *n, size_t at, struct span node);
/* Sorts what was noted; the last record ends where out ends. */
void sort_near_end(struct sort_near *n, struct buf *out);
/*
 * Of an answer in which what is equally far changes places at random, or all of it if no sorting is asked for.  What is at the
 * node that is sorted from comes first, if it is among the first ten; and only so many records stay (0: all).  How many these are.
 */
void sort_near_begin_shuffled(struct sort_near *n, struct fsm *f, const struct catalog_read *q);
uint32_t sort_near_end_shuffled(struct sort_near *n, struct buf *out, uint64_t limit);

#endif
