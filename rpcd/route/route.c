/* Routing of operations: the calls that clients wait for.  See route.h and route_int.h. */
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/net/source.h"
#include "rpcd/route/route_int.h"

#define HOLD_TICK_S 0.05
#define TRIM_BYTES 8192			/* of a blocking query; smaller ones are kept as they came */
#define TRIM_ARENA_MAX (64u << 20)	/* while it is read */

static struct forward *
find_joinable(struct route *r, enum route_origin origin, struct span body, uint64_t hash)
{
	struct forward *u;

	MAP_FOREACH_HASH(u, &r->joinable, hash, flight.node)
		if (u->origin == origin && span_eq(span_of(u->body, u->body_len), body))
			break;
	return u;
}

static struct route_call *
call_add(struct forward *u, route_done *done, void *ctx)
{
	struct route_call *c = u->first.done == NULL ? &u->first : malloc(sizeof(*c));

	if (c == NULL)
		return NULL;
	*c = (struct route_call){ .done = done, .ctx = ctx };
	join_wait(&u->flight, &c->waiter);
	u->route->stats.started++;
	u->route->stats.under_way++;
	return c;
}

/* packed: has the body, and is empty afterwards if the forward keeps its memory; NULL: the body is copied. */
static struct route_call *
start_forward(struct route *r, enum route_origin origin, const struct op *op, const struct op_request *q,
    struct span body, struct buf *packed, route_done *done, void *ctx, enum tv_err *err)
{
	uint64_t hash = q->index > 0 ? keyed_hash(body.p, body.len) : 0;
	struct forward *u;
	struct route_call *c;

	if (r->stats.under_way >= r->conf.calls_max) {
		r->stats.refused++;
		*err = TV_ELIMIT;
		return NULL;
	}
	*err = TV_ENOMEM;
	if (q->index > 0 && (u = find_joinable(r, origin, body, hash)) != NULL) {
		r->stats.joined++;
		return call_add(u, done, ctx);
	}
	if (body.len > r->conf.bytes_max || r->stats.bytes > r->conf.bytes_max - body.len) {
		r->stats.refused++;
		*err = TV_ELIMIT;
		return NULL;
	}
	u = forward_new(r, origin, body, packed, q->index > 0);
	if (u == NULL)
		return NULL;
	if (q->index > 0)
		join_open(&r->joinable, &u->flight, hash);
	c = call_add(u, done, ctx);
	if (c == NULL) {
		forward_free(u);
		return NULL;
	}
	u->op = op;
	u->wait_ms = q->wait_ms;
	if (q->index == 0)
		u->hold_until = mono_add(clock_mono(), r->conf.hold_timeout);
	*err = TV_OK;
	dispatch_question(u, q);
	return c;
}

/* A long blocking query with the fields alone that we know.  False: it is not such a record, or there is no memory. */
static bool
trim_blocking(const struct op *op, const struct op_request *q, struct buf *out)
{
	struct arena a = ARENA_INIT(TRIM_ARENA_MAX);
	struct buf args = BUF_INIT(FRAME_BODY_BYTES_MAX);
	struct op_request known = *q;
	bool done = op_trim(op, q->args, &a, &args);

	known.args = buf_span(&args);
	if (done)
		op_request_write(out, &known);
	buf_done(&args);
	arena_done(&a);
	return done && !out->failed;
}

/* q is what the body says. */
static struct route_call *
start_question(struct route *r, enum route_origin origin, const struct op_request *q, struct span body,
    struct buf *packed, route_done *done, void *ctx, enum tv_err *err)
{
	struct buf known = BUF_INIT(FRAME_BODY_BYTES_MAX);
	const struct op *op = op_find(q->op);
	struct route_call *c = NULL;

	known.secret = true;			/* a token */
	if (op == NULL)
		*err = TV_EINVAL;
	else if (q->index == 0 || body.len <= TRIM_BYTES)
		c = start_forward(r, origin, op, q, body, packed, done, ctx, err);
	else if (trim_blocking(op, q, &known))
		c = start_forward(r, origin, op, q, buf_span(&known), NULL, done, ctx, err);
	else
		*err = TV_ELIMIT;
	buf_done(&known);
	return c;
}

struct route_call *
route_relay(struct route *r, enum route_origin origin, struct span body, route_done *done, void *ctx,
    enum tv_err *err)
{
	struct op_request q;

	*err = op_request_read(body, &q);
	return *err == TV_OK ? start_question(r, origin, &q, body, NULL, done, ctx, err) : NULL;
}

struct route_call *
route_start(struct route *r, const struct op_request *q, route_done *done, void *ctx)
{
	struct buf b = BUF_INIT(FRAME_BODY_BYTES_MAX);
	struct op_request own = *q;
	struct route_call *c = NULL;
	enum tv_err err;

	if (q->dc.len > OP_NAME_BYTES_MAX || q->token.len > OP_NAME_BYTES_MAX)
		return NULL;			/* no server would read it */
	own.wait_ms = q->wait_ms < OP_WAIT_MS_MAX ? q->wait_ms : OP_WAIT_MS_MAX;
	b.secret = true;			/* a token, a key */
	(void)buf_room(&b, q->dc.len + q->token.len + q->args.len + 64);
	op_request_write(&b, &own);
	if (!b.failed)
		c = start_question(r, ROUTE_HERE, &own, buf_span(&b), &b, done, ctx, &err);
	buf_done(&b);
	return c;
}

void
route_give(struct route_call *c, route_done *done, void *ctx)
{
	c->done = done;
	c->ctx = ctx;
}

void
route_cancel(struct route_call *c)
{
	struct forward *u = JOIN_ENTRY(c->waiter.flight, struct forward, flight);
	bool was_last = join_leave(&c->waiter) != NULL;

	forward_call_free(u, c);
	u->route->stats.under_way--;
	if (!was_last)
		return;
	dispatch_recall(u);
	forward_free(u);
}

uint64_t
route_reply_number(const struct route *r)
{
	return r->reply_number;
}

bool
route_settled(const struct route *r)
{
	const struct forward_list *lists[] = { &r->held, &r->doomed, &r->others };
	const struct forward *u;

	for (unsigned i = 0; i < 3; i++)
		LIST_FOREACH(u, lists[i], list)
			if (!u->blocks)
				return false;
	return true;
}

void
route_provide(struct route *r, enum op_kind kind, const struct route_provider *p)
{
	r->providers[kind] = *p;
}

void
route_wake(struct route *r)
{
	if (dispatch_reign_note(r))
		dispatch_reign_give_up(r, r->reign, false);
	if (!LIST_EMPTY(&r->held))
		forward_retry_held(r);
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
	r->conf = *conf;
	rng_seed(&r->rng, conf->seed);
	ev_init(&r->doom_timer, forward_doom_cb);
	ev_init(&r->hold_timer, forward_hold_cb);
	ev_init(&r->reign_timer, dispatch_reign_cb);
	r->hold_timer.repeat = HOLD_TICK_S;
	r->doom_timer.data = r->hold_timer.data = r->reign_timer.data = r;
	return r;
}

void
route_free(struct route *r)
{
	struct forward *u;

	if (r == NULL)
		return;
	ev_timer_stop(r->conf.loop, &r->hold_timer);
	ev_timer_stop(r->conf.loop, &r->reign_timer);
	while ((u = LIST_FIRST(&r->held)) != NULL || (u = LIST_FIRST(&r->doomed)) != NULL ||
	    (u = LIST_FIRST(&r->others)) != NULL) {
		dispatch_recall(u);
		forward_fail(u, TV_ECLOSED);
	}
	ev_timer_stop(r->conf.loop, &r->doom_timer);
	while ((u = LIST_FIRST(&r->spares)) != NULL) {
		LIST_REMOVE(u, list);
		free(u);
	}
	map_done(&r->joinable);
	free(r);
}
