/*
 * Recovery, pure: may this server go on alone, and what would be lost?
 *
 * Only when the majority cannot come back by itself: no leader is known, fewer voters than a quorum answer, and no
 * server that answers has a longer log than this one; and only with the state that the log continues.  The report says
 * what is known, the refusal why not.
 */
#ifndef TV_RAFTD_MEMBERS_RULES_RECOVER_PLAN_H
#define TV_RAFTD_MEMBERS_RULES_RECOVER_PLAN_H

#include "common/record/messages.h"
#include "raftd/core/raft.h"

struct recover_server {		/* beside this one */
	raft_id id;
	bool answered;
	struct msg_log_state log;	/* if it answered */
};

struct recover_input {
	const struct raft_config *config;	/* newest */
	raft_id self, leader;		/* leader: as known, 0 none */
	bool leads, member;		/* member: belongs to a cluster, with a log */
	bool stateless;			/* waits for a snapshot, since its log does not reach back to the beginning of its state */
	struct msg_log_state log;	/* of this server */
	struct recover_server servers[RAFT_SERVERS_MAX];
	unsigned count;
};

struct recover_plan {
	bool allowed;
	unsigned voters, answering;	/* voters, and those that answer, this one included */
	raft_id best;			/* the server with the longest log among those that answer */
	uint64_t leader_last;		/* highest that any server that answers has heard of */
	uint64_t may_be_lost;		/* entries beyond this server's log that another server is known to have had */
	char refused[512];		/* why not; "" allowed */
};

void recover_plan(const struct recover_input *in, struct recover_plan *out);

#endif
