/* A hash map of entries in the caller's memory, see map.h. */
#include <stdlib.h>

#include "common/base/map.h"

#define BUCKETS_FIRST 16u
#define ONE_MAX 4u			/* entries that are found without buckets */
#define BUCKETS_KEPT 256u		/* of an empty map, at most */
#define STEP 32u			/* old buckets emptied with each entry added, some microseconds */

static struct map_node **
bucket_of(struct map *m, uint64_t hash)
{
	if (m->old != NULL && (hash & m->old_mask) >= m->moved)
		return &m->old[hash & m->old_mask];
	return m->buckets == NULL ? &m->one : &m->buckets[hash & m->mask];
}

/* -- growth -- */

static void
begin_growth(struct map *m)
{
	size_t count = m->buckets == NULL ? BUCKETS_FIRST : (m->mask + 1) * 2;
	struct map_node **fresh = calloc(count, sizeof(struct map_node *)), *n = m->one;

	if (fresh == NULL)
		return;			/* longer chains, nothing worse */
	m->one = NULL;
	m->old = m->buckets;
	m->old_mask = m->mask;
	m->moved = 0;
	m->buckets = fresh;
	m->mask = count - 1;
	for (struct map_node *next; n != NULL; n = next) {
		struct map_node **at = bucket_of(m, n->hash);

		next = n->next;
		while (*at != NULL)
			at = &(*at)->next;
		n->next = NULL;
		*at = n;
	}
}

/* An old bucket becomes two new ones, which have been empty so far.  Entries stay in their order. */
static void
move_bucket(struct map *m)
{
	struct map_node **ends[] = { &m->buckets[m->moved], &m->buckets[m->moved + m->old_mask + 1] };

	for (struct map_node *n = m->old[m->moved]; n != NULL; n = n->next) {
		struct map_node ***end = &ends[(n->hash & (m->old_mask + 1)) != 0];

		**end = n;
		*end = &n->next;
	}
	*ends[0] = *ends[1] = NULL;
	m->old[m->moved] = NULL;
	if (m->moved++ < m->old_mask)
		return;
	free(m->old);
	m->old = NULL;
}

/* -- entries -- */

void
map_add(struct map *m, struct map_node *n, uint64_t hash)
{
	struct map_node **at;

	if (m->old == NULL && m->count > (m->buckets == NULL ? ONE_MAX - 1 : m->mask))
		begin_growth(m);
	for (unsigned i = 0; i < STEP && m->old != NULL; i++)
		move_bucket(m);
	at = bucket_of(m, hash);
	*n = (struct map_node){ *at, hash };
	*at = n;
	m->count++;
}

void
map_remove(struct map *m, struct map_node *n)
{
	struct map_node **at = bucket_of(m, n->hash);

	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	if (--m->count == 0 && m->mask >= BUCKETS_KEPT)
		map_done(m);
}

void
map_done(struct map *m)
{
	free(m->buckets);
	free(m->old);
	*m = (struct map){ .count = 0 };
}

size_t
map_bytes(const struct map *m)
{
	size_t count = (m->buckets == NULL ? 0 : m->mask + 1) + (m->old == NULL ? 0 : m->old_mask + 1);

	return count * sizeof(struct map_node *);
}

/* -- all of them -- */

/* The first entry in this bucket or after it, where old buckets come after the others. */
static struct map_node *
first_from(const struct map *m, size_t bucket)
{
	struct map_node *const *buckets = m->buckets == NULL ? &m->one : m->buckets, *n = NULL;
	size_t count = m->mask + 1, all = count + (m->old == NULL ? 0 : m->old_mask + 1);

	for (; n == NULL && bucket < all; bucket++)
		n = bucket < count ? buckets[bucket] : m->old[bucket - count];
	return n;
}

struct map_node *
map_first(const struct map *m)
{
	return first_from(m, 0);
}

struct map_node *
map_next(const struct map *m, const struct map_node *n)
{
	size_t bucket = n->hash & m->mask;

	if (n->next != NULL)
		return n->next;
	if (m->old != NULL && (n->hash & m->old_mask) >= m->moved)
		bucket = m->mask + 1 + (n->hash & m->old_mask);
	return first_from(m, bucket + 1);
}
