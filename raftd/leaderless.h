/*
 * No leader for long: the log says which servers are needed for one, and why (S75).  A cluster that has lost its
 * majority is silent otherwise, and its operator needs names and addresses.
 */
#ifndef TV_LEADERLESS_H
#define TV_LEADERLESS_H

#include "raftd/raftd.h"

struct leaderless {
	struct mono since, told;	/* 0: there is a leader; not told yet */
};

/* Once a second or so. */
void leaderless_look(struct leaderless *l, struct raftd *d);

#endif
