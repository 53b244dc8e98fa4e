/*
 * What gossipd says: the members of the LAN and WAN pools, kept up to date over gossipd.sock, and calls to it.
 * When gossipd is away the last view stays: requests go on.
 */
#ifndef TV_RPCD_GOSSIP_MEMBERS_H
#define TV_RPCD_GOSSIP_MEMBERS_H

#include <limits.h>

#include <ev.h>

#include "common/base/rng.h"
#include "common/net/gossip_client.h"

struct members;

struct members_conf {
	struct ev_loop *loop;
	const char *path;		/* gossipd.sock */
	const char *node_id;		/* own; for HELLO and to know ourselves */
	const char *datacenter;		/* own */
	unsigned members_max;		/* of one pool; more are counted and left out */
	/* A member came, changed or went; or the view was synced.  May be NULL. */
	void (*on_change)(void *ctx);
	/* A user event or a query came (MSG_GOSSIP_USER_EVENT, MSG_GOSSIP_HEARD); both NULL: they are not asked for. */
	enum tv_err (*on_user_event)(void *ctx, struct span body);
	enum tv_err (*on_query)(void *ctx, struct span body);
	/* Psks of the links, KEY_BYTES each, the primary one first; none without encryption.  May be NULL. */
	void (*on_keys)(void *ctx, const struct span *psks, unsigned count);
	/* Events were asked for: gossipd came, or came back.  May be NULL. */
	void (*on_subscribed)(void *ctx);
	void *ctx;
};

struct members *members_new(const struct members_conf *conf);
void members_free(struct members *v);
/* The connection to gossipd: for its state, and to ask (MSG_INFO, MSG_GOSSIP_JOIN, ...). */
struct daemon_client *members_daemon(struct members *v);
/* Members in bytewise order of their names; borrowed until the loop runs on. */
unsigned members_count(const struct members *v, enum gossip_pool pool);
const struct member *members_at(const struct members *v, enum gossip_pool pool, unsigned i);
const struct member *members_find(const struct members *v, enum gossip_pool pool, struct span name);

/* A server that can be asked. */
struct members_server {
	const struct member *member;
	char ip[46];
	uint16_t rpc_port;
};
/* How good a server is, 0 the best; MEMBERS_SKIP: not at all. */
#define MEMBERS_SKIP UINT_MAX
typedef unsigned members_rank(void *ctx, const struct members_server *s);
/*
 * Alive servers (role=server with a usable rpc_port, not fenced off by a recovery) of a datacenter, ourselves left out:
 * own datacenter from the LAN pool, others from the WAN pool.  All are looked at, and those of the best rank that there
 * is are taken, in random order.  Returns how many were stored, at most max.
 */
unsigned members_servers(const struct members *v, struct span dc, struct rng *rng, members_rank *rank, void *ctx,
    struct members_server *out, unsigned max);
/* Does any member of the WAN or LAN pool, alive or not, belong to this datacenter? */
bool members_dc_known(const struct members *v, struct span dc);
/* Datacenters with a known server, own first, then by name; spans borrowed from the view. */
unsigned members_datacenters(const struct members *v, struct span *out, unsigned max);
/* LAN server with this node id, or NULL. */
const struct member *members_server_by_id(const struct members *v, const char *id);

#endif
