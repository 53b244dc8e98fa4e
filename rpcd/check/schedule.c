/* When checks run, see schedule.h. */
#include <stdlib.h>

#include "common/base/assert.h"
#include "rpcd/check/schedule.h"

#define GOLDEN 0.6180339887498949	/* its multiples, modulo 1, are spread evenly however many there are */

struct schedule {
	struct deadlines waiting;	/* there is room for all that are known */
	size_t known;			/* those that wait and those that run */
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
		free(s->waiting.at);
	free(s);
}

static void
wait_until(struct schedule *s, struct slot *slot, struct mono at)
{
	slot->due.when = at;
	deadlines_add(&s->waiting, &slot->due);
}

enum tv_err
schedule_add(struct schedule *s, struct slot *slot, struct mono interval, bool soon, struct mono now)
{
	TV_ASSERT(interval.ns > 0 && slot->due.place == 0);
	if (!deadlines_reserve(&s->waiting, s->known + 1))
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
	deadlines_remove(&s->waiting, &slot->due);
	s->known--;
}

struct slot *
schedule_due(struct schedule *s, struct mono now)
{
	struct deadline *d = deadlines_first(&s->waiting);

	if (d == NULL || mono_before(now, d->when))
		return NULL;
	deadlines_remove(&s->waiting, d);
	return (struct slot *)d;
}

void
schedule_again(struct schedule *s, struct slot *slot, struct mono now)
{
	int64_t passed = mono_sub(now, slot->grid).ns;

	TV_ASSERT(slot->due.place == 0);
	if (passed >= 0)
		slot->grid = mono_add(slot->grid, mono_mul(slot->interval, passed / slot->interval.ns + 1));
	wait_until(s, slot, slot->grid);
}

struct mono
schedule_next(const struct schedule *s)
{
	const struct deadline *d = deadlines_first(&s->waiting);

	return d == NULL ? MONO_NEVER : d->when;
}
