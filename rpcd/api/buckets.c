/* See buckets.h. */
#include <stdlib.h>

#include "rpcd/api/buckets.h"

#define NS_PER_S INT64_C(1000000000)

struct bucket_rate
bucket_rate_of(uint64_t thousandths, unsigned burst_s)
{
	int64_t step = (int64_t)(UINT64_C(1000) * NS_PER_S / thousandths), depth = burst_s * NS_PER_S;

	return (struct bucket_rate){ step, depth > step ? depth : step };
}

/* How far ahead of now the bucket is full again. */
static int64_t
behind(int64_t full_at, const struct bucket_rate *r, int64_t now)
{
	int64_t ns = full_at - now;

	return ns < 0 ? 0 : ns > r->depth ? r->depth : ns;
}

int64_t
bucket_wait(int64_t full_at, const struct bucket_rate *r, int64_t now)
{
	int64_t over = r->step == 0 ? 0 : behind(full_at, r, now) + r->step - r->depth;

	return over > 0 ? over : 0;
}

void
bucket_take(int64_t *full_at, const struct bucket_rate *r, int64_t now)
{
	*full_at = now + behind(*full_at, r, now) + r->step;
}

bool
buckets_init(struct buckets *b, size_t sets)
{
	*b = (struct buckets){ .slots = calloc(sets * BUCKETS_WAYS, sizeof(*b->slots)), .sets = sets };
	return b->slots != NULL;
}

void
buckets_done(struct buckets *b)
{
	free(b->slots);
	*b = (struct buckets){ .slots = NULL };
}

/* When the last one of its buckets is full. */
static int64_t
last_full(const struct bucket_slot *s)
{
	int64_t last = s->full_at[0];

	for (unsigned i = 1; i < BUCKETS_EACH; i++)
		if (s->full_at[i] > last)
			last = s->full_at[i];
	return last;
}

int64_t *
buckets_of(struct buckets *b, uint64_t key, int64_t now)
{
	struct bucket_slot *set = &b->slots[(key & (b->sets - 1)) * BUCKETS_WAYS], *spare = set;

	key += key == 0;
	for (unsigned i = 0; i < BUCKETS_WAYS; i++) {
		if (set[i].key == key)
			return set[i].full_at;
		if (last_full(&set[i]) < last_full(spare))
			spare = &set[i];
	}
	b->forgotten += spare->key != 0 && last_full(spare) > now;
	*spare = (struct bucket_slot){ .key = key };
	return spare->full_at;
}

void
buckets_fill(struct buckets *b, unsigned kind)
{
	for (size_t i = 0; b->slots != NULL && i < b->sets * BUCKETS_WAYS; i++)
		b->slots[i].full_at[kind] = 0;
}
