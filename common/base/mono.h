/*
 * Time as a type.  Instants of the monotonic clock and durations are both
 * struct mono, in nanoseconds, so that an int cannot slip in by accident.
 * Pure code gets instants as arguments; only common/base/clock.c reads a clock.
 */
#ifndef TV_COMMON_BASE_MONO_H
#define TV_COMMON_BASE_MONO_H

#include <stdbool.h>
#include <stdint.h>

struct mono {
	int64_t ns;
};

#define MONO_NEVER  ((struct mono){ INT64_MAX })
#define MONO_ZERO   ((struct mono){ 0 })
#define MONO_MS(n)  ((struct mono){ (int64_t)(n) * 1000000 })
#define MONO_US(n)  ((struct mono){ (int64_t)(n) * 1000 })
#define MONO_S(n)   ((struct mono){ (int64_t)(n) * 1000000000 })

/* a + b; MONO_NEVER absorbs. */
static inline struct mono
mono_add(struct mono a, struct mono b)
{
	if (a.ns == INT64_MAX || b.ns == INT64_MAX)
		return MONO_NEVER;
	return (struct mono){ a.ns + b.ns };
}

/* a - b; may be negative. */
static inline struct mono
mono_sub(struct mono a, struct mono b)
{
	return (struct mono){ a.ns - b.ns };
}

static inline bool
mono_before(struct mono a, struct mono b)
{
	return a.ns < b.ns;
}

static inline struct mono
mono_min(struct mono a, struct mono b)
{
	return a.ns < b.ns ? a : b;
}

static inline struct mono
mono_mul(struct mono a, int64_t by)
{
	return (struct mono){ a.ns * by };
}

static inline int64_t
mono_ms(struct mono a)
{
	return a.ns / 1000000;
}

static inline double
mono_seconds(struct mono a)
{
	return (double)a.ns / 1e9;
}

#endif
