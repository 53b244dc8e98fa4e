/*
 * Linearizable reads without a log entry (thesis 6.4).
 *
 * The leader notes its commit index, and confirms with a round of appends, begun after the read arrived, that it
 * still leads.  Rounds are numbered by `seq`; every append carries the newest one and answers echo it.  Reads
 * that arrive while READ_ROUNDS rounds are unconfirmed gather for the next, so load does not add messages.
 * A follower asks the leader for the index; many reads share a question.
 */
#include <stdlib.h>

#include "common/base/assert.h"
#include "raftd/core/raft_int.h"

static struct read_item *
item(const struct raft *r, uint32_t i)
{
	return &r->reads[(r->read_head + i) % r->read_cap];
}

/* Room for one more pending read, and for all of them being answered at once. */
static bool
reserve(struct raft *r)
{
	uint32_t cap = r->read_cap > 0 ? r->read_cap * 2 : 64;
	struct read_item *reads;
	struct raft_read *done;

	if (r->read_count < r->read_cap)
		return true;
	if (r->read_count >= READS_MAX)
		return false;
	done = realloc(r->done_reads, ((size_t)cap + 1) * sizeof(*done));
	if (done == NULL)
		return false;
	r->done_reads = done;
	reads = malloc(cap * sizeof(*reads));
	if (reads == NULL)
		return false;
	for (uint32_t i = 0; i < r->read_count; i++)
		reads[i] = *item(r, i);
	free(r->reads);
	r->reads = reads;
	r->read_head = 0;
	r->read_cap = cap;
	return true;
}

static void
push(struct raft *r, uint64_t ctx, raft_id from)
{
	r->read_count++;
	*item(r, r->read_count - 1) = (struct read_item){ .ctx = ctx, .from = from };
}

/* To a follower. */
static void
answer_follower(struct raft *r, uint64_t ctx, raft_id to, bool ok, uint64_t index)
{
	struct peer *p = raft_peer(r, to);
	struct raft_send *s;

	if (ok && p != NULL)
		replicate_tell_commit(r, p);
	if ((s = raft_send_to(r, RAFT_MSG_READ_INDEX_REPLY, to)) == NULL)
		return;
	s->msg.seq = ctx;
	s->msg.granted = ok;
	s->msg.match = ok ? index : 0;
}

/* Answers the oldest read. */
static void
pop(struct raft *r, bool ok, uint64_t index)
{
	struct read_item *it = item(r, 0);

	if (it->from == 0) {
		TV_ASSERT(r->done_count <= r->read_cap);
		r->done_reads[r->done_count++] = (struct raft_read){ it->ctx, ok, index };
	} else
		answer_follower(r, it->ctx, it->from, ok, index);
	r->read_head = (r->read_head + 1) % r->read_cap;
	r->read_count--;
}

void
read_fail_all(struct raft *r)
{
	while (r->read_count > 0)
		pop(r, false, 0);
	r->read_done = r->read_seq;
}

bool
read_pending(const struct raft *r)
{
	return r->read_count > 0;
}

/* -- leader */

/*
 * Newest round that a majority answered.  One that lost what it knew may have voted for a later leader, so its answer confirms
 * nothing.
 */
static uint64_t
confirmed_round(const struct raft *r)
{
	uint64_t v[PEERS_MAX + 1];
	unsigned n = 0, quorum = members_quorum(r);

	if (r->self_voter)
		v[n++] = r->seq;
	for (unsigned i = 0; i < r->peer_count; i++)
		if (r->peers[i].voter)
			v[n++] = r->peers[i].disk == DISK_LACKING ? 0 : r->peers[i].acked_seq;
	return n >= quorum ? raft_kth_largest(v, n, quorum) : 0;
}

void
read_join_round(struct raft *r)
{
	r->seq++;
	/* Before an entry of our own term is committed, our commit index may lag behind (S25). */
	if (r->commit < r->own_first)
		return;
	for (uint32_t i = r->read_count; i-- > 0 && item(r, i)->seq == 0; ) {
		item(r, i)->seq = r->seq;
		item(r, i)->index = r->commit;
	}
}

static bool
some_wait_for_round(const struct raft *r)
{
	return r->read_count > 0 && item(r, r->read_count - 1)->seq == 0;
}

/* The next voter to be asked in the newest round: those that answered last come first.  NULL: all were. */
static struct peer *
next_to_ask(struct raft *r)
{
	struct peer *best = NULL;

	for (unsigned i = 0; i < r->peer_count; i++) {
		struct peer *p = &r->peers[i];

		if (p->voter && p->asked_seq < r->seq && (best == NULL || p->acked_seq > best->acked_seq))
			best = p;
	}
	return best;
}

static void
ask_voters(struct raft *r, unsigned most)
{
	struct peer *p;

	for (; most > 0 && (p = next_to_ask(r)) != NULL; most--) {
		replicate_empty(r, p, r->seq);
		p->asked_seq = r->seq;		/* also when there was no memory for it: the next heartbeat asks again */
	}
}

static void
answer_confirmed(struct raft *r)
{
	uint64_t round = confirmed_round(r);

	while (r->read_count > 0 && item(r, 0)->seq != 0 && item(r, 0)->seq <= round)
		pop(r, true, item(r, 0)->index);
}

/* A round asks as few as make a majority: more answers would only wake us, and them. */
void
read_progress(struct raft *r)
{
	answer_confirmed(r);
	if (!some_wait_for_round(r) || r->commit < r->own_first || r->seq - confirmed_round(r) >= READ_ROUNDS)
		return;
	if (item(r, 0)->seq == 0 || r->read_retry_due.ns == MONO_NEVER.ns)	/* else an earlier round waits, and longer */
		r->read_retry_due = mono_add(r->now, (struct mono){ r->opt.heartbeat.ns / READ_PATIENCE });
	read_join_round(r);
	ask_voters(r, members_quorum(r) - r->self_voter);
	answer_confirmed(r);
}

void
read_round_tick(struct raft *r)
{
	if (mono_before(r->now, r->read_retry_due))
		return;
	r->read_retry_due = MONO_NEVER;
	if (r->read_count > 0 && item(r, 0)->seq != 0)
		ask_voters(r, PEERS_MAX);
}

/* Does this voter make a majority with us?  It was of our term when it asked, which is after those reads arrived there. */
static bool
confirms_itself(struct raft *r, raft_id from)
{
	const struct peer *p = raft_peer(r, from);

	return p != NULL && p->voter && p->disk != DISK_LACKING && members_quorum(r) <= 1u + r->self_voter && r->commit >= r->own_first;
}

void
read_on_index(struct raft *r, const struct raft_msg *m)
{
	struct raft_send *s;

	if (r->role == RAFT_LEADER && confirms_itself(r, m->from)) {
		answer_follower(r, m->seq, m->from, true, r->commit);
	} else if (r->role == RAFT_LEADER && reserve(r)) {
		push(r, m->seq, m->from);
		read_progress(r);
	} else if ((s = raft_send_to(r, RAFT_MSG_READ_INDEX_REPLY, m->from)) != NULL) {
		s->msg.seq = m->seq;
	}
}

/* -- follower */

/* One question for all that wait. */
static void
ask_leader(struct raft *r)
{
	struct raft_send *s = raft_send_to(r, RAFT_MSG_READ_INDEX, r->leader);

	r->read_seq++;
	for (uint32_t i = r->read_count; i-- > 0 && item(r, i)->seq == 0; )
		item(r, i)->seq = r->read_seq;
	r->read_retry_due = mono_add(r->now, mono_mul(r->opt.heartbeat, 2));
	if (s != NULL)
		s->msg.seq = r->read_seq;
}

void
read_tick(struct raft *r)
{
	if (r->role != RAFT_FOLLOWER || r->leader == 0 || r->read_count == 0 || mono_before(r->now, r->read_retry_due))
		return;
	/* A later question answers the earlier ones too, so those that wait keep their numbers. */
	ask_leader(r);
}

void
read_on_index_reply(struct raft *r, const struct raft_msg *m)
{
	if (r->role != RAFT_FOLLOWER || m->from != r->leader || m->seq <= r->read_done || m->seq > r->read_seq)
		return;
	r->read_done = m->seq;
	while (r->read_count > 0 && item(r, 0)->seq != 0 && item(r, 0)->seq <= m->seq)
		pop(r, m->granted, m->match);
	if (some_wait_for_round(r))
		ask_leader(r);
}

enum tv_err
read_local(struct raft *r, uint64_t ctx)
{
	if (!reserve(r))
		return TV_EAGAIN;
	push(r, ctx, 0);
	if (r->role == RAFT_LEADER)
		read_progress(r);
	else if (r->role != RAFT_FOLLOWER || r->leader == 0)
		pop(r, false, 0);
	else if (r->read_seq - r->read_done < READ_ROUNDS)
		ask_leader(r);
	return TV_OK;
}
