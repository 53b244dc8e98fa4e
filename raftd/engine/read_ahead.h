/*
 * Answers to linearizable reads that were looked up before their round was confirmed (reads.h).  Each is held until then,
 * and given if the state that it was found in is new enough.  Pure: no clock, no I/O.
 */
#ifndef TV_RAFTD_ENGINE_READ_AHEAD_H
#define TV_RAFTD_ENGINE_READ_AHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/rd.h"

#define READ_AHEAD_VALUE_MAX (16u << 10)	/* bytes of one answer; a larger one takes as long to keep as to find again */
#define READ_AHEAD_BYTES_MAX (1u << 20)	/* of all that are held */
#define READ_AHEAD_SHORT 480		/* bytes of an answer whose memory is used again */
#define READ_AHEAD_SPARES 128		/* pieces of such memory, kept */
#define READ_AHEAD_REST 64		/* reads that are not looked up ahead after one that was for nothing */

struct read_ahead {			/* one answer */
	uint64_t applied;		/* the state that it was found in */
	unsigned replaced;		/* fsm_replaced() then */
	uint64_t index;			/* X-Consul-Index */
	struct read_ahead *next;	/* private: among the spares */
	uint32_t len;
	uint8_t value[];
};

struct reads_ahead {			/* caller's storage; zeros at first */
	size_t held;			/* bytes of values */
	unsigned rest;			/* reads to be let go by */
	unsigned spare_count;
	struct read_ahead *spares;
	uint64_t given, wasted;		/* since the start */
};

/*
 * Should the next read be looked up ahead?  Not when there is no room, and for a while not after one that was for
 * nothing: where writes keep coming, most would be.
 */
bool read_ahead_wanted(struct reads_ahead *a);
/* Holds a copy of an answer; NULL: it is too large, or there is no memory. */
struct read_ahead *read_ahead_hold(struct reads_ahead *a, uint64_t applied, unsigned replaced, uint64_t index, struct span value);
/*
 * The round is confirmed at `index`: may the answer be given?  replaced: fsm_replaced() now: what was restored has nothing
 * to do with an older state, whatever the indexes say.
 */
bool read_ahead_may_give(struct reads_ahead *a, const struct read_ahead *x, uint64_t index, unsigned replaced);
/* Its end, given or not.  NULL: nothing. */
void read_ahead_drop(struct reads_ahead *a, struct read_ahead *x);
/* Frees the spares, when all were dropped. */
void read_ahead_done(struct reads_ahead *a);

#endif
