/* Calls the owner of a crowd when the time of a member is over, from a libev loop. */
#ifndef TV_COMMON_NET_CROWD_TIMER_H
#define TV_COMMON_NET_CROWD_TIMER_H

#include <ev.h>

#include "common/net/crowd.h"

struct crowd_timer {
	struct ev_loop *loop;
	struct crowd *crowd;
	void (*late)(struct crowd_member *m);
	struct mono set;		/* when it is due; MONO_NEVER: it does not run */
	ev_timer timer;
};

/* late: the time of this member is over, and it has no deadline any more; it may leave, others too. */
void crowd_timer_init(struct crowd_timer *t, struct ev_loop *loop, struct crowd *crowd,
    void (*late)(struct crowd_member *m));
void crowd_timer_stop(struct crowd_timer *t);
/* This member may stay as it is for so many seconds from now on; negative: for good. */
void crowd_timer_give(struct crowd_timer *t, struct crowd_member *m, double seconds);

#endif
