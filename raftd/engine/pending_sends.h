/* Messages of the core that wait, mostly until a batch of the log is durable: a queue by rising number.  Pure. */
#ifndef TV_RAFTD_ENGINE_PENDING_SENDS_H
#define TV_RAFTD_ENGINE_PENDING_SENDS_H

#include "raftd/core/raft.h"

struct pending_send {
	uint64_t seq;
	struct raft_send send;
};

struct pending_sends {			/* caller's storage, zeroed at first */
	struct pending_send *items;	/* owned */
	size_t cap, head, count;
};

/* seq must not be below that of the last one.  False without memory: the message is lost, which the core survives. */
bool pending_sends_add(struct pending_sends *r, uint64_t seq, const struct raft_send *s);
/* Takes the first one if its batch is among those done. */
bool pending_sends_take(struct pending_sends *r, uint64_t done, struct raft_send *out);
void pending_sends_done(struct pending_sends *r);

#endif
