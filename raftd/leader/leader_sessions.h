/*
 * Timers of sessions with a TTL; on the leader only, in memory.  A session ends between TTL and twice
 * the TTL after it was last renewed: its timer runs twice the TTL, and a look comes a little before that.  A new
 * leader starts all timers at full length.  The end is a logged destroy; when that fails it is tried again after 10 s.
 */
#ifndef TV_RAFTD_LEADER_LEADER_SESSIONS_H
#define TV_RAFTD_LEADER_LEADER_SESSIONS_H

#include "raftd/raftd.h"

struct leader_sessions;

struct leader_sessions *leader_sessions_new(struct raftd *d);
void leader_sessions_free(struct leader_sessions *s);
void leader_sessions_start(struct leader_sessions *s);
void leader_sessions_stop(struct leader_sessions *s);
void leader_sessions_applied(struct leader_sessions *s, const struct raft_entry *entries, uint32_t count);
void leader_sessions_renew(struct leader_sessions *s, struct span id);

#endif
