/* gossipd as a whole: keys, the two pools, own tags, and what belongs to both. */
#ifndef TV_GOSSIPD_ENGINE_H
#define TV_GOSSIPD_ENGINE_H

#include <ev.h>

#include "common/proc/daemon.h"
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

struct engine {
	const struct cluster_conf *cluster;
	const struct gossip_conf *opts;
	struct ev_loop *loop;
	struct kring *keys;			/* empty: plaintext */
	int udp_fds[ENGINE_POOLS], tcp_fds[ENGINE_POOLS], client_fd;	/* until run; -1: none or taken */
	struct pool *pools[ENGINE_POOLS];	/* pools[POOL_WAN] is NULL on clients */
	struct tagset tags;
	struct handlers *handlers;
	struct joiner *joiner;
	bool leaving;
	unsigned left;				/* bit per pool */
	ev_timer quit;
};

/* With privileges: keys and sockets.  One sentence into errbuf on failure. */
enum tv_err engine_open(struct engine *e, const struct daemon_spec *spec, char *errbuf, size_t cap);
/* Without: pools, joins, clients. */
enum tv_err engine_run(struct engine *e, struct ev_loop *loop);
/* Closes without leaving; wipes the keys.  Also after a failed open or run. */
void engine_stop(struct engine *e);

/* Begins to leave all pools; handlers_left() follows, then the end of the process.  TV_EEXIST: it has begun. */
enum tv_err engine_leave(struct engine *e);
/* In every pool that knows the name (WAN names too, with or without the datacenter).  TV_ENOENT: none does. */
enum tv_err engine_force_leave(struct engine *e, struct span name, bool prune);
/* Replaces own tags by `changes` ("" removes) in both pools: all of them or none.  TV_ELIMIT, TV_ENOMEM. */
enum tv_err engine_tags(struct engine *e, const struct member_tag *changes, uint32_t count);
const char *engine_pool_name(enum gossip_pool pool);	/* "LAN", "WAN" */

#endif
