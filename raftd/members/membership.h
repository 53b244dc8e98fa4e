/*
 * Membership of the Raft configuration: applies the policy while leading, serves leave and remove, and
 * remembers who was just removed.
 */
#ifndef TV_MEMBERSHIP_H
#define TV_MEMBERSHIP_H

#include "raftd/peers/links.h"

struct membership;

struct membership *membership_new(struct raftd *d);
void membership_free(struct membership *m);
/* Look again soon: gossip, a link or the configuration changed. */
void membership_poke(struct membership *m);
/* From notices: configuration appended or committed up to index; role changed; we were removed; transfer ended. */
void membership_config_changed(struct membership *m);
void membership_config_committed(struct membership *m, uint64_t index);
void membership_role_changed(struct membership *m);
void membership_self_removed(struct membership *m);
/* to: who was to take over; 0: not known. */
void membership_transfer_ended(struct membership *m, bool ok, raft_id to);
/* Name and address of a server that is or was in the configuration, for log lines; "?" when unknown. */
const char *membership_addr(struct membership *m, raft_id id);

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
/* Has it left for good?  Then the process ends with its gossipd. */
bool membership_left(const struct membership *m);
/* MSG_RAFT_REMOVE_ME of a peer. */
enum tv_err membership_question(struct membership *m, const struct hello *from, const struct link_question *q,
    struct span body);
/* Whoever asked is gone: its done is not called. */
void membership_forget(struct membership *m, void *ctx);

#endif
