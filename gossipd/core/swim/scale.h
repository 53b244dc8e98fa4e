/*
 * Numbers that grow with the pool: how often a message is sent, how long a
 * suspicion lasts, how rare full exchanges become.  All are functions of the count
 * of known members, so every member of a pool arrives at the same values.
 * Source: SWIM section 4.1 and Lifeguard section III, with the constants of the
 * deployed memberlist (doc/wire.md).
 */
#ifndef TV_GOSSIPD_CORE_SWIM_SCALE_H
#define TV_GOSSIPD_CORE_SWIM_SCALE_H

#include "common/base/mono.h"

/* Times a broadcast is sent before it leaves the queue: mult * ceil(log10(n + 1)). */
unsigned scale_retransmits(unsigned mult, uint32_t known);
/*
 * The same for Serf's messages, which no member tells a second time soon: as often as it takes for all to
 * hear in 7,999 of 8,000 cases, which in pools just below a power of ten is more; but not more than mult times
 * per other member.
 */
unsigned scale_reach(unsigned mult, uint32_t known);
/* Shortest time in suspicion: mult * max(1, log10 n) * interval, the factor cut to 3 decimals. */
struct mono scale_suspicion_min(unsigned mult, uint32_t known, struct mono probe_interval);
/* Accusers beyond the first that end a suspicion at its minimum: mult - 2, or 0 in a pool too small for that. */
unsigned scale_confirmations(unsigned mult, uint32_t known);
/*
 * Whole time in suspicion, from its start.
 * need    confirmations that bring it down to `min`; 0 means it is `min` from the start
 * seen    confirmations so far, at most `need`
 * Falls with the logarithm of `seen`, cut to milliseconds; never below min.
 */
struct mono scale_suspicion(unsigned need, unsigned seen, struct mono min, struct mono max);
/* Time between full exchanges: the interval itself up to 32 members, then longer with each doubling. */
struct mono scale_pushpull(struct mono interval, uint32_t known);

#endif
