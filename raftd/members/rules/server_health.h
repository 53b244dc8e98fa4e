/*
 * Health of the servers of the configuration as the leader judges it, pure: from facts of one look to records that
 * last from look to look.
 *
 * A server is healthy when gossip has it alive, its link is up, it answered within the contact threshold, its log
 * ends in the leader's term and not further behind than allowed, its disk has room and what it once held, and the daemons beside its raftd
 * answer.  How far behind is measured against the leader's log
 * at the look before: at tens of thousands of entries a second, any number of entries is but an instant.  One look
 * with a late answer is no illness: it takes two in a row; one that left, failed or lost its link is unhealthy at once.
 *
 * Fit for a vote is one that is healthy but for the daemons beside its raftd: agreeing needs neither rpcd nor gossipd.
 */
#ifndef TV_RAFTD_MEMBERS_RULES_SERVER_HEALTH_H
#define TV_RAFTD_MEMBERS_RULES_SERVER_HEALTH_H

#include "common/base/buf.h"
#include "common/net/silence.h"
#include "raftd/core/raft.h"

struct server_health_facts {		/* of one server, now */
	raft_id id;
	bool voter, self;
	bool alive, failed;		/* by gossip; neither: left, or unknown */
	bool linked;			/* its link is proven */
	bool full;			/* its disk takes no more writes */
	bool went_back;			/* its disk was put back to an older state */
	enum daemon_state rpcd, gossipd;	/* for longer than a restart takes; gossipd: of the server that looks */
	bool never;			/* no answer since this server leads */
	int64_t silent_ns;		/* since its last answer, or (never) since this server leads */
	uint64_t term, index;		/* end of its log as far as it is known to equal ours */
};

struct server_health_bounds {
	int64_t contact_ns;		/* 0: not looked at */
	uint64_t trailing;		/* 0: not looked at */
	uint64_t term;			/* last of the leader's log */
	uint64_t index_before;		/* last of the leader's log at the look before */
};

struct server_health_record {
	raft_id id;
	bool voter, healthy, fit;
	unsigned faults;		/* of the newest look */
	struct mono since;		/* healthy or not since then */
	int64_t since_wall;		/* the same, ns since the epoch */
	struct mono fit_since;		/* fit or not since then */
	struct mono dead_since;		/* failed in gossip and silent on its link since then; 0: it is not */
	struct server_health_facts facts;	/* of the newest look, as are the book's bounds */
};

struct server_health_book {
	struct server_health_record records[RAFT_SERVERS_MAX];
	unsigned count;
	struct server_health_bounds bounds;
};

/* A look at all servers of the configuration (at most RAFT_SERVERS_MAX); others are forgotten. */
void server_health_update(struct server_health_book *b, const struct server_health_facts *f, unsigned count, const struct server_health_bounds *bounds,
    struct mono now, int64_t wall_ns);
/* NULL: not looked at yet. */
const struct server_health_record *server_health_find(const struct server_health_book *b, raft_id id);
/* Why it is not healthy, for people: "no raft link to it is up"; nothing when it is.  Into an empty out. */
void server_health_why(const struct server_health_book *b, raft_id id, struct buf *out);
/* Are all servers of this configuration healthy?  One that came into it since the last look is not yet. */
bool server_health_all(const struct server_health_book *b, const struct raft_config *c);
/* How many voters of this configuration may fail before the quorum is gone, by the health that the last look found. */
unsigned server_health_tolerance(const struct server_health_book *b, const struct raft_config *c);
/*
 * Has this learner been fit long enough to get a vote?  A cluster that is just being put together does not wait:
 * while its leader has led for less than `stabilization` and all voters are fit, a fit learner will do.
 */
bool server_health_may_vote(const struct server_health_book *b, raft_id id, struct mono stabilization, struct mono leading,
    struct mono now);

#endif
