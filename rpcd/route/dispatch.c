/*
 * Where a flight goes, and what comes back.  See route_int.h.
 *
 *	ways_try ─┬─ raft_local_call    own raftd
 *	          ├─ links_call         leader, any server, other datacenter
 *	          ├─ fire_start         own gossipd
 *	          ├─ keyask_start       own gossipd, on servers
 *	          └─ flight_hold        no leader now: the timer or route_kick() tries again
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/record/mpack.h"
#include "common/net/msg.h"
#include "raftd/core/raft.h"
#include "rpcd/wan/datacenters.h"
#include "rpcd/event/fire.h"
#include "rpcd/gossip/keyring_query.h"
#include "rpcd/route/route_int.h"

#define FLIGHT_TRIED_MAX 4
#define SERVERS_LOOKED_AT 32
#define LOOK_AROUND_EVERY MONO_S(10)
#define REIGN_OVER_S 5.0		/* who leads no more has this long to answer what it was asked as the leader */

/* The leader's to answer, but any server says what it sees of it when asked with ?stale. */
static bool
shows_servers(const struct op *op)
{
	return op->code == OP_RAFT_CONFIGURATION || op->code == OP_AUTOPILOT_HEALTH;
}

/* Safe to ask again although the first question may have been carried out. */
static bool
is_repeatable(const struct op *op)
{
	return op->kind == OP_READ || op->kind == OP_VIEW || op->kind == OP_GOSSIP_SERVER || op->kind == OP_SERVER ||
	    op->code == OP_SESSION_RENEW ||
	    shows_servers(op) || op->code == OP_COORDINATE_UPDATE;
}

/* -- one leader after another -- */

bool
ways_reign_note(struct route *r)
{
	const struct raft_local_status *st = r->conf.raft == NULL ? NULL : raft_local_status(r->conf.raft);

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
 * rest nobody knows.
 */
static void
reign_is_over(struct flight *f)
{
	bool done = links_sent(f->link) && !is_repeatable(f->op);

	links_cancel(f->link);
	f->link = NULL;
	f->state = FLIGHT_NEW;
	if (done) {
		flight_doom(f, TV_EUNKNOWN);
		return;
	}
	f->route->stats.retried++;
	f->hold_until = mono_add(clock_mono(), f->route->conf.hold_timeout);
	ways_try(f);
}

/* Of the leaders before this one.  Nothing here calls back: no flight goes while we walk. */
void
ways_reign_give_up(struct route *r, uint32_t before, bool sent_too)
{
	struct flight *next;

	for (struct flight *f = r->flights; f != NULL; f = next) {
		next = f->next;
		if (f->state == FLIGHT_LINK && f->reign != 0 && f->reign < before && (sent_too || !links_sent(f->link)))
			reign_is_over(f);
	}
}

void
ways_reign_cb(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct route *r = w->data;

	(void)revents;
	ways_reign_give_up(r, r->over, true);
	if (r->over == r->reign)
		return;
	r->over = r->reign;		/* there was another one meanwhile */
	ev_timer_set(w, REIGN_OVER_S, 0.);
	ev_timer_start(loop, w);
}

/* -- answers -- */

static void
flight_answer(struct flight *f, struct span body)
{
	struct op_reply reply;

	if (op_reply_read(body, &reply) != TV_OK) {
		flight_fail(f, is_repeatable(f->op) ? TV_EFORMAT : TV_EUNKNOWN);
		return;
	}
	if ((reply.err == TV_ENOTLEADER || reply.err == TV_ENOLEADER) && f->origin != ROUTE_FINAL) {
		f->state = FLIGHT_NEW;
		if (f->op->kind == OP_READ && reply.err == TV_ENOTLEADER && !f->refused) {
			f->refused = true;
			ways_try(f);
			return;
		}
		f->refused = true;
		flight_hold(f, TV_ENOLEADER);
		return;
	}
	flight_end(f, &reply);
}

/* The way broke: err tells whether the question may have arrived. */
static void
flight_broken(struct flight *f, enum tv_err err)
{
	f->state = FLIGHT_NEW;
	if (err == TV_EUNREACH || (err == TV_ECLOSED && is_repeatable(f->op))) {
		f->route->stats.retried++;
		if (err == TV_ECLOSED)
			flight_hold(f, TV_ENOLEADER);
		else
			ways_try(f);
		return;
	}
	if (!is_repeatable(f->op))
		err = TV_EUNKNOWN;
	flight_fail(f, err);
}

static void
local_done(void *ctx, enum tv_err err, struct span body)
{
	struct flight *f = ctx;

	f->local_id = 0;
	if (err == TV_OK)
		flight_answer(f, body);
	else
		flight_broken(f, err);
}

static void
link_answered(void *ctx, enum tv_err err, struct span body)
{
	struct flight *f = ctx;

	f->link = NULL;
	if (err == TV_OK)
		flight_answer(f, body);
	else
		flight_broken(f, err);
}

static void
fired(void *ctx, const struct op_reply *reply)
{
	struct flight *f = ctx;

	f->fire = NULL;
	flight_end(f, reply);
}

static void
keys_answered(void *ctx, const struct op_reply *reply)
{
	struct flight *f = ctx;

	f->keys = NULL;
	flight_end(f, reply);
}

/* -- ways -- */

static struct mono
flight_timeout(const struct flight *f)
{
	struct mono t = f->route->conf.answer_timeout;

	if (f->index > 0)
		t = mono_add(t, MONO_MS(f->wait_ms + f->wait_ms / 16));
	return t;
}

/* From now on it waits for an answer. */
static void
flight_left(struct flight *f, enum flight_state how)
{
	f->state = how;
	if (f->index > 0)
		f->left_at = clock_mono();
}

static void
go_local(struct flight *f)
{
	struct route *r = f->route;
	enum tv_err err = TV_OK;

	f->local_id = raft_local_call(r->conf.raft, MSG_OP, span_of(f->body, f->body_len), flight_timeout(f),
	    local_done, f, &err);
	if (f->local_id == 0) {
		flight_hold(f, err == TV_ELIMIT ? TV_EAGAIN : TV_ENOLEADER);
		return;
	}
	if (f->index == 0)
		raft_local_expect(r->conf.raft);
	flight_left(f, FLIGHT_LOCAL);
	r->stats.local++;
}

/* Nearly all need one, and thousands may wait with it.  Without memory it may be tried again. */
static void
add_tried(struct flight *f, const char *ip, uint16_t port)
{
	struct tried *t = f->tried_count == FLIGHT_TRIED_MAX ? NULL :
	    realloc(f->tried, (f->tried_count + 1u) * sizeof(*t));

	if (t == NULL)
		return;
	f->tried = t;
	t += f->tried_count++;
	snprintf(t->ip, sizeof(t->ip), "%s", ip);
	t->port = port;
}

/* reign: of the leader whose rpcd this is, 0 when it is not asked as the leader's. */
static void
go_link(struct flight *f, uint16_t type, const char *ip, uint16_t port, uint32_t reign)
{
	struct route *r = f->route;

	add_tried(f, ip, port);
	f->link = links_call(r->conf.links, ip, port, type, span_of(f->body, f->body_len), flight_timeout(f),
	    link_answered, f);
	if (f->link == NULL) {
		flight_hold(f, TV_EAGAIN);
		return;
	}
	f->reign = reign;
	if (f->index == 0)
		links_expect(f->link);
	flight_left(f, FLIGHT_LINK);
	r->stats.forwarded++;
}

/* A user event of this pool.  It is not tried again: receivers would take it for another one. */
static void
go_fire(struct flight *f)
{
	struct route *r = f->route;
	struct op_request q = flight_question(f);
	enum tv_err err = TV_OK;

	f->fire = fire_start(r->conf.view, &q, r->conf.answer_timeout, fired, f, &err);
	if (f->fire == NULL) {
		flight_doom(f, err == TV_EUNREACH || err == TV_ECLOSED ? TV_ECLOSED : err);
		return;
	}
	f->state = FLIGHT_FIRE;
	r->stats.local++;
}

/* Keys of this datacenter's pool: any server knows both pools. */
static void
go_keys(struct flight *f)
{
	struct route *r = f->route;
	struct op_request q = flight_question(f);
	enum tv_err err = TV_OK;

	f->keys = keyask_start(r->conf.view, &q, r->conf.datacenter, r->conf.answer_timeout, keys_answered, f, &err);
	if (f->keys == NULL) {
		flight_doom(f, err == TV_EUNREACH || err == TV_ECLOSED ? TV_ECLOSED : err);
		return;
	}
	f->state = FLIGHT_KEYS;
	r->stats.local++;
}

static bool
was_tried(const struct flight *f, const char *ip, uint16_t port)
{
	for (unsigned i = 0; i < f->tried_count; i++)
		if (f->tried[i].port == port && strcmp(f->tried[i].ip, ip) == 0)
			return true;
	return false;
}

/*
 * A server that is linked, then one that proved itself before, then any: whoever holds the cluster key can invent
 * servers, but none that prove themselves.
 */
static unsigned
rank_own(void *ctx, const struct view_server *s)
{
	const struct flight *f = ctx;

	return was_tried(f, s->ip, s->rpc_port) ? VIEW_SKIP : links_standing(f->route->conf.links, s->ip, s->rpc_port);
}

/* In another datacenter the near ones are preferred, whether they are linked already or not. */
static unsigned
rank_far(void *ctx, const struct view_server *s)
{
	unsigned how = rank_own(ctx, s);

	return how == STANDING_OPEN ? STANDING_PROVEN : how;
}

static unsigned
rank_unknown(void *ctx, const struct view_server *s)
{
	const struct route *r = ctx;

	return links_standing(r->conf.links, s->ip, s->rpc_port) == STANDING_UNKNOWN ? 0 : VIEW_SKIP;
}

/*
 * A near server that came, or came back, after a farther one had proved itself would never be asked: now and then the
 * nearest of those that are not known is dialled, while the requests go where they went.
 */
static void
look_around(struct route *r, struct span dc)
{
	struct view_server s[SERVERS_LOOKED_AT];
	struct mono now = clock_mono();
	unsigned n;

	if (mono_before(now, r->look_around_at))
		return;
	r->look_around_at = mono_add(now, LOOK_AROUND_EVERY);
	n = view_servers(r->conf.view, dc, &r->rng, rank_unknown, r, s, SERVERS_LOOKED_AT);
	if (dcs_nearest(r->conf.places, s, n) > 0)
		links_probe(r->conf.links, s[0].ip, s[0].rpc_port);
}

/*
 * A server of dc that was not tried yet: of the best standing there is, of the nearest of these, one that is already
 * linked if there is one.  When all were tried it says no once, and starts over with the next call.
 */
static bool
pick_server(struct flight *f, struct span dc, struct view_server *out)
{
	struct route *r = f->route;
	struct view_server s[SERVERS_LOOKED_AT];
	bool own = span_eqs(dc, r->conf.datacenter);
	unsigned n = f->tried_count == FLIGHT_TRIED_MAX ? 0 :
	    view_servers(r->conf.view, dc, &r->rng, own ? rank_own : rank_far, f, s, SERVERS_LOOKED_AT);

	if (n == 0) {
		f->tried_count = 0;
		return false;
	}
	n = dcs_nearest(r->conf.places, s, n);
	*out = s[0];
	for (unsigned i = 0; i < n; i++)
		if (links_is_up(r->conf.links, s[i].ip, s[i].rpc_port)) {
			*out = s[i];
			break;
		}
	if (!own)
		look_around(r, dc);
	return true;
}

static void
go_any_server(struct flight *f, uint16_t type)
{
	struct view_server s;

	if (pick_server(f, span_str(f->route->conf.datacenter), &s))
		go_link(f, type, s.ip, s.rpc_port, 0);
	else
		flight_hold(f, TV_ENOLEADER);
}

static void
go_dc(struct flight *f, struct span dc)
{
	struct view_server s;

	if (f->route->conf.raft == NULL && f->origin == ROUTE_HERE) {
		/* Only servers are in the WAN pool: they know the datacenters. */
		go_any_server(f, MSG_OP);
		return;
	}
	if (f->origin == ROUTE_DC || f->origin == ROUTE_FINAL || !view_dc_known(f->route->conf.view, dc)) {
		flight_doom(f, TV_EUNREACH);
		return;
	}
	if (!pick_server(f, dc, &s)) {
		if (f->refused)
			flight_hold(f, TV_ENOLEADER);
		else
			flight_doom(f, TV_EUNREACH);
		return;
	}
	f->route->stats.forwarded_dc++;
	go_link(f, MSG_OP_DC, s.ip, s.rpc_port, 0);
}

/* Address of the leader's rpcd: from gossip, else guessed from its raftd's address. */
static bool
leader_addr(struct route *r, const struct raft_local_status *st, char ip[46], uint16_t *port)
{
	const struct member *m = view_server_by_id(r->conf.view, st->leader_id);
	const char *colon;

	if (m != NULL && member_tag_port(m, "rpc_port") != 0) {
		member_ip(m, ip);
		*port = member_tag_port(m, "rpc_port");
		return true;
	}
	colon = strrchr(st->leader_addr, ':');
	if (colon == NULL || (size_t)(colon - st->leader_addr) >= 46)
		return false;
	memcpy(ip, st->leader_addr, (size_t)(colon - st->leader_addr));
	ip[colon - st->leader_addr] = '\0';
	*port = r->conf.rpc_port;
	return true;
}

static void
go_leader(struct flight *f, const struct raft_local_status *st)
{
	char ip[46];
	uint16_t port;

	if (st->role == RAFT_LEADER) {
		go_local(f);
	} else if (st->leader_id[0] == '\0' || !leader_addr(f->route, st, ip, &port)) {
		flight_hold(f, TV_ENOLEADER);
	} else if (was_tried(f, ip, port)) {
		f->tried_count = 0;
		flight_hold(f, TV_ENOLEADER);	/* it could not serve us now; a new leader may come */
	} else {
		(void)ways_reign_note(f->route);
		go_link(f, MSG_OP_FINAL, ip, port, f->route->reign);
	}
}

/* Its first argument names the server that has begun it; nobody else can go on with it. */
static void
go_server(struct flight *f, struct span id)
{
	struct route *r = f->route;
	const struct member *m;
	char name[64], ip[46];
	uint16_t port;

	if (r->conf.raft != NULL && span_eqs(id, r->conf.node_id)) {
		if (raft_local_status(r->conf.raft)->up)
			go_local(f);
		else
			flight_doom(f, TV_EUNREACH);
		return;
	}
	m = span_copy(id, name, sizeof(name)) ? view_server_by_id(r->conf.view, name) : NULL;
	port = m == NULL ? 0 : member_tag_port(m, "rpc_port");
	if (port != 0)
		member_ip(m, ip);
	if (port == 0 || was_tried(f, ip, port))
		flight_doom(f, TV_EUNREACH);
	else
		go_link(f, MSG_OP_FINAL, ip, port, 0);
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
ways_try(struct flight *f)
{
	struct route *r = f->route;
	const struct raft_local_status *st;
	struct op_request q = flight_question(f);

	if (q.dc.len > 0 && !span_eqs(q.dc, r->conf.datacenter)) {
		go_dc(f, q.dc);
		return;
	}
	if (f->op->kind == OP_GOSSIP) {
		go_fire(f);
		return;
	}
	if (f->op->kind == OP_SERVER && f->origin != ROUTE_FINAL && named_server(&q).len > 0) {
		go_server(f, named_server(&q));
		return;
	}
	if (r->conf.raft == NULL) {
		if (f->origin == ROUTE_HERE)
			go_any_server(f, MSG_OP);
		else
			flight_doom(f, TV_ENOTLEADER);
		return;
	}
	if (f->op->kind == OP_GOSSIP_SERVER) {
		go_keys(f);
		return;
	}
	if (f->op->kind == OP_VIEW) {
		flight_doom(f, TV_OK);
		return;
	}
	st = raft_local_status(r->conf.raft);
	if (f->origin == ROUTE_FINAL) {
		go_local(f);
	} else if (!st->up) {
		/* Our raftd is away.  A peer's request is not passed round, or it could go in circles. */
		if (f->origin == ROUTE_HERE)
			go_any_server(f, f->op->kind == OP_READ ? MSG_OP_FINAL : MSG_OP);
		else
			flight_doom(f, TV_ENOTLEADER);
	} else if (f->op->kind != OP_READ && !(q.mode == OP_STALE &&
	    (f->op->kind == OP_SERVER || shows_servers(f->op)))) {
		go_leader(f, st);
	} else if (st->leader_id[0] == '\0' && q.mode != OP_STALE) {
		flight_hold(f, TV_ENOLEADER);
	} else if (f->refused) {
		go_leader(f, st);	/* ours cannot serve it now: its disk is full, or its state is on its way */
	} else {
		go_local(f);
	}
}

void
ways_recall(struct flight *f)
{
	switch (f->state) {
	case FLIGHT_LOCAL:
		raft_local_cancel(f->route->conf.raft, f->local_id);
		break;
	case FLIGHT_LINK:
		links_cancel(f->link);
		break;
	case FLIGHT_FIRE:
		fire_cancel(f->fire);
		break;
	case FLIGHT_KEYS:
		keyask_cancel(f->keys);
		break;
	default:
		return;
	}
	f->state = FLIGHT_NEW;
}
