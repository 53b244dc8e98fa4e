/* Autopilot: the leader looks after the servers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "raftd/disk/space.h"
#include "raftd/engine/engine.h"
#include "raftd/engine/propose.h"
#include "raftd/fsm/fsm.h"
#include "raftd/leader/leader.h"
#include "raftd/members/autopilot.h"
#include "raftd/members/no_leader_log.h"
#include "raftd/members/rpcd_peers.h"
#include "raftd/members/rules/server_health.h"
#include "raftd/peers/gossip.h"
#include "raftd/peers/links.h"

#define LOOK_EVERY MONO_MS(500)
#define WHY_BYTES_MAX 1024		/* far more than all that can be said against a server */

struct autopilot {
	struct raftd *d;
	struct server_health_book book;
	struct mono leading_since;	/* 0: we do not lead */
	struct mono looked;
	uint64_t index;			/* last of our log at the newest look */
	struct proposal first;		/* writes the first record */
	bool writing;
};

void
autopilot_role_changed(struct autopilot *a)
{
	bool leads = engine_is_leader(a->d->engine);

	if (leads == (a->leading_since.ns != 0))
		return;
	a->leading_since = leads ? clock_mono() : MONO_ZERO;
	a->looked = MONO_ZERO;
	a->index = 0;
	a->book.count = 0;
}

/* -- the first record -- */

static void
first_done(struct proposal *p, enum tv_err err, const struct fsm_result *result UNUSED)
{
	struct autopilot *a = (struct autopilot *)((char *)p - offsetof(struct autopilot, first));

	(void)err;			/* the next look tries again */
	a->writing = false;
}

/* What raftd.conf says is where a cluster begins; afterwards the record counts. */
static void
write_first(struct autopilot *a)
{
	const struct raftd_conf *c = &a->d->conf;
	struct autopilot_set q = { .Initial = true, .Config = {
		.CleanupDeadServers = c->cleanup_dead_servers, .MinQuorum = c->min_quorum,
		.LastContactThreshold = c->last_contact_threshold.ns, .MaxTrailingLogs = c->max_trailing_logs,
		.ServerStabilizationTime = c->server_stabilization_time.ns,
	} };

	a->writing = propose_record(a->d, &a->first, OP_AUTOPILOT_SET, &q, first_done, NULL, 0) == TV_OK;
}

/* -- looking -- */

static struct server_health_facts
facts_of(struct autopilot *a, const struct raft_server_conf *s, struct mono now)
{
	struct raftd *d = a->d;
	const struct raft_status *st = engine_status(d->engine);
	const struct raft_peer_status *p = raft_status_peer(st, s->id);
	const struct peer *link = links_find_id(d->links, s->id);
	struct server_health_facts f = { .id = s->id, .voter = s->voter, .self = s->id == d->id.self };
	struct gossip_server g;

	if (f.self) {
		f.alive = f.linked = true;
		f.term = st->last_term;
		f.index = st->last_index;
		f.full = space_full(d->space);
		f.went_back = st->went_back;
		f.gossipd = gossip_daemon_lasting(d->gossip);	/* and our rpcd lives: it is the one that asks */
		return f;
	}
	f.rpcd = rpcd_peers_daemon(d->rpcd_peers, s->id);
	if (gossip_find_server(d->gossip, s->uuid, &g)) {
		f.alive = g.status == MEMBER_ALIVE;
		f.failed = g.status == MEMBER_FAILED;
	}
	f.linked = link != NULL && link->proven;
	f.never = p == NULL || p->last_contact.ns == 0;
	f.silent_ns = mono_sub(now, f.never ? a->leading_since : p->last_contact).ns;
	if (p == NULL)
		return f;
	f.full = p->full;
	f.went_back = p->went_back;
	f.index = p->match;
	f.term = p->match > 0 ? engine_term_at(d->engine, p->match) : 0;
	return f;
}

/* All that a server can know that does not lead: gossip, its links, its own disk and gossipd. */
static void
look_from_aside(struct autopilot *a, struct server_health_book *book)
{
	const struct raft_config *c = engine_config(a->d->engine);
	struct server_health_facts facts[RAFT_SERVERS_MAX];
	struct server_health_bounds bounds = { 0 };
	struct mono now = clock_mono();

	for (unsigned i = 0; i < c->count; i++) {
		facts[i] = facts_of(a, &c->servers[i], now);
		facts[i].term = facts[i].index = 0;
	}
	*book = (struct server_health_book){ 0 };
	server_health_update(book, facts, c->count, &bounds, now, clock_wall_ns());
}

void
autopilot_look(struct autopilot *a)
{
	const struct raft_status *st = engine_status(a->d->engine);
	const struct raft_config *c = engine_config(a->d->engine);
	struct server_health_facts facts[RAFT_SERVERS_MAX];
	struct autopilot_config conf;
	struct server_health_bounds bounds;
	struct mono now = clock_mono();
	bool written;

	if (a->leading_since.ns == 0 || (a->looked.ns != 0 && mono_sub(now, a->looked).ns < LOOK_EVERY.ns))
		return;
	written = fsm_autopilot(a->d->fsm, &conf);
	if (!written && !a->writing && leader_active(a->d->leader))
		write_first(a);
	bounds = (struct server_health_bounds){ .term = st->last_term, .index_before = a->index };
	if (st->informed) {			/* else the record in the state may be an old one */
		bounds.contact_ns = conf.LastContactThreshold;
		bounds.trailing = conf.MaxTrailingLogs;
	}
	for (unsigned i = 0; i < c->count; i++)
		facts[i] = facts_of(a, &c->servers[i], now);
	server_health_update(&a->book, facts, c->count, &bounds, now, clock_wall_ns());
	a->looked = now;
	a->index = st->last_index;
}

/* -- advice -- */

void
autopilot_advise(struct autopilot *a, struct policy_input *in)
{
	const struct raft_status *st = engine_status(a->d->engine);
	struct mono now = clock_mono(), leading = mono_sub(now, a->leading_since);
	struct autopilot_config conf;
	/* The record, and all of it: without it, or behind it, this server cannot know yet that it says to leave the dead alone. */
	bool known = fsm_autopilot(a->d->fsm, &conf) && leader_active(a->d->leader);

	in->min_voters = conf.MinQuorum > 0 ? (unsigned)conf.MinQuorum : AUTOPILOT_VOTERS_KEPT;
	for (unsigned i = 0; i < st->peer_count; i++)
		if (st->peers[i].voter && st->peers[i].went_back)
			in->went_back[in->went_back_count++] = st->peers[i].id;
	for (unsigned i = 0; i < a->book.count; i++) {
		const struct server_health_record *r = &a->book.records[i];
		const struct raft_peer_status *p = raft_status_peer(st, r->id);

		if (known && conf.CleanupDeadServers && r->dead_since.ns != 0 && p != NULL && !p->active &&
		    mono_sub(now, r->dead_since).ns >= a->d->conf.dead_server_grace.ns)
			in->dead[in->dead_count++] = r->id;
		if (p != NULL && !p->voter && p->caught_up &&
		    server_health_may_vote(&a->book, r->id, (struct mono){ conf.ServerStabilizationTime }, leading, now))
			in->caught_up[in->caught_up_count++] = r->id;
	}
}

/* -- telling -- */

static struct span
stamp(int64_t wall_ns, char *dst, size_t cap)
{
	time_t sec = (time_t)(wall_ns / 1000000000);
	struct tm tm;

	gmtime_r(&sec, &tm);
	return span_of(dst, strftime(dst, cap, "%Y-%m-%dT%H:%M:%SZ", &tm));
}

struct told {				/* texts of one server, for as long as its record is packed */
	struct gossip_server gossip;
	char since[32];
	struct buf why;
};

/* Since a server was last in touch with its leader, as far as this one knows; -1: never, or unknown. */
static int64_t
last_contact(struct autopilot *a, const struct server_health_facts *f)
{
	struct mono heard;
	bool self;

	if (a->leading_since.ns != 0)
		return f->never ? -1 : f->silent_ns;
	if (!f->self)
		return -1;
	heard = engine_heard(a->d->engine, &self);
	return heard.ns == 0 ? -1 : mono_sub(clock_mono(), heard).ns;
}

static struct server_health
tell_server(struct autopilot *a, const struct server_health_book *book, const struct raft_server_conf *s, struct told *t)
{
	const struct server_health_record *r = server_health_find(book, s->id);
	struct server_health_facts f = facts_of(a, s, clock_mono());
	bool known = gossip_find_server(a->d->gossip, s->uuid, &t->gossip);

	buf_init(&t->why, WHY_BYTES_MAX);
	server_health_why(book, s->id, &t->why);
	return (struct server_health){
		.ID = span_str(s->uuid), .Name = span_str(s->name), .Address = span_str(s->addr),
		.SerfStatus = span_str(member_status_name(known ? t->gossip.status : MEMBER_NONE)),
		.Version = span_str(known ? t->gossip.build : ""), .Leader = s->id == engine_status(a->d->engine)->leader,
		.LastContact = last_contact(a, &f),
		.LastTerm = f.term, .LastIndex = f.index, .Healthy = r != NULL && r->healthy, .Voter = s->voter,
		.StableSince = stamp(r != NULL ? r->since_wall : clock_wall_ns(), t->since, sizeof(t->since)),
		.Reason = buf_span(&t->why),
	};
}

static void
put_aside(struct raftd *d, struct buf *out)
{
	struct buf why = BUF_INIT(65536);

	if (no_leader_log_text(d, &why))
		buf_printf(out, "No leader: %s", buf_cstr(&why));
	else
		buf_printf(out, "As %s sees it, which does not lead: by gossip, its links and its own disk", d->id.name);
	buf_done(&why);
}

void
autopilot_health(struct autopilot *a, struct buf *out)
{
	const struct raft_config *c = engine_config(a->d->engine);
	struct server_health servers[RAFT_SERVERS_MAX];
	struct told *told = calloc(RAFT_SERVERS_MAX, sizeof(*told));
	struct autopilot_health h = { .Servers = { servers, c->count, true } };
	struct server_health_book aside;
	const struct server_health_book *book = a->leading_since.ns != 0 ? &a->book : &aside;
	struct buf reason = BUF_INIT(65536);

	autopilot_look(a);
	if (book == &aside)
		look_from_aside(a, &aside);
	h.Healthy = server_health_all(book, c) && engine_status(a->d->engine)->leader != 0;
	h.FailureTolerance = h.Healthy || book == &a->book ? server_health_tolerance(book, c) : 0;
	if (book == &aside)
		put_aside(a->d, &reason);
	h.Reason = buf_span(&reason);
	if (told == NULL)
		h.Servers.n = 0;
	for (unsigned i = 0; i < h.Servers.n; i++)
		servers[i] = tell_server(a, book, &c->servers[i], &told[i]);
	schema_pack(&autopilot_health_schema, &h, out);
	buf_done(&reason);
	for (unsigned i = 0; i < h.Servers.n; i++)
		buf_done(&told[i].why);
	free(told);
}

void
autopilot_info(struct autopilot *a, figure_fn *fn, void *ctx)
{
	const struct raft_config *c = engine_config(a->d->engine);

	if (a->leading_since.ns == 0)
		return;
	autopilot_look(a);
	FIGURES_PUT(fn, ctx, { "autopilot_healthy", server_health_all(&a->book, c) },
	    { "autopilot_failure_tolerance", server_health_tolerance(&a->book, c) });
}

struct autopilot *
autopilot_new(struct raftd *d)
{
	struct autopilot *a = calloc(1, sizeof(*a));

	if (a != NULL)
		a->d = d;
	return a;
}

void
autopilot_free(struct autopilot *a)
{
	free(a);
}
