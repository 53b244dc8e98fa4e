/* Writes on their way through the log. */
#include <stdlib.h>

#include "common/base/array.h"
#include "common/base/assert.h"
#include "raftd/engine/proposals.h"
#include "raftd/fsm/fsm.h"

struct proposals {
	/* the queue of this turn: parallel arrays, consumed from `head` */
	struct proposal **queue;
	struct raft_entry *entries;
	uint32_t head, count;
	size_t cap;
	struct buf payload;
	/* in the log, by rising index: a ring */
	struct proposal **ring;
	size_t ring_cap, ring_head, ring_count;
};

struct proposals *
proposals_new(size_t bytes_max)
{
	struct proposals *q = calloc(1, sizeof(*q));

	if (q != NULL)
		buf_init(&q->payload, bytes_max);
	return q;
}

void
proposals_free(struct proposals *q)
{
	if (q == NULL)
		return;
	buf_done(&q->payload);
	free(q->queue);
	free(q->entries);
	free(q->ring);
	free(q);
}

static bool
queue_grow(struct proposals *q)
{
	size_t cap = q->cap;

	return array_reserve(&q->queue, &cap, q->count + 1, sizeof(*q->queue)) &&
	    array_reserve(&q->entries, &q->cap, q->count + 1, sizeof(*q->entries));
}

enum tv_err
proposals_add(struct proposals *q, struct proposal *p, uint16_t op, struct span args, struct span premises, struct mono deadline)
{
	size_t at = q->payload.len;

	if (!queue_grow(q))
		return TV_ENOMEM;
	fsm_entry_write_judged(&q->payload, op, args, premises);
	if (q->payload.failed) {
		q->payload.failed = false;
		q->payload.len = at;
		return TV_EAGAIN;
	}
	p->at = at;
	p->size = (uint32_t)(q->payload.len - at);
	p->index = p->term = 0;
	p->deadline = deadline;
	q->queue[q->count] = p;
	q->entries[q->count] = (struct raft_entry){ .type = RAFT_ENTRY_OP, .size = p->size };
	q->count++;
	return TV_OK;
}

uint32_t
proposals_queued(const struct proposals *q)
{
	return q->count - q->head;
}

const struct raft_entry *
proposals_next(struct proposals *q, uint32_t max, uint32_t *count)
{
	uint32_t n = proposals_queued(q);

	if (n > max)
		n = max;
	for (uint32_t i = q->head; i < q->head + n; i++)
		q->entries[i].payload = q->payload.data + q->queue[i]->at;
	*count = n;
	return n == 0 ? NULL : q->entries + q->head;
}

static void
queue_taken(struct proposals *q, uint32_t n)
{
	q->head += n;
	if (q->head < q->count)
		return;
	q->head = q->count = 0;
	/* Memory of a burst goes back. */
	if (q->payload.cap > (4u << 20))
		buf_done(&q->payload);
	else
		buf_reset(&q->payload);
}

static bool
ring_reserve(struct proposals *q, uint32_t n)
{
	size_t cap = q->ring_cap == 0 ? 1024 : q->ring_cap;
	struct proposal **ring;

	while (cap < q->ring_count + n)
		cap *= 2;
	if (cap == q->ring_cap)
		return true;
	ring = malloc(cap * sizeof(*ring));
	if (ring == NULL)
		return false;
	for (size_t i = 0; i < q->ring_count; i++)
		ring[i] = q->ring[(q->ring_head + i) & (q->ring_cap - 1)];
	free(q->ring);
	q->ring = ring;
	q->ring_cap = cap;
	q->ring_head = 0;
	return true;
}

enum tv_err
proposals_accepted(struct proposals *q, const struct raft_entry *entries, uint32_t count)
{
	if (!ring_reserve(q, count))
		return TV_ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		struct proposal *p = q->queue[q->head + i];

		p->index = entries[i].index;
		p->term = entries[i].term;
		q->ring[(q->ring_head + q->ring_count++) & (q->ring_cap - 1)] = p;
	}
	queue_taken(q, count);
	return TV_OK;
}

void
proposals_refuse(struct proposals *q, enum tv_err err)
{
	uint32_t n = proposals_queued(q);

	/* A callback may queue again: take one at a time, and only those that are there now. */
	for (uint32_t i = 0; i < n; i++) {
		struct proposal *p = q->queue[q->head];

		queue_taken(q, 1);
		p->done(p, err, NULL);
	}
}

static struct proposal *
ring_first(const struct proposals *q)
{
	return q->ring_count == 0 ? NULL : q->ring[q->ring_head];
}

static struct proposal *
ring_pop(struct proposals *q)
{
	struct proposal *p = ring_first(q);

	q->ring_head = (q->ring_head + 1) & (q->ring_cap - 1);
	q->ring_count--;
	return p;
}

uint64_t
proposals_first(const struct proposals *q)
{
	struct proposal *p = ring_first(q);

	return p == NULL ? UINT64_MAX : p->index;
}

void
proposals_time(const struct proposals *q, uint64_t index, struct mono now, struct histogram *took)
{
	for (size_t i = 0; i < q->ring_count; i++) {
		const struct proposal *p = q->ring[(q->ring_head + i) & (q->ring_cap - 1)];

		if (p->index > index)
			break;
		histogram_add(took, mono_sub(now, p->begun));
	}
}

void
proposals_applied(struct proposals *q, uint64_t index, uint64_t term, const struct fsm_result *result)
{
	struct proposal *p;

	while ((p = ring_first(q)) != NULL && p->index <= index) {
		ring_pop(q);
		TV_ASSERT(p->index == index);	/* proposals_first() was asked */
		if (p->term == term)
			p->done(p, TV_OK, result);
		else
			p->done(p, TV_ENOTLEADER, NULL);
	}
}

void
proposals_truncated(struct proposals *q, uint64_t from)
{
	while (q->ring_count > 0) {
		struct proposal *p = q->ring[(q->ring_head + q->ring_count - 1) & (q->ring_cap - 1)];

		if (p->index < from)
			break;
		q->ring_count--;
		p->done(p, TV_ENOTLEADER, NULL);
	}
}

void
proposals_skipped(struct proposals *q, uint64_t index)
{
	struct proposal *p;

	while ((p = ring_first(q)) != NULL && p->index <= index) {
		ring_pop(q);
		p->done(p, TV_EUNKNOWN, NULL);
	}
}

void
proposals_hurry(struct proposals *q, struct mono limit)
{
	for (size_t i = 0; i < q->ring_count; i++) {
		struct proposal *p = q->ring[(q->ring_head + i) & (q->ring_cap - 1)];

		p->deadline = mono_min(p->deadline, limit);
	}
}

void
proposals_expire(struct proposals *q, struct mono now)
{
	struct proposal *p;

	/* Deadlines rise with the index and in the queue: all writes wait equally long. */
	while ((p = ring_first(q)) != NULL && mono_before(p->deadline, now)) {
		ring_pop(q);
		p->done(p, TV_EUNKNOWN, NULL);
	}
	/* The core takes nothing: its window is full of what is not committed. */
	while (proposals_queued(q) > 0 && mono_before(q->queue[q->head]->deadline, now)) {
		p = q->queue[q->head];
		queue_taken(q, 1);
		p->done(p, TV_EAGAIN, NULL);
	}
}
