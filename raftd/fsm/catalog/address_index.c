/*
 * Two ways to each entry: a hash table by the key of its record, to change it, and a treap in the order of address and key, to find
 * the first record with an address.  The hash has a key of its own that is drawn at random, and is the priority in the treap too: who
 * names records cannot choose what is long to be searched.
 */
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "raftd/fsm/catalog/address_index.h"

#define BUCKETS_FIRST 1024u
#define MALLOC_BYTES 16			/* that an allocation takes beside what was asked for, about */

struct entry {
	struct entry *next;		/* of its bucket */
	struct entry *left, *right;	/* in the treap; its parent has a higher hash */
	uint64_t hash;
	uint8_t address[ADDRESS_BYTES];
	uint32_t key_len, name_len;
	uint8_t bytes[];		/* the key and the name */
};

struct address_index {
	struct entry **buckets, *root;
	size_t bucket_count;		/* a power of two */
	size_t count, bytes, bytes_max;
	uint8_t hash_key[crypto_shorthash_KEYBYTES];
};

_Static_assert(crypto_shorthash_BYTES == sizeof(uint64_t), "a hash is a number");

static struct span
key_of(const struct entry *e)
{
	return span_of(e->bytes, e->key_len);
}

static struct span
name_of(const struct entry *e)
{
	return span_of(e->bytes + e->key_len, e->name_len);
}

struct address_index *
address_index_new(size_t bytes_max)
{
	struct address_index *x = calloc(1, sizeof(*x));

	if (x == NULL)
		return NULL;
	x->buckets = calloc(BUCKETS_FIRST, sizeof(struct entry *));
	if (x->buckets == NULL) {
		free(x);
		return NULL;
	}
	x->bytes_max = bytes_max;
	x->bucket_count = BUCKETS_FIRST;
	x->bytes = BUCKETS_FIRST * sizeof(struct entry *);
	randombytes_buf(x->hash_key, sizeof(x->hash_key));
	return x;
}

void
address_index_free(struct address_index *x)
{
	if (x == NULL)
		return;
	for (size_t i = 0; i < x->bucket_count; i++)
		for (struct entry *e = x->buckets[i], *next; e != NULL; e = next) {
			next = e->next;
			free(e);
		}
	free(x->buckets);
	free(x);
}

/* -- by key -- */

static uint64_t
hash_of(const struct address_index *x, struct span key)
{
	uint64_t hash;

	(void)crypto_shorthash((uint8_t *)&hash, key.p, key.len, x->hash_key);	/* cannot fail */
	return hash;
}

/* Where the pointer to the entry with this key is, or would be. */
static struct entry **
place_of(struct address_index *x, struct span key, uint64_t hash)
{
	struct entry **at = &x->buckets[hash & (x->bucket_count - 1)];

	while (*at != NULL && ((*at)->hash != hash || !span_eq(key_of(*at), key)))
		at = &(*at)->next;
	return at;
}

/* False: no memory, and all is as it was, only slower. */
static bool
grow(struct address_index *x)
{
	size_t count = 2 * x->bucket_count;
	struct entry **buckets = calloc(count, sizeof(struct entry *));

	if (buckets == NULL)
		return false;
	for (size_t i = 0; i < x->bucket_count; i++)
		for (struct entry *e = x->buckets[i], *next; e != NULL; e = next) {
			next = e->next;
			e->next = buckets[e->hash & (count - 1)];
			buckets[e->hash & (count - 1)] = e;
		}
	free(x->buckets);
	x->bytes += (count - x->bucket_count) * sizeof(struct entry *);
	x->buckets = buckets;
	x->bucket_count = count;
	return true;
}

/* -- by address and key -- */

static int
order(const struct entry *a, const struct entry *b)
{
	int by_address = memcmp(a->address, b->address, ADDRESS_BYTES);

	return by_address != 0 ? by_address : span_cmp(key_of(a), key_of(b));
}

static void
treap_insert(struct entry **root, struct entry *e)
{
	struct entry **at = root, *t, **below = &e->left, **above = &e->right;

	while (*at != NULL && (*at)->hash >= e->hash)
		at = order(e, *at) < 0 ? &(*at)->left : &(*at)->right;
	/* What was there is cut in two: the entry comes between. */
	for (t = *at; t != NULL;) {
		if (order(t, e) < 0) {
			*below = t;
			below = &t->right;
			t = t->right;
		} else {
			*above = t;
			above = &t->left;
			t = t->left;
		}
	}
	*below = *above = NULL;
	*at = e;
}

static void
treap_remove(struct entry **root, const struct entry *e)
{
	struct entry **at = root, *l = e->left, *r = e->right;

	while (*at != e)
		at = order(e, *at) < 0 ? &(*at)->left : &(*at)->right;
	while (l != NULL && r != NULL) {
		if (l->hash >= r->hash) {
			*at = l;
			at = &l->right;
			l = l->right;
		} else {
			*at = r;
			at = &r->left;
			r = r->left;
		}
	}
	*at = l != NULL ? l : r;
}

/* -- both -- */

static size_t
bytes_of(const struct entry *e)
{
	return sizeof(*e) + MALLOC_BYTES + e->key_len + e->name_len;
}

static void
remove_at(struct address_index *x, struct entry **at)
{
	struct entry *e = *at;

	treap_remove(&x->root, e);
	*at = e->next;
	x->count--;
	x->bytes -= bytes_of(e);
	free(e);
}

static bool
add(struct address_index *x, struct span key, uint64_t hash, const uint8_t address[ADDRESS_BYTES], struct span name)
{
	struct entry *e;

	if (key.len > UINT16_MAX || name.len > UINT16_MAX)
		return false;			/* never stored */
	e = malloc(sizeof(*e) + key.len + name.len);
	if (e == NULL)
		return false;
	e->hash = hash;
	memcpy(e->address, address, ADDRESS_BYTES);
	e->key_len = (uint32_t)key.len;
	e->name_len = (uint32_t)name.len;
	memcpy(e->bytes, key.p, key.len);
	if (name.len > 0)
		memcpy(e->bytes + key.len, name.p, name.len);
	if (x->bytes + bytes_of(e) > x->bytes_max || (x->count >= x->bucket_count && !grow(x))) {
		free(e);
		return false;
	}
	treap_insert(&x->root, e);
	e->next = x->buckets[hash & (x->bucket_count - 1)];
	x->buckets[hash & (x->bucket_count - 1)] = e;
	x->count++;
	x->bytes += bytes_of(e);
	return true;
}

bool
address_index_set(struct address_index *x, struct span key, const uint8_t address[ADDRESS_BYTES], struct span name)
{
	uint64_t hash = hash_of(x, key);
	struct entry **at = place_of(x, key, hash);

	if (*at != NULL && address != NULL && memcmp((*at)->address, address, ADDRESS_BYTES) == 0 &&
	    span_eq(name_of(*at), name))
		return true;
	if (*at != NULL)
		remove_at(x, at);
	return address == NULL || add(x, key, hash, address, name);
}

bool
address_index_find(const struct address_index *x, const uint8_t address[ADDRESS_BYTES], struct span *key,
    struct span *name)
{
	const struct entry *t = x->root, *first = NULL;

	while (t != NULL) {
		int c = memcmp(t->address, address, ADDRESS_BYTES);

		if (c == 0)
			first = t;
		t = c < 0 ? t->right : t->left;
	}
	if (first == NULL)
		return false;
	*key = key_of(first);
	*name = name_of(first);
	return true;
}

size_t
address_index_count(const struct address_index *x)
{
	return x->count;
}

size_t
address_index_bytes(const struct address_index *x)
{
	return x->bytes;
}
