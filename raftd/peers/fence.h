/*
 * What other servers tell this one about itself, and what it makes of it.
 *
 * Fence: a proven peer of this cluster belongs to a later generation, so an operator has recovered the cluster without
 * this server.  It stops taking part: two majorities of one cluster must not both decide.  Nothing is merged and
 * nothing removed here; the log says how to bring the server back.  The file `fenced` beside the log remembers it:
 * survivors that start again without the one that told them must not elect one of themselves.
 */
#ifndef TV_RAFTD_PEERS_FENCE_H
#define TV_RAFTD_PEERS_FENCE_H

#include "raftd/peers/links.h"

enum notice_why {
	NOTICE_REMOVED = 1,		/* your node id was removed for good */
	NOTICE_TWIN = 2,		/* another server with your node id is here */
	NOTICE_FULL = 3,		/* the cluster has no more seats */
};

/* At the start, before anything is sent: was this server fenced before? */
void fence_begin(struct raftd *d);
/* A hello of a peer, before it is judged. */
void fence_heard(struct raftd *d, const struct hello *h);
/* MSG_RAFT_NOTICE of `from`: goes to the log, once a minute. */
enum tv_err fence_notice(struct raftd *d, const struct hello *from, struct span body);

#endif
