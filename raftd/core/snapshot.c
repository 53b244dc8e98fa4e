/*
 * Snapshots in chunks.  The receiver's acknowledged offset is the only measure of progress: a transfer is resumed
 * from there after any interruption, and never started over by the sender for being slow (S45, S47).
 */
#include "common/base/assert.h"
#include "raftd/core/raft_int.h"

/* -- leader */

/* The snapshot that the shell holds is usable when the log continues right after it. */
static bool
offer_usable(const struct raft *r, const struct peer *p)
{
	return r->offer.index > 0 && r->offer.index + 1 >= r->log.first && r->offer.index >= p->snap_min;
}

static void
start_transfer(struct raft *r, struct peer *p)
{
	p->progress = PROGRESS_SNAPSHOT;
	p->inflight_head = p->inflight_count = 0;
	p->snap_index = r->offer.index;
	p->snap_term = r->offer.term;
	p->snap_total = r->offer.total;
	p->snap_acked = p->snap_next = 0;
	p->snap_time = r->now;
	snapshot_pump(r, p);
}

/* Is the shell's snapshot being received by a follower that is alive?  Then it must not be replaced (S45). */
static bool
transfer_runs(const struct raft *r)
{
	for (unsigned i = 0; i < r->peer_count; i++) {
		const struct peer *p = &r->peers[i];

		if (p->progress == PROGRESS_SNAPSHOT && p->snap_index == r->offer.index && replicate_active(r, p))
			return true;
	}
	return false;
}

static void
ask_shell(struct raft *r, struct peer *p)
{
	p->snap_asked = true;
	p->snap_time = r->now;
	raft_note(r, RAFT_NOTICE_NEED_SNAPSHOT, p->id, p->snap_min >= r->log.first ? p->snap_min + 1 : r->log.first);
}

/* The shell keeps one snapshot.  A second receiver shares it if it is recent enough, else waits its turn. */
void
snapshot_need(struct raft *r, struct peer *p)
{
	bool runs = transfer_runs(r);

	if (runs && offer_usable(r, p)) {
		start_transfer(r, p);
		return;
	}
	p->progress = PROGRESS_NEED_SNAPSHOT;
	p->inflight_head = p->inflight_count = 0;
	p->snap_asked = false;
	if (!runs)
		ask_shell(r, p);
}

static void
send_chunk(struct raft *r, struct peer *p, uint64_t offset)
{
	struct raft_send *s = raft_send_to(r, RAFT_MSG_SNAPSHOT, p->id);

	if (s == NULL)
		return;
	s->after_hard = r->persisted < r->own_first;
	s->msg.log_index = p->snap_index;
	s->msg.log_term = p->snap_term;
	s->msg.offset = offset;
	s->msg.total = p->snap_total;
	s->msg.done = p->snap_total - offset <= r->opt.snapshot_chunk_bytes;
}

void
snapshot_pump(struct raft *r, struct peer *p)
{
	uint64_t chunk = r->opt.snapshot_chunk_bytes;

	while (p->snap_next < p->snap_total && p->snap_next < p->snap_acked + SNAPSHOT_WINDOW * chunk) {
		send_chunk(r, p, p->snap_next);
		p->snap_next = p->snap_total - p->snap_next > chunk ? p->snap_next + chunk : p->snap_total;
	}
}

/* With each heartbeat: asks again for what stays unanswered for long. */
void
snapshot_tick(struct raft *r, struct peer *p)
{
	struct mono wait = r->opt.election_timeout;

	if (p->progress == PROGRESS_NEED_SNAPSHOT) {
		if (!p->snap_asked || !mono_before(r->now, mono_add(p->snap_time, mono_mul(wait, 10))))
			snapshot_need(r, p);
		return;
	}
	if (p->progress != PROGRESS_SNAPSHOT || mono_before(r->now, mono_add(p->snap_time, wait)))
		return;
	p->snap_time = r->now;
	p->snap_next = p->snap_acked;
	if (p->snap_acked == p->snap_total)
		send_chunk(r, p, p->snap_total);	/* all is there: only asks whether it is installed */
	else
		snapshot_pump(r, p);
}

void
snapshot_ready(struct raft *r, uint64_t index, uint64_t total)
{
	uint64_t term;

	if (r->role != RAFT_LEADER || index > r->commit || !logidx_term(&r->log, index, &term) || index == 0)
		return;
	r->offer.index = index;
	r->offer.term = term;
	r->offer.total = total;
	if (index > r->snapshot_index) {
		r->snapshot_index = index;
		r->snapshot_term = term;
	}
	for (unsigned i = 0; i < r->peer_count; i++) {
		struct peer *p = &r->peers[i];

		/* Transfers of the one before were broken off, or the shell would not have been asked. */
		if (p->progress == PROGRESS_NEED_SNAPSHOT ||
		    (p->progress == PROGRESS_SNAPSHOT && p->snap_index != index))
			start_transfer(r, p);
	}
}

void
snapshot_on_reply(struct raft *r, const struct raft_msg *m)
{
	struct peer *p = raft_peer(r, m->from);

	if (r->role != RAFT_LEADER || p == NULL)
		return;
	p->contact = r->now;
	p->heard = true;
	if (p->progress != PROGRESS_SNAPSHOT || m->log_index != p->snap_index)
		return;
	if (m->offset > p->snap_total || m->match > r->log.last) {
		raft_note(r, RAFT_NOTICE_VIOLATION, p->id, RAFT_VIOLATION_ANSWER);
		return;
	}
	if (m->done) {
		if (p->disk != DISK_LACKING)	/* an append that follows says so; this may be old */
			replicate_matched(r, p, m->match);
		replicate_to_probe(r, p, p->snap_index + 1);
		replicate_pump(r, p);
		return;
	}
	if (m->offset > p->snap_acked) {	/* a refusal names the place that it waits for, so it counts too */
		p->snap_acked = m->offset;
		p->snap_time = r->now;
		if (p->snap_next < p->snap_acked)
			p->snap_next = p->snap_acked;
		snapshot_pump(r, p);
	} else if (!m->granted && m->offset < p->snap_acked) {
		/* It lost what it had (a restart).  The retry of snapshot_tick() starts from there. */
		p->snap_acked = p->snap_next = m->offset;
	}
}

/* -- follower */

static void
answer_leader(struct raft *r, uint64_t index, bool granted, uint64_t offset, bool done)
{
	struct raft_send *s;

	if (r->leader == 0 || r->leader == r->opt.self)
		return;
	s = raft_send_to(r, RAFT_MSG_SNAPSHOT_REPLY, r->leader);
	if (s == NULL)
		return;
	s->msg.log_index = index;
	s->msg.granted = granted;
	s->msg.offset = offset;
	s->msg.done = done;
	if (done)
		s->msg.match = follow_durable(r, r->commit);
}

static bool
chunk_valid(const struct raft_msg *m)
{
	struct raft_config c;

	if (m->log_index == 0 || m->log_term == 0 || m->log_term > m->term || m->offset > m->total)
		return false;
	if (m->data.len > m->total - m->offset || m->done != (m->offset + m->data.len == m->total))
		return false;
	return raft_config_read(m->config, &c) == TV_OK && c.index <= m->log_index;
}

static bool
same_snapshot(const struct incoming *in, const struct raft_msg *m)
{
	return in->index == m->log_index && in->term == m->log_term && in->total == m->total &&
	    in->checksum == m->checksum;
}

/* Everything up to the snapshot is here already: it only tells that so much is committed (S42). */
static bool
have_already(struct raft *r, const struct raft_msg *m)
{
	uint64_t term;

	/* The state is missing up to where the log begins; one that ends earlier would cost entries that were promised. */
	if (r->stateless)
		return m->log_index + 1 < r->log.first;
	if (m->log_index <= r->commit)
		return true;
	if (r->incoming.installing || !logidx_term(&r->log, m->log_index, &term) || term != m->log_term)
		return false;
	raft_commit_to(r, m->log_index);
	return true;
}

/* A chunk of the expected snapshot at the expected place goes to the shell. */
static void
take_chunk(struct raft *r, const struct raft_msg *m)
{
	struct incoming *in = &r->incoming;

	if (!same_snapshot(in, m) || m->offset == 0)
		*in = (struct incoming){ m->log_index, m->log_term, m->total, m->checksum, 0, false };
	in->handed = m->offset + m->data.len;
	in->installing = m->done;
	r->snapshot_chunk = m;
}

void
snapshot_on_chunk(struct raft *r, const struct raft_msg *m)
{
	struct incoming *in = &r->incoming;

	if (!chunk_valid(m)) {
		raft_note(r, RAFT_NOTICE_VIOLATION, m->from, RAFT_VIOLATION_SNAPSHOT);
		return;
	}
	if (!election_heard_leader(r, m->from))
		return;
	if (have_already(r, m))
		answer_leader(r, m->log_index, true, m->total, true);
	else if (in->installing)
		answer_leader(r, m->log_index, same_snapshot(in, m), same_snapshot(in, m) ? in->total : 0, false);
	else if (m->offset == (same_snapshot(in, m) ? in->handed : 0))
		take_chunk(r, m);
	else
		answer_leader(r, m->log_index, false, same_snapshot(in, m) ? in->handed : 0, false);
}

void
snapshot_chunk_stored(struct raft *r, const struct raft_msg *m, uint64_t offset)
{
	struct incoming *in = &r->incoming;

	if (!same_snapshot(in, m))
		return;
	if (offset < m->offset + m->data.len) {
		/* The shell could not keep it: go back. */
		in->handed = offset;
		in->installing = false;
		answer_leader(r, in->index, false, offset, false);
		return;
	}
	answer_leader(r, in->index, true, offset, false);
}

bool
raft_keeps_log(const struct raft *r, uint64_t index, uint64_t term)
{
	uint64_t here;

	return r->stateless && logidx_term(&r->log, index, &here) && here == term;
}

void
snapshot_installed(struct raft *r, const struct raft_msg *m, const struct raft_config *config)
{
	bool keep = raft_keeps_log(r, m->log_index, m->log_term);
	struct raft_config c;

	TV_ASSERT(r->incoming.installing && m->log_index == r->incoming.index && m->log_term == r->incoming.term);
	r->incoming = (struct incoming){ 0 };
	r->stateless = false;
	if (keep) {
		if (r->applied < m->log_index)
			r->applied = m->log_index;
		if (r->commit < m->log_index)
			raft_commit_to(r, m->log_index);
		answer_leader(r, m->log_index, true, m->total, true);
		return;
	}
	if (config != NULL)
		c = *config;
	else if (raft_config_read(m->config, &c) != TV_OK)
		return;
	logidx_reset(&r->log, m->log_index, m->log_term);
	r->write_epoch++;
	r->snapshot_index = r->commit = r->applied = r->persisted = r->verified = m->log_index;
	r->snapshot_term = m->log_term;
	members_reset(r, &c);
	raft_note(r, RAFT_NOTICE_CONFIG_COMMITTED, 0, c.index);
	answer_leader(r, m->log_index, true, m->total, true);
}
