/* What the core tells. */
#include "common/base/log.h"
#include "raftd/serve/clients.h"
#include "raftd/engine/engine.h"
#include "raftd/leader/leader.h"
#include "raftd/members/membership.h"
#include "raftd/engine/core_notices.h"
#include "raftd/snapshot/snapshots.h"

static void
tell_role(struct raftd *d, const struct raft_notice *n)
{
	const struct raft_status *st = engine_status(d->engine);
	/* A server that is cut off or was removed asks again and again: not worth a line each time. */
	bool asking = d->told.term == st->term &&
	    (d->told.role == RAFT_PRE_CANDIDATE || st->role == RAFT_PRE_CANDIDATE);

	(void)n;
	/* Several changes of one output are told when they are over. */
	if (d->told.role == st->role && d->told.term == st->term)
		return;
	d->told.role = st->role;
	d->told.term = st->term;
	if (asking)
		log_debug("raft", "pre-vote for term %llu, now %s", (unsigned long long)st->term + 1,
		    raft_role_name(st->role));
	else
		log_info("raft", "entering %s state, term %llu", raft_role_name(st->role),
		    (unsigned long long)st->term);
	leader_role_changed(d->leader);
	membership_role_changed(d->members);
	clients_status_changed(d->clients);
}

static void
tell_leader(struct raftd *d, const struct raft_notice *n)
{
	const struct raft_status *st = engine_status(d->engine);
	const struct raft_server_conf *s = raft_config_find(raft_config(engine_core(d->engine)), st->leader);

	(void)n;
	if (st->leader == 0 && d->told.leader != 0)
		log_info("raft", "no leader known");
	else if (s != NULL && d->told.leader != st->leader)
		log_info("raft", "new leader: %s (%s)", s->name, s->addr);
	d->told.leader = st->leader;
	membership_role_changed(d->members);
	clients_status_changed(d->clients);
}

static void
tell_added(struct raftd *d, const struct raft_notice *n)
{
	membership_config_changed(d->members);
	if (engine_is_leader(d->engine))
		log_info("raft", "Added peer %s, starting replication", membership_addr(d->members, n->id));
}

static void
tell_promoted(struct raftd *d, const struct raft_notice *n)
{
	membership_config_changed(d->members);
	if (engine_is_leader(d->engine))
		log_info("raft", "Promoted peer %s to voter", membership_addr(d->members, n->id));
}

static void
tell_removed(struct raftd *d, const struct raft_notice *n)
{
	if (engine_is_leader(d->engine))
		log_info("raft", "Removed peer %s, stopping replication", membership_addr(d->members, n->id));
	membership_config_changed(d->members);
}

static void
tell_self_removed(struct raftd *d, const struct raft_notice *n)
{
	(void)n;
	membership_self_removed(d->members);
}

static void
tell_config(struct raftd *d, const struct raft_notice *n)
{
	membership_config_committed(d->members, n->index);
	clients_status_changed(d->clients);
}

static void
tell_no_peers(struct raftd *d, const struct raft_notice *n)
{
	(void)n;
	if (d->conf.bootstrap_expect == 0 && !d->conf.bootstrap)
		log_warn("raft", "EnableSingleNode disabled, and no known peers. Aborting election.");
}

static void
tell_not_voter(struct raftd *d, const struct raft_notice *n)
{
	(void)d;
	(void)n;
	log_warn("raft", "not a voter of the configuration. Aborting election.");
}

static void
tell_quorum_lost(struct raftd *d, const struct raft_notice *n)
{
	(void)d;
	(void)n;
	log_warn("raft", "no majority answers any more, stepping down");
}

static void
tell_need_snapshot(struct raftd *d, const struct raft_notice *n)
{
	snapshots_needed(d->snapshots, n->id, n->index);
}

static void
tell_caught_up(struct raftd *d, const struct raft_notice *n)
{
	log_info("raft", "peer %s has caught up", membership_addr(d->members, n->id));
	membership_poke(d->members);
}

static void
tell_transfer_done(struct raftd *d, const struct raft_notice *n)
{
	membership_transfer_ended(d->members, true, n->id);
}

static void
tell_transfer_failed(struct raftd *d, const struct raft_notice *n)
{
	membership_transfer_ended(d->members, false, n->id);
}

static void
tell_violation(struct raftd *d, const struct raft_notice *n)
{
	static struct log_limit limit = { .burst = 5, .period = { 60000000000 } };

	if (log_allow(&limit, "raft"))
		log_err("raft", "peer %s broke the protocol: %s; its message was dropped",
		    membership_addr(d->members, n->id), raft_violation_text((enum raft_violation)n->index));
}

static void (*const tellers[])(struct raftd *d, const struct raft_notice *n) = {
	[RAFT_NOTICE_ROLE] = tell_role,
	[RAFT_NOTICE_LEADER] = tell_leader,
	[RAFT_NOTICE_PEER_ADDED] = tell_added,
	[RAFT_NOTICE_PEER_PROMOTED] = tell_promoted,
	[RAFT_NOTICE_PEER_REMOVED] = tell_removed,
	[RAFT_NOTICE_SELF_REMOVED] = tell_self_removed,
	[RAFT_NOTICE_CONFIG_COMMITTED] = tell_config,
	[RAFT_NOTICE_NO_PEERS] = tell_no_peers,
	[RAFT_NOTICE_NOT_VOTER] = tell_not_voter,
	[RAFT_NOTICE_QUORUM_LOST] = tell_quorum_lost,
	[RAFT_NOTICE_NEED_SNAPSHOT] = tell_need_snapshot,
	[RAFT_NOTICE_CAUGHT_UP] = tell_caught_up,
	[RAFT_NOTICE_TRANSFER_DONE] = tell_transfer_done,
	[RAFT_NOTICE_TRANSFER_FAILED] = tell_transfer_failed,
	[RAFT_NOTICE_VIOLATION] = tell_violation,
};

void
notices_tell(struct raftd *d, const struct raft_notice *n)
{
	if ((size_t)n->type < sizeof(tellers) / sizeof(tellers[0]) && tellers[n->type] != NULL)
		tellers[n->type](d, n);
}
