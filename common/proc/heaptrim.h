/*
 * Gives the memory that a burst left in the allocator back to the system.
 *
 * Channels, arenas and answers free what a burst took, but glibc keeps freed memory that lies below a live
 * block.  Trimming costs milliseconds and page faults afterwards, so it is done once, when the
 * process has become quiet after work, never under load.
 */
#ifndef TV_COMMON_PROC_HEAPTRIM_H
#define TV_COMMON_PROC_HEAPTRIM_H

#include <ev.h>
#include <stdbool.h>

#include "common/base/mono.h"

struct heaptrim {		/* caller's storage; nothing to free */
	struct ev_loop *loop;
	ev_timer timer;
	struct mono period;
	struct mono cpu;	/* processor time of the process at the last look */
	bool worked;		/* since the last trim */
};

/* Looks every `period` (10 s in the daemons); the loop is not kept alive by it. */
void heaptrim_start(struct heaptrim *h, struct ev_loop *loop, struct mono period);
/* At once: for a caller that has just freed very much.  Takes milliseconds when it was. */
void heaptrim_now(void);
void heaptrim_stop(struct heaptrim *h);
/* The rule: with this much processor time used so far, is it time to trim? */
bool heaptrim_due(struct heaptrim *h, struct mono cpu);

#endif
