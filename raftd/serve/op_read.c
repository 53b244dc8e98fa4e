/*
 * Reads.  Default and consistent: one ReadIndex round for all of a turn, then the own state, on any server.  Stale:
 * the own state as it is.  Blocking: a watch on exactly what the result depends on, then a look; when that is not newer than asked,
 * another one when the watch fires; no new round is needed, since the state only moves forward.  Looking is the threads'
 * (statethread.h).
 */
#include <sodium.h>

#include "common/base/clock.h"
#include "raftd/engine/engine.h"
#include "raftd/fsm/fsm.h"
#include "raftd/serve/info.h"
#include "raftd/serve/op.h"
#include "raftd/serve/token_watch.h"

#define WAIT_DEFAULT_NS 300000000000	/* 5 m */
#define WAIT_MAX_NS 600000000000	/* 10 m */
/*
 * A change of rights between an answer and the next question changes no index, so that question would wait for something
 * else to change.  Soon after a change no question waits for longer than this.
 */
#define CHANGED_LATELY_NS 3000000000
#define WAIT_AFTER_CHANGE_NS 1000000000

static void
unblock(struct request *q)
{
	if (q->watch != NULL)
		fsm_unwatch(q->d->fsm, q->watch);
	q->watch = NULL;
	token_watch_remove(q);
	ev_timer_stop(q->d->loop, &q->timer);
}

/* Whatever is being looked at may be of before that. */
static void
on_watch(void *ctx)
{
	struct request *q = ctx;

	q->watch = NULL;		/* it is gone once it has fired */
	op_look_again(q);
}

void
op_look_again(struct request *q)
{
	if (q->lookup != NULL)
		q->again = true;
	else
		request_fire(q);
}

static void
on_timer(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct request *q = w->data;

	q->last = true;
	if (q->lookup == NULL)
		request_fire(q);
}

/* Not beyond the life of the token, and see CHANGED_LATELY_NS. */
static int64_t
bounded_by_rights(const struct fsm_rights *r, int64_t wait)
{
	int64_t now = clock_wall_ns(), left = fsm_rights_expires(r) - now, since = now - fsm_rights_changed(r);

	if (fsm_rights_expires(r) != 0 && left < wait)
		wait = left;
	if (since >= 0 && since < CHANGED_LATELY_NS && wait > WAIT_AFTER_CHANGE_NS)
		wait = WAIT_AFTER_CHANGE_NS;
	return wait;
}

/* It is not newer than what was asked for: the answer comes when it is, or when the time is up. */
static void
begin_waiting(struct request *q)
{
	int64_t wait = q->wait_ns <= 0 ? WAIT_DEFAULT_NS : q->wait_ns > WAIT_MAX_NS ? WAIT_MAX_NS : q->wait_ns;

	if (q->blocked)
		return;
	q->blocked = true;
	q->replaced = fsm_replaced(q->d->fsm);
	/* Up to a sixteenth more, so that many waiters do not end together. */
	wait += (int64_t)((double)(wait / 16) * ((double)randombytes_random() / UINT32_MAX));
	if (q->rights != NULL)
		wait = bounded_by_rights(q->rights, wait);
	token_watch_add(q);
	ev_now_update(q->d->loop);
	ev_timer_init(&q->timer, on_timer, wait > 0 ? (double)wait / 1e9 : 0.0, 0.0);
	q->timer.data = q;
	ev_timer_start(q->d->loop, &q->timer);
}

static void on_looked(struct state_read *r, void *ctx);

/* A query that waits is watched before it is looked at: what comes between is not lost. */
static void
look_up(struct request *q)
{
	if (!statethread_may_read(q->d->state, q->op)) {
		request_fire(q);
		return;
	}
	q->again = false;
	if (q->index > 0 && !q->last && q->watch == NULL && (q->blocked || request_may_block(q)))
		q->watch = fsm_watch(q->d->fsm, q->op, q->args, on_watch, q);
	q->lookup = statethread_read(q->d->state, q->op, q->args, q->token, on_looked, q);
	if (q->lookup == NULL) {
		unblock(q);
		request_failf(q, TV_ENOMEM, "raftd is out of memory");
	}
}

static void
wait_or_look_again(struct request *q)
{
	bool again = q->again;

	request_drop_lookup(q);
	if (q->watch == NULL && !again) {
		request_failf(q, TV_ELIMIT, "too many blocking queries wait on this server; try another one");
		return;
	}
	begin_waiting(q);
	if (q->watch == NULL)
		look_up(q);
}

/*
 * Looked up before all is applied that was confirmed.  A key that is not there is answered with the index of the table, which is
 * another one then: such a read waits.
 */
static bool
is_too_early(const struct request *q)
{
	return q->read.early && q->lookup->value.len <= 1;
}

static void
ask_again(struct request *q)
{
	request_drop_lookup(q);
	q->read.key = NULL;
	engine_read(q->d->engine, &q->read);
}

static void on_current(struct read_wait *w, enum tv_err err);

/*
 * A stale state may not know a token yet, or a right: before a stale read is refused it is looked at again in one that is not.
 * False: it was, or there is no leader to ask.
 */
static bool
refused_by_stale(struct request *q)
{
	uint64_t contact_ms;

	if (q->mode != OP_STALE || q->confirmed || !engine_leader_known(q->d->engine, &contact_ms))
		return false;
	q->confirmed = true;
	q->read.done = on_current;
	q->read.key = NULL;
	engine_read(q->d->engine, &q->read);
	return true;
}

/*
 * While it waited its token became another one's, or its policies others: what it may see has changed, though the state
 * has the same index.  Sets are known by the text of their rules, so that the same rules are the same set.
 */
static bool
rights_changed(const struct request *q, const struct fsm_rights *now)
{
	const struct fsm_rights *before = q->rights;

	return q->blocked && (before == NULL ? NULL : fsm_rights_set(before)) != (now == NULL ? NULL : fsm_rights_set(now));
}

/* What was looked up is given, or waits for something newer. */
static void
give_answer(struct request *q)
{
	struct state_read *r = q->lookup;

	if (rights_changed(q, r->rights))
		q->last = true;
	fsm_rights_free(q->rights);
	q->rights = r->rights;
	r->rights = NULL;
	if (q->rights != NULL)
		op_warn_once(q->d);
	if (r->answer.err != TV_OK) {
		if (r->answer.err == TV_EPERM && refused_by_stale(q))
			return;
		if (r->answer.err == TV_EPERM)
			request_denied(q);
		unblock(q);
		request_fail(q, r->answer.err, r->answer.text);
		return;
	}
	if (is_too_early(q)) {
		ask_again(q);
		return;
	}
	if (q->blocked && q->replaced != fsm_replaced(q->d->fsm))
		q->last = true;			/* what it waited for is of another state (S104) */
	if (q->index > 0 && r->answer.index <= q->index && !q->last) {
		wait_or_look_again(q);
		return;
	}
	unblock(q);
	q->hidden = r->answer.hidden;
	if (r->large.len > 0) {
		struct buf value = r->large;	/* what was looked up ends with the request */

		r->large = BUF_INIT(0);
		request_reply_with(q, r->answer.index, &value);
	} else {
		request_reply(q, r->answer.index, r->value);
	}
}

static void
on_looked(struct state_read *r, void *ctx)
{
	struct request *q = ctx;

	if (r->applied >= q->needed && r->replaced == fsm_replaced(q->d->fsm)) {
		give_answer(q);
		return;
	}
	request_drop_lookup(q);		/* the state was replaced meanwhile */
	look_up(q);
}

static struct request *
request_of(struct read_wait *w)
{
	return (struct request *)((char *)w - offsetof(struct request, read));
}

/* The refusal of before is kept until then. */
static void
on_current(struct read_wait *w, enum tv_err err)
{
	struct request *q = request_of(w);

	if (err == TV_OK) {
		q->needed = w->index;
		request_drop_lookup(q);
		look_up(q);
		return;
	}
	request_denied(q);
	unblock(q);
	request_fail(q, TV_EPERM, q->lookup->answer.text);
}

void
op_read_again(struct request *q)
{
	if (q->last && q->watch != NULL)
		unblock(q);
	look_up(q);
}

static void
on_confirmed(struct read_wait *w, enum tv_err err)
{
	struct request *q = request_of(w);

	if (err == TV_OK) {
		q->needed = w->index;
		if (request_congested(q))
			request_fire(q);
		else
			look_up(q);
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
status_leader(struct request *q, const void *args UNUSED)
{
	struct buf *out = request_buf(q);

	info_status_leader(q->d, out);
	request_reply(q, 1, buf_span(out));
}

static void
status_peers(struct request *q, const void *args UNUSED)
{
	struct buf *out = request_buf(q);

	info_status_peers(q->d, out);
	request_reply(q, 1, buf_span(out));
}

const struct request_op status_ops[] = {
	{ OP_STATUS_LEADER, status_leader },
	{ OP_STATUS_PEERS, status_peers },
	{ 0, NULL },
};

static bool
key_of(struct read_wait *w, struct span *out)
{
	struct arena none = ARENA_INIT(0);
	struct rd r = rd_span_over(request_of(w)->args);
	struct kv_read args;

	if (schema_unpack(&kv_read_schema, &r, &none, &args) != TV_OK)
		return false;
	*out = args.Key;
	return true;
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
	q->read.key = q->index == 0 && q->op->code == OP_KV_GET ? key_of : NULL;
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
