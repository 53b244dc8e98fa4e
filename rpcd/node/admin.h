/*
 * Administration of this node: join, leave, force-leave, info, coordinates.  Speaks to gossipd and raftd.
 */
#ifndef TV_RPCD_NODE_ADMIN_H
#define TV_RPCD_NODE_ADMIN_H

#include "rpcd/gossip/members.h"
#include "rpcd/route/raftd_client.h"

struct admin;

struct admin_conf {
	struct ev_loop *loop;
	struct members *members;
	struct raftd_client *raft;	/* NULL on a client node */
	struct mono leave_timeout;	/* of each step of a leave; 15 s */
	struct mono call_timeout;	/* of other questions; 10 s */
	/* Own section of info ("rpcd"): writes name/text pairs with mpw_cstr; returns their count. */
	unsigned (*own_info)(void *ctx, struct buf *b);
	void *ctx;
};

/* err and a sentence for people; count: nodes contacted by a join.  Exactly once; text is borrowed. */
typedef void admin_done(void *ctx, enum tv_err err, struct span text, uint32_t count);
/* One msgpack map section -> map name -> text, merged from gossipd, raftd and ourselves; what is away is left out. */
typedef void admin_info_done(void *ctx, struct span sections);
/* err and a sentence for people; value: msgpack, well-formed, or empty.  Exactly once; both are borrowed. */
typedef void admin_value_done(void *ctx, enum tv_err err, struct span text, struct span value);

struct admin *admin_new(const struct admin_conf *conf);
/* Before members_free() and raftd_client_free().  Questions under way are dropped without done. */
void admin_free(struct admin *a);
/* addr: "ip[:port]" or a name. */
enum tv_err admin_join(struct admin *a, enum gossip_pool pool, struct span addr, admin_done *done, void *ctx);
/*
 * Graceful leave.  A server first leaves the Raft configuration (refused with TV_ECONFLICT and the arithmetic when
 * that would lose the quorum, unless force; with TV_EPERM when raftd finds that the token has no right to it), then
 * gossip.  token: borrowed, at most OP_NAME_BYTES_MAX.  The caller answers its client, then calls daemon_quit(0).
 */
enum tv_err admin_leave(struct admin *a, bool force, struct span token, admin_done *done, void *ctx);
/*
 * `raft recover` at this node's raftd; dry_run: only the report.  value: a packed raft_recovery or empty; err and text
 * as raftd said (TV_ECONFLICT: refused; TV_EPERM: this token may not).  TV_EINVAL at once: this node is no server.
 */
enum tv_err admin_recover(struct admin *a, bool dry_run, struct span token, admin_value_done *done, void *ctx);
enum tv_err admin_force_leave(struct admin *a, struct span node, bool prune, admin_done *done, void *ctx);
enum tv_err admin_info(struct admin *a, admin_info_done *done, void *ctx);
/*
 * Coordinates that this node's gossipd knows: its own, then that of `node` if that is a member that answered; with
 * an empty name all, as the array in MSG_GOSSIP_COORDS.  TV_EINVAL: not in that pool; TV_EPERM: coordinates are
 * switched off.
 */
enum tv_err admin_coords(struct admin *a, enum gossip_pool pool, struct span node, admin_value_done *done, void *ctx);

#endif
