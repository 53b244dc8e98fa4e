/* Requests, see request.h. */
#include <stdlib.h>
#include <string.h>

#include "common/net/msg.h"
#include "common/record/mpack.h"
#include "common/record/op_note.h"
#include "raftd/engine/engine.h"
#include "raftd/fsm/fsm.h"
#include "raftd/request/request.h"

#define REPLY_HEAD_BYTES 128		/* of an answer besides its texts: enough */
#define SPARES_MAX 1024
#define SCRATCH_KEEP (1u << 20)

struct requests {
	struct raftd *d;
	struct request_list spares;
	unsigned spare_count, pending;
	unsigned infos;			/* of the pending ones, for info */
	uint64_t denied;		/* since the start, for want of rights */
	uint64_t judged_again, given_up;	/* since the start: see request_judged_again() */
	uint64_t kept;			/* bytes of arguments outside the records */
	struct arena arena;		/* scratch */
	struct buf buf;
};

struct request *
request_find(struct asker *a, uint64_t id)
{
	return MAP_ENTRY(map_find(&a->by_id, id), struct request, by_id);
}

struct request *
request_new(struct raftd *d, struct asker *a, const struct frame *f)
{
	struct requests *all = d->requests;
	struct request *q = TAILQ_FIRST(&all->spares);

	if (q != NULL) {
		TAILQ_REMOVE(&all->spares, q, link);
		all->spare_count--;
		memset(q, 0, offsetof(struct request, bytes));
		memset((uint8_t *)q + offsetof(struct request, writing), 0,
		    sizeof(*q) - offsetof(struct request, writing));
	} else {
		q = calloc(1, sizeof(*q));
		if (q == NULL)
			return NULL;
	}
	q->d = d;
	q->asker = a;
	q->type = f->type;
	q->args.p = q->bytes;
	map_add(&a->by_id, &q->by_id, f->id);	/* a channel may repeat an id */
	TAILQ_INSERT_TAIL(&a->requests, q, link);
	all->pending++;
	all->infos += q->type == MSG_INFO;
	return q;
}

void
request_detach(struct request *q)
{
	struct asker *a = q->asker;

	if (a == NULL)
		return;
	map_remove(&a->by_id, &q->by_id);
	TAILQ_REMOVE(&a->requests, q, link);
	q->asker = NULL;
}

void
request_drop_lookup(struct request *q)
{
	statethread_drop(q->d->state, q->lookup);
	q->lookup = NULL;
}

/* Lists have less room among what is under way: they must not stand before the others. */
static struct request_list *
fired_list(const struct request *q)
{
	return &q->asker->fired[(q->op->traits & OP_SHORT) == 0];
}

static void
drop_args(struct request *q)
{
	size_t len = q->args.len + q->token.len;

	if (q->token.len > 0)
		explicit_bzero((void *)(uintptr_t)q->token.p, q->token.len);
	if (q->args.p == q->bytes)
		return;
	q->d->requests->kept -= len;
	free((void *)(uintptr_t)q->args.p);
}

void
request_free(struct request *q)
{
	struct requests *all = q->d->requests;

	if (q->fired)
		TAILQ_REMOVE(fired_list(q), q, fired_link);
	request_detach(q);
	request_drop_lookup(q);
	fsm_rights_free(q->rights);
	drop_args(q);
	all->pending--;
	all->infos -= q->type == MSG_INFO;
	if (all->spare_count >= SPARES_MAX) {
		free(q);
		return;
	}
	TAILQ_INSERT_HEAD(&all->spares, q, link);
	all->spare_count++;
}

struct arena *
request_arena(struct request *q)
{
	arena_reset(&q->d->requests->arena);
	return &q->d->requests->arena;
}

struct buf *
request_buf(struct request *q)
{
	struct buf *b = &q->d->requests->buf;

	if (b->cap > SCRATCH_KEEP)
		buf_done(b);
	else
		buf_reset(b);
	return b;
}

bool
request_may_block(struct request *q)
{
	return fsm_watch_count(q->d->fsm) < q->d->conf.watches_max;
}

/* The frame of its answer, for chan_end(); NULL: its channel is gone. */
static struct buf *
begin_answer(struct request *q)
{
	return q->asker == NULL ? NULL : chan_begin(q->asker->chan, q->type, FRAME_REPLY, q->by_id.hash);
}

/* memory: the value's, which is taken over; NULL: it is copied. */
static void
reply(struct request *q, const struct op_reply *a, struct buf *memory)
{
	struct buf *b = begin_answer(q);

	if (b != NULL && memory != NULL) {
		op_reply_begin(b, a);
		(void)chan_end_with(q->asker->chan, memory, a->value);
	} else if (b != NULL) {
		/* At once: a large one would be moved at each step of a growing buffer. */
		(void)buf_room(b, a->value.len + a->text.len + REPLY_HEAD_BYTES);
		op_reply_write(b, a);
		(void)chan_end(q->asker->chan);
	}
	request_free(q);
}

static void
reply_value(struct request *q, uint64_t index, struct span value, struct buf *memory)
{
	struct op_reply a = { .err = TV_OK, .index = index, .value = value };

	if (q->hidden)
		a.text = span_str(OP_NOTE_FILTERED);
	if (value.len > q->d->conf.answer_bytes_max) {
		request_failf(q, TV_ELIMIT, q->writing ? "it was carried out, but the answer is larger than answer_bytes_max allows" :
		    "the answer is larger than answer_bytes_max allows; ask for less");
		return;
	}
	a.known_leader = engine_leader_known(q->d->engine, &a.last_contact_ms);
	reply(q, &a, memory);
}

void
request_reply_with(struct request *q, uint64_t index, struct buf *value)
{
	reply_value(q, index, buf_span(value), value->len > 0 ? value : NULL);
	buf_done(value);		/* what was not taken over */
}

void
request_reply(struct request *q, uint64_t index, struct span value)
{
	struct requests *all = q->d->requests;

	reply_value(q, index, value, NULL);
	/* q may be gone now; a large answer must not stay until the next one. */
	if (all->buf.cap > SCRATCH_KEEP)
		buf_done(&all->buf);
}

void
request_fail(struct request *q, enum tv_err err, struct span text)
{
	struct op_reply a = { .err = err, .text = text.len > 0 ? text : span_str(tv_strerror(err)) };

	a.known_leader = engine_leader_known(q->d->engine, &a.last_contact_ms);
	reply(q, &a, NULL);
}

void
request_failf(struct request *q, enum tv_err err, const char *text)
{
	request_fail(q, err, span_str(text));
}

void
request_plain(struct request *q, enum tv_err err, const char *text, const struct span *value)
{
	struct buf *b = begin_answer(q);

	if (b != NULL) {
		msg_answer_head(b, value != NULL, err, text);
		if (value != NULL && value->len > 0)
			buf_putspan(b, *value);
		else if (value != NULL)
			mpw_nil(b);
		(void)chan_end(q->asker->chan);
	}
	request_free(q);
}

void
request_write(struct request *q, void (*write)(void *ctx, struct buf *body), void *ctx)
{
	struct buf *b = begin_answer(q);

	if (b != NULL) {
		write(ctx, b);
		(void)chan_end(q->asker->chan);
	}
	request_free(q);
}

void
request_fire(struct request *q)
{
	if (q->fired)
		return;
	q->fired = true;
	TAILQ_INSERT_TAIL(fired_list(q), q, fired_link);
}

/* The first one of a list, if there is room for one of its kind. */
static struct request *
first_fired(const struct request_list *list)
{
	struct request *q = TAILQ_FIRST(list);

	return q != NULL && statethread_may_read(q->d->state, q->op) ? q : NULL;
}

struct request *
request_fired(struct asker *a)
{
	for (unsigned i = 0; i < 2; i++) {
		struct request *q = first_fired(&a->fired[i]);

		if (q == NULL)
			continue;
		TAILQ_REMOVE(&a->fired[i], q, fired_link);
		q->fired = false;
		return q;
	}
	return NULL;
}

bool
request_is_fired(const struct asker *a)
{
	return first_fired(&a->fired[0]) != NULL || first_fired(&a->fired[1]) != NULL;
}

bool
asker_congested(const struct asker *a)
{
	return chan_pending(a->chan) > ASKER_PAUSE_BYTES;
}

bool
request_congested(const struct request *q)
{
	return asker_congested(q->asker);
}

void
request_denied(struct request *q)
{
	q->d->requests->denied++;
}

void
request_judged_again(struct request *q, bool again)
{
	q->d->requests->judged_again += again;
	q->d->requests->given_up += !again;
}

bool
request_keep(struct request *q, struct span args, struct span token)
{
	size_t len = args.len + token.len;
	uint8_t *copy = len > REQUEST_INLINE ? malloc(len) : q->bytes;
	uint8_t kept[OP_NAME_BYTES_MAX];	/* the token, which may be its own */

	if (copy == NULL)
		return false;
	if (token.len > 0)
		memcpy(kept, token.p, token.len);
	drop_args(q);
	memcpy(copy, args.p, args.len);
	if (token.len > 0)
		memcpy(copy + args.len, kept, token.len);
	q->args = span_of(copy, args.len);
	q->token = span_of(copy + args.len, token.len);
	if (copy != q->bytes)
		q->d->requests->kept += len;
	return true;
}

/* -- all of them -- */

bool
requests_full(const struct requests *all, size_t bytes)
{
	const struct raftd_conf *c = &all->d->conf;

	return all->pending > c->requests_max || bytes > c->requests_bytes_max || all->kept > c->requests_bytes_max - bytes;
}

void
requests_info(const struct requests *all, figure_fn *fn, void *ctx)
{
	FIGURES_PUT(fn, ctx,
	    { "requests_bytes", all->kept }, { "requests_denied", all->denied }, { "requests_given_up", all->given_up },
	    { "requests_judged_again", all->judged_again }, { "requests_pending", all->pending - all->infos });
}

void
asker_init(struct asker *a)
{
	TAILQ_INIT(&a->requests);
	TAILQ_INIT(&a->fired[0]);
	TAILQ_INIT(&a->fired[1]);
}

void
asker_done(struct asker *a)
{
	map_done(&a->by_id);
}

struct requests *
requests_new(struct raftd *d)
{
	struct requests *all = calloc(1, sizeof(*all));

	if (all == NULL)
		return NULL;
	all->d = d;
	TAILQ_INIT(&all->spares);
	all->arena = ARENA_INIT(256u << 20);
	buf_init(&all->buf, FRAME_BODY_BYTES_MAX);
	return all;
}

void
requests_free(struct requests *all)
{
	if (all == NULL)
		return;
	struct request *q;

	while ((q = TAILQ_FIRST(&all->spares)) != NULL) {
		TAILQ_REMOVE(&all->spares, q, link);
		free(q);
	}
	arena_done(&all->arena);
	buf_done(&all->buf);
	free(all);
}
