/*
 * How long the loop was away from its events.  While a turn lasts no heartbeat goes out and none is seen: one that is
 * longer than election_timeout may cost the leader its place.
 */
#ifndef TV_RAFTD_ENGINE_LOOP_TIME_H
#define TV_RAFTD_ENGINE_LOOP_TIME_H

#include "raftd/raftd.h"

struct loop_time;

struct loop_time *loop_time_new(struct raftd *d);
void loop_time_free(struct loop_time *t);
/* Name and value pairs for info. */
void loop_time_info(const struct loop_time *t, void (*fn)(void *ctx, const char *name, const char *value), void *ctx);

#endif
