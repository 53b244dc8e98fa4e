/*
 * What the entries below a prefix say about a lock or a semaphore, in the layout of Consul's client library, so that
 * its holders and ours exclude each other.  Pure.
 *
 * Lock: the key PREFIX/.lock, acquired by the session, flags LOCK_FLAGS.
 * Semaphore: each contender acquires PREFIX/SESSION; PREFIX/.lock has the JSON {"Limit":N,"Holders":{"SESSION":true}},
 * changed by compare-and-set.  All have the flags SEMAPHORE_FLAGS.  A holder whose entry no session holds is dead.
 * Entries are read with JSON_DECODE_INT_AS_REAL: jansson has no integers as large as those flags.
 */
#ifndef TV_CTL_LOCK_RULES_H
#define TV_CTL_LOCK_RULES_H

#include <jansson.h>
#include <stdint.h>

#define LOCK_KEY ".lock"
#define LOCK_FLAGS UINT64_C(0x2ddccbc058a50c18)
#define SEMAPHORE_FLAGS UINT64_C(0xe0f69a2baa414de0)

enum lock_verdict {
	LOCK_HELD,		/* by this session */
	LOCK_FREE,		/* it may try */
	LOCK_TAKEN,		/* by others: wait for a change */
	LOCK_STRANGE,		/* the key is used for something else */
	LOCK_OTHER_LIMIT,	/* the semaphore has been made for another number of holders */
};

struct lock_view {
	enum lock_verdict verdict;
	const char *holder;		/* of a lock, or one of a semaphore; "" when there is none; in the entries */
	uint64_t lock_index, modify_index;	/* of PREFIX/.lock; 0: it is not there */
	json_int_t limit;		/* that a semaphore has */
	json_t *value;			/* of a semaphore: without the dead; for LOCK_HELD also without us, for
					 * LOCK_FREE also with us; owned by the caller */
	size_t holders;			/* alive */
};

/* entries: what /v1/kv/ answers for PREFIX/.lock, or NULL for 404. */
void lock_look(const json_t *entries, const char *session, struct lock_view *out);
/* entries: what it answers for PREFIX/?recurse, or NULL for 404; key: PREFIX/.lock. */
void semaphore_look(const json_t *entries, const char *key, const char *session, json_int_t limit,
    struct lock_view *out);

#endif
