/*
 * Answers to linearizable reads that were looked up before their round was confirmed (reads.h).  Each is held until then,
 * and given if the state that it was found in is new enough.  Pure: no clock, no I/O.
 */
#ifndef TV_RAFTD_ENGINE_READ_AHEAD_H
#define TV_RAFTD_ENGINE_READ_AHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/rd.h"

#define AHEAD_VALUE_MAX (16u << 10)	/* bytes of one answer; a larger one takes as long to keep as to find again */
#define AHEAD_BYTES_MAX (1u << 20)	/* of all that are held */
#define AHEAD_SHORT 480			/* bytes of an answer whose memory is used again */
#define AHEAD_SPARES 128		/* pieces of such memory, kept */
#define AHEAD_REST 64			/* reads that are not looked up ahead after one that was for nothing */

struct ahead {				/* one answer */
	uint64_t applied;		/* the state that it was found in */
	unsigned replaced;		/* fsm_replaced() then */
	uint64_t index;			/* X-Consul-Index */
	struct ahead *next;		/* private: among the spares */
	uint32_t len;
	uint8_t value[];
};

struct aheads {				/* caller's storage; zeros at first */
	size_t held;			/* bytes of values */
	unsigned rest;			/* reads to be let go by */
	unsigned spare_count;
	struct ahead *spares;
	uint64_t given, wasted;		/* since the start */
};

/*
 * Should the next read be looked up ahead?  Not when there is no room, and for a while not after one that was for
 * nothing: where writes keep coming, most would be.
 */
bool aheads_wanted(struct aheads *a);
/* Holds a copy of an answer; NULL: it is too large, or there is no memory. */
struct ahead *aheads_hold(struct aheads *a, uint64_t applied, unsigned replaced, uint64_t index, struct span value);
/*
 * The round is confirmed at `index`: may the answer be given?  replaced: fsm_replaced() now: what was restored has nothing
 * to do with an older state, whatever the indexes say.
 */
bool aheads_may_give(struct aheads *a, const struct ahead *x, uint64_t index, unsigned replaced);
/* Its end, given or not.  NULL: nothing. */
void aheads_drop(struct aheads *a, struct ahead *x);
/* Frees the spares, when all were dropped. */
void aheads_done(struct aheads *a);

#endif
