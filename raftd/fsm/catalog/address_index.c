/*
 * Two ways to each entry: a hash table by the key of its record, to change it, and a treap in the order of address and key, to find
 * the first record with an address.  The hash has a key of its own that is drawn at random, and is the priority in the treap too: who
 * names records cannot choose what is long to be searched.
 */
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "common/base/map.h"
#include "raftd/fsm/catalog/address_index.h"

#define MALLOC_BYTES 16			/* that an allocation takes beside what was asked for, about */

struct entry {
	struct map_node by_key;
	struct entry *left, *right;	/* in the treap; its parent has a higher hash */
	uint8_t address[ADDRESS_BYTES];
	uint32_t key_len, name_len;
	uint8_t bytes[];		/* the key and the name */
};

struct address_index {
	struct map by_key;
	struct entry *root;
	size_t bytes, bytes_max;	/* bytes: of the entries */
	uint8_t hash_key[MAP_KEY_BYTES];
};

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
	x->bytes_max = bytes_max;
	randombytes_buf(x->hash_key, sizeof(x->hash_key));
	return x;
}

void
address_index_free(struct address_index *x)
{
	struct map_node *tmp;
	struct entry *e;

	if (x == NULL)
		return;
	MAP_FOREACH(e, &x->by_key, by_key, tmp)
		free(e);
	map_done(&x->by_key);
	free(x);
}

/* -- by key -- */

static struct entry *
find_entry(const struct address_index *x, struct span key, uint64_t hash)
{
	struct entry *e;

	MAP_FOREACH_HASH(e, &x->by_key, hash, by_key)
		if (span_eq(key_of(e), key))
			return e;
	return NULL;
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

	while (*at != NULL && (*at)->by_key.hash >= e->by_key.hash)
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
		if (l->by_key.hash >= r->by_key.hash) {
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
remove_entry(struct address_index *x, struct entry *e)
{
	treap_remove(&x->root, e);
	map_remove(&x->by_key, &e->by_key);
	x->bytes -= bytes_of(e);
	free(e);
}

static bool
add_entry(struct address_index *x, struct span key, uint64_t hash, const uint8_t address[ADDRESS_BYTES], struct span name)
{
	struct entry *e;

	if (key.len > UINT16_MAX || name.len > UINT16_MAX)
		return false;			/* never stored */
	e = malloc(sizeof(*e) + key.len + name.len);
	if (e == NULL)
		return false;
	memcpy(e->address, address, ADDRESS_BYTES);
	e->key_len = (uint32_t)key.len;
	e->name_len = (uint32_t)name.len;
	memcpy(e->bytes, key.p, key.len);
	if (name.len > 0)
		memcpy(e->bytes + key.len, name.p, name.len);
	if (address_index_bytes(x) + bytes_of(e) > x->bytes_max) {
		free(e);
		return false;
	}
	map_add(&x->by_key, &e->by_key, hash);
	treap_insert(&x->root, e);
	x->bytes += bytes_of(e);
	return true;
}

bool
address_index_set(struct address_index *x, struct span key, const uint8_t address[ADDRESS_BYTES], struct span name)
{
	uint64_t hash = map_hash(x->hash_key, key);
	struct entry *e = find_entry(x, key, hash);

	if (e != NULL && address != NULL && memcmp(e->address, address, ADDRESS_BYTES) == 0 && span_eq(name_of(e), name))
		return true;
	if (e != NULL)
		remove_entry(x, e);
	return address == NULL || add_entry(x, key, hash, address, name);
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
	return x->by_key.count;
}

size_t
address_index_bytes(const struct address_index *x)
{
	return x->bytes + map_bytes(&x->by_key);
}
