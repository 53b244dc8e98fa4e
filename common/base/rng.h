/*
 * Small seeded generator (xoshiro256**, seeded by splitmix64) for timeouts,
 * shuffles and simulation: the same seed gives the same run on every machine.
 * Not for keys, nonces or identifiers: those come from libsodium.
 */
#ifndef TV_COMMON_BASE_RNG_H
#define TV_COMMON_BASE_RNG_H

#include <stdint.h>

struct rng {
	uint64_t s[4];
};

void rng_seed(struct rng *r, uint64_t seed);
uint64_t rng_u64(struct rng *r);
/* Uniform in [0, bound); bound 0 gives 0. */
uint64_t rng_below(struct rng *r, uint64_t bound);
/* Uniform in [0, 1). */
double rng_unit(struct rng *r);

#endif
