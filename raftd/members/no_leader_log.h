/*
 * No leader for long: the log says which servers are needed for one, and why (S75).  A cluster that has lost its
 * majority is silent otherwise, and its operator needs names and addresses.
 */
#ifndef TV_RAFTD_MEMBERS_NO_LEADER_LOG_H
#define TV_RAFTD_MEMBERS_NO_LEADER_LOG_H

#include "common/base/buf.h"
#include "raftd/raftd.h"

struct no_leader_log {
	struct mono since, told;	/* 0: there is a leader; not told yet */
};

/*
 * Appends why this server knows no leader, and what it waits for: which voters are missing, that no cluster
 * was formed yet and what to do for that, that it was removed, which servers it cannot be linked with and why.  False,
 * and nothing: it knows one.
 */
bool no_leader_log_text(struct raftd *d, struct buf *out);
/* Once a second or so. */
void no_leader_log_check(struct no_leader_log *l, struct raftd *d);

#endif
