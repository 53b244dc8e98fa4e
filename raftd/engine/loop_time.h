/*
 * How long the loop was away from its events.  While a turn lasts no heartbeat goes out and none is seen: one that is
 * longer than election_timeout may cost the leader its place.  So may a process that is not let run: it wakes too late.
 */
#ifndef TV_RAFTD_ENGINE_LOOP_TIME_H
#define TV_RAFTD_ENGINE_LOOP_TIME_H

#include "raftd/raftd.h"

struct loop_time;

/*
 * How long this process did not run, if it has not been running again for a second yet; else 0.  It was stopped, or the machine was
 * paused or had no time for it.
 */
struct mono loop_time_pause(const struct loop_time *t, struct mono now);
struct loop_time *loop_time_new(struct raftd *d);
void loop_time_free(struct loop_time *t);
/* Name and value pairs for info. */
void loop_time_info(const struct loop_time *t, figure_fn *fn, void *ctx);

#endif
