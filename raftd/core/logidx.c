/* Compact map from log index to term and size.  See logidx.h. */
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/assert.h"
#include "raftd/core/logidx.h"

#define SIZES_MIN 1024		/* the ring never shrinks below this */

void
logidx_init(struct logidx *x)
{
	*x = (struct logidx){ .first = 1 };
}

void
logidx_done(struct logidx *x)
{
	free(x->runs);
	free(x->sizes);
	logidx_init(x);
}

/* Moves the ring to one of `cap` places (a power of two that holds all entries). */
static bool
resize_ring(struct logidx *x, size_t cap)
{
	uint32_t *to = malloc(cap * sizeof(*to));

	if (to == NULL)
		return false;
	for (uint64_t i = x->first; i <= x->last && x->size_cap > 0; i++)
		to[i & (cap - 1)] = x->sizes[i & (x->size_cap - 1)];
	free(x->sizes);
	x->sizes = to;
	x->size_cap = cap;
	return true;
}

bool
logidx_reserve(struct logidx *x, size_t n)
{
	size_t held = (size_t)(x->last + 1 - x->first), cap = x->size_cap > 0 ? x->size_cap : SIZES_MIN;

	if (!array_reserve(&x->runs, &x->run_cap, x->run_count + n, sizeof(*x->runs)))
		return false;
	while (cap < held + n)
		cap *= 2;
	return cap == x->size_cap || resize_ring(x, cap);
}

void
logidx_append(struct logidx *x, uint64_t term, uint32_t size)
{
	uint64_t index = x->last + 1;

	TV_ASSERT(index - x->first < x->size_cap);
	if (x->run_count == 0 || x->runs[x->run_count - 1].term != term) {
		TV_ASSERT(x->run_count < x->run_cap && term >= logidx_last_term(x));
		x->runs[x->run_count++] = (struct term_run){ index, term };
	}
	x->sizes[index & (x->size_cap - 1)] = size;
	x->last = index;
}

void
logidx_truncate(struct logidx *x, uint64_t from)
{
	TV_ASSERT(from >= x->first);
	if (from > x->last)
		return;
	x->last = from - 1;
	while (x->run_count > 0 && x->runs[x->run_count - 1].start >= from)
		x->run_count--;
}

/* Position of the run that holds index (within [first, last]). */
static size_t
run_of(const struct logidx *x, uint64_t index)
{
	size_t lo = 0, hi = x->run_count;

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (x->runs[mid].start <= index)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

void
logidx_compact(struct logidx *x, uint64_t upto)
{
	size_t at;

	TV_ASSERT(upto <= x->last);
	if (upto < x->first)
		return;
	at = run_of(x, upto);
	x->base_term = x->runs[at].term;
	if (at + 1 < x->run_count ? x->runs[at + 1].start == upto + 1 : upto == x->last)
		at++;
	memmove(x->runs, x->runs + at, (x->run_count - at) * sizeof(x->runs[0]));
	x->run_count -= at;
	x->first = upto + 1;
	if (x->run_count > 0 && x->runs[0].start < x->first)
		x->runs[0].start = x->first;
	while (x->size_cap > SIZES_MIN && x->last + 1 - x->first < x->size_cap / 8)
		if (!resize_ring(x, x->size_cap / 2))
			break;
}

void
logidx_reset(struct logidx *x, uint64_t index, uint64_t term)
{
	x->first = index + 1;
	x->last = index;
	x->base_term = term;
	x->run_count = 0;
}

bool
logidx_term(const struct logidx *x, uint64_t index, uint64_t *term)
{
	*term = 0;
	if (index == 0)
		return x->first == 1;
	if (index < x->first) {
		*term = index + 1 == x->first ? x->base_term : 0;
		return *term != 0;
	}
	if (index > x->last)
		return false;
	*term = x->runs[run_of(x, index)].term;
	return true;
}

uint64_t
logidx_last_term(const struct logidx *x)
{
	return x->run_count > 0 ? x->runs[x->run_count - 1].term : x->base_term;
}

uint32_t
logidx_size(const struct logidx *x, uint64_t index)
{
	TV_ASSERT(index >= x->first && index <= x->last);
	return x->sizes[index & (x->size_cap - 1)];
}

uint64_t
logidx_find_le(const struct logidx *x, uint64_t upto, uint64_t term)
{
	size_t lo = 0, hi = x->run_count;	/* runs before lo have a term <= term */

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (x->runs[mid].term <= term)
			lo = mid + 1;
		else
			hi = mid;
	}
	uint64_t end = lo < x->run_count ? x->runs[lo].start - 1 : x->last;

	if (upto < end)
		end = upto;
	if (end >= x->first)
		return end;
	return end + 1 == x->first && x->base_term != 0 && x->base_term <= term ? end : 0;
}

uint32_t
logidx_batch(const struct logidx *x, uint64_t from, uint32_t count_max, uint64_t bytes_max)
{
	uint64_t bytes = 0;
	uint32_t n = 0;

	while (n < count_max && from + n <= x->last) {
		bytes += logidx_size(x, from + n);
		if (n > 0 && bytes > bytes_max)
			break;
		n++;
	}
	return n;
}
