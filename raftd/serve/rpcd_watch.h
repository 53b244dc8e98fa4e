/*
 * A leader whose rpcd is away or frozen: writes of the other servers go through the rpcd beside the leader, so none would
 * reach the cluster any more, although a majority is well.  It hands leadership over.
 *
 * Away, which includes one that was not there since this raftd started, is known from the channels.  Frozen (stopped,
 * swapping, hung) is not: so a leader asks an rpcd that has been silent for a while (MSG_PING), and whatever comes from
 * it is a sign of life.  A restart of rpcd is over long before patience ends, and an rpcd that is merely busy says
 * something.  Followers ask theirs only when a leader wants to know (MSG_RAFT_SERVED): it does not hand over to a
 * server that is no better off.
 */
#ifndef TV_RAFTD_SERVE_RPCD_WATCH_H
#define TV_RAFTD_SERVE_RPCD_WATCH_H

#include "common/base/figure.h"
#include "raftd/peers/links.h"

struct rpcd_watch;

/* Looks once a member_interval, and answers MSG_RAFT_SERVED.  NULL: no memory. */
struct rpcd_watch *rpcd_watch_new(struct raftd *d);
void rpcd_watch_free(struct rpcd_watch *u);
/* Our rpcd has answered a MSG_PING. */
void rpcd_watch_answered(struct rpcd_watch *u);
/* Name and value pairs for the `raftd:` section of info. */
void rpcd_watch_info(const struct rpcd_watch *u, figure_fn *fn, void *ctx);

#endif
