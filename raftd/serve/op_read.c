/*
 * Reads.  Default and consistent: one ReadIndex round for all of a turn, then the own state, on any server.  Stale:
 * the own state as it is.  A record alone is looked up while its round is under way (read_ahead.h).  Blocking: when the result is not newer than asked, a watch on exactly what it depends
 * on, and another look when that fires; no new round is needed, since the state only moves forward.
 */
#include <sodium.h>

#include "raftd/engine/engine.h"
#include "raftd/fsm/fsm.h"
#include "raftd/serve/info.h"
#include "raftd/serve/op.h"

#define WAIT_DEFAULT_NS 300000000000	/* 5 m */
#define WAIT_MAX_NS 600000000000	/* 10 m */

static void
unblock(struct request *q)
{
	if (q->watch != NULL)
		fsm_unwatch(q->d->fsm, q->watch);
	q->watch = NULL;
	ev_timer_stop(q->d->loop, &q->timer);
}

static void
on_watch(void *ctx)
{
	struct request *q = ctx;

	q->watch = NULL;		/* it is gone once it has fired */
	request_fire(q);
}

static void
on_timer(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct request *q = w->data;

	(void)loop;
	(void)revents;
	q->last = true;
	request_fire(q);
}

static bool
block(struct request *q)
{
	int64_t wait = q->wait_ns <= 0 ? WAIT_DEFAULT_NS : q->wait_ns > WAIT_MAX_NS ? WAIT_MAX_NS : q->wait_ns;

	q->watch = fsm_watch(q->d->fsm, q->op, q->args, on_watch, q);
	if (q->watch == NULL)
		return false;
	if (q->blocked)
		return true;
	q->blocked = true;
	q->replaced = fsm_replaced(q->d->fsm);
	/* Up to a sixteenth more, so that many waiters do not end together. */
	wait += (int64_t)((double)(wait / 16) * ((double)randombytes_random() / UINT32_MAX));
	ev_now_update(q->d->loop);
	ev_timer_init(&q->timer, on_timer, (double)wait / 1e9, 0.0);
	q->timer.data = q;
	ev_timer_start(q->d->loop, &q->timer);
	return true;
}

static void
serve(struct request *q)
{
	struct arena *a = request_arena(q);
	struct buf *out = request_buf(q);
	struct fsm_answer ans = { 0 };

	fsm_read(q->d->fsm, q->op, q->args, a, out, &ans);
	if (ans.err == TV_OK && out->failed) {
		ans.err = TV_ELIMIT;
		ans.text = span_str("the answer is too large; ask for less");
	}
	if (ans.err != TV_OK) {
		unblock(q);
		request_fail(q, ans.err, ans.text);
		return;
	}
	if (q->blocked && q->replaced != fsm_replaced(q->d->fsm))
		q->last = true;			/* what it waited for is of another state (S104) */
	if (q->index > 0 && ans.index <= q->index && !q->last) {
		if (!q->blocked && !request_may_block(q)) {
			request_failf(q, TV_ELIMIT, "too many blocking queries wait on this server; try another one");
			return;
		}
		if (block(q))
			return;
	}
	unblock(q);
	request_reply(q, ans.index, buf_span(out));
}

static struct request *
request_of(struct read_wait *w)
{
	return (struct request *)((char *)w - offsetof(struct request, read));
}

/* Whatever is wrong is found again, and told, when the read is confirmed. */
static void
on_ahead(struct read_wait *w, uint64_t applied)
{
	struct request *q = request_of(w);
	struct reads_ahead *aheads = request_reads_ahead(q);
	struct fsm_answer ans = { 0 };
	struct arena *a;
	struct buf *out;

	if (q->ahead != NULL || !read_ahead_wanted(aheads))
		return;
	a = request_arena(q);
	out = request_buf(q);
	fsm_read(q->d->fsm, q->op, q->args, a, out, &ans);
	if (ans.err == TV_OK && !out->failed)
		q->ahead = read_ahead_hold(aheads, applied, fsm_replaced(q->d->fsm), ans.index, buf_span(out));
}

/* False: it has to be looked up (again). */
static bool
give_ahead(struct request *q)
{
	const struct read_ahead *x = q->ahead;

	if (x == NULL || !read_ahead_may_give(request_reads_ahead(q), x, q->read.index, fsm_replaced(q->d->fsm)))
		return false;
	request_reply(q, x->index, span_of(x->value, x->len));
	return true;
}

void
op_read_again(struct request *q)
{
	if (q->last && q->watch != NULL)
		unblock(q);
	serve(q);
}

static void
on_confirmed(struct read_wait *w, enum tv_err err)
{
	struct request *q = request_of(w);

	if (err == TV_OK) {
		if (request_congested(q))
			request_fire(q);
		else if (!give_ahead(q))
			serve(q);
		return;
	}
	if (err == TV_ENOTLEADER)
		request_fail(q, err, SPAN_NONE);	/* a full disk keeps this server behind */
	else if (err == TV_ENOLEADER)
		request_failf(q, err, "No cluster leader");
	else
		request_failf(q, TV_EAGAIN, "this server lags behind the leader; try another one");
}

/* Status needs no agreement: what this server believes. */
static void
status_leader(struct request *q, const void *args)
{
	struct buf *out = request_buf(q);

	(void)args;
	info_status_leader(q->d, out);
	request_reply(q, 1, buf_span(out));
}

static void
status_peers(struct request *q, const void *args)
{
	struct buf *out = request_buf(q);

	(void)args;
	info_status_peers(q->d, out);
	request_reply(q, 1, buf_span(out));
}

const struct request_op status_ops[] = {
	{ OP_STATUS_LEADER, status_leader },
	{ OP_STATUS_PEERS, status_peers },
	{ 0, NULL },
};

/*
 * A list may take long, and would be made twice when a write came between; a query that waits is looked at again anyway.
 */
static bool
is_short(const struct request *q)
{
	return q->index == 0 && q->op->traits & OP_SHORT;
}

void
op_read(struct request *q, uint64_t max_stale_ms)
{
	uint64_t contact_ms;
	bool known = engine_leader_known(q->d->engine, &contact_ms);

	if (engine_stateless(q->d->engine)) {
		request_fail(q, TV_ENOTLEADER, SPAN_NONE);	/* an empty state must not look like one (S48) */
		return;
	}
	/* Staler than the asker accepts: a confirmed read is never stale. */
	if (q->mode == OP_STALE && (max_stale_ms == 0 || (known && contact_ms <= max_stale_ms))) {
		request_fire(q);		/* many of them, read at once, would hold up the loop */
		return;
	}
	q->read.done = on_confirmed;
	q->read.ahead = is_short(q) ? on_ahead : NULL;
	engine_read(q->d->engine, &q->read);
}

bool
op_cancel(struct request *q)
{
	if (q->writing)
		return false;
	reads_cancel(&q->read);
	unblock(q);
	return true;
}
