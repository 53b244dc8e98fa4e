/* Which voter takes over from a leader whose disk is full, pure. */
#ifndef TV_RAFTD_ENGINE_VOTER_WITH_SPACE_H
#define TV_RAFTD_ENGINE_VOTER_WITH_SPACE_H

#include "raftd/core/raft.h"

/* Those that were asked and did not take over. */
struct tried_voters {
	unsigned count;
	raft_id ids[RAFT_SERVERS_MAX];
};
/*
 * Of the voters that were heard lately, whose disks have room and that lack `lag` entries of our log at most, the one with the
 * newest log; none that was tried.  0: there is none.
 */
raft_id voter_with_space(const struct raft_status *st, const struct tried_voters *tries, uint64_t lag);
/* Marks a server as tried; marking it twice has no effect. */
void voter_tried(struct tried_voters *tries, raft_id id);

#endif
