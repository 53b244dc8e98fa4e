/*
 * What "rpcd: dns" asks for, looked up in the catalog and made small (dns_reply.h).
 *
 * With dns_config.use_cache and allow_stale the answers come from the agent's cache, which follows the catalog; what
 * was asked for can be followed then, so that a process that keeps it hears of each change.  The cache goes on
 * answering while no server can be reached, up to max_stale; instances on nodes that gossip takes for dead are left out
 * meanwhile.  What cannot be followed (prepared queries, who has an address) is asked each time, as long as that is
 * possible.  Else each look-up is an ordinary routed read.
 */
#ifndef TV_RPCD_NAMES_DNS_LOOKUPS_H
#define TV_RPCD_NAMES_DNS_LOOKUPS_H

#include <ev.h>

#include "common/record/messages.h"
#include "rpcd/acl/tokens.h"
#include "rpcd/cache/cache.h"
#include "rpcd/opts.h"
#include "rpcd/route/failover.h"

struct dns_lookups;
struct dns_lookup_call;

/* found is borrowed until return. */
typedef void dns_lookup_done(void *ctx, uint64_t id, const struct msg_dns_found *found);

/* packed: msg_dns_found, borrowed until return; NULL: there are no more of this id. */
typedef void dns_lookup_news(void *ctx, uint64_t id, const struct span *packed);

/* Where an answer came from. */
struct dns_lookup_origin {
	const struct op_reply *reply;	/* borrowed */
	uint64_t last_contact_ms;	/* with the leader, of who answered, as it did; 0: that was up to date */
	bool stale;			/* any server might answer, not only one that knows it is up to date */
	bool cached;			/* from the cache of this node, */
	struct mono age;		/* where it is so old: 0 as long as servers keep it up to date */
};

struct dns_lookups_conf {
	struct ev_loop *loop;
	struct route *route;
	struct failovers *failovers;	/* borrowed: prepared queries */
	struct cache *cache;		/* borrowed; NULL: all are routed */
	const struct members *members;	/* borrowed: which nodes are dead; NULL: none */
	const struct rpcd_conf *conf;	/* borrowed: dns_config; it may change */
	const char *datacenter, *node_name;	/* own; borrowed */
	struct token_source token;
	unsigned calls_max;		/* under way at once */
	unsigned follows_max;
	bool quiet;			/* lost and found contact is logged by another one */
	/* What is followed is another one, or ends.  May be NULL where nothing is. */
	dns_lookup_news *news;
};
struct dns_lookups_stats {
	uint64_t cached;		/* answered from the cache */
	uint64_t stale;			/* so, while no server could be reached */
	uint64_t dead_left_out;		/* instances, in what was found so */
	unsigned follows;
};

/* NULL: no memory. */
struct dns_lookups *dns_lookups_new(const struct dns_lookups_conf *conf, dns_lookup_done *done, void *ctx);
/* done and news are not called any more. */
void dns_lookups_free(struct dns_lookups *l);
/*
 * done comes once with this id, perhaps before this returns, or never after dns_lookups_cancel().  If it says
 * `followed`, news come with this id until they say that there are no more.  False: too many are under way.
 */
bool dns_lookups_start(struct dns_lookups *l, uint64_t id, const struct msg_dns_ask *ask);
/* While done runs: of what it tells.  NULL: no server was asked. */
const struct dns_lookup_origin *dns_lookups_origin(const struct dns_lookups *l);
/* All that are under way, and all follows: who asked is gone. */
void dns_lookups_cancel(struct dns_lookups *l);
/* No news any more; nothing is said of it.  As when the configuration changed. */
void dns_lookups_unfollow_all(struct dns_lookups *l);
/* Follows by their ids, 8 bytes each, little endian: what they tell of was used, or is not wanted any more. */
void dns_lookups_use(struct dns_lookups *l, struct span ids);
void dns_lookups_unfollow(struct dns_lookups *l, struct span ids);
/* The catalog was written by way of this node: for a moment all is asked of servers, so that the writer sees it. */
void dns_lookups_written(struct dns_lookups *l);
/* A member came, went or died. */
void dns_lookups_members(struct dns_lookups *l);
void dns_lookups_stats(const struct dns_lookups *l, struct dns_lookups_stats *out);

#endif
