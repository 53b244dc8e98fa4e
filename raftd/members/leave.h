/*
 * Graceful leave of this server: out of the Raft configuration before rpcd takes it out of gossip.
 * A leader hands leadership over first; then the leader is asked to remove us.  Refused when the remaining
 * healthy servers would not make a quorum, with the arithmetic.
 */
#ifndef TV_RAFTD_MEMBERS_LEAVE_H
#define TV_RAFTD_MEMBERS_LEAVE_H

#include "raftd/members/membership.h"

struct leave;

struct leave *leave_new(struct membership *m);
void leave_free(struct leave *l);
/* done once; a second start while one runs gets TV_EAGAIN. */
void leave_start(struct leave *l, bool force, membership_done *done, void *ctx);
/* Under way, or over. */
bool leave_active(const struct leave *l);
/* Something changed: role, leader, configuration. */
void leave_wake(struct leave *l);
void leave_self_removed(struct leave *l);
void leave_forget(struct leave *l, void *ctx);

#endif
