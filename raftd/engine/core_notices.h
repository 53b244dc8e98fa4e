/* What the core tells: log lines in the words operators know, and a word to the modules concerned. */
#ifndef TV_NOTICES_H
#define TV_NOTICES_H

#include "raftd/raftd.h"

void notices_tell(struct raftd *d, const struct raft_notice *n);

#endif
