/* Events by time; see sim_queue.h. */
#include "config.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "tests/sim/sim_queue.h"

#define POOL_BYTES 2048		/* a datagram; anything longer is allocated on its own */

struct entry {
	int64_t at;
	uint64_t order;		/* among equal times */
	uint32_t slot;
};

struct spare {
	struct spare *next;
};

struct sim_queue {
	struct entry *heap;	/* earliest first; four children each: half the depth, and they share a line */
	size_t count, cap;
	struct sim_event *slots;
	uint32_t slot_count, slot_cap, free_slot;
	uint64_t orders;
	struct spare *spares;
};

struct sim_queue *
queue_new(void)
{
	struct sim_queue *q = calloc(1, sizeof(*q));

	TV_ASSERT(q != NULL);
	q->free_slot = SIM_NO_SLOT;
	return q;
}

void
queue_free(struct sim_queue *q)
{
	while (q->count > 0) {
		struct sim_event e = queue_pop(q);

		queue_give(q, e.bytes, e.cap);
	}
	while (q->spares != NULL) {
		struct spare *s = q->spares;

		q->spares = s->next;
		free(s);
	}
	free(q->heap);
	free(q->slots);
	free(q);
}

uint8_t *
queue_bytes(struct sim_queue *q, size_t cap)
{
	struct spare *s = q->spares;
	uint8_t *p;

	if (cap <= POOL_BYTES && s != NULL) {
		q->spares = s->next;
		return (uint8_t *)s;
	}
	p = malloc(cap <= POOL_BYTES ? POOL_BYTES : cap);
	TV_ASSERT(p != NULL);
	return p;
}

void
queue_give(struct sim_queue *q, uint8_t *bytes, size_t cap)
{
	struct spare *s = (struct spare *)bytes;

	if (bytes == NULL)
		return;
	if (cap > POOL_BYTES) {
		free(bytes);
		return;
	}
	s->next = q->spares;
	q->spares = s;
}

static bool
before(const struct entry *a, const struct entry *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static uint32_t
slot_take(struct sim_queue *q)
{
	uint32_t slot = q->free_slot;

	if (slot != SIM_NO_SLOT) {
		q->free_slot = q->slots[slot].next;
		return slot;
	}
	if (q->slot_count == q->slot_cap) {
		q->slot_cap = q->slot_cap == 0 ? 1024 : q->slot_cap * 2;
		q->slots = realloc(q->slots, q->slot_cap * sizeof(*q->slots));
		TV_ASSERT(q->slots != NULL);
	}
	return q->slot_count++;
}

void
queue_push(struct sim_queue *q, const struct sim_event *e)
{
	struct entry fresh = { e->at.ns, q->orders++, slot_take(q) };
	size_t i = q->count++;

	q->slots[fresh.slot] = *e;
	if (q->count > q->cap) {
		q->cap = q->cap == 0 ? 1024 : q->cap * 2;
		q->heap = realloc(q->heap, q->cap * sizeof(*q->heap));
		TV_ASSERT(q->heap != NULL);
	}
	for (; i > 0 && before(&fresh, &q->heap[(i - 1) / 4]); i = (i - 1) / 4)
		q->heap[i] = q->heap[(i - 1) / 4];
	q->heap[i] = fresh;
}

struct mono
queue_next(const struct sim_queue *q)
{
	return q->count > 0 ? (struct mono){ q->heap[0].at } : MONO_NEVER;
}

struct sim_event
queue_pop(struct sim_queue *q)
{
	struct entry top = q->heap[0], last = q->heap[--q->count];
	struct sim_event e = q->slots[top.slot];
	size_t i = 0, child;

	while ((child = 4 * i + 1) < q->count) {
		size_t end = child + 4 < q->count ? child + 4 : q->count;

		for (size_t k = child + 1; k < end; k++)
			if (before(&q->heap[k], &q->heap[child]))
				child = k;
		if (!before(&q->heap[child], &last))
			break;
		q->heap[i] = q->heap[child];
		i = child;
	}
	q->heap[i] = last;
	q->slots[top.slot].next = q->free_slot;
	q->free_slot = top.slot;
	return e;
}
