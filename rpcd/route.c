/*
 * Routing of operations, see route.h.
 *
 * A call is what a client waits for; a flight is what goes upstream.  Most flights carry one call.  Blocking
 * queries with identical bodies share a flight: ten thousand clients waiting on one key are one watch upstream.
 * A joined call may be answered earlier than its own wait asks for, which blocking queries allow.
 *
 *	route_start ─ flight_try ─┬─ raft_local_call    own raftd
 *	                          ├─ links_call         leader, any server, other datacenter
 *	                          ├─ fire_start         own gossipd
 *	                          ├─ keyask_start       own gossipd, on servers
 *	                          └─ hold               no leader now: the timer or route_kick() tries again
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mpack.h"
#include "common/msg.h"
#include "common/records.h"
#include "raftd/core/raft.h"
#include "rpcd/dcs.h"
#include "rpcd/event/fire.h"
#include "rpcd/keyask.h"
#include "rpcd/route.h"

#define FLIGHT_BUCKETS 4096
#define FLIGHT_TRIED_MAX 4
#define FLIGHT_SHORT 128		/* bytes of a question whose flight may be used again */
#define SPARES_MAX 256			/* of them, kept */
#define SERVERS_LOOKED_AT 32
#define HOLD_TICK_S 0.05
#define REIGN_OVER_S 5.0		/* who leads no more has this long to answer what it was asked as the leader */
#define VIEW_BYTES_MAX (8u << 20)	/* answer to an OP_VIEW operation */

enum flight_state { FLIGHT_NEW, FLIGHT_LOCAL, FLIGHT_LINK, FLIGHT_FIRE, FLIGHT_KEYS, FLIGHT_HELD, FLIGHT_DOOMED, FLIGHT_ENDING };

struct route_call {
	struct flight *flight;
	struct route_call *next;
	route_done *done;
	void *ctx;
};

struct tried {
	char ip[46];
	uint16_t port;
};

struct flight {
	struct route *route;
	struct flight *prev, *next;		/* all flights */
	struct flight *chain;			/* hash bucket, while joinable */
	struct flight *queue_prev, *queue_next;	/* held or doomed */
	struct route_call *calls;
	struct route_call first;		/* most flights have one only; done NULL: not in use */
	enum flight_state state;
	enum route_origin origin;
	union {
		uint64_t local_id;		/* FLIGHT_LOCAL */
		struct link_call *link;		/* FLIGHT_LINK */
		struct fire *fire;		/* FLIGHT_FIRE */
		struct keyask *keys;		/* FLIGHT_KEYS */
	};
	const struct op *op;
	uint64_t index, wait_ms;		/* of the question; more is read from the body when it is needed */
	struct mono hold_until;			/* 0: a blocking query that was not held yet */
	struct mono left_at;			/* a blocking query went upstream; 0: not since it was held */
	uint32_t reign;				/* FLIGHT_LINK: of the leader that was asked; 0: not as the leader */
	bool joinable;
	bool reusable;				/* has room for FLIGHT_SHORT bytes */
	bool refused;				/* somebody answered, but could not serve it */
	enum tv_err doom;			/* FLIGHT_DOOMED */
	uint8_t tried_count;
	struct tried *tried;			/* tried_count, FLIGHT_TRIED_MAX at most; owned */
	size_t body_len;
	uint8_t body[];
};

struct flight_queue {
	struct flight *head;
};

struct route {
	struct route_conf conf;
	struct rng rng;
	struct flight *flights;
	struct flight *spares;			/* by next */
	unsigned spare_count;
	struct flight_queue held, doomed;
	struct flight **buckets;		/* joinable flights by body */
	ev_timer hold_timer, doom_timer;
	char leader[37];			/* node id of the newest one that our raftd told of */
	uint32_t reign, over;			/* how many there were; those before `over` have had their time when the timer fires */
	ev_timer reign_timer;
	uint64_t shared, reply_number;		/* replies that several calls got; that of the flight which ends now */
	struct route_stats stats;
};

static void flight_try(struct flight *f);

/* Spans into its body, which could be read when it began.  Thousands of flights wait: they do not all keep this. */
static struct op_request
question(const struct flight *f)
{
	struct op_request q = { .op = 0 };

	(void)op_request_read(span_of(f->body, f->body_len), &q);
	return q;
}

/* -- lists ---------------------------------------------------------------- */

static void
queue_add(struct flight_queue *q, struct flight *f)
{
	f->queue_prev = NULL;
	f->queue_next = q->head;
	if (q->head != NULL)
		q->head->queue_prev = f;
	q->head = f;
}

static void
queue_remove(struct flight_queue *q, struct flight *f)
{
	if (f->queue_prev != NULL)
		f->queue_prev->queue_next = f->queue_next;
	else
		q->head = f->queue_next;
	if (f->queue_next != NULL)
		f->queue_next->queue_prev = f->queue_prev;
	f->queue_prev = f->queue_next = NULL;
}

static struct flight **
bucket_of(struct route *r, struct span body)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < body.len; i++)
		h = (h ^ body.p[i]) * 0x100000001b3u;
	return &r->buckets[(h ^ h >> 32) % FLIGHT_BUCKETS];
}

static void
unchain(struct flight *f)
{
	struct flight **at;

	if (!f->joinable)
		return;
	at = bucket_of(f->route, span_of(f->body, f->body_len));
	while (*at != f)
		at = &(*at)->chain;
	*at = f->chain;
	f->joinable = false;
}

static void
flight_free(struct flight *f)
{
	struct route *r = f->route;

	unchain(f);
	if (f->state == FLIGHT_HELD)
		queue_remove(&r->held, f);
	else if (f->state == FLIGHT_DOOMED)
		queue_remove(&r->doomed, f);
	if (f->prev != NULL)
		f->prev->next = f->next;
	else
		r->flights = f->next;
	if (f->next != NULL)
		f->next->prev = f->prev;
	free(f->tried);
	if (!f->reusable || r->spare_count == SPARES_MAX) {
		free(f);
		return;
	}
	f->next = r->spares;
	r->spares = f;
	r->spare_count++;
}

/* -- endings -------------------------------------------------------------- */

static void
call_free(struct route_call *c)
{
	if (c == &c->flight->first)
		c->done = NULL;
	else
		free(c);
}

/* Answers every call and frees the flight. */
static void
flight_end(struct flight *f, const struct op_reply *reply)
{
	struct route *r = f->route;
	struct route_call *c;

	/* A new call that a callback starts must not join what has ended, nor may a cancelled one free it. */
	unchain(f);
	if (f->state == FLIGHT_HELD || f->state == FLIGHT_DOOMED)
		queue_remove(f->state == FLIGHT_HELD ? &r->held : &r->doomed, f);
	f->state = FLIGHT_ENDING;
	if (reply->err == TV_EUNKNOWN)
		r->stats.unknown++;
	else if (reply->err != TV_OK)
		r->stats.failed++;
	r->reply_number = f->calls != NULL && f->calls->next != NULL ? ++r->shared : 0;
	while ((c = f->calls) != NULL) {
		f->calls = c->next;
		r->stats.under_way--;
		c->done(c->ctx, reply);
		call_free(c);
	}
	r->reply_number = 0;
	flight_free(f);
}

static const char *
failure_text(const struct flight *f, enum tv_err err)
{
	switch (err) {
	case TV_ENOLEADER:
	case TV_ENOTLEADER:
		return "No cluster leader";
	case TV_EUNREACH:
		return f->op != NULL && f->op->kind == OP_SERVER && question(f).dc.len == 0 ?
		    "the server that does this cannot be reached" : "No path to datacenter";
	case TV_EUNKNOWN:
		if (f->op != NULL && f->op->kind == OP_GOSSIP)
			return "connection to the other datacenter was lost before it answered; "
			    "the event may have been fired";
		return "the leader was lost before it answered; the write may have been applied";
	case TV_ETIMEOUT:
		return "the servers did not answer in time";
	case TV_ELIMIT:
		return "the answer is larger than limits.answer_bytes_max allows";
	case TV_ECLOSED:
		return f->op != NULL && f->op->kind == OP_GOSSIP ? "gossipd is not running on this node" :
		    f->op != NULL && f->op->kind == OP_GOSSIP_SERVER ? "gossipd is not running on the server that was asked" :
		    tv_strerror(err);
	default:
		return f->op == NULL ? "malformed request" : tv_strerror(err);
	}
}

static void
flight_fail(struct flight *f, enum tv_err err)
{
	struct op_reply reply = { .err = err, .text = span_str(failure_text(f, err)), .index = 1 };

	flight_end(f, &reply);
}

/*
 * Ends from the loop: done must not be called before route_start() returned.  err TV_OK: with this server's own answer
 * to an OP_VIEW operation.
 */
static void
flight_doom(struct flight *f, enum tv_err err)
{
	struct route *r = f->route;

	f->state = FLIGHT_DOOMED;
	f->doom = err;
	queue_add(&r->doomed, f);
	if (!ev_is_active(&r->doom_timer)) {
		ev_timer_set(&r->doom_timer, 0., 0.);
		ev_timer_start(r->conf.loop, &r->doom_timer);
	}
}

/* OP_VIEW operations: the datacenters, as this server's pools know them. */
static void
flight_view(struct flight *f)
{
	const struct route_conf *conf = &f->route->conf;
	struct op_reply reply = { .index = 1, .known_leader = true };
	struct buf b = BUF_INIT(VIEW_BYTES_MAX);

	if (f->op->code == OP_COORDINATE_DATACENTERS)
		dcs_write_coordinates(conf->view, conf->places, &b);
	else
		dcs_write_names(conf->view, conf->places, &b);
	reply.err = b.failed ? TV_ENOMEM : TV_OK;
	reply.value = b.failed ? SPAN_NONE : buf_span(&b);
	flight_end(f, &reply);
	buf_done(&b);
}

static void
doom_cb(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct route *r = w->data;

	(void)loop;
	(void)revents;
	while (r->doomed.head != NULL) {
		if (r->doomed.head->doom == TV_OK)
			flight_view(r->doomed.head);
		else
			flight_fail(r->doomed.head, r->doomed.head->doom);
	}
}

/* A blocking query that waited upstream for longer than it may be held: what ended that is a trouble of its own. */
static bool
waited_well(const struct flight *f, struct mono now)
{
	return f->left_at.ns != 0 && !mono_before(now, mono_add(f->left_at, f->route->conf.hold_timeout));
}

/* Nothing was done yet: wait for a leader or a server, within hold_timeout. */
static void
flight_hold(struct flight *f, enum tv_err why)
{
	struct route *r = f->route;
	struct mono now = clock_mono();

	if (f->origin == ROUTE_FINAL) {
		flight_doom(f, why);
		return;
	}
	r->stats.held++;
	if (waited_well(f, now))
		f->hold_until = MONO_ZERO;
	f->left_at = MONO_ZERO;
	if (f->hold_until.ns == 0) {
		f->hold_until = mono_add(now, r->conf.hold_timeout);
	} else if (!mono_before(now, f->hold_until)) {
		flight_doom(f, why);
		return;
	}
	f->state = FLIGHT_HELD;
	queue_add(&r->held, f);
	if (!ev_is_active(&r->hold_timer))
		ev_timer_again(r->conf.loop, &r->hold_timer);
}

static void
retry_held(struct route *r)
{
	struct flight *f = r->held.head, *next;

	/* What is held again goes to the head: one pass is enough. */
	r->held.head = NULL;
	for (; f != NULL; f = next) {
		next = f->queue_next;
		f->queue_prev = f->queue_next = NULL;
		f->state = FLIGHT_NEW;
		r->stats.retried++;
		flight_try(f);
	}
	if (r->held.head == NULL)
		ev_timer_stop(r->conf.loop, &r->hold_timer);
}

static void
hold_cb(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)loop;
	(void)revents;
	retry_held(w->data);
}

uint64_t
route_reply_number(const struct route *r)
{
	return r->reply_number;
}

bool
route_settled(const struct route *r)
{
	for (const struct flight *f = r->flights; f != NULL; f = f->next)
		if (f->index == 0)
			return false;
	return true;
}

/* Safe to ask again although the first question may have been carried out. */
static bool
is_repeatable(const struct op *op)
{
	return op->kind == OP_READ || op->kind == OP_VIEW || op->kind == OP_GOSSIP_SERVER || op->kind == OP_SERVER ||
	    op->code == OP_SESSION_RENEW ||
	    op->code == OP_RAFT_CONFIGURATION || op->code == OP_COORDINATE_UPDATE;
}

/* -- one leader after another -- */

/* Is there another leader than at the last look? */
static bool
reign_note(struct route *r)
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
 * Asked of a leader that leads no more, and it does not say anything: its rpcd, or the raftd beside it, may be frozen, and
 * then the connection tells nothing.  What is safe to repeat, or was not sent yet, goes to the new leader; of the rest
 * nobody knows.
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
	flight_try(f);
}

/* Of the leaders before this one.  Nothing here calls back: no flight goes while we walk. */
static void
reign_give_up(struct route *r, uint32_t before, bool sent_too)
{
	struct flight *next;

	for (struct flight *f = r->flights; f != NULL; f = next) {
		next = f->next;
		if (f->state == FLIGHT_LINK && f->reign != 0 && f->reign < before && (sent_too || !links_sent(f->link)))
			reign_is_over(f);
	}
}

static void
reign_cb(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct route *r = w->data;

	(void)revents;
	reign_give_up(r, r->over, true);
	if (r->over == r->reign)
		return;
	r->over = r->reign;		/* there was another one meanwhile */
	ev_timer_set(w, REIGN_OVER_S, 0.);
	ev_timer_start(loop, w);
}

void
route_kick(struct route *r)
{
	if (reign_note(r))
		reign_give_up(r, r->reign, false);
	if (r->held.head != NULL)
		retry_held(r);
}

/* -- answers -------------------------------------------------------------- */

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
			flight_try(f);
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
			flight_try(f);
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

/* -- ways ----------------------------------------------------------------- */

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
	struct op_request q = question(f);
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
	struct op_request q = question(f);
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
 * A server of dc that was not tried yet: of the nearest, one that is already linked if there is one.  When all were tried
 * it says no once, and starts over with the next call.
 */
static bool
pick_server(struct flight *f, struct span dc, struct view_server *out)
{
	struct route *r = f->route;
	struct view_server s[SERVERS_LOOKED_AT];
	unsigned n = view_servers(r->conf.view, dc, &r->rng, s, SERVERS_LOOKED_AT);
	unsigned left = 0;

	for (unsigned i = 0; i < n && f->tried_count < FLIGHT_TRIED_MAX; i++)
		if (!was_tried(f, s[i].ip, s[i].rpc_port))
			s[left++] = s[i];
	if (left == 0) {
		f->tried_count = 0;
		return false;
	}
	left = dcs_nearest(r->conf.places, s, left);
	*out = s[0];
	for (unsigned i = 0; i < left; i++)
		if (links_is_up(r->conf.links, s[i].ip, s[i].rpc_port)) {
			*out = s[i];
			break;
		}
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
		(void)reign_note(f->route);
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

/* Sends the request where it belongs now.  Ends, holds or leaves the flight under way. */
static void
flight_try(struct flight *f)
{
	struct route *r = f->route;
	const struct raft_local_status *st;
	struct op_request q = question(f);

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
	    (f->op->kind == OP_SERVER || f->op->code == OP_RAFT_CONFIGURATION))) {
		go_leader(f, st);
	} else if (st->leader_id[0] == '\0' && q.mode != OP_STALE) {
		flight_hold(f, TV_ENOLEADER);
	} else if (f->refused) {
		go_leader(f, st);	/* ours cannot serve it now: its disk is full, or its state is on its way */
	} else {
		go_local(f);
	}
}

/* -- calls ---------------------------------------------------------------- */

/* A short one is used again: malloc would join and split its memory each time.  Those that wait take no more than they need. */
static struct flight *
flight_alloc(struct route *r, size_t body_len, bool waits)
{
	bool reusable = !waits && body_len <= FLIGHT_SHORT;
	struct flight *f = reusable ? r->spares : NULL;

	if (f != NULL) {
		r->spares = f->next;
		r->spare_count--;
		memset(f, 0, sizeof(*f));
	} else {
		f = calloc(1, sizeof(*f) + (reusable ? FLIGHT_SHORT : body_len));
	}
	if (f != NULL)
		f->reusable = reusable;
	return f;
}

static struct flight *
flight_new(struct route *r, enum route_origin origin, struct span body, bool waits)
{
	struct flight *f = flight_alloc(r, body.len, waits);

	if (f == NULL)
		return NULL;
	f->route = r;
	f->origin = origin;
	f->body_len = body.len;
	memcpy(f->body, body.p, body.len);
	f->next = r->flights;
	if (f->next != NULL)
		f->next->prev = f;
	r->flights = f;
	return f;
}

static struct flight *
find_joinable(struct route *r, enum route_origin origin, struct span body)
{
	struct flight *f;

	for (f = *bucket_of(r, body); f != NULL; f = f->chain)
		if (f->origin == origin && span_eq(span_of(f->body, f->body_len), body))
			return f;
	return NULL;
}

static struct route_call *
call_add(struct flight *f, route_done *done, void *ctx)
{
	struct route_call *c = f->first.done == NULL ? &f->first : malloc(sizeof(*c));

	if (c == NULL)
		return NULL;
	*c = (struct route_call){ f, f->calls, done, ctx };
	f->calls = c;
	f->route->stats.started++;
	f->route->stats.under_way++;
	return c;
}

struct route_call *
route_relay(struct route *r, enum route_origin origin, struct span body, route_done *done, void *ctx,
    enum tv_err *err)
{
	struct op_request q;
	const struct op *op;
	struct flight *f;
	struct route_call *c;

	*err = op_request_read(body, &q);
	if (*err != TV_OK)
		return NULL;
	op = op_find(q.op);
	*err = op == NULL ? TV_EFORMAT : r->stats.under_way >= r->conf.calls_max ? TV_ELIMIT : TV_OK;
	if (*err != TV_OK)
		return NULL;
	*err = TV_ENOMEM;
	if (q.index > 0 && (f = find_joinable(r, origin, body)) != NULL) {
		r->stats.joined++;
		return call_add(f, done, ctx);
	}
	f = flight_new(r, origin, body, q.index > 0);
	if (f == NULL)
		return NULL;
	c = call_add(f, done, ctx);
	if (c == NULL) {
		flight_free(f);
		return NULL;
	}
	f->op = op;
	f->index = q.index;
	f->wait_ms = q.wait_ms;
	if (q.index > 0) {
		struct flight **at = bucket_of(r, body);

		f->chain = *at;
		*at = f;
		f->joinable = true;
	} else {
		f->hold_until = mono_add(clock_mono(), r->conf.hold_timeout);
	}
	*err = TV_OK;
	flight_try(f);
	return c;
}

struct route_call *
route_start(struct route *r, const struct op_request *q, route_done *done, void *ctx)
{
	struct buf b = BUF_INIT(FRAME_BODY_BYTES_MAX);
	struct route_call *c = NULL;
	enum tv_err err;

	op_request_write(&b, q);
	if (!b.failed)
		c = route_relay(r, ROUTE_HERE, buf_span(&b), done, ctx, &err);
	buf_done(&b);
	return c;
}

void
route_cancel(struct route_call *c)
{
	struct flight *f = c->flight;
	struct route_call **at = &f->calls;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	call_free(c);
	f->route->stats.under_way--;
	if (f->calls != NULL || f->state == FLIGHT_ENDING)
		return;
	if (f->state == FLIGHT_LOCAL)
		raft_local_cancel(f->route->conf.raft, f->local_id);
	else if (f->state == FLIGHT_LINK)
		links_cancel(f->link);
	else if (f->state == FLIGHT_FIRE)
		fire_cancel(f->fire);
	else if (f->state == FLIGHT_KEYS)
		keyask_cancel(f->keys);
	flight_free(f);
}

void
route_stats(const struct route *r, struct route_stats *out)
{
	*out = r->stats;
}

struct route *
route_new(const struct route_conf *conf)
{
	struct route *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	r->buckets = calloc(FLIGHT_BUCKETS, sizeof(*r->buckets));
	if (r->buckets == NULL) {
		free(r);
		return NULL;
	}
	r->conf = *conf;
	rng_seed(&r->rng, conf->seed);
	ev_init(&r->doom_timer, doom_cb);
	ev_init(&r->hold_timer, hold_cb);
	ev_init(&r->reign_timer, reign_cb);
	r->hold_timer.repeat = HOLD_TICK_S;
	r->doom_timer.data = r->hold_timer.data = r->reign_timer.data = r;
	return r;
}

void
route_free(struct route *r)
{
	if (r == NULL)
		return;
	ev_timer_stop(r->conf.loop, &r->hold_timer);
	ev_timer_stop(r->conf.loop, &r->reign_timer);
	while (r->flights != NULL) {
		struct flight *f = r->flights;

		if (f->state == FLIGHT_LOCAL)
			raft_local_cancel(r->conf.raft, f->local_id);
		else if (f->state == FLIGHT_LINK)
			links_cancel(f->link);
		else if (f->state == FLIGHT_FIRE)
			fire_cancel(f->fire);
		else if (f->state == FLIGHT_KEYS)
			keyask_cancel(f->keys);
		if (f->state == FLIGHT_LOCAL || f->state == FLIGHT_LINK || f->state == FLIGHT_FIRE ||
		    f->state == FLIGHT_KEYS)
			f->state = FLIGHT_NEW;
		flight_fail(f, TV_ECLOSED);
	}
	ev_timer_stop(r->conf.loop, &r->doom_timer);
	while (r->spares != NULL) {
		struct flight *f = r->spares;

		r->spares = f->next;
		free(f);
	}
	free(r->buckets);
	free(r);
}
