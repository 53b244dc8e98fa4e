/* Messages to one peer, at the pace at which they can go. */
#include "raftd/peers/sendq.h"

static bool
open_now(const struct sendq *q, size_t pending)
{
	return q->gone < SENDQ_BYTES && pending <= SENDQ_PENDING;
}

bool
sendq_put(struct sendq *q, const struct raft_send *s, size_t pending)
{
	if (q->ring.count == 0 && open_now(q, pending))
		return true;
	if (q->ring.count < SENDQ_MAX)
		(void)pending_sends_add(&q->ring, 0, s);
	return false;
}

bool
sendq_next(struct sendq *q, size_t pending, struct raft_send *out)
{
	return open_now(q, pending) && pending_sends_take(&q->ring, 0, out);
}

void
sendq_sent(struct sendq *q, size_t bytes)
{
	q->gone += bytes;
}

void
sendq_turn(struct sendq *q)
{
	q->gone = 0;
}

bool
sendq_waiting(const struct sendq *q, size_t pending)
{
	return q->ring.count > 0 && pending <= SENDQ_PENDING;
}

void
sendq_clear(struct sendq *q)
{
	pending_sends_done(&q->ring);
	q->gone = 0;
}
