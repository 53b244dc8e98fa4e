/*
 * Living members that collide with this node: the same node id under another name, or the same name but for case.
 * Gossip tells of them, and proves nothing: what is known of them goes to the log and to people.  The leader alone
 * judges which one is in the catalog.
 */
#ifndef TV_RPCD_GOSSIP_TWINS_H
#define TV_RPCD_GOSSIP_TWINS_H

#include "rpcd/gossip/members.h"

#define TWINS_TEXT_BYTES 2048

struct twins_self {
	const char *name, *id, *datacenter, *data_dir;	/* of this node; borrowed */
};

struct twin {
	const struct member *own;	/* this node as the pool knows it; NULL: not yet */
	const struct member *member;	/* the other one; NULL: there is none.  Both borrowed until the loop runs on */
	enum gossip_pool pool;
	bool by_id;			/* else by name */
};

/* What the servers' catalog says of this node, if it could be read. */
enum twins_standing {
	TWINS_UNKNOWN,
	TWINS_LISTED,			/* it is there, under its name and id */
	TWINS_KEPT_OUT,			/* its name is there with another id, or it is not there */
};

/*
 * The first one, of the LAN pool before the WAN pool.  Not a member at our own address and port: that is this node
 * before it was renamed, and is soon seen as failed.
 */
bool twins_find(const struct members *v, const struct twins_self *self, struct twin *out);
/* The sentence for log and status: both parties, both addresses, which one is kept out. */
void twins_text(const struct twins_self *self, const struct twin *t, enum twins_standing standing,
    char dst[TWINS_TEXT_BYTES]);
/* What to do about it. */
void twins_remedy(const struct twins_self *self, const struct twin *t, char dst[TWINS_TEXT_BYTES]);

#endif
