/*
 * The one record per member, and the table that holds them.
 *
 * A record serves two layers with different memories.  SWIM (the probe list, `order`)
 * forgets a dead member after tens of seconds; Serf (the list that people see, `all`) keeps
 * it as failed or left for a day.  A record is freed when neither layer needs it.
 */
#ifndef TV_GOSSIP_TABLE_H
#define TV_GOSSIP_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/member.h"
#include "common/mono.h"
#include "common/rng.h"

#define NODE_NAME_BYTES_MAX MEMBER_NAME_BYTES_MAX
#define NODE_META_BYTES_MAX 512
#define TABLE_KEY_BYTES 16

/* Where a member's gossip port is.  Bytes are kept in the form in which they came: peers compare bytes. */
struct gaddr {
	uint8_t ip[16];		/* network order; IPv4 in the first 4, or mapped into 16 */
	uint8_t len;		/* 4 or 16; 0: none */
	uint16_t port;
};

static inline bool
gaddr_eq(const struct gaddr *a, const struct gaddr *b)
{
	return a->len == b->len && a->port == b->port && memcmp(a->ip, b->ip, a->len) == 0;
}

/* The wire's numbers of section "push/pull node". */
enum node_state { NODE_ALIVE = 0, NODE_SUSPECT = 1, NODE_DEAD = 2, NODE_LEFT = 3, NODE_STATES };

struct bcast;
struct coord_peer;
struct suspicion;

struct node {
	struct node *next;		/* in its hash chain */
	struct suspicion *suspicion;	/* owned; NULL unless state is NODE_SUSPECT */
	struct bcast *queued;		/* broadcast about it that waits, or NULL */
	struct coord_peer *coord;	/* owned; what we know of its place; NULL: nothing */
	uint8_t *meta;			/* owned; encoded tags; NULL when meta_len is 0 */
	struct mono changed;		/* when `state` last changed */
	struct mono gone_at;		/* when Serf saw it fail or leave */
	struct mono prune_at;		/* when to forget it, after a force-leave with prune; MONO_NEVER */
	uint64_t status_ltime;		/* Lamport time of the last intent taken */
	uint32_t incarnation;
	uint32_t all_at;		/* index in table.all */
	uint32_t order_at;		/* index in table.order, or NODE_NOT_LISTED */
	struct gaddr addr;
	uint16_t meta_len;
	uint8_t vsn[6];			/* PMin PMax PCur DMin DMax DCur; all 0: unknown */
	uint8_t state;			/* enum node_state; NODE_DEAD outside SWIM's memory */
	uint8_t status;			/* enum member_status; MEMBER_NONE: not shown */
	bool returning;			/* shown as left, but its join intent was heard: not told as left any more */
	uint8_t name_len;
	char name[];			/* with a NUL behind for debuggers; may hold any byte */
};

#define NODE_NOT_LISTED UINT32_MAX

static inline struct span
node_name(const struct node *n)
{
	return span_of(n->name, n->name_len);
}

static inline struct span
node_meta(const struct node *n)
{
	return span_of(n->meta, n->meta_len);
}

static inline bool
node_listed(const struct node *n)
{
	return n->order_at != NODE_NOT_LISTED;
}

struct table {
	struct node **buckets;		/* bucket_count is a power of 2 */
	struct node **all;		/* every record */
	struct node **order;		/* records that SWIM knows, in probe order */
	uint32_t bucket_count, all_count, all_cap, order_count, order_cap, count_max;
	uint8_t key[TABLE_KEY_BYTES];	/* of the name hash, so that peers cannot aim at one chain */
};

/* TV_ENOMEM.  count_max: most records. */
enum tv_err table_init(struct table *t, const uint8_t key[TABLE_KEY_BYTES], uint32_t count_max);
/* Frees all records with what they own. */
void table_done(struct table *t);
struct node *table_find(const struct table *t, struct span name);
/* 64-bit keyed hash of a name: stands for the name where only sameness matters. */
uint64_t table_hash(const struct table *t, struct span name);
/* A fresh record in neither list but `all`.  The name must be new and 1..255 bytes.  TV_ELIMIT when full, TV_ENOMEM. */
enum tv_err table_add(struct table *t, struct span name, struct node **out);
/* Puts it at a random place of the probe order.  TV_ENOMEM. */
enum tv_err table_list(struct table *t, struct node *n, struct rng *rng);
/* Takes it out of the probe order (the last one moves to its place). */
void table_unlist(struct table *t, struct node *n);
/* Takes the record out of everything and frees it with what it owns. */
void table_remove(struct table *t, struct node *n);
void table_shuffle(struct table *t, struct rng *rng);
/* TV_ENOMEM leaves the old meta. */
enum tv_err node_set_meta(struct node *n, struct span meta);

/* Steps from which a state may be reached.  A step outside this table is our own mistake. */
void node_move(struct node *n, enum node_state to, struct mono now);
const char *node_state_name(enum node_state s);
const char *member_status_name(enum member_status s);

#endif
