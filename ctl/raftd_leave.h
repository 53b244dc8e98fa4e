/* Root's leave of a server, asked of raftd itself. */
#ifndef TV_CTL_RAFTD_LEAVE_H
#define TV_CTL_RAFTD_LEAVE_H

#include "common/base/buf.h"
#include "common/base/mono.h"

/* The raftd behind this socket leaves the Raft configuration; false, with a sentence in why: not, or not in time. */
bool raftd_leave(const char *path, bool force, struct mono timeout, struct buf *why);

#endif
