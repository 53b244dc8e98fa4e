/*
 * When checks run: each on a grid of its own interval, so that it never drifts, whatever a run takes.  First runs are
 * spread evenly, also those of checks that come together.  Pure: the clock is handed in.
 */
#ifndef TV_RPCD_CHECK_SCHEDULE_H
#define TV_RPCD_CHECK_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/deadlines.h"
#include "common/base/err.h"

#define SCHEDULE_FIRST_MAX MONO_S(10)	/* a check without any result waits no longer for its first run */

struct slot {				/* in the owner's struct; zeroed before schedule_add() */
	struct deadline due;		/* first; the next run, while it waits */
	struct mono grid;		/* a point of its grid */
	struct mono interval;
};

struct schedule;

/* seed: where the spreading begins.  NULL: no memory. */
struct schedule *schedule_new(uint64_t seed);
/* Its slots are no longer used. */
void schedule_free(struct schedule *s);
/*
 * Plans the first run within the interval, which is above 0; soon: and within SCHEDULE_FIRST_MAX.  TV_ENOMEM.  The slot
 * stays where it is until schedule_remove().
 */
enum tv_err schedule_add(struct schedule *s, struct slot *slot, struct mono interval, bool soon, struct mono now);
/* Waiting or running. */
void schedule_remove(struct schedule *s, struct slot *slot);
/* Takes one whose time has come, the earliest; NULL: none.  It then runs until schedule_again(). */
struct slot *schedule_due(struct schedule *s, struct mono now);
/* After a run: plans for the next point of the grid.  Points that passed meanwhile are left out. */
void schedule_again(struct schedule *s, struct slot *slot, struct mono now);
/* When the next one is due; MONO_NEVER: nothing waits. */
struct mono schedule_next(const struct schedule *s);

#endif
