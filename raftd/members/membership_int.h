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

/* Voters that answer, self included; false (and only self) when we do not lead. */
bool membership_healthy(struct membership *m, raft_id *healthy, unsigned *count);
/* While leading: does the quorum stay without this server?  Else why: the arithmetic, and advice. */
bool membership_can_lose(struct membership *m, raft_id id, char *why, size_t cap);

#endif
