/*
 * Which linearizable reads are looked up before their round is confirmed (reads.h), and which of the answers may be given.  Each is held
 * until then, and given if the state that it was found in is new enough.  Pure: no clock, no I/O.
 */
#ifndef TV_RAFTD_ENGINE_READ_AHEAD_H
#define TV_RAFTD_ENGINE_READ_AHEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define READ_AHEAD_VALUE_MAX (16u << 10)	/* bytes of one answer that is held */
#define READ_AHEAD_BYTES_MAX (1u << 20)	/* of all that are held */
#define READ_AHEAD_REST 64		/* reads that are not looked up ahead after one that was for nothing */

struct reads_ahead {			/* caller's storage; zeros at first */
	size_t held;			/* bytes of answers */
	unsigned rest;			/* reads to be let go by */
	uint64_t given, wasted;		/* since the start */
};

/*
 * Should the next read be looked up ahead?  Not when there is no room, and for a while not after one that was for
 * nothing: where writes keep coming, most would be.
 */
bool read_ahead_wanted(struct reads_ahead *a);
/* An answer was found: may it be held?  Else it is for nothing; look again once the round is confirmed. */
bool read_ahead_hold(struct reads_ahead *a, size_t len);
/* It is held no more: it is looked at, or its asker went. */
void read_ahead_release(struct reads_ahead *a, size_t len);
/*
 * The round is confirmed at `index`: may an answer that was found in the state of `applied` be given?  replaced: fsm_replaced()
 * then, and now: what was restored has nothing to do with an older state, whatever the indexes say.
 */
bool read_ahead_may_give(struct reads_ahead *a, uint64_t applied, uint64_t index, unsigned replaced, unsigned replaced_now);

#endif
