/* A pool as gossipd reports it (MSG_GOSSIP_MEMBER): copies of its members, sorted by name. */
#ifndef TV_COMMON_RECORD_MEMBER_TABLE_H
#define TV_COMMON_RECORD_MEMBER_TABLE_H

#include "common/record/member.h"

struct member_slot {
	struct member *m;		/* owned by the table */
	uint32_t round;			/* the listing that reported it last, as member_table.round was then */
	bool gone, dirty, forced, server, refused;	/* the user's marks; false in a new slot */
};

struct member_table {
	struct member_slot *slots;	/* in bytewise order of the names */
	uint32_t count;
	size_t cap;
	uint32_t max;			/* members at most */
	uint32_t round;			/* the user's: one more for each listing */
	uint64_t refused;		/* members that found it full */
};

/* Borrowed until the table changes; NULL: no such member. */
struct member_slot *member_table_find(const struct member_table *t, struct span name);
/*
 * Copies m into its slot, an old one with its marks or a new one, and gives the slot the table's round.  NULL with
 * TV_ELIMIT: the table is full, which was counted; with TV_ENOMEM: nothing changed.
 */
struct member_slot *member_table_put(struct member_table *t, const struct member *m, enum tv_err *err);
void member_table_remove(struct member_table *t, struct member_slot *s);
/* Removes all members that the listing `t->round` has not reported. */
void member_table_sweep(struct member_table *t);
/* Frees all; the table can be used again. */
void member_table_done(struct member_table *t);
/* Body of MSG_GOSSIP_MEMBER: [u8 pool, u8 event, member].  Spans of *m borrow the body, tags are of the arena. */
enum tv_err member_event_read(struct span body, struct arena *a, enum gossip_pool *pool, enum gossip_event *event,
    struct member *m);

#endif
