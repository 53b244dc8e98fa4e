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

#include "raftd/peers/links.h"

struct unserved;

/* Looks once a member_interval, and answers MSG_RAFT_SERVED.  NULL: no memory. */
struct unserved *unserved_new(struct raftd *d);
void unserved_free(struct unserved *u);
/* Our rpcd has answered a MSG_PING. */
void unserved_answered(struct unserved *u);
/* Name and value pairs for the `raftd:` section of info. */
void unserved_info(const struct unserved *u, void (*fn)(void *ctx, const char *name, const char *value), void *ctx);

#endif
