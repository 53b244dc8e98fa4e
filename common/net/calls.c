/*
 * Pending calls.  An id is (generation << 32 | slot + 1), so an answer finds its call without a
 * search, and a late answer to a slot used again does not fit.
 *
 * One timer serves all deadlines: it fires at the earliest one known when it was set and then looks
 * through the slots.  Calls that end in time cost nothing here, and those are nearly all.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/net/calls.h"

#define SLOTS_FIRST 16u
#define NO_SLOT UINT32_MAX
/* Deadlines closer together than this end in one look. */
#define DEADLINE_GRAIN MONO_MS(1)

struct call {
	uint32_t generation;		/* of the call in this slot, or of the last one */
	uint32_t next_free;		/* valid while done == NULL */
	uint16_t type;
	struct mono deadline;
	calls_done *done;		/* NULL: slot is free */
	void *ctx;
	struct buf *parts;		/* FRAME_MORE bodies so far, owned; NULL: none */
};

struct calls {
	struct ev_loop *loop;
	struct call *slots;
	uint32_t slot_count;
	uint32_t first_free;
	unsigned pending, pending_max;
	size_t answer_max;
	unsigned busy;			/* done callbacks on the stack */
	bool dead;			/* calls_free was called by one of them */
	struct mono wake;		/* when the timer fires; MONO_NEVER: it does not run */
	ev_timer timer;
};

static void on_timer(struct ev_loop *loop, ev_timer *w, int revents);

struct calls *
calls_new(struct ev_loop *loop, unsigned pending_max, size_t answer_max)
{
	struct calls *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return NULL;
	t->loop = loop;
	t->pending_max = pending_max;
	t->answer_max = answer_max;
	t->first_free = NO_SLOT;
	t->wake = MONO_NEVER;
	ev_timer_init(&t->timer, on_timer, 0., 0.);
	t->timer.data = t;
	return t;
}

static void
destroy(struct calls *t)
{
	ev_timer_stop(t->loop, &t->timer);
	free(t->slots);
	free(t);
}

/* -- slots -------------------------------------------------------------------- */

static bool
grow(struct calls *t)
{
	uint32_t count = t->slot_count == 0 ? SLOTS_FIRST : t->slot_count * 2;
	struct call *slots;

	if (t->slot_count >= UINT32_MAX / 4)
		return false;
	slots = realloc(t->slots, count * sizeof(*slots));
	if (slots == NULL)
		return false;
	memset(slots + t->slot_count, 0, (count - t->slot_count) * sizeof(*slots));
	for (uint32_t i = count; i-- > t->slot_count;) {
		slots[i].next_free = t->first_free;
		t->first_free = i;
	}
	t->slots = slots;
	t->slot_count = count;
	return true;
}

static uint64_t
id_of(const struct calls *t, uint32_t at)
{
	return (uint64_t)t->slots[at].generation << 32 | (at + 1);
}

/* Slot of a pending call, or NO_SLOT. */
static uint32_t
find_place(const struct calls *t, uint64_t id)
{
	uint32_t at = (uint32_t)id - 1;

	if (at >= t->slot_count || t->slots[at].done == NULL || id_of(t, at) != id)
		return NO_SLOT;
	return at;
}

/* Few answers come in parts: the others do not pay for it. */
static struct buf *
parts_new(size_t max)
{
	struct buf *b = malloc(sizeof(*b));

	if (b == NULL)
		return NULL;
	buf_init(b, max);
	b->secret = true;		/* an answer may hold keys */
	return b;
}

static void
parts_free(struct buf *b)
{
	if (b != NULL)
		buf_done(b);
	free(b);
}

/* Empties a slot and returns what was in it; the caller owns the parts. */
static struct call
take_out(struct calls *t, uint32_t at)
{
	struct call was = t->slots[at];

	t->slots[at] = (struct call){ .generation = was.generation, .next_free = t->first_free };
	t->first_free = at;
	t->pending--;
	return was;
}

/* Ends a call.  The table may be gone afterwards when busy was 0. */
static void
finish_call(struct calls *t, uint32_t at, enum tv_err err, struct span body)
{
	struct call was = take_out(t, at);

	t->busy++;
	was.done(was.ctx, err, body);
	t->busy--;
	parts_free(was.parts);
	if (t->dead && t->busy == 0)
		destroy(t);
}

/* -- deadlines ------------------------------------------------------------------ */

static void
wake_at(struct calls *t, struct mono deadline, struct mono now)
{
	struct mono in = mono_sub(deadline, now);

	if (!mono_before(deadline, t->wake))
		return;
	if (mono_before(in, DEADLINE_GRAIN))
		in = DEADLINE_GRAIN;
	t->wake = deadline;
	ev_now_update(t->loop);
	ev_timer_stop(t->loop, &t->timer);
	ev_timer_set(&t->timer, mono_seconds(in), 0.);
	ev_timer_start(t->loop, &t->timer);
}

static void
on_timer(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct calls *t = w->data;
	struct mono now = clock_mono(), next = MONO_NEVER;

	t->wake = MONO_NEVER;
	t->busy++;
	for (uint32_t i = 0; i < t->slot_count && !t->dead; i++) {
		if (t->slots[i].done == NULL)
			continue;
		if (mono_before(now, t->slots[i].deadline))
			next = mono_min(next, t->slots[i].deadline);
		else
			finish_call(t, i, TV_ETIMEOUT, SPAN_NONE);
	}
	t->busy--;
	if (t->dead)
		destroy(t);
	else
		wake_at(t, next, now);
}

/* -- calls ---------------------------------------------------------------------- */

uint64_t
calls_start(struct calls *t, struct chan *c, uint16_t type, struct span body, struct mono timeout, calls_done *done,
    void *ctx, enum tv_err *err)
{
	struct call *call;
	uint32_t at;

	*err = t->dead ? TV_ECLOSED : TV_ELIMIT;
	if (t->dead || t->pending >= t->pending_max || (t->first_free == NO_SLOT && !grow(t)))
		return 0;
	at = t->first_free;
	call = &t->slots[at];
	call->generation++;
	*err = chan_send(c, type, 0, id_of(t, at), body);
	if (*err != TV_OK)
		return 0;
	t->first_free = call->next_free;
	t->pending++;
	call->type = type;
	call->done = done;
	call->ctx = ctx;
	call->deadline = MONO_NEVER;
	call->parts = NULL;
	if (timeout.ns != MONO_NEVER.ns) {
		struct mono now = clock_mono();

		call->deadline = mono_add(now, timeout);
		wake_at(t, call->deadline, now);
	}
	return id_of(t, at);
}

void
calls_cancel(struct calls *t, struct chan *c, uint64_t id)
{
	uint32_t at = find_place(t, id);
	struct call was;

	if (at == NO_SLOT)
		return;
	was = take_out(t, at);
	parts_free(was.parts);
	if (c != NULL)		/* best effort: if it cannot be told, the answer comes late and is ignored */
		(void)chan_send(c, was.type, FRAME_CANCEL, id, SPAN_NONE);
}

enum tv_err
calls_frame(struct calls *t, const struct frame *f)
{
	struct call *call;
	uint32_t at;

	if (!(f->flags & FRAME_REPLY))
		return TV_EFORMAT;
	at = find_place(t, f->id);
	if (at == NO_SLOT)
		return TV_OK;
	call = &t->slots[at];
	if (!(f->flags & FRAME_MORE) && call->parts == NULL && f->body.len <= t->answer_max) {
		finish_call(t, at, TV_OK, f->body);
		return TV_OK;
	}
	if (call->parts == NULL)
		call->parts = parts_new(t->answer_max);
	if (call->parts != NULL)
		buf_putspan(call->parts, f->body);
	if (call->parts == NULL || call->parts->failed)
		finish_call(t, at, TV_ELIMIT, SPAN_NONE);
	else if (!(f->flags & FRAME_MORE))
		finish_call(t, at, TV_OK, buf_span(call->parts));
	return TV_OK;
}

void
calls_fail_all(struct calls *t, enum tv_err why)
{
	uint32_t count = t->slot_count;	/* calls made meanwhile in new slots are not ours to end */

	t->busy++;
	for (uint32_t i = 0; i < count; i++)
		if (t->slots[i].done != NULL)
			finish_call(t, i, why, SPAN_NONE);
	t->busy--;
	if (t->dead && t->busy == 0)
		destroy(t);
}

void
calls_free(struct calls *t)
{
	if (t == NULL || t->dead)
		return;
	t->dead = true;
	t->busy++;
	calls_fail_all(t, TV_ECLOSED);
	t->busy--;
	if (t->busy == 0)
		destroy(t);
}

unsigned
calls_pending(const struct calls *t)
{
	return t->pending;
}
