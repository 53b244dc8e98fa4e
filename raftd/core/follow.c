/* The follower's side of appends (thesis 3.5, with the conflict-term hint of its section 5.3 discussion). */
#include "raftd/core/raft_int.h"

uint64_t
follow_durable(const struct raft *r, uint64_t verified)
{
	return verified < r->persisted ? verified : r->persisted;
}

/* Are the entries in order, of possible terms, and the configurations among them readable? */
static bool
entries_valid(const struct raft_msg *m)
{
	uint64_t term = m->log_term;

	for (uint32_t i = 0; i < m->entry_count; i++) {
		const struct raft_entry *e = &m->entries[i];
		struct raft_config c;

		if (e->index != m->log_index + 1 + i || e->term < term || e->term == 0 || e->term > m->term)
			return false;
		if (e->type == RAFT_ENTRY_CONFIG && raft_config_read(span_of(e->payload, e->size), &c) != TV_OK)
			return false;
		term = e->term;
	}
	return m->log_term <= m->term && (m->log_index == 0) == (m->log_term == 0);
}

static bool
is_unready(const struct raft *r)
{
	return r->opening || r->stateless || r->incoming.installing;
}

/* -- a disk that went back */

void
follow_went_back(struct raft *r, uint64_t index)
{
	if (!r->went_back) {
		r->disks_went_back++;
		raft_note(r, RAFT_NOTICE_WENT_BACK, r->opt.self, index);
	}
	r->went_back = true;
	r->regain = 0;
}

/*
 * A leader was elected without this server, so by others one of which has each entry that this one had helped to commit.  With
 * all that the leader had when it was first heard, nothing is missing; and the vote of this term is the leader's.
 */
void
follow_regain(struct raft *r)
{
	if (!r->went_back || r->regain == 0 || follow_durable(r, r->verified) < r->regain)
		return;
	r->went_back = false;
	r->regained_term = r->term;
	if (r->vote == 0)
		raft_set_hard(r, r->term, r->leader);
	raft_note(r, RAFT_NOTICE_REGAINED, r->opt.self, r->regain);
}

static void
note_verified(struct raft *r, const struct raft_msg *m, uint64_t verified)
{
	if (verified > r->verified)
		r->verified = verified;
	if (r->went_back && r->regain == 0)
		r->regain = m->leader_last > verified ? m->leader_last : verified;
	follow_regain(r);
}

/* An accepted append: all is equal to the leader's log up to `verified`. */
static void
accept(struct raft *r, const struct raft_msg *m, uint64_t verified)
{
	struct raft_send *s;

	note_verified(r, m, verified);
	if (m->commit > r->commit && verified > r->commit)
		raft_commit_to(r, m->commit < verified ? m->commit : verified);
	if (m->seq == 0 && m->entry_count == 0)
		return;
	s = raft_send_to(r, RAFT_MSG_APPEND_REPLY, m->from);
	if (s == NULL)
		return;
	s->msg.granted = true;
	s->msg.full = r->disk_full;
	s->msg.unready = is_unready(r);
	s->msg.went_back = r->went_back;
	s->msg.stateless = r->stateless;
	if (r->stateless)
		s->msg.hint_index = r->log.first - 1;
	s->msg.seq = m->seq;
	s->msg.log_index = verified;
	/* An answer to entries says that they are durable, so it waits; a heartbeat's goes out now and says what is. */
	s->after_append = m->entry_count > 0 && verified > r->persisted;
	s->msg.match = s->after_append ? verified : follow_durable(r, verified);
}

/* Names the last place where the logs can still agree: the leader skips whole terms at a time. */
static void
refuse(struct raft *r, const struct raft_msg *m)
{
	struct raft_send *s = raft_send_to(r, RAFT_MSG_APPEND_REPLY, m->from);
	uint64_t hint;

	if (s == NULL)
		return;
	hint = logidx_find_le(&r->log, m->log_index, m->log_term);
	if (hint < r->commit)
		hint = r->commit;
	s->msg.full = r->disk_full;
	s->msg.unready = is_unready(r);
	s->msg.went_back = r->went_back;
	s->msg.seq = m->seq;
	s->msg.log_index = m->log_index;
	s->msg.hint_index = hint;
	(void)logidx_term(&r->log, hint, &s->msg.hint_term);
}

/*
 * How many of the entries are in the log already; *conflict is set when the next one contradicts an entry here.
 * False: it contradicts a committed one.
 */
static bool
skip_known(const struct raft *r, const struct raft_msg *m, uint32_t *skip, bool *conflict)
{
	uint32_t i;

	*conflict = false;
	for (i = 0; i < m->entry_count; i++) {
		uint64_t index = m->log_index + 1 + i, term;

		if (index > r->log.last)
			break;
		/* Compacted entries are committed: the leader has them too. */
		if (!logidx_term(&r->log, index, &term) || term == m->entries[i].term)
			continue;
		if (index <= r->commit)
			return false;
		*conflict = true;
		break;
	}
	*skip = i;
	return true;
}

/* Cuts the log before the first new entry.  What is in flight to the disk for the part cut off counts no more. */
static void
cut(struct raft *r, uint64_t from)
{
	logidx_truncate(&r->log, from);
	members_truncate(r, from);
	r->truncate_from = from;
	r->write_epoch++;
	if (r->persisted >= from)
		r->persisted = from - 1;
}

static bool
reserve(struct raft *r, const struct raft_entry *e, uint32_t count)
{
	unsigned configs = 0;

	for (uint32_t i = 0; i < count; i++)
		configs += e[i].type == RAFT_ENTRY_CONFIG;
	return logidx_reserve(&r->log, count) && (configs == 0 || members_reserve(r, configs));
}

static void
append(struct raft *r, const struct raft_entry *e, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct raft_config c;

		logidx_append(&r->log, e[i].term, e[i].size);
		if (e[i].type != RAFT_ENTRY_CONFIG || raft_config_read(span_of(e[i].payload, e[i].size), &c) != TV_OK)
			continue;
		c.index = e[i].index;
		members_add(r, &c);
	}
	r->append = e;
	r->append_count = count;
}

/*
 * How many of the entries may be taken: on a full disk those that are here already, and what the core itself writes, so
 * that a leader can be elected and serve reads when all disks are full (S85).
 */
static uint32_t
fitting(const struct raft *r, const struct raft_msg *m, uint32_t known)
{
	uint32_t n = r->disk_full ? known : m->entry_count;

	while (n < m->entry_count && m->entries[n].type != RAFT_ENTRY_OP)
		n++;
	return n;
}

/* The logs agree at m->log_index: takes over what is new. */
static void
take_entries(struct raft *r, const struct raft_msg *m)
{
	uint32_t skip, count;
	uint64_t verified;
	bool conflict;

	if (!skip_known(r, m, &skip, &conflict)) {
		raft_note(r, RAFT_NOTICE_READ_ONLY_CORRUPT, m->from, m->log_index);
		return;
	}
	count = fitting(r, m, skip);
	verified = m->log_index + count;
	if (skip < count) {
		if (!reserve(r, m->entries + skip, count - skip))
			return;		/* no memory: as if the message had been lost */
		if (conflict)
			cut(r, m->log_index + 1 + skip);
		append(r, m->entries + skip, count - skip);
	}
	accept(r, m, verified < r->commit ? r->commit : verified);
}

void
follow_on_append(struct raft *r, const struct raft_msg *m)
{
	uint64_t term;
	bool known;

	if (!entries_valid(m)) {
		raft_note(r, RAFT_NOTICE_VIOLATION, m->from, RAFT_VIOLATION_ENTRIES);
		return;
	}
	if (!election_heard_leader(r, m->from))
		return;
	r->leader_last = m->leader_last;
	if (m->went_back && r->regained_term != r->term)
		follow_went_back(r, 0);
	if (r->incoming.installing) {
		/* The log is about to be replaced: what is committed is all that can be vouched for. */
		struct raft_msg as_heartbeat = *m;

		as_heartbeat.entry_count = 0;
		as_heartbeat.commit = 0;
		accept(r, &as_heartbeat, r->commit);
		return;
	}
	known = logidx_term(&r->log, m->log_index, &term);
	if (known && term == m->log_term)
		take_entries(r, m);
	else if (m->log_index < r->log.first && !known)
		take_entries(r, m);
	else if (m->log_index <= r->commit)
		raft_note(r, RAFT_NOTICE_READ_ONLY_CORRUPT, m->from, m->log_index);
	else
		refuse(r, m);
}
