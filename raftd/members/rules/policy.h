/*
 * Membership policy, pure: from the configuration, what gossip says and which links are proven to the next
 * single change.  Gossip never authorises anything: it names candidates, a proven link makes them learners,
 * and only catching up makes them voters.
 */
#ifndef TV_RAFTD_MEMBERS_RULES_POLICY_H
#define TV_RAFTD_MEMBERS_RULES_POLICY_H

#include "common/record/member.h"
#include "raftd/core/raft.h"

#define POLICY_SERVERS_MAX 64

struct policy_server {			/* a server that gossip or a link knows */
	char uuid[37], name[256], addr[64];
	char store_id[37];		/* by its hello over a proven link; "" without */
	uint8_t status;			/* enum member_status */
	bool forced;			/* left by force-leave after it had failed */
	bool tombstoned;		/* removed for good */
	bool held;			/* not to be added: was just removed and has not gone yet, or has a living client's id */
};

struct policy_input {
	const struct raft_config *config;	/* newest */
	raft_id self;
	const char *self_name;			/* as it is now; NULL: not asked */
	const struct policy_server *servers;
	unsigned count;
	raft_id healthy[RAFT_SERVERS_MAX];	/* voters believed alive, self included */
	unsigned healthy_count;
	raft_id caught_up[RAFT_SERVERS_MAX];	/* learners ready to vote: caught up, and healthy long enough */
	unsigned caught_up_count;
	raft_id dead[RAFT_SERVERS_MAX];	/* failed in gossip and silent on their links for longer than the grace; */
	unsigned dead_count;		/* none when dead servers are not cleaned up */
	raft_id went_back[RAFT_SERVERS_MAX];	/* voters whose disks went back to an older state */
	unsigned went_back_count;
	unsigned min_voters;		/* that cleanup leaves in any case */
};

enum policy_action {
	POLICY_NONE, POLICY_ADD, POLICY_PROMOTE, POLICY_DEMOTE, POLICY_REMOVE, POLICY_UPDATE_ADDR, POLICY_RENAME, POLICY_TOMBSTONE,
};

struct policy_decision {
	enum policy_action action;
	struct raft_server_conf server;	/* of the change, or the one to tombstone */
	bool for_good;			/* with POLICY_REMOVE: and a tombstone for it */
	char why[512];			/* why it is removed; or, with POLICY_NONE, what was refused ("" nothing) */
};

/*
 * May the policy run?  Not while a change or a transfer is under way, and not before the state shows which servers were
 * removed for good: everything that earlier leaders committed must be applied, and so must a tombstone of this leader at
 * index `tombstone` whose outcome it does not know (0: none).
 */
bool policy_may_decide(const struct raft_status *st, uint64_t tombstone);
void policy_decide(const struct policy_input *in, struct policy_decision *out);

/*
 * Does a server belong to the cluster, given the newest configuration in a log and the one known to be committed there?
 * SEAT_OPEN: the newest one does not name it, and may still be lost.
 */
enum policy_seat { SEAT_NONE, SEAT_OPEN, SEAT_TAKEN };
enum policy_seat policy_seat(const struct raft_config *newest, const struct raft_config *committed, raft_id id);
/*
 * May this voter go?  Learners may always.  Else false, and the arithmetic in one sentence:
 * "the quorum would be lost: 2 of 3 voters are healthy; without n3 there are 2 voters, which need 2 healthy ones, and
 * 1 would be left".
 */
bool policy_may_remove(const struct raft_config *c, raft_id id, const raft_id *healthy, unsigned healthy_count,
    char *text, size_t cap);
#endif
