/*
 * How many requests clients may make (limits.request_limits of rpcd.conf): this node's API as a whole, each source,
 * and each token, reads and writes apart.
 *
 * Over TCP and rpcd.sock alike, but for root on rpcd.sock, /v1/status/ and /v1/operator/, which are never limited.
 * What comes over links from other nodes was counted where its client asked.
 */
#ifndef TV_RPCD_API_LIMITS_H
#define TV_RPCD_API_LIMITS_H

#include "common/base/log.h"
#include "rpcd/api/buckets.h"
#include "rpcd/opts.h"

struct request;

struct limits {				/* zeros: nothing is limited until limits_configure() */
	struct bucket_rate rates[REQUEST_LIMITS][BUCKETS_EACH];
	bool on[REQUEST_LIMITS];	/* one of its rates is a limit */
	int mode;			/* enum request_mode; DISABLED too while there is no rate */
	int64_t all[BUCKETS_EACH];	/* the bucket of all requests */
	struct buckets sources, tokens;	/* without places while they have no rates */
	struct log_limit lines[REQUEST_LIMITS][BUCKETS_EACH];
	struct limits_stats {
		uint64_t exceeded[REQUEST_LIMITS][BUCKETS_EACH];	/* refused or, in permissive mode, not */
		uint64_t refused;
	} stats;
};

/* Takes over what the configuration says now; where a rate has changed, all buckets are full.  False: no memory. */
bool limits_configure(struct limits *l, const struct rpcd_conf *conf);
void limits_done(struct limits *l);
/*
 * Counts a request whose endpoint is known.  False: it was one too many, and is answered, with 429, or 503 for a write
 * at the leader, and Retry-After.
 */
bool limits_admit(struct request *r);
/* Buckets that were forgotten before they were full, for want of places. */
uint64_t limits_forgotten(const struct limits *l);

#endif
