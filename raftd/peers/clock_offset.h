/* How far the wall clocks of other servers are from ours, by their answers to our hellos; pure. */
#ifndef TV_RAFTD_PEERS_CLOCK_OFFSET_H
#define TV_RAFTD_PEERS_CLOCK_OFFSET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/mono.h"

#define CLOCK_OFFSET_MAX_MS 1000	/* from there on it is told */

/*
 * *ms is how far a clock is ahead of ours (behind: negative) that showed there_ms (since 1970) when its server answered; the answer
 * came when ours showed here_ms, rtt after the question.  An error of half of rtt is taken off.  False: unknown, since the server
 * did not say or the answer was more than a second on its way.
 */
bool clock_offset(uint64_t there_ms, uint64_t here_ms, struct mono rtt, int64_t *ms);
/*
 * By how many ms, ahead or behind, our clock is off from those of most servers, given the offsets of all: a single wrong clock among
 * others makes its own server's figure large, and not theirs.  0 of none.
 */
uint64_t clock_offset_of_most(const int64_t *ms, unsigned count);

#endif
