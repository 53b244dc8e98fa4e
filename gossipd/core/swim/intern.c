/* Shared immutable bytes; see intern.h. */
#include "config.h"

#include <sodium.h>
#include <stddef.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/map.h"
#include "gossipd/core/swim/intern.h"

_Static_assert(INTERN_KEY_BYTES == MAP_KEY_BYTES, "hash key");

struct block {
	struct map_node node;
	uint32_t refs, len;
	_Alignas(8) uint8_t bytes[];
};

struct intern {
	struct map blocks;
	uint8_t key[INTERN_KEY_BYTES];
};

struct intern *
intern_new(const uint8_t key[INTERN_KEY_BYTES])
{
	struct intern *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return NULL;
	memcpy(t->key, key, INTERN_KEY_BYTES);
	return t;
}

void
intern_free(struct intern *t)
{
	if (t == NULL)
		return;
	TV_ASSERT(t->blocks.count == 0);
	map_done(&t->blocks);
	free(t);
}

uint64_t
intern_hash(const struct intern *t, struct span bytes)
{
	return map_hash(t->key, bytes);
}

const void *
intern_get(struct intern *t, struct span head, struct span body)
{
	size_t len = head.len + body.len;
	struct block *b, *twin;
	uint64_t hash;

	TV_ASSERT(len > 0 && len <= UINT32_MAX);
	b = malloc(sizeof(*b) + len);
	if (b == NULL)
		return NULL;
	if (head.len > 0)
		memcpy(b->bytes, head.p, head.len);
	if (body.len > 0)
		memcpy(b->bytes + head.len, body.p, body.len);
	hash = intern_hash(t, span_of(b->bytes, len));
	b->len = (uint32_t)len;
	b->refs = 1;
	MAP_FOREACH_HASH(twin, &t->blocks, hash, node) {
		if (twin->len != len || memcmp(twin->bytes, b->bytes, len) != 0)
			continue;
		sodium_memzero(b->bytes, len);
		free(b);
		TV_ASSERT(twin->refs < UINT32_MAX);
		twin->refs++;
		return twin->bytes;
	}
	map_add(&t->blocks, &b->node, hash);
	return b->bytes;
}

void
intern_put(struct intern *t, const void *bytes)
{
	struct block *b;

	if (bytes == NULL)
		return;
	b = (struct block *)((uintptr_t)bytes - offsetof(struct block, bytes));
	if (--b->refs > 0)
		return;
	map_remove(&t->blocks, &b->node);
	sodium_memzero(b->bytes, b->len);	/* key queries wait here for gossip, too */
	free(b);
}
