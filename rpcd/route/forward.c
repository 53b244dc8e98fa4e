/* The life of a forward: its memory and lists, how it is held, and how it ends.  See route_int.h. */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "rpcd/route/route_int.h"

#define FORWARD_SHORT 128		/* bytes of a question whose forward may be used again */
#define FORWARD_LONG 4096		/* bytes of one whose memory is not copied; it may have more than it needs */
#define SPARES_MAX 256			/* of them, kept */
#define PROVIDED_BYTES_MAX (8u << 20)	/* of an answer that is made here */

struct op_request
forward_question(const struct forward *u)
{
	struct op_request q = { .op = 0 };

	(void)op_request_read(span_of(u->body, u->body_len), &q);
	return q;
}

static void
move_to(struct forward_list *to, struct forward *u, enum forward_state state)
{
	LIST_REMOVE(u, list);
	LIST_INSERT_HEAD(to, u, list);
	u->state = state;
}

/* -- memory -- */

/*
 * A short one is used again: malloc would join and split its memory each time.  Those that wait take no more than they
 * need.
 */
static struct forward *
forward_alloc(struct route *r, size_t body_len, bool waits)
{
	bool reusable = !waits && body_len <= FORWARD_SHORT;
	struct forward *u = reusable ? LIST_FIRST(&r->spares) : NULL;

	if (u != NULL) {
		LIST_REMOVE(u, list);
		r->spare_count--;
		memset(u, 0, sizeof(*u));
	} else {
		u = calloc(1, sizeof(*u) + (reusable ? FORWARD_SHORT : body_len));
	}
	if (u != NULL)
		u->reusable = reusable;
	return u;
}

struct forward *
forward_new(struct route *r, enum route_origin origin, struct span body, struct buf *packed, bool waits)
{
	bool taken = packed != NULL && !waits && body.len > FORWARD_LONG;
	struct forward *u = forward_alloc(r, taken ? 0 : body.len, waits);

	if (u == NULL)
		return NULL;
	u->route = r;
	u->origin = origin;
	u->blocks = waits;
	u->body_len = (uint32_t)body.len;
	r->stats.bytes += body.len;
	u->body = taken ? packed->data : u->room;
	if (taken)
		*packed = BUF_INIT(packed->max);
	else
		memcpy(u->body, body.p, body.len);
	LIST_INSERT_HEAD(&r->others, u, list);
	return u;
}

void
forward_free(struct forward *u)
{
	struct route *r = u->route;

	join_close(&r->joinable, &u->flight);
	LIST_REMOVE(u, list);
	free(u->tried);
	r->stats.bytes -= u->body_len;
	explicit_bzero(u->body, u->body_len);	/* a token, a key */
	if (u->body != u->room)
		free(u->body);
	if (!u->reusable || r->spare_count == SPARES_MAX) {
		free(u);
		return;
	}
	LIST_INSERT_HEAD(&r->spares, u, list);
	r->spare_count++;
}

/* -- endings -- */

void
forward_call_free(struct forward *u, struct route_call *c)
{
	if (c == &u->first)
		c->done = NULL;
	else
		free(c);
}

void
forward_end(struct forward *u, const struct op_reply *reply)
{
	struct route *r = u->route;
	struct route_call *c;

	/* A new call that a callback starts must not join what has ended, nor may a cancelled one free it. */
	join_end(&r->joinable, &u->flight);
	move_to(&r->others, u, FORWARD_ENDING);
	if (reply->err == TV_EUNKNOWN)
		r->stats.unknown++;
	else if (reply->err != TV_OK)
		r->stats.failed++;
	else if (u->origin == ROUTE_HERE && u->op != NULL && u->op->kind == OP_WRITE && r->conf.on_written != NULL)
		r->conf.on_written(r->conf.ctx, (enum op_code)u->op->code);
	r->reply_number = u->flight.waiting > 1 ? ++r->shared : 0;
	while ((c = JOIN_ENTRY(join_next(&u->flight), struct route_call, waiter)) != NULL) {
		r->stats.under_way--;
		c->done(c->ctx, reply);
		forward_call_free(u, c);
	}
	r->reply_number = 0;
	forward_free(u);
}

static const char *
failure_text(const struct forward *u, enum tv_err err)
{
	const struct route_provider *p = u->op == NULL ? &(struct route_provider){ .ctx = NULL } :
	    &u->route->providers[u->op->kind];

	switch (err) {
	case TV_ENOLEADER:
	case TV_ENOTLEADER:
		return "No cluster leader";
	case TV_EUNREACH:
		return u->op != NULL && u->op->kind == OP_SERVER && forward_question(u).dc.len == 0 ?
		    "the server responsible cannot be reached" : "No path to datacenter";
	case TV_EUNKNOWN:
		return p->lost != NULL ? p->lost :
		    "the leader was lost before it answered; the write may have been applied";
	case TV_ETIMEOUT:
		return "the servers did not answer in time";
	case TV_ELIMIT:
		return "the answer is larger than limits.answer_bytes_max allows";
	case TV_ECLOSED:
		return p->away != NULL ? p->away : tv_strerror(err);
	default:
		return u->op == NULL ? "malformed request" : tv_strerror(err);
	}
}

void
forward_fail(struct forward *u, enum tv_err err)
{
	struct op_reply reply = { .err = err, .text = span_str(failure_text(u, err)), .index = 1 };

	forward_end(u, &reply);
}

void
forward_doom(struct forward *u, enum tv_err err)
{
	struct route *r = u->route;

	move_to(&r->doomed, u, FORWARD_DOOMED);
	u->doom = err;
	if (!ev_is_active(&r->doom_timer)) {
		ev_timer_set(&r->doom_timer, 0., 0.);
		ev_timer_start(r->conf.loop, &r->doom_timer);
	}
}

static void
forward_answer_here(struct forward *u)
{
	const struct route_provider *p = &u->route->providers[u->op->kind];
	struct op_request q = forward_question(u);
	struct op_reply reply = { .index = 1, .known_leader = true };
	struct buf b = BUF_INIT(PROVIDED_BYTES_MAX);

	reply.err = p->answer(p->ctx, &q, &b);
	if (reply.err == TV_OK && b.failed)
		reply.err = TV_ENOMEM;
	reply.value = reply.err == TV_OK ? buf_span(&b) : SPAN_NONE;
	forward_end(u, &reply);
	buf_done(&b);
}

void
forward_doom_cb(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct route *r = w->data;
	struct forward *u;

	while ((u = LIST_FIRST(&r->doomed)) != NULL) {
		if (u->doom == TV_OK)
			forward_answer_here(u);
		else
			forward_fail(u, u->doom);
	}
}

/* -- waiting -- */

/* A blocking query that waited at a server for longer than it may be held: what ended that is a trouble of its own. */
static bool
waited_well(const struct forward *u, struct mono now)
{
	return u->left_at.ns != 0 && !mono_before(now, mono_add(u->left_at, u->route->conf.hold_timeout));
}

void
forward_hold(struct forward *u, enum tv_err why)
{
	struct route *r = u->route;
	struct mono now = clock_mono();

	if (u->origin == ROUTE_FINAL) {
		forward_doom(u, why);
		return;
	}
	r->stats.held++;
	if (waited_well(u, now))
		u->hold_until = MONO_ZERO;
	u->left_at = MONO_ZERO;
	if (u->hold_until.ns == 0) {
		u->hold_until = mono_add(now, r->conf.hold_timeout);
	} else if (!mono_before(now, u->hold_until)) {
		forward_doom(u, why);
		return;
	}
	move_to(&r->held, u, FORWARD_HELD);
	if (!ev_is_active(&r->hold_timer))
		ev_timer_again(r->conf.loop, &r->hold_timer);
}

void
forward_retry_held(struct route *r)
{
	struct forward_list again = LIST_HEAD_INITIALIZER(again);
	struct forward *u;

	while ((u = LIST_FIRST(&r->held)) != NULL)
		move_to(&again, u, FORWARD_NEW);
	while ((u = LIST_FIRST(&again)) != NULL) {	/* some are held again: one pass is enough */
		move_to(&r->others, u, FORWARD_NEW);
		r->stats.retried++;
		dispatch_try(u);
	}
	if (LIST_EMPTY(&r->held))
		ev_timer_stop(r->conf.loop, &r->hold_timer);
}

void
forward_hold_cb(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	forward_retry_held(w->data);
}
