/*
 * How long the loop was away from its events.  While a turn lasts no heartbeat goes out and none is seen: one that is
 * longer than election_timeout may cost the leader its place.
 */
#ifndef TV_RAFTD_ENGINE_LOOP_TIME_H
#define TV_RAFTD_ENGINE_LOOP_TIME_H

#include "raftd/raftd.h"

struct looptime;

struct looptime *looptime_new(struct raftd *d);
void looptime_free(struct looptime *t);
/* Name and value pairs for info. */
void looptime_info(const struct looptime *t, void (*fn)(void *ctx, const char *name, const char *value), void *ctx);

#endif
