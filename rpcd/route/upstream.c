/* The life of an upstream: its memory and lists, how it is held, and how it ends.  See route_int.h. */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/net/source.h"
#include "rpcd/route/route_int.h"

#define UPSTREAM_SHORT 128		/* bytes of a question whose upstream may be used again */
#define SPARES_MAX 256			/* of them, kept */
#define PROVIDED_BYTES_MAX (8u << 20)	/* of an answer that is made here */

struct op_request
upstream_question(const struct upstream *u)
{
	struct op_request q = { .op = 0 };

	(void)op_request_read(span_of(u->body, u->body_len), &q);
	return q;
}

/* -- lists -- */

static void
queue_add(struct upstream_queue *q, struct upstream *u)
{
	u->queue_prev = NULL;
	u->queue_next = q->head;
	if (q->head != NULL)
		q->head->queue_prev = u;
	q->head = u;
}

static void
queue_remove(struct upstream_queue *q, struct upstream *u)
{
	if (u->queue_prev != NULL)
		u->queue_prev->queue_next = u->queue_next;
	else
		q->head = u->queue_next;
	if (u->queue_next != NULL)
		u->queue_next->queue_prev = u->queue_prev;
	u->queue_prev = u->queue_next = NULL;
}

struct upstream **
upstream_bucket(struct route *r, struct span body)
{
	return &r->buckets[keyed_hash(body.p, body.len) % UPSTREAM_BUCKETS];
}

static void
unchain(struct upstream *u)
{
	struct upstream **at;

	if (!u->joinable)
		return;
	at = upstream_bucket(u->route, span_of(u->body, u->body_len));
	while (*at != u)
		at = &(*at)->chain;
	*at = u->chain;
	u->joinable = false;
}

/* -- memory -- */

/*
 * A short one is used again: malloc would join and split its memory each time.  Those that wait take no more than they
 * need.
 */
static struct upstream *
upstream_alloc(struct route *r, size_t body_len, bool waits)
{
	bool reusable = !waits && body_len <= UPSTREAM_SHORT;
	struct upstream *u = reusable ? r->spares : NULL;

	if (u != NULL) {
		r->spares = u->next;
		r->spare_count--;
		memset(u, 0, sizeof(*u));
	} else {
		u = calloc(1, sizeof(*u) + (reusable ? UPSTREAM_SHORT : body_len));
	}
	if (u != NULL)
		u->reusable = reusable;
	return u;
}

struct upstream *
upstream_new(struct route *r, enum route_origin origin, struct span body, bool waits)
{
	struct upstream *u = upstream_alloc(r, body.len, waits);

	if (u == NULL)
		return NULL;
	u->route = r;
	u->origin = origin;
	u->body_len = body.len;
	r->stats.bytes += body.len;
	memcpy(u->body, body.p, body.len);
	u->next = r->upstreams;
	if (u->next != NULL)
		u->next->prev = u;
	r->upstreams = u;
	return u;
}

void
upstream_free(struct upstream *u)
{
	struct route *r = u->route;

	unchain(u);
	if (u->state == UPSTREAM_HELD)
		queue_remove(&r->held, u);
	else if (u->state == UPSTREAM_DOOMED)
		queue_remove(&r->doomed, u);
	if (u->prev != NULL)
		u->prev->next = u->next;
	else
		r->upstreams = u->next;
	if (u->next != NULL)
		u->next->prev = u->prev;
	free(u->tried);
	r->stats.bytes -= u->body_len;
	explicit_bzero(u->body, u->body_len);	/* a token, a key */
	if (!u->reusable || r->spare_count == SPARES_MAX) {
		free(u);
		return;
	}
	u->next = r->spares;
	r->spares = u;
	r->spare_count++;
}

/* -- endings -- */

void
upstream_call_free(struct route_call *c)
{
	if (c == &c->upstream->first)
		c->done = NULL;
	else
		free(c);
}

void
upstream_end(struct upstream *u, const struct op_reply *reply)
{
	struct route *r = u->route;
	struct route_call *c;

	/* A new call that a callback starts must not join what has ended, nor may a cancelled one free it. */
	unchain(u);
	if (u->state == UPSTREAM_HELD || u->state == UPSTREAM_DOOMED)
		queue_remove(u->state == UPSTREAM_HELD ? &r->held : &r->doomed, u);
	u->state = UPSTREAM_ENDING;
	if (reply->err == TV_EUNKNOWN)
		r->stats.unknown++;
	else if (reply->err != TV_OK)
		r->stats.failed++;
	else if (u->origin == ROUTE_HERE && u->op != NULL && u->op->kind == OP_WRITE && r->conf.on_written != NULL)
		r->conf.on_written(r->conf.ctx, (enum op_code)u->op->code);
	r->reply_number = u->calls != NULL && u->calls->next != NULL ? ++r->shared : 0;
	while ((c = u->calls) != NULL) {
		u->calls = c->next;
		r->stats.under_way--;
		c->done(c->ctx, reply);
		upstream_call_free(c);
	}
	r->reply_number = 0;
	upstream_free(u);
}

static const char *
failure_text(const struct upstream *u, enum tv_err err)
{
	const struct route_provider *p = u->op == NULL ? &(struct route_provider){ .ctx = NULL } :
	    &u->route->providers[u->op->kind];

	switch (err) {
	case TV_ENOLEADER:
	case TV_ENOTLEADER:
		return "No cluster leader";
	case TV_EUNREACH:
		return u->op != NULL && u->op->kind == OP_SERVER && upstream_question(u).dc.len == 0 ?
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
upstream_fail(struct upstream *u, enum tv_err err)
{
	struct op_reply reply = { .err = err, .text = span_str(failure_text(u, err)), .index = 1 };

	upstream_end(u, &reply);
}

void
upstream_doom(struct upstream *u, enum tv_err err)
{
	struct route *r = u->route;

	u->state = UPSTREAM_DOOMED;
	u->doom = err;
	queue_add(&r->doomed, u);
	if (!ev_is_active(&r->doom_timer)) {
		ev_timer_set(&r->doom_timer, 0., 0.);
		ev_timer_start(r->conf.loop, &r->doom_timer);
	}
}

static void
upstream_answer_here(struct upstream *u)
{
	const struct route_provider *p = &u->route->providers[u->op->kind];
	struct op_request q = upstream_question(u);
	struct op_reply reply = { .index = 1, .known_leader = true };
	struct buf b = BUF_INIT(PROVIDED_BYTES_MAX);

	reply.err = p->answer(p->ctx, &q, &b);
	if (reply.err == TV_OK && b.failed)
		reply.err = TV_ENOMEM;
	reply.value = reply.err == TV_OK ? buf_span(&b) : SPAN_NONE;
	upstream_end(u, &reply);
	buf_done(&b);
}

void
upstream_doom_cb(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct route *r = w->data;

	(void)loop;
	(void)revents;
	while (r->doomed.head != NULL) {
		if (r->doomed.head->doom == TV_OK)
			upstream_answer_here(r->doomed.head);
		else
			upstream_fail(r->doomed.head, r->doomed.head->doom);
	}
}

/* -- waiting -- */

/* A blocking query that waited upstream for longer than it may be held: what ended that is a trouble of its own. */
static bool
waited_well(const struct upstream *u, struct mono now)
{
	return u->left_at.ns != 0 && !mono_before(now, mono_add(u->left_at, u->route->conf.hold_timeout));
}

void
upstream_hold(struct upstream *u, enum tv_err why)
{
	struct route *r = u->route;
	struct mono now = clock_mono();

	if (u->origin == ROUTE_FINAL) {
		upstream_doom(u, why);
		return;
	}
	r->stats.held++;
	if (waited_well(u, now))
		u->hold_until = MONO_ZERO;
	u->left_at = MONO_ZERO;
	if (u->hold_until.ns == 0) {
		u->hold_until = mono_add(now, r->conf.hold_timeout);
	} else if (!mono_before(now, u->hold_until)) {
		upstream_doom(u, why);
		return;
	}
	u->state = UPSTREAM_HELD;
	queue_add(&r->held, u);
	if (!ev_is_active(&r->hold_timer))
		ev_timer_again(r->conf.loop, &r->hold_timer);
}

void
upstream_retry_held(struct route *r)
{
	struct upstream *u = r->held.head, *next;

	/* What is held again goes to the head: one pass is enough. */
	r->held.head = NULL;
	for (; u != NULL; u = next) {
		next = u->queue_next;
		u->queue_prev = u->queue_next = NULL;
		u->state = UPSTREAM_NEW;
		r->stats.retried++;
		dispatch_try(u);
	}
	if (r->held.head == NULL)
		ev_timer_stop(r->conf.loop, &r->hold_timer);
}

void
upstream_hold_cb(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)loop;
	(void)revents;
	upstream_retry_held(w->data);
}
