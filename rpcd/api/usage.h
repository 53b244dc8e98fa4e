/*
 * Who uses most: counts by name, in a table of fixed size.  Pure; the clock is handed in.
 *
 * As in "space saving" (Metwally, Agrawal, El Abbadi, 2005): a name that is not there takes the place of the one with
 * the least weight, and its weight with it, so that a client that asks much is soon there and stays.  Weights are
 * requests, halved each minute: what was busy yesterday gives way to what is busy now.  Counts are exact since a name
 * came in.
 */
#ifndef TV_RPCD_API_USAGE_H
#define TV_RPCD_API_USAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/rd.h"

#define USAGE_NAME_BYTES 64		/* with its NUL; longer ones are cut */
#define USAGE_SETS 16
#define USAGE_WAYS 8			/* places of a name */
#define USAGE_NAMES (USAGE_SETS * USAGE_WAYS)

struct usage {
	uint64_t requests;
	uint64_t refused;		/* of those: status 403, 429 or 503 */
	uint64_t bytes_in, bytes_out;	/* of bodies */
	uint64_t timed;			/* requests that did not wait for news */
	int64_t ns;			/* that those took, together */
};

struct usage_entry {
	uint64_t key;			/* 0: free */
	uint64_t weight;
	int64_t since_ns;		/* of the clock that is handed in */
	struct usage count;
	char name[USAGE_NAME_BYTES];	/* "": not known yet */
};

struct usage_table {			/* zeros: empty */
	struct usage_entry *v;		/* owned, USAGE_NAMES; NULL: none yet */
	int64_t halved_ns;
};

/*
 * The entry of this key, which is good until the next call; one that came just now has no name and no counts.  key: a
 * keyed hash.  now_ns: never falling.  NULL: no memory.
 */
struct usage_entry *usage_of(struct usage_table *t, uint64_t key, int64_t now_ns);
/* The entry, if it is there still; NULL: it is not. */
struct usage_entry *usage_find(struct usage_table *t, uint64_t key);
void usage_add(struct usage *to, const struct usage *one);
/* What of it can be printed, the rest as "?". */
void usage_name(struct usage_entry *e, struct span name);
/* Pointers to all that have a count, those with most requests first; how many. */
unsigned usage_sorted(const struct usage_table *t, const struct usage_entry *out[USAGE_NAMES]);
void usage_done(struct usage_table *t);

#endif
