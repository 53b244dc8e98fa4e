/*
 * How long a loop's turns last: from its waking to its next sleep, on the wall clock and in processor time of its
 * thread.  While a turn lasts, nothing else of that loop is served.  The wall clock counts what the machine takes from
 * the thread as well; processor time says what the thread itself did.
 */
#ifndef TV_COMMON_PROC_LOOP_TURNS_H
#define TV_COMMON_PROC_LOOP_TURNS_H

#include <ev.h>

#include "common/base/histogram.h"

struct loop_turns {			/* the owner's storage; nothing to free */
	struct ev_loop *loop;
	/* A turn has lasted so long; set before loop_turns_start().  NULL: turns are only counted. */
	void (*on_turn)(void *ctx, struct mono wall);
	void *ctx;
	/* Its own. */
	ev_check begin;			/* the first after waiting */
	ev_prepare end;			/* the last before it */
	struct mono since;		/* 0: it waits */
	struct mono cpu_before;		/* of the thread, at the end of the last turn */
	struct histogram wall, cpu;
};

/* Measures the turns of this loop from now on; called in its thread, of a zeroed one but for on_turn and ctx. */
void loop_turns_start(struct loop_turns *t, struct ev_loop *loop);
void loop_turns_stop(struct loop_turns *t);
/*
 * Name and value pairs for info: of the histograms loop_turn (wall clock) and loop_cpu what histogram_info() gives, and
 * NAME_p999_us.  Returns their number.
 */
unsigned loop_turns_info(const struct loop_turns *t, figure_fn *fn, void *ctx);

#endif
