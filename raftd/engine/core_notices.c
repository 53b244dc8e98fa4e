/* What the core notices: log lines in the words that operators know, and the status event. */
#include <stdio.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "raftd/engine/engine_int.h"

/* -- addresses, also of those that have just left the configuration -- */

void
core_notices_book(struct engine *e)
{
	const struct raft_config *c = raft_config(e->core);

	for (unsigned i = 0; i < c->count; i++) {
		struct known_addr *k = NULL;

		for (unsigned j = 0; j < BOOK_MAX && k == NULL; j++)
			if (e->book[j].id == c->servers[i].id)
				k = &e->book[j];
		if (k == NULL)
			k = &e->book[e->book_next++ % BOOK_MAX];
		k->id = c->servers[i].id;
		snprintf(k->addr, sizeof(k->addr), "%s", c->servers[i].addr);
	}
}

/* "?" when unknown. */
static const char *
addr_of(const struct engine *e, raft_id id)
{
	for (unsigned i = 0; i < BOOK_MAX; i++)
		if (e->book[i].id == id)
			return e->book[i].addr;
	return "?";
}

/* -- log lines -- */

static void
log_role(struct engine *e)
{
	const struct raft_status *st = engine_status(e);
	/* A server that is cut off or was removed asks again and again: not worth a line each time. */
	bool asking = e->told.term == st->term &&
	    (e->told.role == RAFT_PRE_CANDIDATE || st->role == RAFT_PRE_CANDIDATE);

	/* Several changes of one output are told when they are over. */
	if (e->told.role == st->role && e->told.term == st->term)
		return;
	e->told.role = st->role;
	e->told.term = st->term;
	if (asking)
		log_debug("raft", "pre-vote for term %llu, now %s", (unsigned long long)st->term + 1,
		    raft_role_name(st->role));
	else
		log_info("raft", "entering %s state, term %llu", raft_role_name(st->role),
		    (unsigned long long)st->term);
	engine_status_changed(e);
}

/* Whether the patience with it has ended, or another server's word of a new term has come first. */
static void
log_no_leader(struct engine *e)
{
	const struct raft_server_conf *s = raft_config_find(raft_config(e->core), e->told.leader);
	bool self;
	struct mono silent = mono_sub(clock_mono(), engine_heard(e, &self));

	if (self || silent.ns < e->d->conf.election_timeout.ns)
		log_info("raft", "no leader known");
	else
		log_info("raft", "no leader known: nothing heard from %s (%s) for %lld ms", s != NULL ? s->name : "the last one",
		    addr_of(e, e->told.leader), (long long)mono_ms(silent));
}

static void
log_leader(struct engine *e)
{
	const struct raft_status *st = engine_status(e);
	const struct raft_server_conf *s = raft_config_find(raft_config(e->core), st->leader);

	if (st->leader == 0 && e->told.leader != 0)
		log_no_leader(e);
	else if (s != NULL && e->told.leader != st->leader)
		log_info("raft", "new leader: %s (%s)", s->name, s->addr);
	e->told.leader = st->leader;
	engine_status_changed(e);
}

static void
log_violation(struct engine *e, const struct raft_notice *n)
{
	static struct log_limit limit = { .burst = 5, .period = { 60000000000 } };

	if (log_allow(&limit, "raft"))
		log_err("raft", "peer %s violated the protocol: %s; message dropped",
		    addr_of(e, n->id), raft_violation_text((enum raft_violation)n->index));
}

/* What a leader does with the server n->id. */
static void
log_change(struct engine *e, const struct raft_notice *n, const char *did, const char *then)
{
	core_notices_book(e);
	if (engine_is_leader(e))
		log_info("raft", "%s peer %s%s", did, addr_of(e, n->id), then);
}

/* -- disks that went back -- */

#define WHENCE "was a snapshot of its virtual machine reverted, or an old copy of its data directory put back?"

/* To prevent it the next time; this time nothing has to be done. */
static void
log_peer_went_back(struct engine *e, const struct raft_notice *n)
{
	const struct raft_server_conf *s = raft_config_find(raft_config(e->core), n->id);
	const char *name = s != NULL ? s->name : "a server";

	if (n->index > 0)
		log_err("raft", "the disk of %s (%s) went back to an older state: it had acknowledged the log up to index %llu, and lacks "
		    "part of that now; " WHENCE " It is sent what it lacks; until then neither its vote nor what it acknowledged counts",
		    name, addr_of(e, n->id), (unsigned long long)n->index);
	else
		log_err("raft", "the disk of %s (%s) went back to an older state, it says; " WHENCE " It is sent what it lacks; until then "
		    "neither its vote nor what it acknowledged counts", name, addr_of(e, n->id));
}

static void
log_went_back(struct engine *e, const struct raft_notice *n)
{
	char had[64] = "";

	if (n->id != e->d->id.self) {
		log_peer_went_back(e, n);
		return;
	}
	if (n->index > 0)
		snprintf(had, sizeof(had), " (it had the log up to index %llu)", (unsigned long long)n->index);
	log_err("raft", "the disk of this server went back to an older state: other servers remember what it lacks now%s; " WHENCE
	    " It gives no vote and does not stand for election until a leader has sent all that is missing. If the others can elect none "
	    "without it, start those that are down; when they are lost for good: clusterctl raft recover, on the server whose log "
	    "reaches farthest. Rather than revert a server, start it with an empty data directory", had);
}

static void
log_regained(struct engine *e, const struct raft_notice *n)
{
	const struct raft_server_conf *s = raft_config_find(raft_config(e->core), n->id);

	if (n->id == e->d->id.self)
		log_warn("raft", "this server has everything again that its disk had lost, up to index %llu", (unsigned long long)n->index);
	else
		log_warn("raft", "%s (%s) has everything again that its disk had lost, up to index %llu", s != NULL ? s->name : "a server",
		    addr_of(e, n->id), (unsigned long long)n->index);
}

void
core_notices_only_voter(struct engine *e, uint64_t index)
{
	static struct log_limit limit = { .burst = 1, .period = { 60000000000 } };

	if (log_allow(&limit, "raft"))
		log_err("raft", "the disk of this server went back to an older state: other servers remember that it had the log up to index "
		    "%llu. It is the only voter, so what it lost is lost; learners that have more must be started with an empty data "
		    "directory (%s/raftd there)", (unsigned long long)index, e->d->cluster.data_dir);
}

void
core_notices_log(struct engine *e, const struct raft_notice *n)
{
	const struct raftd_conf *c = &e->d->conf;

	switch (n->type) {
	case RAFT_NOTICE_ROLE:
		log_role(e);
		break;
	case RAFT_NOTICE_LEADER:
		log_leader(e);
		break;
	case RAFT_NOTICE_PEER_ADDED:
		log_change(e, n, "Added", ", starting replication");
		break;
	case RAFT_NOTICE_PEER_PROMOTED:
		log_change(e, n, "Promoted", " to voter");
		break;
	case RAFT_NOTICE_PEER_DEMOTED:
		log_change(e, n, "Demoted", " to learner");
		break;
	case RAFT_NOTICE_WENT_BACK:
		log_went_back(e, n);
		engine_status_changed(e);
		break;
	case RAFT_NOTICE_REGAINED:
		log_regained(e, n);
		engine_status_changed(e);
		break;
	case RAFT_NOTICE_PEER_REMOVED:
		log_change(e, n, "Removed", ", stopping replication");
		break;
	case RAFT_NOTICE_CONFIG_COMMITTED:
		core_notices_book(e);
		engine_status_changed(e);
		break;
	case RAFT_NOTICE_NO_PEERS:
		if (c->bootstrap_expect == 0 && !c->bootstrap)
			log_warn("raft", "EnableSingleNode disabled, and no known peers. Aborting election.");
		break;
	case RAFT_NOTICE_NOT_VOTER:
		log_warn("raft", "not a voter of the configuration. Aborting election.");
		break;
	case RAFT_NOTICE_QUORUM_LOST:
		log_warn("raft", "no majority answers any more, stepping down");
		break;
	case RAFT_NOTICE_LEADER_GONE:
		log_info("raft", "the raftd of the leader %s has ended: its links are closed, and nobody listens there. "
		    "Asking for votes at once", addr_of(e, n->id));
		break;
	case RAFT_NOTICE_CAUGHT_UP:
		log_info("raft", "peer %s has caught up", addr_of(e, n->id));
		break;
	case RAFT_NOTICE_VIOLATION:
		log_violation(e, n);
		break;
	default:
		break;
	}
}
