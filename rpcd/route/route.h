/*
 * Routing of operations: local raftd, the leader's rpcd, any server's rpcd, or another datacenter's rpcd.
 * Handlers build a request and never know where it goes.
 *
 * Rules (doc/architecture.md):
 *   other datacenter   the nearest alive server there by WAN coordinate, one of those that are about as near, the
 *                      farther ones after those failed; nothing is retried that may have been done
 *   client node        any server of the own datacenter: one already linked, then one that proved itself before, then
 *                      any
 *   of several linked  the one chosen last, as long as it serves: stale answers come from one server, and do not go
 *                      back in time from one to the next
 *   server, read       own raftd (ReadIndex or stale); another server while ours is away
 *   server, write      the leader: own raftd, or the leader's rpcd
 *   OP_SERVER          the server that its arguments name, which has begun it; at the beginning the leader, when stale
 *                      any server
 *   what is provided   here, by the provider of its kind (route_provide); where there is none, a server
 * While no leader is known, or an answer says "not leader" (nothing was done), the request is held up to
 * hold_timeout and tried again; then it fails with "No cluster leader".  A write whose answer got lost fails with
 * TV_EUNKNOWN and is never sent twice.
 */
#ifndef TV_RPCD_ROUTE_ROUTE_H
#define TV_RPCD_ROUTE_ROUTE_H

#include "common/record/ops.h"
#include "rpcd/gossip/members.h"
#include "rpcd/route/link_client.h"
#include "rpcd/route/raftd_client.h"
#include "rpcd/wan/coords.h"

struct route;
struct route_call;

struct route_conf {
	struct ev_loop *loop;
	const char *datacenter;		/* own; borrowed */
	const char *node_id;		/* own; borrowed */
	struct members *members;
	struct link_client *links;
	struct raftd_client *raft;	/* NULL on a client node */
	struct coords *coords;		/* NULL on a client node: no server of a datacenter is nearer than another */
	uint16_t rpc_port;		/* own: and the leader's, as long as gossip does not know that one */
	struct mono hold_timeout;	/* rpc_hold_timeout, 7s */
	struct mono answer_timeout;	/* of a request that does not block; added to the wait of one that does */
	unsigned calls_max;		/* requests under way at once */
	uint64_t bytes_max;		/* that they ask, together */
	/* A write of ROUTE_HERE succeeded, and who asked is not told yet.  May be NULL. */
	void (*on_written)(void *ctx, enum op_code op);
	void *ctx;
	uint64_t seed;
};

/* The answer, exactly once, never before route_start() returned; reply and its spans are borrowed. */
typedef void route_done(void *ctx, const struct op_reply *reply);

enum route_origin {
	ROUTE_HERE,	/* HTTP or DNS of this node: routed freely */
	ROUTE_PEER,	/* MSG_OP from another rpcd: routed freely within the datacenter and to others */
	ROUTE_FINAL,	/* MSG_OP_FINAL: own raftd or refusal */
	ROUTE_DC,	/* MSG_OP_DC: within the own datacenter only */
};

struct route *route_new(const struct route_conf *conf);
/* Ends every call with TV_ECLOSED. */
void route_free(struct route *r);
/*
 * Carries out the operations of one kind on this node, in the place of raftd: what gossipd does, and what the pools
 * show.  Either answer or start is set.
 */
struct route_provider {
	/* Writes the packed value at once; another error than TV_OK is the answer then. */
	enum tv_err (*answer)(void *ctx, const struct op_request *q, struct buf *value);
	/* done comes once, later, within about `timeout`.  NULL: *err says why; nothing was done. */
	void *(*start)(void *ctx, const struct op_request *q, struct mono timeout, route_done *done, void *done_ctx,
	    enum tv_err *err);
	void (*cancel)(void *started);	/* frees it without done; what was asked for may happen all the same */
	void *ctx;
	const char *away, *lost;	/* sentences for TV_ECLOSED and TV_EUNKNOWN; NULL: the usual ones */
};
/* From now on operations of this kind are carried out here.  Before the first request; p is copied. */
void route_provide(struct route *r, enum op_kind kind, const struct route_provider *p);

/* The request is copied, once.  NULL: calls_max or bytes_max reached, or no memory; done will not be called. */
struct route_call *route_start(struct route *r, const struct op_request *q, route_done *done, void *ctx);
/*
 * Same for a request body from another rpcd, passed on untouched; of a long blocking query only the fields that we
 * know, since it may be kept for long.  TV_EFORMAT or TV_EOF in *err for a malformed one,
 * TV_EINVAL for an operation that is not known.
 */
struct route_call *route_relay(struct route *r, enum route_origin origin, struct span body, route_done *done, void *ctx,
    enum tv_err *err);
/* From now on another one waits for it: done and ctx are as in route_start(). */
void route_give(struct route_call *c, route_done *done, void *ctx);
/* The client went away: frees the call and the watch at the server; done will not be called. */
void route_cancel(struct route_call *c);
/*
 * While a call's done runs: a number that the calls with this very reply share, so that it need be rendered only once.
 * 0: it has the reply for itself.
 */
uint64_t route_reply_number(const struct route *r);
/* Is nothing under way but blocking queries that wait? */
bool route_settled(const struct route *r);
/* Something changed (leader, members): held requests are tried again.  Call from on_change of view and raftd_client. */
void route_wake(struct route *r);

struct route_stats {
	uint64_t started, local, forwarded, forwarded_dc, retried, held, failed, unknown, joined;
	uint64_t bytes, refused;	/* asked by those under way; beyond a limit */
	unsigned under_way;
};
void route_stats(const struct route *r, struct route_stats *out);

#endif
