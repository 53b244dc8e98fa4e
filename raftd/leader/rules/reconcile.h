/*
 * What the leader writes about members of the pool, pure: from what gossip says of all members and what the catalog says
 * of one to the next single write.  A node is its id; its name and its address are attributes.  A catalog entry belongs to
 * the member that has its id and its name (names are compared without case); as long as that member lives, nothing that
 * another member says of itself changes the entry, and that other one is refused.
 */
#ifndef TV_RAFTD_LEADER_RULES_RECONCILE_H
#define TV_RAFTD_LEADER_RULES_RECONCILE_H

#include "common/record/member.h"

struct reconcile_member {		/* one of ours: this datacenter's, a server or a client */
	struct span name;
	struct span id;			/* "": its version does not tell */
	uint8_t status;			/* enum member_status */
	bool gone;			/* reaped: gossip has forgotten it */
};

/* All members of ours that gossip knows.  Texts are borrowed. */
struct reconcile_view;

/* At most max members, and the leader itself, which lives whatever gossip says.  NULL: no memory. */
struct reconcile_view *reconcile_view_new(uint32_t max, struct span self_name, struct span self_id);
void reconcile_view_free(struct reconcile_view *v);
/* Beyond max: left out.  Members that are gone need not be added. */
void reconcile_view_add(struct reconcile_view *v, const struct reconcile_member *m);

struct reconcile_node {			/* a node of the catalog */
	bool known;
	struct span name, id;		/* id: "" without one */
	bool member;			/* it has a serfHealth check, which only members have */
};

/* What the catalog says that concerns one member. */
struct reconcile_stored {
	struct reconcile_node named;	/* the node of its name, in any spelling */
	struct reconcile_node held;	/* the node of its id, when that has another name; else not known */
	bool same;			/* named is what the member says of itself: spelling, id, address, and all else */
	bool passing, critical;		/* serfHealth of named; neither: none, or another status */
};

enum reconcile_action {
	RECONCILE_NOTHING,
	RECONCILE_WRITE_ALIVE,		/* register it, serfHealth passing */
	RECONCILE_WRITE_FAILED,		/* serfHealth critical */
	RECONCILE_REMOVE,		/* deregister `node` if it still has that id; when that is done, decide again */
	RECONCILE_REFUSE,		/* it is not in the catalog while `other` lives */
	RECONCILE_FORGET,		/* the former name of `other`: gossip is to forget the member */
};

enum reconcile_why {
	RECONCILE_LEFT, RECONCILE_REAPED,
	RECONCILE_NAME_TAKEN,		/* REFUSE: `other` has the name; REMOVE: a node that does not live had it */
	RECONCILE_ID_TAKEN,		/* the same of the id */
	RECONCILE_COPY,			/* REFUSE: a server with its id has its seat at another address, and lives */
};

struct reconcile_decision {
	enum reconcile_action action;
	enum reconcile_why why;		/* with REMOVE and REFUSE */
	struct reconcile_node node;	/* with REMOVE */
	struct reconcile_member other;	/* with REFUSE (not with COPY) and FORGET */
};

/* copy: see RECONCILE_COPY.  Texts of *out are those of the arguments and of the view. */
void reconcile_member(const struct reconcile_view *v, const struct reconcile_member *m, bool copy,
    const struct reconcile_stored *st, struct reconcile_decision *out);
/*
 * Is this entry of a member that gossip does not know: to be removed?  False for one that has no serfHealth check, for the
 * leader's own, and as long as gossip knows a member of its name and id, in whatever status.
 */
bool reconcile_is_stray(const struct reconcile_view *v, const struct reconcile_node *n);

#endif
