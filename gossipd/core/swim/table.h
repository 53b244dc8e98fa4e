/*
 * The one record per member, and the table that holds them.
 *
 * A record serves two layers with different memories.  SWIM (the probe list) forgets a dead
 * member after tens of seconds; Serf (the list that people see) keeps it as failed or left
 * for a day.  A record is freed when neither layer needs it.
 *
 * What a member says of itself is apart from what we think of it: the former is immutable
 * and shared (intern.h), the latter is small.  With names and tags of usual length a member
 * costs some 400 bytes in all, of which about 100 cannot be shared.
 */
#ifndef TV_GOSSIPD_CORE_SWIM_TABLE_H
#define TV_GOSSIPD_CORE_SWIM_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/mono.h"
#include "common/base/rng.h"
#include "common/base/addr.h"
#include "common/record/member.h"
#include "gossipd/core/swim/intern.h"

#define NODE_NAME_BYTES_MAX MEMBER_NAME_BYTES_MAX
#define NODE_META_BYTES_MAX 512
#define NODE_VSN_BYTES 6

/* The wire's numbers of section "push/pull node". */
enum node_state { NODE_ALIVE = 0, NODE_SUSPECT = 1, NODE_DEAD = 2, NODE_LEFT = 3, NODE_STATES };

struct bcast;
struct coord_peer;
struct suspicion;

/* What a member says of itself.  Interned: equal ones are one. */
struct ident {
	uint64_t hash;			/* of the name, under the store's key */
	struct addr addr;
	uint8_t vsn[NODE_VSN_BYTES];	/* PMin PMax PCur DMin DMax DCur; all 0: unknown */
	uint16_t meta_len;		/* encoded tags */
	uint8_t name_len;
	uint8_t bytes[];		/* name, then meta; the name may hold any byte */
};

/* One record; kept small, since a simulation holds a hundred million of them. */
struct node {
	const struct ident *ident;	/* a share of one in table.store */
	struct suspicion *suspicion;	/* owned; NULL unless state is NODE_SUSPECT */
	struct bcast *queued;		/* broadcast about it that waits, or NULL */
	struct coord_peer *coord;	/* owned; what we know of its place; NULL: nothing */
	struct mono changed;		/* when `state` last changed */
	struct mono gone_at;		/* when Serf saw it fail or leave; `pruned`: was asked for that, if earlier */
	uint64_t status_ltime;		/* Lamport time of the last intent taken */
	uint32_t incarnation;
	uint32_t at;			/* index in table.all */
	uint8_t state;			/* enum node_state; NODE_DEAD outside SWIM's memory */
	uint8_t status;			/* enum member_status; MEMBER_NONE: not shown */
	bool returning;			/* shown as left, but its join intent was heard: not told as left any more */
	bool pruned;			/* to be forgotten a little after gone_at */
	bool told;			/* status_ltime came by an exchange: perhaps that of a leave */
};

static inline struct span
node_name(const struct node *n)
{
	return span_of(n->ident->bytes, n->ident->name_len);
}

static inline struct span
node_meta(const struct node *n)
{
	return span_of(n->ident->bytes + n->ident->name_len, n->ident->meta_len);
}

static inline const struct addr *
node_addr(const struct node *n)
{
	return &n->ident->addr;
}

/* NODE_VSN_BYTES of them. */
static inline const uint8_t *
node_vsn(const struct node *n)
{
	return n->ident->vsn;
}

struct table {
	struct intern *store;		/* of identities; its key hashes the names */
	bool own_store;
	/*
	 * A hash table probed in line; slot_count is a power of 2.  Not the common map: the hash is in the shared part
	 * of a record, and a node of the map would make each of a hundred million records larger.  twins.h likewise.
	 */
	struct node **slots;
	struct node **all;		/* first those that SWIM knows, in probe order; then the others */
	uint32_t slot_count, all_count, all_cap, order_count, count_max;
};

/* Is it in the probe order? */
static inline bool
node_listed(const struct table *t, const struct node *n)
{
	return n->at < t->order_count;
}

/*
 * store: shared with others, and outlives the table; NULL: its own, hashing with `key`.  count_max: most records.
 * TV_ENOMEM; table_done() also then.
 */
enum tv_err table_init(struct table *t, struct intern *store, const uint8_t key[INTERN_KEY_BYTES], uint32_t count_max);
/* Frees all records with what they own. */
void table_done(struct table *t);
struct node *table_find(const struct table *t, struct span name);
/* 64-bit keyed hash of a name: stands for the name where only sameness matters. */
uint64_t table_hash(const struct table *t, struct span name);
/*
 * A fresh record, not in the probe order.  The name must be new and 1..255 bytes; vsn NULL: unknown.  TV_ELIMIT when
 * full, TV_ENOMEM.
 */
enum tv_err table_add(struct table *t, struct span name, struct span meta, const struct addr *addr,
    const uint8_t *vsn, struct node **out);
/* Puts it at a random place of the probe order. */
void table_list(struct table *t, struct node *n, struct rng *rng);
/* Takes it out of the probe order (the last one moves to its place). */
void table_unlist(struct table *t, struct node *n);
/* Takes the record out of everything and frees it with what it owns. */
void table_remove(struct table *t, struct node *n);
void table_shuffle(struct table *t, struct rng *rng);
/* What it says of itself from now on.  TV_ENOMEM leaves the old.  Spans of the old one may die. */
enum tv_err table_set(struct table *t, struct node *n, struct span meta, const struct addr *addr,
    const uint8_t vsn[NODE_VSN_BYTES]);

/* Steps from which a state may be reached.  A step outside this table is our own mistake. */
void node_move(struct node *n, enum node_state to, struct mono now);

#endif
