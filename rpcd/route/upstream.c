/* The life of a flight: its memory and lists, how it is held, and how it ends.  See route_int.h. */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/net/source.h"
#include "rpcd/wan/datacenters.h"
#include "rpcd/route/route_int.h"

#define FLIGHT_SHORT 128		/* bytes of a question whose flight may be used again */
#define SPARES_MAX 256			/* of them, kept */
#define VIEW_BYTES_MAX (8u << 20)	/* answer to an OP_VIEW operation */

struct op_request
flight_question(const struct flight *f)
{
	struct op_request q = { .op = 0 };

	(void)op_request_read(span_of(f->body, f->body_len), &q);
	return q;
}

/* -- lists -- */

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

struct flight **
flight_bucket(struct route *r, struct span body)
{
	return &r->buckets[keyed_hash(body.p, body.len) % FLIGHT_BUCKETS];
}

static void
unchain(struct flight *f)
{
	struct flight **at;

	if (!f->joinable)
		return;
	at = flight_bucket(f->route, span_of(f->body, f->body_len));
	while (*at != f)
		at = &(*at)->chain;
	*at = f->chain;
	f->joinable = false;
}

/* -- memory -- */

/*
 * A short one is used again: malloc would join and split its memory each time.  Those that wait take no more than they
 * need.
 */
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

struct flight *
flight_new(struct route *r, enum route_origin origin, struct span body, bool waits)
{
	struct flight *f = flight_alloc(r, body.len, waits);

	if (f == NULL)
		return NULL;
	f->route = r;
	f->origin = origin;
	f->body_len = body.len;
	r->stats.bytes += body.len;
	memcpy(f->body, body.p, body.len);
	f->next = r->flights;
	if (f->next != NULL)
		f->next->prev = f;
	r->flights = f;
	return f;
}

void
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
	r->stats.bytes -= f->body_len;
	explicit_bzero(f->body, f->body_len);	/* a token, a key */
	if (!f->reusable || r->spare_count == SPARES_MAX) {
		free(f);
		return;
	}
	f->next = r->spares;
	r->spares = f;
	r->spare_count++;
}

/* -- endings -- */

void
flight_call_free(struct route_call *c)
{
	if (c == &c->flight->first)
		c->done = NULL;
	else
		free(c);
}

void
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
		flight_call_free(c);
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
		return f->op != NULL && f->op->kind == OP_SERVER && flight_question(f).dc.len == 0 ?
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
		    f->op != NULL && f->op->kind == OP_GOSSIP_SERVER ?
		    "gossipd is not running on the server that was asked" :
		    tv_strerror(err);
	default:
		return f->op == NULL ? "malformed request" : tv_strerror(err);
	}
}

void
flight_fail(struct flight *f, enum tv_err err)
{
	struct op_reply reply = { .err = err, .text = span_str(failure_text(f, err)), .index = 1 };

	flight_end(f, &reply);
}

void
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

void
flight_doom_cb(struct ev_loop *loop, ev_timer *w, int revents)
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

/* -- waiting -- */

/* A blocking query that waited upstream for longer than it may be held: what ended that is a trouble of its own. */
static bool
waited_well(const struct flight *f, struct mono now)
{
	return f->left_at.ns != 0 && !mono_before(now, mono_add(f->left_at, f->route->conf.hold_timeout));
}

void
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

void
flight_retry_held(struct route *r)
{
	struct flight *f = r->held.head, *next;

	/* What is held again goes to the head: one pass is enough. */
	r->held.head = NULL;
	for (; f != NULL; f = next) {
		next = f->queue_next;
		f->queue_prev = f->queue_next = NULL;
		f->state = FLIGHT_NEW;
		r->stats.retried++;
		ways_try(f);
	}
	if (r->held.head == NULL)
		ev_timer_stop(r->conf.loop, &r->hold_timer);
}

void
flight_hold_cb(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)loop;
	(void)revents;
	flight_retry_held(w->data);
}
