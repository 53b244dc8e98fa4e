/*
 * Answers as bytes, kept until what they were made of changes.  The same question again costs a search and a copy: its
 * id, flags and letters are put in, and addresses in a new random order.  Pure, and bounded in bytes: the answer that
 * was not wanted for the longest time makes room.  A table of its own, with more chains than entries from the start:
 * with the common map the same question costs 5 % more.
 *
 * Kept are answers to plain questions: opcode 0, no client subnet, a name without pointers.  One that has names of its
 * own is kept for the question in lower case alone, since compression tells letters apart.
 */
#ifndef TV_RPCD_DNS_RENDERED_H
#define TV_RPCD_DNS_RENDERED_H

#include <sys/queue.h>

#include "common/base/rng.h"
#include "rpcd/dns/answer.h"

#define RENDERED_KEY_MAX (7 + DNAME_BYTES_MAX)

/* A question as far as answers are told apart by it. */
struct rendered_question {
	uint16_t id, flags, type;
	struct span name;		/* on the wire, as asked; borrowed from the message */
	bool lower;			/* it has no upper case */
	size_t key_len;
	uint8_t key[RENDERED_KEY_MAX];	/* type, class, size, way; then the name in lower case */
	uint64_t hash;
};
/* The name in lower case. */
static inline struct span
rendered_name(const struct rendered_question *q)
{
	return (struct span){ q->key + 7, q->key_len - 7 };
}

struct rendered;
/* The answers that were made of one fact; it begins zeroed, and is emptied before it goes. */
struct rendered_set {
	LIST_HEAD(, rendered) list;
};

struct rendered_table {
	uint64_t (*hash)(const void *bytes, size_t n);	/* clients cannot choose its collisions */
	size_t bytes, bytes_max;
	unsigned count, chains_mask;
	struct rendered **chains;
	TAILQ_HEAD(, rendered) uses;	/* the last one was used last */
};

/* False: no memory. */
bool rendered_open(struct rendered_table *t, size_t bytes_max, uint64_t (*hash)(const void *, size_t));
void rendered_done(struct rendered_table *t);
/* False: answers to this message are not kept. */
bool rendered_read(const struct rendered_table *t, struct span msg, bool tcp, struct rendered_question *q);
/*
 * Appends the answer.  Returns the set that it is in, for a caller that counts what is used; NULL: there is none, `out`
 * is as before.  now: s since 1970, as in the SOA.
 */
struct rendered_set *rendered_write(struct rendered_table *t, const struct rendered_question *q, struct rng *rng,
    uint32_t now, struct buf *out);
/*
 * Keeps an answer to q that was made of `found` alone, at `now`; `a` is for what is needed meanwhile.  It takes the
 * place of an older one.  Without memory it is not kept.
 */
void rendered_keep(struct rendered_table *t, struct rendered_set *set, const struct rendered_question *q,
    const struct dns_zone *z, const struct dns_found *found, struct span reply, uint32_t now, struct arena *a);
void rendered_drop(struct rendered_table *t, struct rendered_set *set);	/* the fact has changed */
void rendered_drop_all(struct rendered_table *t);			/* the zone has */

#endif
