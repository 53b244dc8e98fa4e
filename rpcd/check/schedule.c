/* When checks run, see schedule.h: a binary heap of slots by time. */
#include <stdlib.h>

#include "common/base/assert.h"
#include "rpcd/check/schedule.h"

#define GOLDEN 0.6180339887498949	/* its multiples, modulo 1, are spread evenly however many there are */

struct schedule {
	struct slot **heap;		/* from 1 */
	uint32_t waiting, known;	/* known: those that wait and those that run; there is room for each */
	uint32_t room;
	double phase;			/* of the next one that is added, [0, 1) */
};

struct schedule *
schedule_new(uint64_t seed)
{
	struct schedule *s = calloc(1, sizeof(*s));

	if (s != NULL)
		s->phase = (double)(seed % 1000000) / 1e6;
	return s;
}

void
schedule_free(struct schedule *s)
{
	if (s != NULL)
		free(s->heap);
	free(s);
}

static void
put_slot(struct schedule *s, uint32_t place, struct slot *slot)
{
	s->heap[place] = slot;
	slot->place = place;
}

static void
up(struct schedule *s, struct slot *slot, uint32_t place)
{
	for (; place > 1 && mono_before(slot->at, s->heap[place / 2]->at); place /= 2)
		put_slot(s, place, s->heap[place / 2]);
	put_slot(s, place, slot);
}

static void
down(struct schedule *s, struct slot *slot, uint32_t place)
{
	for (uint32_t child; (child = place * 2) <= s->waiting; place = child) {
		if (child < s->waiting && mono_before(s->heap[child + 1]->at, s->heap[child]->at))
			child++;
		if (!mono_before(s->heap[child]->at, slot->at))
			break;
		put_slot(s, place, s->heap[child]);
	}
	put_slot(s, place, slot);
}

static void
wait_until(struct schedule *s, struct slot *slot, struct mono at)
{
	slot->at = at;
	up(s, slot, ++s->waiting);
}

static void
take_out(struct schedule *s, struct slot *slot)
{
	struct slot *last = s->heap[s->waiting--];
	uint32_t place = slot->place;

	slot->place = 0;
	if (last == slot)
		return;
	if (place > 1 && mono_before(last->at, s->heap[place / 2]->at))
		up(s, last, place);
	else
		down(s, last, place);
}

static bool
grow(struct schedule *s)
{
	uint32_t room = s->room == 0 ? 64 : s->room * 2;
	struct slot **heap;

	if (s->known + 1 < s->room)
		return true;
	if ((heap = realloc(s->heap, room * sizeof(*heap))) == NULL)
		return false;
	s->heap = heap;
	s->room = room;
	return true;
}

enum tv_err
schedule_add(struct schedule *s, struct slot *slot, struct mono interval, bool soon, struct mono now)
{
	TV_ASSERT(interval.ns > 0 && slot->place == 0);
	if (!grow(s))
		return TV_ENOMEM;
	s->known++;
	s->phase += GOLDEN;
	s->phase -= s->phase >= 1 ? 1 : 0;
	slot->interval = interval;
	slot->grid = mono_add(now, (struct mono){ (int64_t)(s->phase * (double)interval.ns) });
	struct mono first = mono_add(now, (struct mono){ (int64_t)(s->phase * (double)SCHEDULE_FIRST_MAX.ns) });
	wait_until(s, slot, soon ? mono_min(first, slot->grid) : slot->grid);
	return TV_OK;
}

void
schedule_remove(struct schedule *s, struct slot *slot)
{
	if (slot->place != 0)
		take_out(s, slot);
	s->known--;
}

struct slot *
schedule_due(struct schedule *s, struct mono now)
{
	struct slot *slot = s->waiting == 0 ? NULL : s->heap[1];

	if (slot == NULL || mono_before(now, slot->at))
		return NULL;
	take_out(s, slot);
	return slot;
}

void
schedule_again(struct schedule *s, struct slot *slot, struct mono now)
{
	int64_t passed = mono_sub(now, slot->grid).ns;

	TV_ASSERT(slot->place == 0);
	if (passed >= 0)
		slot->grid = mono_add(slot->grid, mono_mul(slot->interval, passed / slot->interval.ns + 1));
	wait_until(s, slot, slot->grid);
}

struct mono
schedule_next(const struct schedule *s)
{
	return s->waiting == 0 ? MONO_NEVER : s->heap[1]->at;
}
