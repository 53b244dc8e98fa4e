/* Member records and their table; see table.h. */
#include "config.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "gossipd/core/swim/broadcast.h"
#include "gossipd/core/swim/table.h"

#define SLOTS_MIN 64

static_assert(sizeof(struct node) <= 72, "the part of a record that cannot be shared stays small");
static_assert(NODE_NAME_BYTES_MAX <= UINT8_MAX && NODE_META_BYTES_MAX <= UINT16_MAX, "lengths in struct ident");

#define TO(s) (1u << (s))
static const unsigned next[NODE_STATES] = {
	[NODE_ALIVE] = TO(NODE_SUSPECT) | TO(NODE_DEAD) | TO(NODE_LEFT) | TO(NODE_ALIVE),
	[NODE_SUSPECT] = TO(NODE_ALIVE) | TO(NODE_DEAD) | TO(NODE_LEFT),
	[NODE_DEAD] = TO(NODE_ALIVE),
	[NODE_LEFT] = TO(NODE_ALIVE),
};

void
node_move(struct node *n, enum node_state to, struct mono now)
{
	TV_ASSERT(next[n->state] & TO(to));
	if (n->state != to)
		n->changed = now;
	n->state = (uint8_t)to;
}

uint64_t
table_hash(const struct table *t, struct span name)
{
	return intern_hash(t->store, name);
}

/* -- identities ----------------------------------------------------------- */

/* NULL without memory. */
static const struct ident *
ident_get(const struct table *t, struct span name, struct span meta, const struct addr *addr, const uint8_t *vsn)
{
	_Alignas(struct ident) uint8_t head[sizeof(struct ident) + NODE_NAME_BYTES_MAX];
	struct ident *id = (struct ident *)head;

	TV_ASSERT(name.len > 0 && name.len <= NODE_NAME_BYTES_MAX && meta.len <= NODE_META_BYTES_MAX);
	memset(id, 0, sizeof(*id));	/* holes too: equal ones must be equal bytes */
	id->hash = table_hash(t, name);
	memcpy(id->addr.ip, addr->ip, addr->len);
	id->addr.len = addr->len;
	id->addr.port = addr->port;
	if (vsn != NULL)
		memcpy(id->vsn, vsn, NODE_VSN_BYTES);
	id->meta_len = (uint16_t)meta.len;
	id->name_len = (uint8_t)name.len;
	memcpy(id->bytes, name.p, name.len);
	return intern_get(t->store, span_of(head, offsetof(struct ident, bytes) + name.len), meta);
}

enum tv_err
table_set(struct table *t, struct node *n, struct span meta, const struct addr *addr,
    const uint8_t vsn[NODE_VSN_BYTES])
{
	const struct ident *old = n->ident, *fresh;

	if (span_eq(node_meta(n), meta) && addr_eq(&old->addr, addr) && memcmp(old->vsn, vsn, NODE_VSN_BYTES) == 0)
		return TV_OK;
	fresh = ident_get(t, node_name(n), meta, addr, vsn);
	if (fresh == NULL)
		return TV_ENOMEM;
	n->ident = fresh;
	intern_put(t->store, old);
	return TV_OK;
}

/* -- life ----------------------------------------------------------------- */

enum tv_err
table_init(struct table *t, struct intern *store, const uint8_t key[INTERN_KEY_BYTES], uint32_t count_max)
{
	*t = (struct table){ .store = store, .own_store = store == NULL, .count_max = count_max };
	if (t->own_store && (t->store = intern_new(key)) == NULL)
		return TV_ENOMEM;
	t->slots = calloc(SLOTS_MIN, sizeof(struct node *));
	if (t->slots == NULL)
		return TV_ENOMEM;
	t->slot_count = SLOTS_MIN;
	return TV_OK;
}

static void
node_free(struct table *t, struct node *n)
{
	bqueue_disown(n->queued);
	free(n->suspicion);
	free(n->coord);
	intern_put(t->store, n->ident);
	free(n);
}

void
table_done(struct table *t)
{
	for (uint32_t i = 0; i < t->all_count; i++)
		node_free(t, t->all[i]);
	free(t->all);
	free(t->slots);
	if (t->own_store)
		intern_free(t->store);
	*t = (struct table){ 0 };
}

/* -- by name -------------------------------------------------------------- */

static uint32_t
slot_after(const struct table *t, uint32_t i)
{
	return (i + 1) & (t->slot_count - 1);
}

static uint32_t
home_of(const struct table *t, const struct node *n)
{
	return (uint32_t)n->ident->hash & (t->slot_count - 1);
}

struct node *
table_find(const struct table *t, struct span name)
{
	struct node *n;
	uint64_t hash;

	if (name.len == 0 || name.len > NODE_NAME_BYTES_MAX)
		return NULL;
	hash = table_hash(t, name);
	for (uint32_t i = (uint32_t)hash & (t->slot_count - 1); (n = t->slots[i]) != NULL; i = slot_after(t, i))
		if (n->ident->hash == hash && span_eq(node_name(n), name))
			return n;
	return NULL;
}

static void
slot_fill(struct table *t, struct node *n)
{
	uint32_t i = home_of(t, n);

	while (t->slots[i] != NULL)
		i = slot_after(t, i);
	t->slots[i] = n;
}

/* Those behind it move up, unless they stand at or after their own place. */
static void
slot_clear(struct table *t, const struct node *n)
{
	uint32_t hole = home_of(t, n), mask = t->slot_count - 1;

	while (t->slots[hole] != n)
		hole = slot_after(t, hole);
	for (uint32_t i = slot_after(t, hole); t->slots[i] != NULL; i = slot_after(t, i)) {
		if (((i - home_of(t, t->slots[i])) & mask) < ((i - hole) & mask))
			continue;
		t->slots[hole] = t->slots[i];
		hole = i;
	}
	t->slots[hole] = NULL;
}

/* A quarter of the slots stays free. */
static enum tv_err
grow_slots(struct table *t)
{
	struct node **fresh;

	if (t->all_count < t->slot_count / 4 * 3)
		return TV_OK;
	fresh = calloc((size_t)t->slot_count * 2, sizeof(struct node *));
	if (fresh == NULL)
		return TV_ENOMEM;
	free(t->slots);
	t->slots = fresh;
	t->slot_count *= 2;
	for (uint32_t i = 0; i < t->all_count; i++)
		slot_fill(t, t->all[i]);
	return TV_OK;
}

static enum tv_err
grow_list(struct table *t)
{
	uint32_t more = t->all_cap == 0 ? SLOTS_MIN : t->all_cap + t->all_cap / 2;
	struct node **fresh;

	if (t->all_count < t->all_cap)
		return TV_OK;
	fresh = realloc(t->all, more * sizeof(struct node *));
	if (fresh == NULL)
		return TV_ENOMEM;
	t->all = fresh;
	t->all_cap = more;
	return TV_OK;
}

enum tv_err
table_add(struct table *t, struct span name, struct span meta, const struct addr *addr, const uint8_t *vsn,
    struct node **out)
{
	struct node *n;

	if (t->all_count >= t->count_max)
		return TV_ELIMIT;
	if (grow_slots(t) != TV_OK || grow_list(t) != TV_OK || (n = malloc(sizeof(*n))) == NULL)
		return TV_ENOMEM;
	*n = (struct node){ .ident = ident_get(t, name, meta, addr, vsn), .state = NODE_DEAD, .at = t->all_count };
	if (n->ident == NULL) {
		free(n);
		return TV_ENOMEM;
	}
	t->all[t->all_count++] = n;
	slot_fill(t, n);
	*out = n;
	return TV_OK;
}

/* -- the probe order ------------------------------------------------------ */

static void
swap(struct table *t, uint32_t i, uint32_t j)
{
	struct node *n = t->all[i];

	t->all[i] = t->all[j];
	t->all[j] = n;
	t->all[i]->at = i;
	t->all[j]->at = j;
}

void
table_list(struct table *t, struct node *n, struct rng *rng)
{
	TV_ASSERT(!node_listed(t, n));
	swap(t, n->at, t->order_count++);
	swap(t, n->at, (uint32_t)rng_below(rng, t->order_count));
}

void
table_unlist(struct table *t, struct node *n)
{
	TV_ASSERT(node_listed(t, n));
	swap(t, n->at, --t->order_count);
	n->state = NODE_DEAD;
	n->incarnation = 0;
}

void
table_remove(struct table *t, struct node *n)
{
	if (node_listed(t, n))
		table_unlist(t, n);
	slot_clear(t, n);
	swap(t, n->at, --t->all_count);
	node_free(t, n);
}

void
table_shuffle(struct table *t, struct rng *rng)
{
	for (uint32_t i = t->order_count; i > 1; i--)
		swap(t, i - 1, (uint32_t)rng_below(rng, i));
}
