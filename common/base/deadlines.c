/* A binary heap of deadlines. */
#include <stdlib.h>

#include "common/base/array.h"
#include "common/base/assert.h"
#include "common/base/deadlines.h"

bool
deadlines_reserve(struct deadlines *d, size_t count)
{
	return array_reserve(&d->at, &d->cap, count, sizeof(struct deadline *));
}

static void
put_at(struct deadlines *d, struct deadline *x, size_t place)
{
	d->at[place - 1] = x;
	x->place = place;
}

/* There is a gap at this place: x goes there, or as far towards the first as it is earlier. */
static void
rise(struct deadlines *d, struct deadline *x, size_t place)
{
	for (; place > 1 && mono_before(x->when, d->at[place / 2 - 1]->when); place /= 2)
		put_at(d, d->at[place / 2 - 1], place);
	put_at(d, x, place);
}

/* The same, the other way. */
static void
sink(struct deadlines *d, struct deadline *x, size_t place)
{
	size_t next;

	for (; (next = 2 * place) <= d->count; place = next) {
		if (next < d->count && mono_before(d->at[next]->when, d->at[next - 1]->when))
			next++;
		if (!mono_before(d->at[next - 1]->when, x->when))
			break;
		put_at(d, d->at[next - 1], place);
	}
	put_at(d, x, place);
}

void
deadlines_add(struct deadlines *d, struct deadline *x)
{
	TV_ASSERT(x->place == 0 && d->count < d->cap);
	d->count++;
	rise(d, x, d->count);
}

void
deadlines_remove(struct deadlines *d, struct deadline *x)
{
	size_t gap = x->place;
	struct deadline *last;

	if (gap == 0)
		return;
	x->place = 0;
	last = d->at[--d->count];
	if (last == x)
		return;
	if (mono_before(last->when, x->when))
		rise(d, last, gap);
	else
		sink(d, last, gap);
}

void
deadlines_move(struct deadlines *d, struct deadline *x, struct mono when)
{
	bool sooner = mono_before(when, x->when);

	x->when = when;
	if (x->place == 0)
		return;
	if (sooner)
		rise(d, x, x->place);
	else
		sink(d, x, x->place);
}

struct deadline *
deadlines_first(const struct deadlines *d)
{
	return d->count == 0 ? NULL : d->at[0];
}

void
deadlines_done(struct deadlines *d)
{
	TV_ASSERT(d->count == 0);
	free(d->at);
	*d = (struct deadlines){ 0 };
}
