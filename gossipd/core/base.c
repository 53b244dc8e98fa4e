/* What all files of the core use: timers, a choice of members, budgets. */
#include "gossipd/core/state.h"

#define PICK_DENSE 32			/* pools up to this size are drawn from without luck */

void
timer_set(struct swim *s, enum swim_timer t, struct mono at)
{
	s->timers[t] = at;
}

void
timer_pull(struct swim *s, enum swim_timer t, struct mono at)
{
	s->timers[t] = mono_min(s->timers[t], at);
}

static bool
picked(struct node *const *out, unsigned count, const struct node *n)
{
	for (unsigned i = 0; i < count; i++)
		if (out[i] == n)
			return true;
	return false;
}

/* In a small pool: all that fit, in random order, as far as wanted. */
static unsigned
pick_dense(struct swim *s, unsigned want, bool (*fits)(const struct swim *, const struct node *), struct node **out)
{
	struct node *all[PICK_DENSE];
	unsigned count = 0;

	for (uint32_t i = 0; i < s->table.order_count; i++)
		if (fits(s, s->table.all[i]))
			all[count++] = s->table.all[i];
	if (want > count)
		want = count;
	for (unsigned i = 0; i < want; i++) {
		unsigned j = i + (unsigned)rng_below(&s->rng, count - i);

		out[i] = all[j];
		all[j] = all[i];
	}
	return want;
}

unsigned
swim_pick(struct swim *s, unsigned want, bool (*fits)(const struct swim *, const struct node *), struct node **out)
{
	uint32_t n = s->table.order_count;
	unsigned count = 0;

	if (n <= PICK_DENSE)
		return pick_dense(s, want, fits, out);
	for (uint64_t tries = 0; tries < (uint64_t)n * 3 && count < want; tries++) {
		struct node *node = s->table.all[rng_below(&s->rng, n)];

		if (fits(s, node) && !picked(out, count, node))
			out[count++] = node;
	}
	return count;
}

bool
swim_may(struct swim *s, struct mono *at, struct mono cost, struct mono burst)
{
	if (mono_before(*at, s->now))
		*at = s->now;
	if (mono_before(mono_add(s->now, burst), mono_add(*at, cost)))
		return false;
	*at = mono_add(*at, cost);
	return true;
}
