/* Shared immutable bytes; see intern.h. */
#include "config.h"

#include <assert.h>
#include <sodium.h>
#include <stddef.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "gossipd/core/swim/intern.h"

#define BUCKETS_MIN 64

static_assert(INTERN_KEY_BYTES == crypto_shorthash_KEYBYTES, "hash key");

struct block {
	struct block *next;		/* in its chain */
	uint32_t hash, refs, len;
	_Alignas(8) uint8_t bytes[];
};

struct intern {
	struct block **buckets;		/* bucket_count is a power of 2 */
	uint32_t bucket_count, count;
	uint8_t key[INTERN_KEY_BYTES];
};

struct intern *
intern_new(const uint8_t key[INTERN_KEY_BYTES])
{
	struct intern *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return NULL;
	t->bucket_count = BUCKETS_MIN;
	t->buckets = calloc(t->bucket_count, sizeof(struct block *));
	memcpy(t->key, key, INTERN_KEY_BYTES);
	if (t->buckets != NULL)
		return t;
	free(t);
	return NULL;
}

void
intern_free(struct intern *t)
{
	if (t == NULL)
		return;
	TV_ASSERT(t->count == 0);
	free(t->buckets);
	free(t);
}

uint64_t
intern_hash(const struct intern *t, struct span bytes)
{
	uint8_t out[crypto_shorthash_BYTES];
	uint64_t hash;

	(void)crypto_shorthash(out, bytes.p, bytes.len, t->key);	/* cannot fail */
	memcpy(&hash, out, sizeof(hash));
	return hash;
}

static struct block **
chain_of(const struct intern *t, uint32_t hash)
{
	return &t->buckets[hash & (t->bucket_count - 1)];
}

/* Doubles the buckets when chains get longer than one on average; without memory they just get longer. */
static void
grow(struct intern *t)
{
	uint32_t old_count = t->bucket_count;
	struct block **old = t->buckets, **fresh;

	if (t->count < old_count || (fresh = calloc((size_t)old_count * 2, sizeof(struct block *))) == NULL)
		return;
	t->buckets = fresh;
	t->bucket_count = old_count * 2;
	for (uint32_t i = 0; i < old_count; i++) {
		struct block *b = old[i], *next;

		for (; b != NULL; b = next) {
			struct block **at = chain_of(t, b->hash);

			next = b->next;
			b->next = *at;
			*at = b;
		}
	}
	free(old);
}

const void *
intern_get(struct intern *t, struct span head, struct span body)
{
	size_t len = head.len + body.len;
	struct block *b, *twin;

	TV_ASSERT(len > 0 && len <= UINT32_MAX);
	b = malloc(sizeof(*b) + len);
	if (b == NULL)
		return NULL;
	if (head.len > 0)
		memcpy(b->bytes, head.p, head.len);
	if (body.len > 0)
		memcpy(b->bytes + head.len, body.p, body.len);
	b->hash = (uint32_t)intern_hash(t, span_of(b->bytes, len));
	b->len = (uint32_t)len;
	b->refs = 1;
	for (twin = *chain_of(t, b->hash); twin != NULL; twin = twin->next) {
		if (twin->hash != b->hash || twin->len != len || memcmp(twin->bytes, b->bytes, len) != 0)
			continue;
		sodium_memzero(b->bytes, len);
		free(b);
		TV_ASSERT(twin->refs < UINT32_MAX);
		twin->refs++;
		return twin->bytes;
	}
	grow(t);
	b->next = *chain_of(t, b->hash);
	*chain_of(t, b->hash) = b;
	t->count++;
	return b->bytes;
}

void
intern_put(struct intern *t, const void *bytes)
{
	struct block *b, **at;

	if (bytes == NULL)
		return;
	b = (struct block *)((uintptr_t)bytes - offsetof(struct block, bytes));
	if (--b->refs > 0)
		return;
	at = chain_of(t, b->hash);
	while (*at != b)
		at = &(*at)->next;
	*at = b->next;
	t->count--;
	sodium_memzero(b->bytes, b->len);	/* key queries wait here for gossip, too */
	free(b);
}
