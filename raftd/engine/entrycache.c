/* Recent log entries: a ring of entries over reference-counted payload blocks. */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "raftd/engine/entrycache.h"

#define BLOCK_BYTES (128u << 10)	/* bump-allocated; larger payloads get a block of their own */
#define PAYLOAD_OWN_BLOCK (BLOCK_BYTES / 4)

struct block {
	struct block *next;		/* in the dead list */
	uint64_t busy_until;		/* last batch that may point into it */
	uint32_t entries;		/* live entries */
	uint32_t used, cap;
	uint8_t bytes[];
};

struct slot {
	struct raft_entry e;
	struct block *block;		/* NULL without payload */
};

struct entrycache {
	struct slot *ring;
	size_t ring_cap;		/* power of two */
	uint64_t first, count;		/* indexes first .. first + count - 1 */
	size_t soft_max, bytes, memory;
	struct block *current;		/* being filled */
	struct block *dead;		/* no entries left; waiting for the log thread */
	struct block *spare;		/* one block for reuse */
	uint64_t written;
};

struct entrycache *
entrycache_new(size_t soft_max)
{
	struct entrycache *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->soft_max = soft_max;
	c->ring_cap = 1024;
	c->ring = calloc(c->ring_cap, sizeof(*c->ring));
	if (c->ring == NULL) {
		free(c);
		return NULL;
	}
	return c;
}

static void
block_drop(struct entrycache *c, struct block *b)
{
	if (c->spare == NULL && b->cap == BLOCK_BYTES) {
		c->spare = b;
		return;
	}
	c->memory -= b->cap;
	free(b);
}

/* The block lost its last entry and is not being filled any more. */
static void
block_retire(struct entrycache *c, struct block *b)
{
	if (b->busy_until <= c->written) {
		block_drop(c, b);
		return;
	}
	b->next = c->dead;
	c->dead = b;
}

static struct block *
block_new(struct entrycache *c, uint32_t cap)
{
	struct block *b = NULL;

	if (cap == BLOCK_BYTES && c->spare != NULL) {
		b = c->spare;
		c->spare = NULL;
	} else {
		b = malloc(sizeof(*b) + cap);
		if (b == NULL)
			return NULL;
		c->memory += cap;
	}
	*b = (struct block){ .cap = cap };
	return b;
}

/* A block with room for n bytes. */
static struct block *
block_for(struct entrycache *c, uint32_t n)
{
	struct block *b = c->current;

	if (n > PAYLOAD_OWN_BLOCK)
		return block_new(c, n);
	if (b != NULL && b->cap - b->used >= n)
		return b;
	if (b != NULL && b->entries == 0)
		block_retire(c, b);
	c->current = block_new(c, BLOCK_BYTES);
	return c->current;
}

static struct slot *
slot_at(const struct entrycache *c, uint64_t index)
{
	return &c->ring[index & (c->ring_cap - 1)];
}

static bool
ring_grow(struct entrycache *c)
{
	size_t cap = c->ring_cap * 2;
	struct slot *ring = calloc(cap, sizeof(*ring));

	if (ring == NULL)
		return false;
	for (uint64_t i = c->first; i < c->first + c->count; i++)
		ring[i & (cap - 1)] = *slot_at(c, i);
	free(c->ring);
	c->ring = ring;
	c->ring_cap = cap;
	return true;
}

const struct raft_entry *
entrycache_append(struct entrycache *c, const struct raft_entry *e, uint64_t seq)
{
	struct block *b = NULL;
	struct slot *s;

	TV_ASSERT(c->count == 0 || e->index == c->first + c->count);
	if (c->count == c->ring_cap && !ring_grow(c))
		return NULL;
	if (e->size > 0) {
		b = block_for(c, e->size);
		if (b == NULL)
			return NULL;
	}
	if (c->count == 0)
		c->first = e->index;
	s = slot_at(c, e->index);
	s->e = *e;
	s->e.payload = NULL;
	s->block = b;
	if (b != NULL) {
		s->e.payload = memcpy(b->bytes + b->used, e->payload, e->size);
		b->used += e->size;
		b->entries++;
		b->busy_until = seq;
	}
	c->count++;
	c->bytes += e->size;
	return &s->e;
}

const struct raft_entry *
entrycache_get(const struct entrycache *c, uint64_t index)
{
	if (index < c->first || index - c->first >= c->count)
		return NULL;
	return &slot_at(c, index)->e;
}

uint64_t
entrycache_first(const struct entrycache *c)
{
	return c->count > 0 ? c->first : 0;
}

static void
slot_release(struct entrycache *c, struct slot *s)
{
	struct block *b = s->block;

	c->bytes -= s->e.size;
	if (b == NULL || --b->entries > 0 || b == c->current)
		return;
	block_retire(c, b);
}

void
entrycache_truncate(struct entrycache *c, uint64_t from)
{
	while (c->count > 0 && c->first + c->count > from) {
		slot_release(c, slot_at(c, c->first + c->count - 1));
		c->count--;
	}
}

void
entrycache_clear(struct entrycache *c)
{
	entrycache_truncate(c, 0);
}

void
entrycache_evict(struct entrycache *c, uint64_t upto)
{
	/* Empty entries cost a slot: they count with the size of one. */
	while (c->count > 0 && c->first <= upto && c->bytes + c->count * sizeof(struct slot) > c->soft_max) {
		slot_release(c, slot_at(c, c->first));
		c->first++;
		c->count--;
	}
}

void
entrycache_written(struct entrycache *c, uint64_t seq)
{
	struct block **at = &c->dead, *b;

	c->written = seq;
	while ((b = *at) != NULL) {
		if (b->busy_until > seq) {
			at = &b->next;
			continue;
		}
		*at = b->next;
		block_drop(c, b);
	}
}

size_t
entrycache_bytes(const struct entrycache *c)
{
	return c->bytes;
}

size_t
entrycache_memory(const struct entrycache *c)
{
	return c->memory;
}

void
entrycache_free(struct entrycache *c)
{
	if (c == NULL)
		return;
	entrycache_clear(c);
	entrycache_written(c, UINT64_MAX);
	if (c->current != NULL)
		block_drop(c, c->current);
	free(c->spare);
	free(c->ring);
	free(c);
}
