/*
 * Facts that are kept: what was found for look-ups, true until rpcd says otherwise or their time is over.  Pure.
 *
 * A fact is one piece of memory, shared by its holders, of which the table is one.  It keeps the message as it came,
 * and is unpacked for each answer: that takes a third of the memory, and most answers are kept themselves
 * (rendered.h).  The table has bounds in bytes and entries; beyond them goes what was not asked for longest.
 */
#ifndef TV_RPCD_DNS_FACTS_H
#define TV_RPCD_DNS_FACTS_H

#include <sys/queue.h>

#include "common/base/map.h"
#include "common/base/mono.h"
#include "rpcd/dns/rendered.h"

/* All fields but `body`, `key`, `stale` and `answers` are the table's. */
struct fact {
	struct dns_lookup key;
	struct span body;		/* msg_dns_found, packed: dns_found_read() (message.h) unpacks it */
	struct rendered_set answers;	/* that were made of it alone */
	bool stale;			/* no server can be reached that would know better */
	bool listed, used;		/* used: since facts_take_used() gave it last */
	unsigned holders;
	uint32_t name_slots;		/* a power of two; 0: no list */
	uint32_t *names;		/* by hash: offset in `body` + 1 */
	struct mono until;
	size_t bytes;
	struct map_node by_key;
	struct map_node by_id;		/* the hash is the id itself; 0: none, and not in that map */
	union {
		TAILQ_ENTRY(fact) used_order;
		SLIST_ENTRY(fact) dropped;
	};
};

struct facts_conf {
	size_t bytes_max;
	unsigned entries_max;
	uint64_t (*hash)(const void *bytes, size_t n);	/* of keys and names, which others choose */
	struct rendered_table *rendered;	/* where their answers are kept; NULL: nowhere */
};
struct facts {				/* caller's memory, zeroed but for conf; with facts_open() */
	struct facts_conf conf;
	struct map by_key, by_id;
	TAILQ_HEAD(fact_order, fact) order;	/* the first was used last */
	SLIST_HEAD(, fact) dropped;	/* of which the follower is to be told */
	size_t bytes;
	uint64_t evicted;
};

/* A copy of both, held once by the caller.  body: msg_dns_found, packed.  NULL: no memory, or it is malformed. */
struct fact *fact_new(struct facts *t, const struct dns_lookup *key, struct span body);
void fact_release(struct fact *f);	/* NULL: nothing */
/* Of the follow by which rpcd tells of it; 0: none. */
static inline uint64_t
fact_id(const struct fact *f)
{
	return f->by_id.hash;
}
/* Is the name in the list? */
bool fact_lists(const struct facts *t, const struct fact *f, struct span name);

void facts_open(struct facts *t);
void facts_close(struct facts *t);
/* From now on; what is too much goes. */
void facts_limit(struct facts *t, size_t bytes_max);
/* Forgets all, without a word to anybody. */
void facts_clear(struct facts *t);
/*
 * Keeps the fact, in place of what there is for this key, and holds it once more.  id: of the follow by which rpcd
 * tells of it, 0: none.  until: MONO_NEVER as long as it is followed.  False: it is too large, and there is none now.
 */
bool facts_put(struct facts *t, struct fact *f, uint64_t id, struct mono until);
/* Borrowed until the next call of this table.  NULL: not known, or its time is over; it is gone then. */
struct fact *facts_find(struct facts *t, struct mono now, const struct dns_lookup *key);
/* It was used without being looked for: for an answer that was made of it. */
void facts_use(struct facts *t, struct fact *f);
/* The one of this follow; NULL: none.  Counts as no use. */
const struct fact *facts_of(struct facts *t, uint64_t id);
/* Not followed any more: it is gone.  tell: rpcd is to be told. */
void facts_drop(struct facts *t, const struct fact *f, bool tell);
/* Up to `max` ids of follows whose facts were used and not told of yet.  Returns how many; fewer: these are all. */
unsigned facts_take_used(struct facts *t, uint64_t *ids, unsigned max);
/* The id of a follow whose fact went here, one after the other.  False: no more. */
bool facts_next_dropped(struct facts *t, uint64_t *id);

#endif
