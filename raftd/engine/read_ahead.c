/* Answers that were looked up before it was known whether they may be given. */
#include "raftd/engine/read_ahead.h"

static void
was_for_nothing(struct reads_ahead *a)
{
	a->wasted++;
	a->rest = READ_AHEAD_REST;
}

bool
read_ahead_wanted(struct reads_ahead *a)
{
	if (a->rest == 0)
		return a->held + READ_AHEAD_VALUE_MAX <= READ_AHEAD_BYTES_MAX;
	a->rest--;
	return false;
}

bool
read_ahead_hold(struct reads_ahead *a, size_t len)
{
	if (len > READ_AHEAD_VALUE_MAX || a->held + len > READ_AHEAD_BYTES_MAX) {
		was_for_nothing(a);
		return false;
	}
	a->held += len;
	return true;
}

void
read_ahead_release(struct reads_ahead *a, size_t len)
{
	a->held -= len;
}

bool
read_ahead_may_give(struct reads_ahead *a, uint64_t applied, uint64_t index, unsigned replaced, unsigned replaced_now)
{
	if (applied >= index && replaced == replaced_now) {
		a->given++;
		return true;
	}
	was_for_nothing(a);
	return false;
}
