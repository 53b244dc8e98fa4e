/*
 * Where a forward goes, and what comes back.  See route_int.h.
 *
 *	dispatch_try ─┬─ daemon_client_call   own raftd
 *	          ├─ link_client_call         leader, any server, other datacenter
 *	          ├─ route_provider     on this node: own gossipd, the pools
 *	          └─ forward_hold        no leader now: the timer or route_wake() tries again
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/net/msg.h"
#include "common/net/source.h"
#include "common/record/mpack.h"
#include "raftd/core/raft.h"
#include "rpcd/route/route_int.h"
#include "rpcd/wan/datacenters.h"

#define FORWARD_TRIED_MAX 4
#define SERVERS_LOOKED_AT 32
#define LOOK_AROUND_EVERY MONO_S(10)
#define REIGN_OVER_S 5.0		/* who leads no more has this long to answer what it was asked as the leader */

/* -- one leader after another -- */

bool
dispatch_reign_note(struct route *r)
{
	const struct raftd_client_status *st = r->conf.raft == NULL ? NULL : raftd_client_status(r->conf.raft);

	if (st == NULL || st->leader_id[0] == '\0' || strcmp(st->leader_id, r->leader) == 0)
		return false;
	snprintf(r->leader, sizeof(r->leader), "%s", st->leader_id);
	r->reign++;
	if (r->reign == 1)
		return false;
	if (!ev_is_active(&r->reign_timer)) {
		r->over = r->reign;
		ev_timer_set(&r->reign_timer, REIGN_OVER_S, 0.);
		ev_timer_start(r->conf.loop, &r->reign_timer);
	}
	return true;
}

/*
 * Asked of a leader that leads no more, and it does not say anything: its rpcd, or the raftd beside it, may be frozen,
 * and then the connection tells nothing.  What is safe to repeat, or was not sent yet, goes to the new leader; of the
 * rest the outcome is unknown.
 */
static void
reign_is_over(struct forward *u)
{
	bool done = link_client_sent(u->link) && !(u->op->traits & OP_REPEATABLE);

	link_client_cancel(u->link);
	u->link = NULL;
	u->state = FORWARD_NEW;
	if (done) {
		forward_doom(u, TV_EUNKNOWN);
		return;
	}
	u->route->stats.retried++;
	u->hold_until = mono_add(clock_mono(), u->route->conf.hold_timeout);
	dispatch_try(u);
}

/* Of the leaders before this one.  Nothing here calls back: no forward goes while we walk. */
void
dispatch_reign_give_up(struct route *r, uint32_t before, bool sent_too)
{
	struct forward *next;

	for (struct forward *u = LIST_FIRST(&r->others); u != NULL; u = next) {
		next = LIST_NEXT(u, list);
		if (u->state == FORWARD_LINK && u->reign != 0 && u->reign < before &&
		    (sent_too || !link_client_sent(u->link)))
			reign_is_over(u);
	}
}

void
dispatch_reign_cb(struct ev_loop *loop, ev_timer *w, int revents UNUSED)
{
	struct route *r = w->data;

	dispatch_reign_give_up(r, r->over, true);
	if (r->over == r->reign)
		return;
	r->over = r->reign;		/* there was another one meanwhile */
	ev_timer_set(w, REIGN_OVER_S, 0.);
	ev_timer_start(loop, w);
}

/* -- answers -- */

static void
forward_answer(struct forward *u, struct span body)
{
	struct op_reply reply;

	if (op_reply_read(body, &reply) != TV_OK) {
		forward_fail(u, u->op->traits & OP_REPEATABLE ? TV_EFORMAT : TV_EUNKNOWN);
		return;
	}
	if ((reply.err == TV_ENOTLEADER || reply.err == TV_ENOLEADER) && u->origin != ROUTE_FINAL) {
		u->state = FORWARD_NEW;
		if (u->op->kind == OP_READ && reply.err == TV_ENOTLEADER && !u->refused) {
			u->refused = true;
			dispatch_try(u);
			return;
		}
		u->refused = true;
		forward_hold(u, TV_ENOLEADER);
		return;
	}
	forward_end(u, &reply);
}

/* The way broke: err tells whether the question may have arrived. */
static void
forward_broken(struct forward *u, enum tv_err err)
{
	u->state = FORWARD_NEW;
	if (err == TV_EUNREACH || (err == TV_ECLOSED && u->op->traits & OP_REPEATABLE)) {
		u->route->stats.retried++;
		if (err == TV_ECLOSED)
			forward_hold(u, TV_ENOLEADER);
		else
			dispatch_try(u);
		return;
	}
	if (!(u->op->traits & OP_REPEATABLE))
		err = TV_EUNKNOWN;
	forward_fail(u, err);
}

static void
local_done(void *ctx, enum tv_err err, struct span body)
{
	struct forward *u = ctx;

	u->local_id = 0;
	if (err == TV_OK)
		forward_answer(u, body);
	else
		forward_broken(u, err);
}

static void
link_answered(void *ctx, enum tv_err err, struct span body)
{
	struct forward *u = ctx;

	u->link = NULL;
	if (err == TV_OK)
		forward_answer(u, body);
	else
		forward_broken(u, err);
}

static void
provided(void *ctx, const struct op_reply *reply)
{
	struct forward *u = ctx;

	u->started = NULL;
	forward_end(u, reply);
}

/* -- destinations -- */

static struct mono
forward_timeout(const struct forward *u)
{
	struct mono t = u->route->conf.answer_timeout;

	if (u->blocks)
		t = mono_add(t, MONO_MS(u->wait_ms + u->wait_ms / 16));
	return t;
}

/* From now on it waits for an answer. */
static void
forward_left(struct forward *u, enum forward_state how)
{
	u->state = how;
	if (u->blocks)
		u->left_at = clock_mono();
}

static void
go_local(struct forward *u)
{
	struct route *r = u->route;
	enum tv_err err = TV_OK;

	u->local_id = daemon_client_call(raftd_client_daemon(r->conf.raft), MSG_OP, span_of(u->body, u->body_len), 
	    forward_timeout(u), local_done, u, &err);
	if (u->local_id == 0) {
		forward_hold(u, err == TV_ELIMIT ? TV_EAGAIN : TV_ENOLEADER);
		return;
	}
	if (!u->blocks)
		raftd_client_expect(r->conf.raft);
	forward_left(u, FORWARD_LOCAL);
	r->stats.local++;
}

/* Nearly all need one, and thousands may wait with it.  Without memory it may be tried again. */
static void
add_tried(struct forward *u, const char *ip, uint16_t port)
{
	struct tried *t = u->tried_count == FORWARD_TRIED_MAX ? NULL :
	    realloc(u->tried, (u->tried_count + 1u) * sizeof(*t));

	if (t == NULL)
		return;
	u->tried = t;
	t += u->tried_count++;
	snprintf(t->ip, sizeof(t->ip), "%s", ip);
	t->port = port;
}

/* reign: of the leader whose rpcd this is, 0 when it is not asked as the leader's. */
static void
go_link(struct forward *u, uint16_t type, const char *ip, uint16_t port, uint32_t reign)
{
	struct route *r = u->route;

	add_tried(u, ip, port);
	u->link = link_client_call(r->conf.links, ip, port, type, span_of(u->body, u->body_len), forward_timeout(u),
	    link_answered, u);
	if (u->link == NULL) {
		forward_hold(u, TV_EAGAIN);
		return;
	}
	u->reign = reign;
	if (!u->blocks)
		link_client_expect(u->link);
	forward_left(u, FORWARD_LINK);
	r->stats.forwarded++;
}

/* It is not tried again: what gossipd may have done once is not to be done twice. */
static void
go_provided(struct forward *u, const struct route_provider *p)
{
	struct route *r = u->route;
	struct op_request q = forward_question(u);
	enum tv_err err = TV_OK;

	if (p->answer != NULL) {
		forward_doom(u, TV_OK);
		return;
	}
	u->started = p->start(p->ctx, &q, r->conf.answer_timeout, provided, u, &err);
	if (u->started == NULL) {
		forward_doom(u, err == TV_EUNREACH ? TV_ECLOSED : err);
		return;
	}
	u->state = FORWARD_PROVIDED;
	r->stats.local++;
}

static bool
was_tried(const struct forward *u, const char *ip, uint16_t port)
{
	for (unsigned i = 0; i < u->tried_count; i++)
		if (u->tried[i].port == port && strcmp(u->tried[i].ip, ip) == 0)
			return true;
	return false;
}

/*
 * A server that is linked, then one that proved itself before, then any: a holder of the cluster key can invent
 * servers, but none that prove themselves.
 */
static unsigned
rank_own(void *ctx, const struct members_server *s)
{
	const struct forward *u = ctx;

	return was_tried(u, s->ip, s->rpc_port) ? MEMBERS_SKIP :
	    link_client_standing(u->route->conf.links, s->ip, s->rpc_port);
}

/* In another datacenter the near ones are preferred, whether they are linked already or not. */
static unsigned
rank_far(void *ctx, const struct members_server *s)
{
	unsigned how = rank_own(ctx, s);

	return how == STANDING_OPEN ? STANDING_PROVEN : how;
}

static unsigned
rank_unknown(void *ctx, const struct members_server *s)
{
	const struct route *r = ctx;

	return link_client_standing(r->conf.links, s->ip, s->rpc_port) == STANDING_UNKNOWN ? 0 : MEMBERS_SKIP;
}

/*
 * A near server that came, or came back, after a farther one had proved itself would never be asked: now and then the
 * nearest of those that are not known is dialled, while the requests go where they went.
 */
static void
look_around(struct route *r, struct span dc)
{
	struct members_server s[SERVERS_LOOKED_AT];
	struct mono now = clock_mono();
	unsigned n;

	if (mono_before(now, r->look_around_at))
		return;
	r->look_around_at = mono_add(now, LOOK_AROUND_EVERY);
	n = members_servers(r->conf.members, dc, &r->rng, rank_unknown, r, s, SERVERS_LOOKED_AT);
	if (datacenters_nearest(r->conf.coords, s, n) > 0)
		link_client_probe(r->conf.links, s[0].ip, s[0].rpc_port);
}

/*
 * Of servers that are as good as each other one that is linked, and of these the one chosen last.  Each follower is
 * behind by a time of its own: asked in turn, they would take back with one stale answer what they told with the one
 * before.  Datacenters that share a slot take it from each other, and have any linked one then.
 */
static const struct members_server *
choose(struct route *r, struct span dc, const struct members_server *s, unsigned n)
{
	struct tried *last = &r->preferred[keyed_hash(dc.p, dc.len) % PREFERRED_SLOTS];
	const struct members_server *linked = NULL;

	for (unsigned i = 0; i < n; i++) {
		if (!link_client_is_up(r->conf.links, s[i].ip, s[i].rpc_port))
			continue;
		if (s[i].rpc_port == last->port && strcmp(s[i].ip, last->ip) == 0)
			return &s[i];
		if (linked == NULL)
			linked = &s[i];
	}
	if (linked == NULL)
		return s;
	snprintf(last->ip, sizeof(last->ip), "%s", linked->ip);
	last->port = linked->rpc_port;
	return linked;
}

/*
 * A server of dc that was not tried yet: of the best standing there is, of the nearest of these, see choose().  When
 * all were tried it says no once, and starts over with the next call.
 */
static bool
pick_server(struct forward *u, struct span dc, struct members_server *out)
{
	struct route *r = u->route;
	struct members_server s[SERVERS_LOOKED_AT];
	bool own = span_eq_nocase(dc, span_str(r->conf.datacenter));
	unsigned n = u->tried_count == FORWARD_TRIED_MAX ? 0 :
	    members_servers(r->conf.members, dc, &r->rng, own ? rank_own : rank_far, u, s, SERVERS_LOOKED_AT);

	if (n == 0) {
		u->tried_count = 0;
		return false;
	}
	n = datacenters_nearest(r->conf.coords, s, n);
	*out = *choose(r, dc, s, n);
	if (!own)
		look_around(r, dc);
	return true;
}

static void
go_any_server(struct forward *u, uint16_t type)
{
	struct members_server s;

	if (pick_server(u, span_str(u->route->conf.datacenter), &s))
		go_link(u, type, s.ip, s.rpc_port, 0);
	else
		forward_hold(u, TV_ENOLEADER);
}

static void
go_dc(struct forward *u, struct span dc)
{
	struct members_server s;

	if (u->route->conf.raft == NULL && u->origin == ROUTE_HERE) {
		/* Only servers are in the WAN pool: they know the datacenters. */
		go_any_server(u, MSG_OP);
		return;
	}
	if (u->origin == ROUTE_DC || u->origin == ROUTE_FINAL || !members_dc_known(u->route->conf.members, dc)) {
		forward_doom(u, TV_EUNREACH);
		return;
	}
	if (!pick_server(u, dc, &s)) {
		if (u->refused)
			forward_hold(u, TV_ENOLEADER);
		else
			forward_doom(u, TV_EUNREACH);
		return;
	}
	u->route->stats.forwarded_dc++;
	go_link(u, MSG_OP_DC, s.ip, s.rpc_port, 0);
}

/* Address of the leader's rpcd: from gossip, else guessed from its raftd's address. */
static bool
leader_addr(struct route *r, const struct raftd_client_status *st, char ip[46], uint16_t *port)
{
	const struct member *m = members_server_by_id(r->conf.members, st->leader_id);
	struct addr a;

	if (m != NULL && member_tag_port(m, "rpc_port") != 0) {
		member_ip(m, ip);
		*port = member_tag_port(m, "rpc_port");
		return true;
	}
	if (!addr_parse_text(span_str(st->leader_addr), &a))
		return false;
	addr_ip(&a, ip);
	*port = r->conf.rpc_port;
	return true;
}

static void
go_leader(struct forward *u, const struct raftd_client_status *st)
{
	char ip[46];
	uint16_t port;

	if (st->role == RAFT_LEADER) {
		go_local(u);
	} else if (st->leader_id[0] == '\0' || !leader_addr(u->route, st, ip, &port)) {
		forward_hold(u, TV_ENOLEADER);
	} else if (was_tried(u, ip, port)) {
		u->tried_count = 0;
		forward_hold(u, TV_ENOLEADER);	/* it could not serve us now; a new leader may come */
	} else {
		(void)dispatch_reign_note(u->route);
		go_link(u, MSG_OP_FINAL, ip, port, u->route->reign);
	}
}

/* Its first argument names the server that has begun it; no other server can go on with it. */
static void
go_server(struct forward *u, struct span id)
{
	struct route *r = u->route;
	const struct member *m;
	char name[64], ip[46];
	uint16_t port;

	if (r->conf.raft != NULL && span_eqs(id, r->conf.node_id)) {
		if (raftd_client_status(r->conf.raft)->up)
			go_local(u);
		else
			forward_doom(u, TV_EUNREACH);
		return;
	}
	m = span_copy(id, name, sizeof(name)) ? members_server_by_id(r->conf.members, name) : NULL;
	port = m == NULL ? 0 : member_tag_port(m, "rpc_port");
	if (port != 0)
		member_ip(m, ip);
	if (port == 0 || was_tried(u, ip, port))
		forward_doom(u, TV_EUNREACH);
	else
		go_link(u, MSG_OP_FINAL, ip, port, 0);
}

/* "" when none is named, or the arguments are malformed: raftd will say so. */
static struct span
named_server(const struct op_request *q)
{
	struct rd in = rd_span_over(q->args);
	struct span id = mpr_array(&in) > 0 ? mpr_bytes(&in, RAFT_ID_BYTES) : SPAN_NONE;

	return in.err == TV_OK ? id : SPAN_NONE;
}

void
dispatch_try(struct forward *u)
{
	struct op_request q = forward_question(u);

	dispatch_question(u, &q);
}

void
dispatch_question(struct forward *u, const struct op_request *q)
{
	struct route *r = u->route;
	const struct raftd_client_status *st;
	const struct route_provider *p = &r->providers[u->op->kind];

	if (q->dc.len > 0 && !span_eq_nocase(q->dc, span_str(r->conf.datacenter))) {
		go_dc(u, q->dc);
		return;
	}
	if (p->answer != NULL || p->start != NULL) {
		go_provided(u, p);
		return;
	}
	if (u->op->kind == OP_SERVER && u->origin != ROUTE_FINAL && named_server(q).len > 0) {
		go_server(u, named_server(q));
		return;
	}
	if (r->conf.raft == NULL) {
		if (u->origin == ROUTE_HERE)
			go_any_server(u, MSG_OP);
		else
			forward_doom(u, TV_ENOTLEADER);
		return;
	}
	st = raftd_client_status(r->conf.raft);
	if (u->origin == ROUTE_FINAL) {
		go_local(u);
	} else if (!st->up) {
		/* Our raftd is away.  A peer's request is not passed round, or it could go in circles. */
		if (u->origin == ROUTE_HERE)
			go_any_server(u, u->op->kind == OP_READ ? MSG_OP_FINAL : MSG_OP);
		else
			forward_doom(u, TV_ENOTLEADER);
	} else if (u->op->kind != OP_READ && !(q->mode == OP_STALE && u->op->traits & OP_STALE_OK)) {
		go_leader(u, st);
	} else if (st->leader_id[0] == '\0' && q->mode != OP_STALE) {
		forward_hold(u, TV_ENOLEADER);
	} else if (u->refused) {
		go_leader(u, st);	/* ours cannot serve it now: its disk is full, or its state is on its way */
	} else {
		go_local(u);
	}
}

void
dispatch_recall(struct forward *u)
{
	switch (u->state) {
	case FORWARD_LOCAL:
		daemon_client_cancel(raftd_client_daemon(u->route->conf.raft), u->local_id);
		break;
	case FORWARD_LINK:
		link_client_cancel(u->link);
		break;
	case FORWARD_PROVIDED:
		u->route->providers[u->op->kind].cancel(u->started);
		break;
	default:
		return;
	}
	u->state = FORWARD_NEW;
}
