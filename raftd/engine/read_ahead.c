/* Answers that were looked up before it was known whether they may be given. */
#include <stdlib.h>
#include <string.h>

#include "raftd/engine/read_ahead.h"

bool
read_ahead_wanted(struct reads_ahead *a)
{
	if (a->rest == 0)
		return a->held + READ_AHEAD_VALUE_MAX <= READ_AHEAD_BYTES_MAX;
	a->rest--;
	return false;
}

/* malloc would join and split pieces of this size each time. */
static struct read_ahead *
memory(struct reads_ahead *a, size_t len)
{
	struct read_ahead *x = len <= READ_AHEAD_SHORT ? a->spares : NULL;

	if (x == NULL)
		return malloc(sizeof(*x) + (len <= READ_AHEAD_SHORT ? READ_AHEAD_SHORT : len));
	a->spares = x->next;
	a->spare_count--;
	return x;
}

struct read_ahead *
read_ahead_hold(struct reads_ahead *a, uint64_t applied, unsigned replaced, uint64_t index, struct span value)
{
	struct read_ahead *x = value.len > READ_AHEAD_VALUE_MAX ? NULL : memory(a, value.len);

	if (x == NULL) {
		a->wasted++;
		a->rest = READ_AHEAD_REST;
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
read_ahead_may_give(struct reads_ahead *a, const struct read_ahead *x, uint64_t index, unsigned replaced)
{
	if (x->applied >= index && x->replaced == replaced) {
		a->given++;
		return true;
	}
	a->wasted++;
	a->rest = READ_AHEAD_REST;
	return false;
}

void
read_ahead_drop(struct reads_ahead *a, struct read_ahead *x)
{
	if (x == NULL)
		return;
	a->held -= x->len;
	if (x->len > READ_AHEAD_SHORT || a->spare_count == READ_AHEAD_SPARES) {
		free(x);
		return;
	}
	x->next = a->spares;
	a->spares = x;
	a->spare_count++;
}

void
read_ahead_done(struct reads_ahead *a)
{
	while (a->spares != NULL) {
		struct read_ahead *x = a->spares;

		a->spares = x->next;
		free(x);
	}
	a->spare_count = 0;
}
