/*
 * Token buckets: how often something may happen.  Pure; the clock is handed in.
 *
 * A bucket is one number, the moment at which it will be full again (the generic cell rate algorithm, ITU-T
 * I.371, annex A): each request moves it on by the time that the rate gives to one, and none may move it further
 * ahead than the depth.  Zero, and every moment that has passed, is a full bucket, so an old bucket can be forgotten.
 */
#ifndef TV_RPCD_API_BUCKETS_H
#define TV_RPCD_API_BUCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUCKETS_EACH 2			/* of one key: of reads, of writes */
#define BUCKETS_WAYS 8			/* places of a key */

struct bucket_rate {
	int64_t step;			/* ns of one request; 0: no limit */
	int64_t depth;			/* ns of all requests that a full bucket holds; at least step */
};

/*
 * thousandths: of a request per second, from 1 to 10^9; the bucket holds what `burst_s` seconds bring, and one request
 * at least.
 */
struct bucket_rate bucket_rate_of(uint64_t thousandths, unsigned burst_s);
/*
 * How long until there is a request in the bucket, ns; 0: now, or there is no limit.  now: ns, never falling, above 0.
 * A bucket that was emptied at another rate counts as empty at most.
 */
int64_t bucket_wait(int64_t full_at, const struct bucket_rate *r, int64_t now);
/* Takes one, where bucket_wait() is 0. */
void bucket_take(int64_t *full_at, const struct bucket_rate *r, int64_t now);

/*
 * Buckets by key, in a table of fixed size: a key has BUCKETS_WAYS places, and when they are taken the bucket that is
 * full first is forgotten.  So a flood of keys forgets those that did little, and never one that is far behind before
 * one that is less so.
 */
struct buckets {			/* zeros: none */
	struct bucket_slot {
		uint64_t key;		/* 0: free */
		int64_t full_at[BUCKETS_EACH];
	} *slots;			/* owned */
	size_t sets;			/* a power of 2 */
	uint64_t forgotten;		/* buckets that were not full */
};

/* sets: a power of 2; the table has BUCKETS_WAYS times as many places, of 24 bytes.  False: no memory. */
bool buckets_init(struct buckets *b, size_t sets);
void buckets_done(struct buckets *b);
/*
 * The buckets of this key; full ones if it has had none.  Until the next call.  key: a keyed hash (keyed_hash() in
 * common/net/source.h), of what others choose.
 */
int64_t *buckets_of(struct buckets *b, uint64_t key, int64_t now);
/* Fills those of this kind of all keys. */
void buckets_fill(struct buckets *b, unsigned kind);

#endif
