/* Shared by membership.c and leave.c only. */
#ifndef TV_RAFTD_MEMBERS_MEMBERSHIP_INT_H
#define TV_RAFTD_MEMBERS_MEMBERSHIP_INT_H

#include "raftd/engine/proposals.h"
#include "raftd/members/leave.h"
#include "raftd/members/membership.h"
#include "raftd/members/no_leader_log.h"

#define HELD_MAX 16

struct change_wait {			/* a callback waits for a change or a transfer */
	bool active;
	uint64_t index;			/* of the configuration entry */
	membership_done *done;		/* NULL: the caller is gone */
	void *ctx;
};
struct held_server { char uuid[37]; struct mono until; };

struct membership {
	struct raftd *d;
	struct leave *leave;
	ev_timer timer;
	struct mono leader_since;	/* 0: we do not lead */
	struct change_wait change, transfer;
	struct proposal tombstone;
	bool tombstoning;
	uint64_t tombstone_index;	/* of one of this term with an unknown outcome; 0: none */
	uint64_t told_term;		/* in which tell_uninformed() logged */
	struct no_leader_log no_leader_log;
	struct mono told;		/* when servers without a seat were last told why */
	char complaint[512];		/* refusal logged last */
	struct held_server held[HELD_MAX];
	unsigned held_next;
};

/* What a refusal for the sake of quorum advises, after the arithmetic. */
#define QUORUM_ADVICE "; bring the failed servers back or add servers first, or use --force"

/* Voters that answer, self included; false (and only self) when we do not lead. */
bool membership_healthy(struct membership *m, raft_id *healthy, unsigned *count);
/* Was removed: not to be added again before it has gone. */
void membership_hold(struct membership *m, const char *uuid);

#endif
