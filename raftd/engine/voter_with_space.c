/* Which voter takes over from a leader whose disk is full, see voter_with_space.h. */
#include "raftd/engine/voter_with_space.h"

static bool
was_tried(const struct tried_voters *tries, raft_id id)
{
	for (unsigned i = 0; i < tries->count; i++)
		if (tries->ids[i] == id)
			return true;
	return false;
}

raft_id
voter_with_space(const struct raft_status *st, const struct tried_voters *tries, uint64_t lag)
{
	const struct raft_peer_status *best = NULL;

	for (unsigned i = 0; i < st->peer_count; i++) {
		const struct raft_peer_status *p = &st->peers[i];

		if (p->voter && p->active && !p->full && !p->unready && !p->lacking && p->match + lag >= st->last_index && !was_tried(tries, p->id) &&
		    (best == NULL || p->match > best->match))
			best = p;
	}
	return best == NULL ? 0 : best->id;
}

void
voter_tried(struct tried_voters *tries, raft_id id)
{
	if (!was_tried(tries, id) && tries->count < RAFT_SERVERS_MAX)
		tries->ids[tries->count++] = id;
}
