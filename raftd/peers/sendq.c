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
	if (!q->holds && q->ring.count == 0 && open_now(q, pending))
		return true;
	if (q->ring.count < SENDQ_MAX)
		(void)pending_sends_add(&q->ring, 0, s);
	return false;
}

bool
sendq_next(struct sendq *q, size_t pending, struct raft_send *out)
{
	if (!open_now(q, pending))
		return false;
	if (!q->holds)
		return pending_sends_take(&q->ring, 0, out);
	*out = q->held;
	q->holds = false;
	return true;
}

void
sendq_hold(struct sendq *q, const struct raft_send *s)
{
	q->held = *s;
	q->holds = true;
}

void
sendq_unhold(struct sendq *q)
{
	q->holds = q->holds && q->held.msg.type != RAFT_MSG_APPEND;
}

/* A follower would refuse what follows entries that it has not got; whatever its log is, it agrees with index 0. */
bool
sendq_overtakes(const struct sendq *q, const struct raft_send *s, size_t pending, struct raft_send *as)
{
	bool entries = s->msg.type == RAFT_MSG_APPEND && s->msg.entry_count > 0;

	if (!q->holds || !open_now(q, pending) || s->msg.type == RAFT_MSG_SNAPSHOT ||
	    (entries && s->first != q->held.first))
		return false;
	*as = *s;
	if (s->msg.type == RAFT_MSG_APPEND) {
		as->msg.entry_count = 0;
		as->msg.log_index = as->msg.log_term = 0;
	}
	return true;
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
	return !q->holds && q->ring.count > 0 && pending <= SENDQ_PENDING;
}

void
sendq_clear(struct sendq *q)
{
	pending_sends_done(&q->ring);
	q->holds = false;
	q->gone = 0;
}
