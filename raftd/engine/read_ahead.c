/* Answers that were looked up before it was known whether they may be given. */
#include <stdlib.h>
#include <string.h>

#include "raftd/engine/read_ahead.h"

bool
aheads_wanted(struct aheads *a)
{
	if (a->rest == 0)
		return a->held + AHEAD_VALUE_MAX <= AHEAD_BYTES_MAX;
	a->rest--;
	return false;
}

/* malloc would join and split pieces of this size each time. */
static struct ahead *
memory(struct aheads *a, size_t len)
{
	struct ahead *x = len <= AHEAD_SHORT ? a->spares : NULL;

	if (x == NULL)
		return malloc(sizeof(*x) + (len <= AHEAD_SHORT ? AHEAD_SHORT : len));
	a->spares = x->next;
	a->spare_count--;
	return x;
}

struct ahead *
aheads_hold(struct aheads *a, uint64_t applied, unsigned replaced, uint64_t index, struct span value)
{
	struct ahead *x = value.len > AHEAD_VALUE_MAX ? NULL : memory(a, value.len);

	if (x == NULL) {
		a->wasted++;
		a->rest = AHEAD_REST;
		return NULL;
	}
	x->applied = applied;
	x->replaced = replaced;
	x->index = index;
	x->len = (uint32_t)value.len;
	if (value.len > 0)
		memcpy(x->value, value.p, value.len);
	a->held += value.len;
	return x;
}

bool
aheads_may_give(struct aheads *a, const struct ahead *x, uint64_t index, unsigned replaced)
{
	if (x->applied >= index && x->replaced == replaced) {
		a->given++;
		return true;
	}
	a->wasted++;
	a->rest = AHEAD_REST;
	return false;
}

void
aheads_drop(struct aheads *a, struct ahead *x)
{
	if (x == NULL)
		return;
	a->held -= x->len;
	if (x->len > AHEAD_SHORT || a->spare_count == AHEAD_SPARES) {
		free(x);
		return;
	}
	x->next = a->spares;
	a->spares = x;
	a->spare_count++;
}

void
aheads_done(struct aheads *a)
{
	while (a->spares != NULL) {
		struct ahead *x = a->spares;

		a->spares = x->next;
		free(x);
	}
	a->spare_count = 0;
}
