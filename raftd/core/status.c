/* What the shell may ask about: status, terms, what can be compacted. */
#include "raftd/core/raft_int.h"

static bool
peer_active(const struct raft *r, const struct peer *p)
{
	return p->heard && replicate_active(r, p);
}

static void
peer_status(const struct raft *r, const struct peer *p, struct raft_peer_status *out)
{
	out->id = p->id;
	out->voter = p->voter;
	if (r->role != RAFT_LEADER)
		return;
	out->match = p->match;
	out->next = p->next;
	out->active = peer_active(r, p);
	out->snapshotting = p->progress == PROGRESS_SNAPSHOT || p->progress == PROGRESS_NEED_SNAPSHOT;
	out->full = p->full;
	out->unready = p->unready;
	out->went_back = p->disk != DISK_KEPT;
	out->lacking = p->disk == DISK_LACKING;
	out->caught_up = p->voter || replicate_caught_up(r, p);
	out->last_contact = p->heard ? p->contact : MONO_ZERO;
}

void
raft_status(const struct raft *r, struct raft_status *out)
{
	bool leads = r->role == RAFT_LEADER;

	*out = (struct raft_status){
		.role = r->role,
		.term = r->term,
		.commit = r->started ? raft_publishable(r) : r->commit,
		.applied = r->applied,
		.last_index = r->log.last,
		.last_term = logidx_last_term(&r->log),
		.first_index = r->log.first,
		.snapshot_index = r->snapshot_index,
		.snapshot_term = r->snapshot_term,
		.persisted = r->started ? r->persisted : r->log.last,
		.leader = r->leader,
		.vote = r->vote,
		.leader_last = leads ? r->log.last : r->leader_last,
		.leader_contact = r->leader_seen ? r->leader_contact : MONO_ZERO,
		.voter = r->self_voter,
		.ready = leads && r->commit >= r->own_first,
		.informed = leads && r->applied >= r->own_first,
		.own_first = leads ? r->own_first : 0,
		.prompt_elections = r->prompt_elections,
		.disks_went_back = r->disks_went_back,
		.went_back = r->went_back,
		.regained_term = r->regained_term,
		.kept = leads ? r->persisted : follow_durable(r, r->verified),
		.transferring = leads && r->transfer.active,
		.change_pending = r->newest->config.index > r->commit,
	};
	for (unsigned i = 0; i < r->peer_count; i++)
		if (out->peer_count < RAFT_SERVERS_MAX && !r->peers[i].leaving)
			peer_status(r, &r->peers[i], &out->peers[out->peer_count++]);
}

const struct raft_peer_status *
raft_status_peer(const struct raft_status *st, raft_id id)
{
	for (unsigned i = 0; i < st->peer_count; i++)
		if (st->peers[i].id == id)
			return &st->peers[i];
	return NULL;
}

uint64_t
raft_term_at(const struct raft *r, uint64_t index)
{
	uint64_t term;

	if (index == r->snapshot_index)
		return r->snapshot_term;
	(void)logidx_term(&r->log, index, &term);
	return term;
}

uint64_t
raft_compact_limit(const struct raft *r)
{
	uint64_t limit = r->applied;

	for (unsigned i = 0; i < r->peer_count && r->role == RAFT_LEADER; i++) {
		const struct peer *p = &r->peers[i];
		uint64_t needs = p->progress == PROGRESS_SNAPSHOT ? p->snap_index : p->match;

		/* One that takes nothing would keep the log growing here: it gets a snapshot when it has room again. */
		if (peer_active(r, p) && !p->full && p->progress != PROGRESS_NEED_SNAPSHOT && needs < limit)
			limit = needs;
	}
	return limit;
}

const char *
raft_violation_text(enum raft_violation code)
{
	static const char *const texts[] = {
		[RAFT_VIOLATION_NUMBERS] = "impossible term or index",
		[RAFT_VIOLATION_ADDRESSEE] = "message for another server",
		[RAFT_VIOLATION_SECOND_LEADER] = "two leaders in one term",
		[RAFT_VIOLATION_ENTRIES] = "malformed entries",
		[RAFT_VIOLATION_ANSWER] = "acknowledges what was never sent",
		[RAFT_VIOLATION_SNAPSHOT] = "malformed snapshot chunk",
	};

	if ((unsigned)code >= sizeof(texts) / sizeof(texts[0]) || texts[code] == NULL)
		return "unknown violation";
	return texts[code];
}
