/*
 * Membership of the Raft configuration: applies the policy while leading, serves leave and remove, and
 * remembers the servers that were just removed.
 */
#ifndef TV_RAFTD_MEMBERS_MEMBERSHIP_H
#define TV_RAFTD_MEMBERS_MEMBERSHIP_H

#include "raftd/peers/links.h"

struct membership;

struct membership *membership_new(struct raftd *d);
void membership_free(struct membership *m);
/* Look again soon: gossip, a link or the configuration changed. */
void membership_wake(struct membership *m);
/* The core noticed something, see struct engine_hooks. */
void membership_notice(struct membership *m, const struct raft_notice *n);

typedef void membership_done(void *ctx, enum tv_err err, const char *text);
/* One change, while leading; done once it is committed (or not).  Errors at once: done is not called. */
enum tv_err membership_change(struct membership *m, const struct raft_change *change, membership_done *done, void *ctx);
/*
 * OP_RAFT_REMOVE: removes the server with this id or address, and tombstones it.  done gets TV_ENOENT for
 * an unknown one, TV_ECONFLICT when quorum would be lost and force is not set.
 */
void membership_remove(struct membership *m, struct span uuid, struct span addr, bool force,
    membership_done *done, void *ctx);
/* OP_RAFT_TRANSFER: to the server with this id or address, or anyone when both are empty. */
void membership_transfer(struct membership *m, struct span uuid, struct span addr, membership_done *done, void *ctx);
/* MSG_RAFT_LEAVE: this server leaves for good. */
void membership_leave(struct membership *m, bool force, membership_done *done, void *ctx);
/* Is it leaving, or has it left? */
bool membership_leaving(const struct membership *m);
/* The request is gone: its done is not called. */
void membership_forget(struct membership *m, void *ctx);

#endif
