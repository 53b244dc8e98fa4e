/*
 * The leader's side of replication: what each peer has, what it gets next, and what is committed
 * (thesis 3.5, 3.6.2, 10.2.1 for pipelining).
 */
#include <string.h>

#include "raftd/core/raft_int.h"

#define FULL_OFFER_BYTES 4096		/* the core's own entries are smaller: at most that is sent in vain */

void
replicate_peer_init(struct raft *r, struct peer *p)
{
	struct peer fresh = { .id = p->id, .voter = p->voter, .leaving = p->leaving, .inflight = p->inflight };

	*p = fresh;
	p->progress = PROGRESS_PROBE;
	p->next = r->log.last + 1;
	p->contact = r->now;
}

void
replicate_start(struct raft *r)
{
	r->seq = 1;		/* 0 means that no answer is wanted */
	r->commit_due = MONO_NEVER;
	r->read_retry_due = MONO_NEVER;
	r->uncommitted_bytes = 0;
	for (uint64_t i = r->commit + 1; i <= r->log.last; i++)
		r->uncommitted_bytes += logidx_size(&r->log, i);
	r->offer.index = 0;
	for (unsigned i = 0; i < r->peer_count; i++)
		replicate_peer_init(r, &r->peers[i]);
}

/* -- sending */

/* An append after `prev`, whose term is known, of `count` entries. */
static void
send_append(struct raft *r, struct peer *p, uint64_t prev, uint32_t count, uint64_t seq)
{
	struct raft_send *s = raft_send_to(r, RAFT_MSG_APPEND, p->id);

	if (s == NULL)
		return;
	/* Until the first entry of our term is durable here, the vote that made us leader need not be. */
	s->after_hard = r->persisted < r->own_first;
	s->msg.log_index = prev;
	(void)logidx_term(&r->log, prev, &s->msg.log_term);
	s->msg.commit = r->commit;
	s->msg.leader_last = r->log.last;
	s->msg.went_back = p->disk == DISK_LACKING;
	s->msg.seq = seq;
	s->msg.entry_count = count;
	s->first = prev + 1;
	p->sent_commit = r->commit;
	if (seq != 0 && count == 0)	/* an answer to entries waits for the disk */
		p->asked_seq = seq;
}

void
replicate_empty(struct raft *r, struct peer *p, uint64_t seq)
{
	uint64_t prev = p->progress == PROGRESS_PIPELINE ? p->next - 1 : 0, term;

	/* An append after index 0 agrees with every log: it names the leader, and no more. */
	if (!logidx_term(&r->log, prev, &term))
		prev = 0;
	send_append(r, p, prev, 0, seq);
}

static void
inflight_add(const struct raft *r, struct peer *p, uint64_t last)
{
	p->inflight[(p->inflight_head + p->inflight_count) % r->opt.inflight_max] = last;
	p->inflight_count++;
}

static void
inflight_free(const struct raft *r, struct peer *p, uint64_t upto)
{
	while (p->inflight_count > 0 && p->inflight[p->inflight_head] <= upto) {
		p->inflight_head = (p->inflight_head + 1) % r->opt.inflight_max;
		p->inflight_count--;
	}
}

/* One append of as many entries as fit after next - 1; false when the log no longer reaches back that far. */
static bool
send_entries(struct raft *r, struct peer *p)
{
	uint64_t term;
	uint32_t n;

	if (!logidx_term(&r->log, p->next - 1, &term))
		return false;
	n = logidx_batch(&r->log, p->next, r->opt.append_entries_max, r->opt.append_bytes_max);
	send_append(r, p, p->next - 1, n, r->seq);
	if (p->progress == PROGRESS_PIPELINE && n > 0) {
		p->next += n;
		inflight_add(r, p, p->next - 1);
	}
	return true;
}

void
replicate_pump(struct raft *r, struct peer *p)
{
	if (p->full)
		return;
	if (p->progress == PROGRESS_PROBE && !p->probe_sent) {
		p->probe_sent = true;
		if (!send_entries(r, p))
			snapshot_need(r, p);
	}
	while (p->progress == PROGRESS_PIPELINE && p->next <= r->log.last && p->inflight_count < r->opt.inflight_max)
		if (!send_entries(r, p))
			snapshot_need(r, p);
	if (p->progress == PROGRESS_SNAPSHOT)
		snapshot_pump(r, p);
}

void
replicate_pump_all(struct raft *r)
{
	for (unsigned i = 0; i < r->peer_count; i++)
		replicate_pump(r, &r->peers[i]);
}

/* The disk there takes no more: a little is offered, in case it is there already or of the kind that always goes. */
static void
heartbeat_full(struct raft *r, struct peer *p)
{
	bool asking = p->progress == PROGRESS_PROBE || p->progress == PROGRESS_PIPELINE;
	uint64_t term;
	uint32_t n = 0;

	if (!asking || !logidx_term(&r->log, p->next - 1, &term)) {
		replicate_empty(r, p, r->seq);
		return;
	}
	if (p->next <= r->log.last && logidx_size(&r->log, p->next) <= FULL_OFFER_BYTES)
		n = logidx_batch(&r->log, p->next, r->opt.append_entries_max, FULL_OFFER_BYTES);
	send_append(r, p, p->next - 1, n, r->seq);
}

/* All peers hear from us each interval, also those with nothing to get. */
static void
heartbeat(struct raft *r, struct peer *p)
{
	uint32_t before = r->send_count;
	uint64_t term;

	if (p->full) {
		heartbeat_full(r, p);
		return;
	}
	/* A full window of lost appends, and the log was cut since: nothing else would notice. */
	if (p->progress == PROGRESS_PIPELINE && !logidx_term(&r->log, p->next - 1, &term))
		snapshot_need(r, p);
	if (p->progress == PROGRESS_PROBE) {
		p->probe_sent = false;
		replicate_pump(r, p);
		if (p->progress == PROGRESS_PROBE)
			return;
	}
	if (p->progress == PROGRESS_PIPELINE)
		replicate_pump(r, p);
	if (p->progress != PROGRESS_PIPELINE || r->send_count == before)
		replicate_empty(r, p, r->seq);
	snapshot_tick(r, p);
}

void
replicate_heartbeat_all(struct raft *r)
{
	/* Each interval is a round, so that every heartbeat wants an answer. */
	read_join_round(r);
	for (unsigned i = 0; i < r->peer_count; i++)
		heartbeat(r, &r->peers[i]);
	read_progress(r);
}

void
replicate_to_probe(struct raft *r UNUSED, struct peer *p, uint64_t next)
{
	p->progress = PROGRESS_PROBE;
	p->next = next > p->match ? next : p->match + 1;
	p->probe_sent = false;
	p->inflight_head = p->inflight_count = 0;
}

void
replicate_unreachable(struct raft *r, raft_id id)
{
	struct peer *p = raft_peer(r, id);

	if (r->role != RAFT_LEADER || p == NULL)
		return;
	if (p->progress == PROGRESS_PIPELINE)
		replicate_to_probe(r, p, p->match + 1);
	if (p->progress == PROGRESS_SNAPSHOT)
		p->snap_next = p->snap_acked;
	/* Nothing but heartbeats goes out until it is back. */
	p->probe_sent = true;
}

void
replicate_reachable(struct raft *r, raft_id id)
{
	struct peer *p = raft_peer(r, id);

	if (r->role != RAFT_LEADER || p == NULL)
		return;
	p->probe_sent = false;
	if (p->progress == PROGRESS_SNAPSHOT)
		p->snap_next = p->snap_acked;
	replicate_pump(r, p);
}

/* -- commit */

void
replicate_tell_commit(struct raft *r, struct peer *p)
{
	if (p->progress == PROGRESS_PIPELINE && p->sent_commit < r->commit)
		replicate_empty(r, p, read_pending(r) ? r->seq : 0);
}

static void
tell_commit_all(struct raft *r)
{
	r->commit_due = MONO_NEVER;
	for (unsigned i = 0; i < r->peer_count; i++)
		replicate_tell_commit(r, &r->peers[i]);
}

void
replicate_commit_tick(struct raft *r)
{
	if (!mono_before(r->now, r->commit_due))
		tell_commit_all(r);
}

/*
 * The next append tells the followers, and under load that comes soon: a message of its own would cost each of them a
 * turn for every batch.  Without one they learn after commit_delay, and before an answer that sends their readers
 * to wait for that index.  Changes of the configuration are told at once: a caller may wait for the next one.
 */
static void
spread_commit(struct raft *r, uint64_t from)
{
	replicate_pump_all(r);
	if (r->opt.commit_delay.ns == 0 || (r->newest->config.index > from && r->newest->config.index <= r->commit))
		tell_commit_all(r);
	else if (r->commit_due.ns == MONO_NEVER.ns)
		r->commit_due = mono_add(r->now, r->opt.commit_delay);
}

void
replicate_try_commit(struct raft *r)
{
	uint64_t v[PEERS_MAX + 1], index, term, before;
	unsigned n = 0, quorum = members_quorum(r);

	/* Our own entry counts when it is durable, not when it is appended (S22). */
	if (r->self_voter)
		v[n++] = r->persisted;
	for (unsigned i = 0; i < r->peer_count; i++)
		if (r->peers[i].voter)
			v[n++] = r->peers[i].match;
	if (n < quorum)
		return;
	index = raft_kth_largest(v, n, quorum);
	/* Only entries of our own term are committed by counting (S24; thesis 3.6.2). */
	if (index <= r->commit || !logidx_term(&r->log, index, &term) || term != r->term)
		return;
	before = r->commit;
	raft_commit_to(r, index);
	spread_commit(r, before);
	read_progress(r);
	/* A leader outside the committed configuration has done its last duty (S72). */
	if (r->newest->config.index <= r->commit && raft_config_find(raft_config(r), r->opt.self) == NULL)
		election_hand_over(r);
}

/* -- answers */

static void
catch_up_round(struct raft *r, struct peer *p)
{
	bool quick;

	if (p->round_target != 0 && p->match < p->round_target)
		return;
	if (p->round_target != 0) {
		quick = mono_before(r->now, mono_add(p->round_start, r->opt.election_timeout));
		p->rounds++;
		if ((quick || p->rounds >= r->opt.catchup_rounds) && !p->caught_up) {
			p->caught_up = true;
			raft_note(r, RAFT_NOTICE_CAUGHT_UP, p->id, p->match);
		}
	}
	p->round_target = r->log.last;
	p->round_start = r->now;
}

bool
replicate_active(const struct raft *r, const struct peer *p)
{
	return mono_before(r->now, mono_add(p->contact, r->opt.election_timeout));
}

bool
replicate_caught_up(const struct raft *r, const struct peer *p)
{
	bool in_time = mono_before(r->now, mono_add(p->round_start, r->opt.election_timeout));

	return p->caught_up && p->disk != DISK_LACKING && replicate_active(r, p) && p->progress == PROGRESS_PIPELINE &&
	    (p->match >= p->round_target || in_time);
}

/* What it says of its disk.  From where it stands it is asked again, slowly while that is full. */
static void
heed_full(struct raft *r, struct peer *p, bool full)
{
	if (full == p->full)
		return;
	p->full = full;
	if (p->progress == PROGRESS_PIPELINE)
		replicate_to_probe(r, p, p->match + 1);
	else if (p->progress == PROGRESS_PROBE)
		p->probe_sent = false;
}

/* Its log is whole and its state lost: it gets a snapshot as soon as it is known what it has. */
static void
heed_stateless(struct raft *r, struct peer *p, const struct raft_msg *m)
{
	p->stateless = m->stateless;
	p->snap_min = m->stateless ? m->hint_index : 0;
	if (p->stateless && p->progress == PROGRESS_PIPELINE && !p->full && r->applied >= p->snap_min)
		snapshot_need(r, p);
}

void
replicate_matched(struct raft *r, struct peer *p, uint64_t match)
{
	if (match <= p->match)
		return;
	p->match = match;
	p->match_seq = r->seq;
}

/* -- disks that went back */

/* What it acknowledged before is void.  Until it was caught up it counts for nothing that rests on what it remembers. */
static void
disk_lost(struct raft *r, struct peer *p)
{
	if (p->disk == DISK_KEPT) {
		r->disks_went_back++;
		raft_note(r, RAFT_NOTICE_WENT_BACK, p->id, p->match);
	}
	p->disk = DISK_LACKING;
	p->regain = r->log.last;
	p->match = p->match_seq = p->acked_seq = 0;
	p->void_seq = r->seq++;
	p->caught_up = false;
	p->round_target = 0;
	p->rounds = 0;
}

/*
 * Does this refusal show that the disk has lost what was acknowledged?  It answers an append that was sent after the
 * acknowledgement was here, and says that the log there does not reach so far; an older one may only be late.
 */
static bool
shows_loss(const struct peer *p, const struct raft_msg *m)
{
	return p->match > 0 && m->seq > p->match_seq && (m->log_index <= p->match || m->hint_index < p->match);
}

/* What the peer itself says of its disk, and whether it has caught up. */
static void
heed_disk(struct raft *r, struct peer *p, const struct raft_msg *m)
{
	if (m->went_back && p->disk != DISK_LACKING && m->seq > p->regain_seq)
		disk_lost(r, p);
	if (p->disk == DISK_LACKING && !m->went_back && p->match >= p->regain) {
		p->disk = DISK_REGAINED;
		p->regain_seq = r->seq;
		raft_note(r, RAFT_NOTICE_REGAINED, p->id, p->match);
	}
	if (p->disk == DISK_REGAINED && (!p->voter || !members_can_spare(r, p)))
		p->disk = DISK_KEPT;
}

static void
accepted(struct raft *r, struct peer *p, const struct raft_msg *m)
{
	uint64_t verified = m->log_index, term;

	if (verified > r->log.last || m->match > verified) {
		raft_note(r, RAFT_NOTICE_VIOLATION, p->id, RAFT_VIOLATION_ANSWER);
		return;
	}
	replicate_matched(r, p, m->match);
	inflight_free(r, p, p->match);
	if (p->next <= verified)
		p->next = verified + 1;
	/* Only an answer about the probed place or beyond says that the logs agree there. */
	if (p->progress == PROGRESS_PROBE && verified + 1 >= p->next) {
		p->progress = PROGRESS_PIPELINE;
		p->inflight_head = p->inflight_count = 0;
	}
	if (p->progress == PROGRESS_NEED_SNAPSHOT && !p->stateless && logidx_term(&r->log, p->match, &term) && p->match > 0)
		replicate_to_probe(r, p, p->match + 1);
	if (p->progress == PROGRESS_SNAPSHOT && !p->stateless && p->match >= p->snap_index)
		replicate_to_probe(r, p, p->match + 1);
	if (!p->voter)
		catch_up_round(r, p);
	heed_stateless(r, p, m);
	replicate_try_commit(r);
	p = raft_peer(r, m->from);	/* it may have been a removed one, which the commit let go */
	if (r->role != RAFT_LEADER || p == NULL)
		return;
	election_transfer_progress(r, p);
	replicate_pump(r, p);
}

static void
refused(struct raft *r, struct peer *p, const struct raft_msg *m)
{
	uint64_t next, asked = m->log_index;

	if (p->progress != PROGRESS_PROBE && p->progress != PROGRESS_PIPELINE)
		return;
	if (shows_loss(p, m)) {
		disk_lost(r, p);
		replicate_to_probe(r, p, logidx_find_le(&r->log, m->hint_index, m->hint_term) + 1);
		replicate_pump(r, p);
		return;
	}
	/* Answers to what was sent before we knew better. */
	if (asked <= p->match || (p->progress == PROGRESS_PROBE && asked != p->next - 1) || asked >= p->next)
		return;
	next = logidx_find_le(&r->log, m->hint_index < asked ? m->hint_index : asked - 1, m->hint_term) + 1;
	replicate_to_probe(r, p, next);
	replicate_pump(r, p);
}

void
replicate_on_append_reply(struct raft *r, const struct raft_msg *m)
{
	struct peer *p = raft_peer(r, m->from);

	if (r->role != RAFT_LEADER || p == NULL)
		return;
	p->contact = r->now;
	p->heard = true;
	if (m->seq > p->acked_seq && m->seq > p->void_seq && m->seq <= r->seq)
		p->acked_seq = m->seq;
	heed_full(r, p, m->full);
	p->unready = m->unready;
	if (m->seq <= p->void_seq && p->void_seq > 0)
		return;
	if (m->granted)
		accepted(r, p, m);
	else
		refused(r, p, m);
	p = raft_peer(r, m->from);
	if (r->role != RAFT_LEADER || p == NULL)
		return;
	heed_disk(r, p, m);
	read_progress(r);
}
