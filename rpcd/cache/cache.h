/*
 * The agent's cache: answers of the servers kept on this node, each followed by one blocking query that all callers
 * share.  HTTP asks with ?cached, DNS whenever it is told to.  It goes on answering while no server can be reached, and
 * says how old its answers are.  The table behind it, and its rules, are in cache_table.h.
 */
#ifndef TV_RPCD_CACHE_CACHE_H
#define TV_RPCD_CACHE_CACHE_H

#include <ev.h>

#include "rpcd/cache/cache_table.h"
#include "rpcd/route/failover.h"
#include "rpcd/route/route.h"

struct cache;
struct cache_wait;
struct cache_follow;

struct cache_conf {
	struct ev_loop *loop;
	struct route *route;
	struct failovers *failovers;	/* for OP_QUERY_EXECUTE */
	uint64_t bytes_max;
	unsigned entries_max;		/* each may have a question under way for as long as it lives */
	struct mono ttl, hold;		/* see cache_table.h; hold: rpc_hold_timeout */
	struct mono query_time;		/* a blocking query ends after this, to begin anew */
	uint64_t seed;
};

/* A question.  Only its bytes count, whatever order they were given in: see cache_question(). */
struct cache_question {
	enum op_code op;		/* one of cache_takes() */
	struct span dc;			/* "": the own one */
	struct span token;
	struct span args;		/* packed, as cache_question_args() makes them */
	struct span variant;		/* what else tells entries apart, as the text of a filter; not sent */
	uint64_t source;		/* of the client, 0: this node itself; see cache_table.h */
};
struct cache_options {
	uint64_t index;			/* not 0: answer when the index is above, or after `wait` */
	struct mono wait;
	struct mono max_age;		/* these three are for what is not followed; MONO_NEVER: any age */
	bool revalidate;
	struct mono stale_if_error;
};

/* NULL: no memory. */
struct cache *cache_new(const struct cache_conf *conf);
/* Before the router goes.  No caller may wait or follow any more. */
void cache_free(struct cache *c);
/* The limits changed. */
void cache_limit(struct cache *c, uint64_t bytes_max, struct mono ttl);
/* Drops all entries without waiters, as when the cache is turned off. */
void cache_clear(struct cache *c);

/*
 * What is kept of OP_QUERY_EXECUTE is an array of two: how many other datacenters were asked, and the prepared_found.
 */
/* Are answers of this operation kept?  *followed: by a blocking query (may be NULL). */
bool cache_takes(enum op_code op, bool *followed);
/*
 * Packs the arguments of an operation that cache_takes(), so that equal questions have equal bytes: names in lower
 * case, tags and metadata sorted; without what is no part of the question here (near, passing).  args is the record of
 * the operation, which is not changed.  False: no memory.  A caller that packs them otherwise has entries of its own.
 */
bool cache_question_args(enum op_code op, const void *args, struct arena *a, struct buf *out);

/* The answer, once, never before cache_get() returned.  Its spans are good until the next call of this cache. */
typedef void cache_done(void *ctx, const struct cache_answer *answer);
/*
 * CACHE_HIT: *now is the answer, its spans good until the next call of this cache.  CACHE_WAIT: done comes, unless
 * *wait is cancelled before.  CACHE_FULL: ask the router.
 */
enum cache_got cache_get(struct cache *c, const struct cache_question *q, const struct cache_options *o,
    cache_done *done, void *ctx, struct cache_answer *now, struct cache_wait **wait);
void cache_cancel(struct cache_wait *w);

/*
 * Calls fn each time when the answer to this question is another one, or its contact to servers is lost or found; and
 * with NULL when the entry has ended, after which nothing more comes: a caller that still wants it asks again.  Only
 * cache_get() keeps an entry from ending.  NULL: as CACHE_FULL.
 */
struct cache_follow *cache_follow(struct cache *c, const struct cache_question *q, cache_done *fn, void *ctx);
/* Also after fn was told of the end. */
void cache_unfollow(struct cache_follow *f);
/* What is followed, as it is now; spans as those of cache_get().  False: there is nothing yet, or it has ended. */
bool cache_followed(struct cache_follow *f, struct cache_answer *now);
/* As cache_get() does, keeps it from ending. */
void cache_follow_use(struct cache_follow *f);
/*
 * The answer to this question is not worth its blocking query: drops it, unless a caller waits for it, follows it, or
 * asked for it after `since`.
 */
void cache_forget(struct cache *c, const struct cache_question *q, struct mono since);

void cache_stats(const struct cache *c, struct cache_stats *out);

#endif
