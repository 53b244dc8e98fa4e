/* Member records and their table; see table.h. */
#include "config.h"

#include <assert.h>
#include <sodium.h>
#include <stdlib.h>

#include "common/assert.h"
#include "gossipd/core/broadcast.h"
#include "gossipd/core/table.h"

#define BUCKETS_MIN 64

static_assert(TABLE_KEY_BYTES == crypto_shorthash_KEYBYTES, "name hash key");
static_assert(sizeof(struct node) + 64 + 200 <= 512, "a member with usual name and tags fits 512 bytes");

#define TO(s) (1u << (s))
static const struct {
	const char *name;
	unsigned next;
} states[NODE_STATES] = {
	[NODE_ALIVE]   = { "alive",   TO(NODE_SUSPECT) | TO(NODE_DEAD) | TO(NODE_LEFT) | TO(NODE_ALIVE) },
	[NODE_SUSPECT] = { "suspect", TO(NODE_ALIVE) | TO(NODE_DEAD) | TO(NODE_LEFT) },
	[NODE_DEAD]    = { "dead",    TO(NODE_ALIVE) },
	[NODE_LEFT]    = { "left",    TO(NODE_ALIVE) },
};

void
node_move(struct node *n, enum node_state to, struct mono now)
{
	TV_ASSERT(states[n->state].next & TO(to));
	if (n->state != to)
		n->changed = now;
	n->state = (uint8_t)to;
}

const char *
node_state_name(enum node_state s)
{
	TV_ASSERT(s < NODE_STATES);
	return states[s].name;
}

const char *
member_status_name(enum member_status s)
{
	static const char *const names[] = {
		[MEMBER_NONE] = "none", [MEMBER_ALIVE] = "alive", [MEMBER_LEAVING] = "leaving",
		[MEMBER_LEFT] = "left", [MEMBER_FAILED] = "failed",
	};

	return (unsigned)s < sizeof(names) / sizeof(names[0]) ? names[s] : "invalid";
}

uint64_t
table_hash(const struct table *t, struct span name)
{
	uint8_t out[crypto_shorthash_BYTES];
	uint64_t hash;

	(void)crypto_shorthash(out, name.p, name.len, t->key);	/* cannot fail */
	memcpy(&hash, out, sizeof(hash));
	return hash;
}

static struct node **
bucket_of(const struct table *t, struct span name)
{
	return &t->buckets[table_hash(t, name) & (t->bucket_count - 1)];
}

enum tv_err
table_init(struct table *t, const uint8_t key[TABLE_KEY_BYTES], uint32_t count_max)
{
	*t = (struct table){ .bucket_count = BUCKETS_MIN, .count_max = count_max };
	memcpy(t->key, key, TABLE_KEY_BYTES);
	t->buckets = calloc(t->bucket_count, sizeof(*t->buckets));
	return t->buckets != NULL ? TV_OK : TV_ENOMEM;
}

static void
node_free(struct node *n)
{
	bqueue_disown(n->queued);
	free(n->suspicion);
	free(n->coord);
	free(n->meta);
	free(n);
}

void
table_done(struct table *t)
{
	for (uint32_t i = 0; i < t->all_count; i++)
		node_free(t->all[i]);
	free(t->all);
	free(t->order);
	free(t->buckets);
	*t = (struct table){ 0 };
}

struct node *
table_find(const struct table *t, struct span name)
{
	if (name.len == 0 || name.len > NODE_NAME_BYTES_MAX)
		return NULL;
	for (struct node *n = *bucket_of(t, name); n != NULL; n = n->next)
		if (span_eq(node_name(n), name))
			return n;
	return NULL;
}

/* Doubles the buckets when chains get longer than one on average. */
static enum tv_err
grow_buckets(struct table *t)
{
	struct node **old = t->buckets, **fresh;
	uint32_t old_count = t->bucket_count;

	if (t->all_count < old_count)
		return TV_OK;
	fresh = calloc((size_t)old_count * 2, sizeof(*fresh));
	if (fresh == NULL)
		return TV_ENOMEM;
	t->buckets = fresh;
	t->bucket_count = old_count * 2;
	for (uint32_t i = 0; i < t->all_count; i++) {
		struct node **at = bucket_of(t, node_name(t->all[i]));

		t->all[i]->next = *at;
		*at = t->all[i];
	}
	free(old);
	return TV_OK;
}

static enum tv_err
grow_list(struct node ***list, uint32_t count, uint32_t *cap)
{
	uint32_t more = *cap == 0 ? BUCKETS_MIN : *cap * 2;
	struct node **fresh;

	if (count < *cap)
		return TV_OK;
	fresh = realloc(*list, more * sizeof(*fresh));
	if (fresh == NULL)
		return TV_ENOMEM;
	*list = fresh;
	*cap = more;
	return TV_OK;
}

enum tv_err
table_add(struct table *t, struct span name, struct node **out)
{
	struct node *n, **at;

	TV_ASSERT(name.len > 0 && name.len <= NODE_NAME_BYTES_MAX);
	if (t->all_count >= t->count_max)
		return TV_ELIMIT;
	if (grow_buckets(t) != TV_OK || grow_list(&t->all, t->all_count, &t->all_cap) != TV_OK)
		return TV_ENOMEM;
	n = calloc(1, sizeof(*n) + name.len + 1);
	if (n == NULL)
		return TV_ENOMEM;
	memcpy(n->name, name.p, name.len);
	n->name_len = (uint8_t)name.len;
	n->state = NODE_DEAD;
	n->prune_at = MONO_NEVER;
	n->order_at = NODE_NOT_LISTED;
	n->all_at = t->all_count;
	t->all[t->all_count++] = n;
	at = bucket_of(t, name);
	n->next = *at;
	*at = n;
	*out = n;
	return TV_OK;
}

static void
order_swap(struct table *t, uint32_t i, uint32_t j)
{
	struct node *n = t->order[i];

	t->order[i] = t->order[j];
	t->order[j] = n;
	t->order[i]->order_at = i;
	t->order[j]->order_at = j;
}

enum tv_err
table_list(struct table *t, struct node *n, struct rng *rng)
{
	TV_ASSERT(!node_listed(n));
	if (grow_list(&t->order, t->order_count, &t->order_cap) != TV_OK)
		return TV_ENOMEM;
	n->order_at = t->order_count;
	t->order[t->order_count++] = n;
	order_swap(t, n->order_at, (uint32_t)rng_below(rng, t->order_count));
	return TV_OK;
}

void
table_unlist(struct table *t, struct node *n)
{
	TV_ASSERT(node_listed(n));
	order_swap(t, n->order_at, t->order_count - 1);
	t->order_count--;
	n->order_at = NODE_NOT_LISTED;
	n->state = NODE_DEAD;
	n->incarnation = 0;
}

void
table_remove(struct table *t, struct node *n)
{
	struct node **at = bucket_of(t, node_name(n)), *last = t->all[t->all_count - 1];

	if (node_listed(n))
		table_unlist(t, n);
	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	t->all[n->all_at] = last;
	last->all_at = n->all_at;
	t->all_count--;
	node_free(n);
}

void
table_shuffle(struct table *t, struct rng *rng)
{
	for (uint32_t i = t->order_count; i > 1; i--)
		order_swap(t, i - 1, (uint32_t)rng_below(rng, i));
}

enum tv_err
node_set_meta(struct node *n, struct span meta)
{
	uint8_t *copy = NULL;

	TV_ASSERT(meta.len <= NODE_META_BYTES_MAX);
	if (span_eq(node_meta(n), meta))
		return TV_OK;
	if (meta.len > 0) {
		copy = malloc(meta.len);
		if (copy == NULL)
			return TV_ENOMEM;
		memcpy(copy, meta.p, meta.len);
	}
	free(n->meta);
	n->meta = copy;
	n->meta_len = (uint16_t)meta.len;
	return TV_OK;
}
