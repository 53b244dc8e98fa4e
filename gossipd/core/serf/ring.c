/* Marks by Lamport time; see ring.h. */
#include "config.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "gossipd/core/serf/ring.h"

#define MARKS_MIN 4

bool
ring_too_old(const struct ring *r, uint64_t clock, uint64_t ltime)
{
	return ltime < r->floor || (clock > RING_SLOTS && ltime < clock - RING_SLOTS);
}

void
ring_raise(struct ring *r, uint64_t floor)
{
	if (floor > r->floor)
		r->floor = floor;
}

static void
slot_clear(struct ring *r, struct ring_slot *slot)
{
	r->count -= slot->count;
	free(slot->marks);
	*slot = (struct ring_slot){ 0 };
}

/* Gives up the earliest time.  What came with it cannot be told from news any more, so the window ends above it. */
static void
forget_earliest(struct ring *r)
{
	struct ring_slot *earliest = NULL;

	for (unsigned i = 0; i < RING_SLOTS; i++)
		if (r->slots[i].count > 0 && (earliest == NULL || r->slots[i].ltime < earliest->ltime))
			earliest = &r->slots[i];
	TV_ASSERT(earliest != NULL);
	ring_raise(r, earliest->ltime + 1);
	slot_clear(r, earliest);
}

static bool
slot_add(struct ring_slot *slot, uint64_t mark)
{
	uint32_t more = slot->cap == 0 ? MARKS_MIN : slot->cap * 2;
	uint64_t *fresh;

	if (slot->count == slot->cap) {
		fresh = realloc(slot->marks, more * sizeof(*fresh));
		if (fresh == NULL)
			return false;
		slot->marks = fresh;
		slot->cap = more;
	}
	slot->marks[slot->count++] = mark;
	return true;
}

enum ring_verdict
ring_note(struct ring *r, uint64_t clock, uint64_t ltime, uint64_t mark)
{
	struct ring_slot *slot;

	if (ring_too_old(r, clock, ltime))
		return RING_OLD;
	if (r->slots == NULL && (r->slots = calloc(RING_SLOTS, sizeof(*r->slots))) == NULL)
		return RING_NO_MEMORY;
	slot = &r->slots[ltime % RING_SLOTS];
	if (slot->count > 0 && slot->ltime != ltime)
		slot_clear(r, slot);
	for (uint32_t i = 0; i < slot->count; i++)
		if (slot->marks[i] == mark)
			return RING_DUPLICATE;
	while (r->count >= r->count_max) {
		forget_earliest(r);
		if (ltime < r->floor)
			return RING_OLD;
	}
	if (!slot_add(slot, mark))
		return RING_NO_MEMORY;
	slot->ltime = ltime;
	r->count++;
	return RING_NEW;
}

void
ring_done(struct ring *r)
{
	for (unsigned i = 0; i < RING_SLOTS && r->slots != NULL; i++)
		free(r->slots[i].marks);
	free(r->slots);
	r->slots = NULL;
	r->count = 0;
}
