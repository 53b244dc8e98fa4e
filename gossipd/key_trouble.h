/*
 * Whose keys are wrong: this node's, or those of a stranger?  Judged by which of them is alone.  Any host can send
 * bytes that no key opens, so these say nothing of this node while it understands its members: only members of ours,
 * and those that we dialled ourselves, count as witnesses against it, and only when there are more of them than members
 * that it understands.  Pure: time is given by the caller.
 */
#ifndef TV_GOSSIPD_KEY_TROUBLE_H
#define TV_GOSSIPD_KEY_TROUBLE_H

#include <stdbool.h>

#include "common/base/mono.h"
#include "gossipd/core/swim/table.h"

#define KEY_TROUBLE_WINDOW MONO_S(60)	/* what was heard counts for so long */
#define KEY_TROUBLE_MESSAGES 3		/* from members: a stray packet is none yet */
#define KEY_TROUBLE_SOURCES 16		/* of each kind; of more, those heard last */

/* Who sent what no key opens. */
enum key_peer {
	KEY_PEER_STRANGER,	/* no member, and not dialled by us */
	KEY_PEER_MEMBER,	/* from the address of a member, which anybody can write on a datagram */
	KEY_PEER_DIALLED,	/* we dialled it, and it answered with another key: no doubt about the address */
};

struct key_source {
	struct addr addr;
	struct mono at;			/* heard last */
	unsigned messages;		/* 0: free */
};

struct key_trouble {
	struct key_source understood[KEY_TROUBLE_SOURCES], unread[KEY_TROUBLE_SOURCES];
	struct mono judged_at;		/* see key_trouble_may_judge() */
	unsigned judged;
};

/* A message of a member at this address was opened. */
void key_trouble_understood(struct key_trouble *t, const struct addr *from, struct mono now);
/* One came from this address that no key opens.  Strangers change nothing. */
void key_trouble_unread(struct key_trouble *t, const struct addr *from, enum key_peer peer, struct mono now);
/*
 * Is it this node that is alone: are there more members whose messages it cannot open than such whose messages it can?
 * from: one of the former; understands: whether there is any of the latter.  Both only when true.
 */
bool key_trouble_alone(const struct key_trouble *t, struct mono now, struct addr *from, bool *understands);
/*
 * To find out whether an address is that of a member takes a walk through all members, which strangers must not make
 * us do for each datagram: true at most ten times in a second.
 */
bool key_trouble_may_judge(struct key_trouble *t, struct mono now);

#endif
