/*
 * A hash map of entries that are part of what they are about: the caller hashes, compares and owns, the map finds.  It
 * allocates nothing but buckets, and without memory for more of them it only gets slower, so adding cannot fail.
 *
 * The hash is of 64 bits, all of which are compared before the caller compares keys.  Where others choose the keys it
 * must be keyed: map_hash() under a key that was drawn at random, or keyed_hash() (common/net/source.h).
 *
 * It grows in steps: buckets are doubled when there are more entries than buckets, and old ones are emptied a few at
 * a time as entries are added, so that no call takes long however large the map is.  One thread at a time.
 */
#ifndef TV_COMMON_BASE_MAP_H
#define TV_COMMON_BASE_MAP_H

#include "common/base/rd.h"

#define MAP_KEY_BYTES 16

struct map_node {
	struct map_node *next;		/* in its bucket */
	uint64_t hash;
};

struct map {				/* zeros: empty */
	struct map_node **buckets;	/* owned, mask + 1; NULL: `one` alone */
	struct map_node **old;		/* owned, old_mask + 1, empty before `moved`; NULL: it does not grow now */
	struct map_node *one;
	size_t mask, old_mask, moved;
	size_t count;			/* entries */
};

/* SipHash-2-4 of these bytes. */
uint64_t map_hash(const uint8_t key[MAP_KEY_BYTES], struct span bytes);
/* Adds an entry that is in no map.  It comes before others with the same hash. */
void map_add(struct map *m, struct map_node *n, uint64_t hash);
/* Takes out an entry that is in this map.  Buckets of a large map go with its last entry. */
void map_remove(struct map *m, struct map_node *n);
/* Frees the buckets and leaves an empty map; the entries are the caller's, who may have freed them before. */
void map_done(struct map *m);
/* Bytes of the buckets. */
size_t map_bytes(const struct map *m);
/* Any entry, then each other one once, in no order; NULL: the end.  Nothing may be added in between. */
struct map_node *map_first(const struct map *m);
struct map_node *map_next(const struct map *m, const struct map_node *n);

/* The first entry with this hash, NULL: none; and the one after it. */
static inline struct map_node *
map_find_next(const struct map_node *n)
{
	struct map_node *other = n->next;

	while (other != NULL && other->hash != n->hash)
		other = other->next;
	return other;
}

static inline struct map_node *
map_find(const struct map *m, uint64_t hash)
{
	struct map_node *n = m->one;

	if (m->old != NULL && (hash & m->old_mask) >= m->moved)
		n = m->old[hash & m->old_mask];
	else if (m->buckets != NULL)
		n = m->buckets[hash & m->mask];
	while (n != NULL && n->hash != hash)
		n = n->next;
	return n;
}

static inline void *
map_entry(const struct map_node *n, size_t offset)
{
	return n == NULL ? NULL : (void *)((uintptr_t)n - offset);
}

/* From a struct map_node pointer, NULL too, to what it is the field of. */
#define MAP_ENTRY(node_, type_, field_) ((type_ *)map_entry((node_), offsetof(type_, field_)))
#define MAP_SET_(var_, node_, field_) ((var_) = MAP_ENTRY(node_, __typeof__(*(var_)), field_))

/* Each entry with this hash: the caller compares keys.  The body may remove it if it then leaves the loop. */
#define MAP_FOREACH_HASH(var_, map_, hash_, field_)							\
	for (MAP_SET_(var_, map_find((map_), (hash_)), field_); (var_) != NULL;				\
	    MAP_SET_(var_, map_find_next(&(var_)->field_), field_))

/* Each entry; the body may remove and free it, but no other one.  tmp_: a struct map_node pointer of the caller's. */
#define MAP_FOREACH(var_, map_, field_, tmp_)								\
	for ((tmp_) = map_first(map_); MAP_SET_(var_, tmp_, field_) != NULL &&				\
	    ((tmp_) = map_next((map_), &(var_)->field_), true);)

#endif
