/* The members of ours that gossip knows, as the rules of the catalog take them (rules/reconcile.h). */
#ifndef TV_RAFTD_LEADER_MEMBERS_VIEW_H
#define TV_RAFTD_LEADER_MEMBERS_VIEW_H

#include "raftd/leader/rules/reconcile.h"
#include "raftd/raftd.h"

/* Is it of this datacenter, a server or a client? */
bool members_are_ours(const struct raftd *d, const struct member *m);
struct reconcile_member members_rule_of(const struct member *m, bool gone);
/* All of them.  Borrows texts until gossip tells news; reconcile_view_free() it.  NULL: no memory. */
struct reconcile_view *members_view(struct raftd *d);
/* A server with this one's id has its seat at another address, and lives there: see server_addr_is_copy(). */
bool members_is_copy(struct raftd *d, const struct member *m);

#endif
