/*
 * A leader whose rpcd stays away: writes go through the rpcd beside the leader, so none would reach the cluster any more,
 * although a majority is well.  It hands leadership over.  A restart of rpcd is over long before that.
 */
#ifndef TV_UNSERVED_H
#define TV_UNSERVED_H

#include "raftd/raftd.h"

struct unserved {
	struct mono since;		/* 0: rpcd is here, or it does not matter */
};

/* Once a second or so. */
void unserved_look(struct unserved *u, struct raftd *d);

#endif
