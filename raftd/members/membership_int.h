/* Shared by membership.c and leave.c only. */
#ifndef TV_MEMBERSHIP_INT_H
#define TV_MEMBERSHIP_INT_H

#include "raftd/members/no_leader_log.h"
#include "raftd/members/leave.h"
#include "raftd/members/membership.h"
#include "raftd/engine/proposals.h"

#define BOOK_MAX 64
#define HELD_MAX 16

struct change_wait {			/* somebody waits for a change or a transfer */
	bool active;
	uint64_t index;			/* of the configuration entry */
	membership_done *done;		/* NULL: nobody any more */
	void *ctx;
};
struct known_addr { raft_id id; char addr[64]; };
struct held_server { char uuid[37]; struct mono until; };

struct membership {
	uint64_t caught_up_term;	/* the term in which, leading, we had applied all that was committed */
	struct raftd *d;
	struct leave *leave;
	ev_timer timer;
	struct mono leader_since;	/* 0: we do not lead */
	struct change_wait change, transfer;
	struct proposal tombstone;
	bool tombstoning;
	struct leaderless leaderless;
	struct mono told;		/* when servers without a seat were last told why */
	char complaint[512];		/* refusal logged last */
	struct known_addr book[BOOK_MAX];
	unsigned book_next;
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
