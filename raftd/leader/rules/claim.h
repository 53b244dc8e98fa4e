/*
 * Does what registers a node take from a member of the pool that lives?  Pure: of one registration and one member.  The state
 * machine asks its own records (fsm/catalog/register.c); this is for the time in which these do not say which members live.
 */
#ifndef TV_RAFTD_LEADER_RULES_CLAIM_H
#define TV_RAFTD_LEADER_RULES_CLAIM_H

#include "raftd/leader/rules/reconcile.h"

struct claim {			/* what a registration says of its node; "": nothing */
	struct span name, id, address;
	bool node;		/* it writes the node's own record, too, not only what belongs to it */
};

enum claim_verdict {
	CLAIM_NONE,		/* it is about another node */
	CLAIM_OWN,		/* it is about this member, whatever other members say */
	CLAIM_AGAINST,		/* it would have this member's id under another name, its name with another id, or its address changed */
};

/* ip: the member's address.  Members that do not live, or tell no id: CLAIM_NONE. */
enum claim_verdict claim_judge(const struct claim *q, const struct reconcile_member *m, struct span ip);

#endif
