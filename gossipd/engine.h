/*
 * gossipd from above: what its parts share, and the orders that concern all its pools.  main.c starts and stops it, and
 * passes on what the pools report.
 */
#ifndef TV_GOSSIPD_ENGINE_H
#define TV_GOSSIPD_ENGINE_H

#include <ev.h>

#include "common/conf/cluster_conf.h"
#include "gossipd/keyring.h"
#include "gossipd/pool.h"

#define ENGINE_POOLS 2

/* Who asked for a join: in the high byte of its token. */
enum join_origin { JOIN_CLIENT = 1, JOIN_RETRY, JOIN_REJOIN, JOIN_FLOOD };
#define JOIN_TOKEN(origin_, n_) ((uint64_t)(origin_) << 56 | ((n_) & 0xffffffffffffffu))
#define JOIN_ORIGIN(token_) ((enum join_origin)((token_) >> 56))

/* Who asked a query: the top byte of its token. */
enum ask_origin { ASK_CLIENT, ASK_KEYRING };
#define ASK_TOKEN(origin_, n_) ((uint64_t)(origin_) << 56 | ((n_) & 0xffffffffffffffu))
#define ASK_ORIGIN(token_) ((enum ask_origin)((token_) >> 56))

struct handlers;
struct joiner;
struct resolver;

struct engine {
	const struct cluster_conf *cluster;
	const struct gossip_conf *opts;
	struct ev_loop *loop;
	struct kring *keys;			/* empty: plaintext */
	struct resolver *resolver;
	int udp_fds[ENGINE_POOLS], tcp_fds[ENGINE_POOLS], client_fd;	/* until run; -1: none or taken */
	struct pool *pools[ENGINE_POOLS];	/* pools[POOL_WAN] is NULL on clients */
	struct tagset tags;
	struct handlers *handlers;
	struct joiner *joiner;
	bool leaving;
	unsigned left;				/* bit per pool */
	ev_timer quit;
	ev_timer lost;			/* after a vote on our name */
	char state_dir[4096];		/* data_dir/gossipd */
};

/* Begins to leave all pools; pool_conf.on_left follows for each.  TV_EEXIST: it has begun. */
enum tv_err engine_leave(struct engine *e);
/* In every pool that knows the name (WAN names too, with or without the datacenter).  TV_ENOENT: none does. */
enum tv_err engine_force_leave(struct engine *e, struct span name, bool prune);
/* Replaces own tags by `changes` ("" removes) in both pools: all of them or none.  TV_ELIMIT, TV_ENOMEM. */
enum tv_err engine_tags(struct engine *e, const struct member_tag *changes, uint32_t count);
/* Is this node the only living member that it knows of the pool? */
bool engine_is_alone(const struct engine *e, enum gossip_pool pool);
const char *engine_pool_name(enum gossip_pool pool);	/* "LAN", "WAN" */

#endif
