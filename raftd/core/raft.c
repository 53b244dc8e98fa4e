/*
 * Life of a core, dispatch of inputs and messages, assembly of the output.  The contract is in raft.h; the rules
 * are in the files that raft_int.h lists.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/assert.h"
#include "raftd/core/raft_int.h"

#define CONFIG_BYTES_MAX 16384	/* of one encoded configuration */
#define UNCOMMITTED_ENTRIES 65536
#define UNCOMMITTED_BYTES ((uint64_t)64 << 20)

/* -- life */

static void
check_options(const struct raft_options *o)
{
	TV_ASSERT(o->self != 0 && o->heartbeat.ns > 0 && o->election_timeout.ns >= 3 * o->heartbeat.ns);
	TV_ASSERT(o->append_entries_max > 0 && o->append_bytes_max > 0 && o->inflight_max > 0);
	TV_ASSERT(o->snapshot_chunk_bytes > 0 && o->catchup_rounds > 0);
}

static void
set_numbers(struct raft *r, const struct raft_restore *from, struct mono now)
{
	r->now = now;
	r->term = from->term;
	r->vote = from->vote;
	r->snapshot_index = from->snapshot_index;
	r->snapshot_term = from->snapshot_term;
	r->opening = from->opening;
	r->applied = !from->opening && from->applied > from->snapshot_index ? from->applied : from->snapshot_index;
	r->commit = r->applied;
	if (r->opt.uncommitted_entries_max == 0)
		r->opt.uncommitted_entries_max = UNCOMMITTED_ENTRIES;
	if (r->opt.uncommitted_bytes_max == 0)
		r->opt.uncommitted_bytes_max = UNCOMMITTED_BYTES;
	rng_seed(&r->rng, r->opt.seed);
	/* Numbers of read requests must not repeat those of an earlier life: late answers are told by them. */
	r->read_seq = r->read_done = rng_u64(&r->rng) >> 8;
}

struct raft *
raft_new(const struct raft_options *opt, const struct raft_restore *from, struct mono now)
{
	struct raft *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	check_options(opt);
	r->opt = *opt;
	set_numbers(r, from, now);
	logidx_init(&r->log);
	r->stateless = from->stateless && !from->opening;
	logidx_reset(&r->log, from->snapshot_index, from->snapshot_term);
	buf_init(&r->config_bytes, CONFIG_BYTES_MAX);
	if (!members_init(r, &from->snapshot_config)) {
		raft_free(r);
		return NULL;
	}
	return r;
}

void
raft_free(struct raft *r)
{
	if (r == NULL)
		return;
	members_done(r);
	logidx_done(&r->log);
	buf_done(&r->config_bytes);
	free(r->entries);
	free(r->sends);
	free(r->reads);
	free(r->done_reads);
	free(r);
}

/* The first stored entry may lie below the snapshot; then the term before it is known only at index 0. */
static bool
first_entry(struct raft *r, const struct raft_entry *e)
{
	if (e->index == 0 || e->index > r->snapshot_index + 1)
		return false;
	if (e->index <= r->snapshot_index)
		logidx_reset(&r->log, e->index - 1, 0);
	return true;
}

enum tv_err
raft_restore_entry(struct raft *r, const struct raft_entry *e)
{
	struct raft_config c;

	TV_ASSERT(!r->started);
	if (r->log.last + 1 == r->log.first && r->log.last == r->snapshot_index && !first_entry(r, e))
		return TV_ECORRUPT;
	if (e->index != r->log.last + 1 || e->term == 0 || e->term > r->term || e->term < logidx_last_term(&r->log))
		return TV_ECORRUPT;
	if (e->index == r->snapshot_index && e->term != r->snapshot_term)
		return TV_ECORRUPT;
	if (!logidx_reserve(&r->log, 1))
		return TV_ENOMEM;
	if (e->type == RAFT_ENTRY_CONFIG && e->index > r->snapshot_index) {
		if (!members_reserve(r, 1))
			return TV_ENOMEM;
		if (raft_config_read(span_of(e->payload, e->size), &c) != TV_OK)
			return TV_ECORRUPT;
		c.index = e->index;
		members_add(r, &c);
	}
	logidx_append(&r->log, e->term, e->size);
	return TV_OK;
}

/* Before the first input: everything restored is durable. */
static void
start_restored(struct raft *r)
{
	r->started = true;
	r->persisted = r->log.last;
	if (r->log.last < r->applied) {
		raft_note(r, RAFT_NOTICE_READ_ONLY_CORRUPT, 0, r->log.last);
		r->commit = r->log.last;
	}
	election_reset_timer(r);
	if (r->self_voter && members_quorum(r) == 1)
		r->election_due = r->now;	/* no other voter to wait for */
}

/* -- what the other files use to build the output */

void
raft_note(struct raft *r, enum raft_notice_type type, raft_id id, uint64_t index)
{
	/* One server alone becomes candidate and leader within one input: that is one change for the outside. */
	for (uint32_t i = 0; type == RAFT_NOTICE_ROLE && i < r->notice_count; i++)
		if (r->notices[i].type == RAFT_NOTICE_ROLE)
			return;
	if (r->notice_count < NOTICES_MAX)
		r->notices[r->notice_count++] = (struct raft_notice){ type, id, index };
}

struct raft_send *
raft_send_to(struct raft *r, enum raft_msg_type type, raft_id to)
{
	struct raft_send *s;

	if (!array_reserve(&r->sends, &r->send_cap, r->send_count + 1, sizeof(*s)))
		return NULL;
	s = &r->sends[r->send_count++];
	memset(s, 0, sizeof(*s));
	s->msg.type = type;
	s->msg.from = r->opt.self;
	s->msg.to = to;
	s->msg.term = r->term;
	s->after_hard = true;
	return s;
}

void
raft_set_hard(struct raft *r, uint64_t term, raft_id vote)
{
	if (term != r->term)
		raft_note(r, RAFT_NOTICE_TERM, 0, term);
	r->term = term;
	r->vote = vote;
	r->hard_changed = true;
}

enum tv_err
raft_append_own(struct raft *r, const struct raft_entry *entries, uint32_t count)
{
	if (!array_reserve(&r->entries, &r->entry_cap, count, sizeof(*r->entries)) || !logidx_reserve(&r->log, count))
		return TV_ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		r->entries[i] = entries[i];
		r->entries[i].index = r->log.last + 1;
		r->entries[i].term = r->term;
		logidx_append(&r->log, r->term, entries[i].size);
		r->uncommitted_bytes += entries[i].size;
	}
	r->append = r->entries;
	r->append_count = count;
	return TV_OK;
}

void
raft_commit_to(struct raft *r, uint64_t index)
{
	uint64_t from = r->commit;

	TV_ASSERT(index > from && index <= r->log.last);
	if (r->role == RAFT_LEADER)
		for (uint64_t i = from + 1; i <= index; i++)
			r->uncommitted_bytes -= logidx_size(&r->log, i);
	r->commit = index;
	members_committed_range(r, from);
}

struct peer *
raft_peer(struct raft *r, raft_id id)
{
	for (unsigned i = 0; i < r->peer_count; i++)
		if (r->peers[i].id == id)
			return &r->peers[i];
	return NULL;
}

uint64_t
raft_kth_largest(uint64_t *v, unsigned n, unsigned k)
{
	TV_ASSERT(k >= 1 && k <= n);
	for (unsigned i = 1; i < n; i++)
		for (unsigned j = i; j > 0 && v[j - 1] < v[j]; j--) {
			uint64_t t = v[j];

			v[j] = v[j - 1];
			v[j - 1] = t;
		}
	return v[k - 1];
}

/* -- inputs */

static void
in_tick(struct raft *r)
{
	election_transfer_tick(r);
	if (r->role == RAFT_LEADER) {
		replicate_commit_tick(r);
		read_round_tick(r);
		if (mono_before(r->now, r->heartbeat_due))
			return;
		r->heartbeat_due = mono_add(r->now, r->opt.heartbeat);
		election_check_quorum(r);
		if (r->role == RAFT_LEADER)
			replicate_heartbeat_all(r);
		return;
	}
	if (!mono_before(r->now, r->election_due))
		election_timeout(r);
	read_tick(r);
}

/* Is there room for these proposals before the others are committed?  A batch of any size fits into an empty window. */
static bool
window_open(const struct raft *r, const struct raft_input *in)
{
	uint64_t count = r->log.last - r->commit, bytes = r->uncommitted_bytes;

	if (count == 0)
		return true;
	for (uint32_t i = 0; i < in->entry_count; i++)
		bytes += in->entries[i].size;
	return count + in->entry_count <= r->opt.uncommitted_entries_max && bytes <= r->opt.uncommitted_bytes_max;
}

static void
in_propose(struct raft *r, const struct raft_input *in)
{
	if (r->role != RAFT_LEADER) {
		r->err = TV_ENOTLEADER;
		return;
	}
	for (uint32_t i = 0; i < in->entry_count; i++)
		if (in->entries[i].type == RAFT_ENTRY_CONFIG)
			r->err = TV_EINVAL;
	if (r->err != TV_OK || in->entry_count == 0)
		return;
	if (r->transfer.active || !window_open(r, in)) {
		r->err = TV_EAGAIN;
		return;
	}
	r->err = raft_append_own(r, in->entries, in->entry_count);
	if (r->err == TV_OK)
		replicate_pump_all(r);
}

static void
in_persisted(struct raft *r, const struct raft_input *in)
{
	uint64_t term;

	/* A completion from before a truncation says nothing about what is in its place now (S29). */
	if (in->ctx != r->write_epoch || in->index <= r->persisted)
		return;
	if (!logidx_term(&r->log, in->index, &term) || term != in->term)
		return;
	r->persisted = in->index;
	follow_regain(r);
	if (r->role == RAFT_LEADER)
		replicate_try_commit(r);
}

/* What is applied is committed, whatever was heard of it since the start. */
static void
in_state_open(struct raft *r, const struct raft_input *in)
{
	TV_ASSERT(r->opening);
	r->opening = false;
	r->stateless = in->ctx != 0;
	if (in->index > r->log.last) {
		raft_note(r, RAFT_NOTICE_READ_ONLY_CORRUPT, 0, r->log.last);
		return;
	}
	if (in->index > r->applied)
		r->applied = in->index;
	if (in->index > r->commit)
		raft_commit_to(r, in->index);
	if (r->self_voter && members_quorum(r) == 1)
		r->election_due = r->now;	/* no other voter to wait for */
}

static void
in_compacted(struct raft *r, const struct raft_input *in)
{
	uint64_t upto = in->snapshot_index > in->index ? in->snapshot_index : in->index, term;

	TV_ASSERT(upto <= r->applied);
	if (upto > r->snapshot_index && logidx_term(&r->log, upto, &term)) {
		r->snapshot_index = upto;
		r->snapshot_term = term;
	}
	logidx_compact(&r->log, in->index < r->log.last ? in->index : r->log.last);
	members_compact(r, in->index);
}

static void
in_disk_stuck(struct raft *r)
{
	if (r->role == RAFT_LEADER) {
		election_hand_over(r);
		return;
	}
	/* It could not make its vote durable: let others stand first. */
	election_reset_timer(r);
	r->election_due = mono_add(r->election_due, r->opt.election_timeout);
}

/*
 * Its own vote in that term is not known any more, and may not be given again: it counts as given to itself.  A leader or candidate
 * of that term came to be by what this server has forgotten, too.
 */
static void
in_went_back(struct raft *r, const struct raft_input *in)
{
	if (r->self_voter && members_quorum(r) == 1)
		r->err = TV_ECONFLICT;
	else if (in->term >= RAFT_NUMBER_MAX)
		r->err = TV_EINVAL;
	else if (r->went_back && in->term <= r->term)
		r->err = TV_EEXIST;
	if (r->err != TV_OK)
		return;
	if (in->term > r->term || r->role != RAFT_FOLLOWER)
		election_become(r, RAFT_FOLLOWER, in->term > r->term ? in->term : r->term, 0);
	if (in->term == r->term && r->vote == 0)
		raft_set_hard(r, r->term, r->leader != 0 ? r->leader : r->opt.self);
	follow_went_back(r, in->index);
}

static void
in_retire(struct raft *r)
{
	election_become(r, RAFT_FOLLOWER, r->term, 0);
	election_reset_timer(r);
	r->retired = true;
}

static void
take_input(struct raft *r, const struct raft_input *in)
{
	switch (in->type) {
	case RAFT_IN_TICK:
		in_tick(r);
		break;
	case RAFT_IN_MSG:
		if (!r->retired)
			message_in(r, in->msg);
		break;
	case RAFT_IN_PROPOSE:
		in_propose(r, in);
		break;
	case RAFT_IN_PERSISTED:
		in_persisted(r, in);
		break;
	case RAFT_IN_APPLIED:
		TV_ASSERT(in->index <= r->commit);
		if (in->index > r->applied)
			r->applied = in->index;
		break;
	case RAFT_IN_STATE_OPEN:
		in_state_open(r, in);
		break;
	case RAFT_IN_READ:
		r->err = read_local(r, in->ctx);
		break;
	case RAFT_IN_CHANGE:
		r->err = members_change(r, in->change);
		break;
	case RAFT_IN_TRANSFER:
		r->err = election_transfer(r, in->to);
		break;
	case RAFT_IN_COMPACTED:
		in_compacted(r, in);
		break;
	case RAFT_IN_SNAPSHOT_READY:
		snapshot_ready(r, in->index, in->offset);
		break;
	case RAFT_IN_SNAPSHOT_INSTALLED:
		snapshot_installed(r, in->msg, in->config);
		break;
	case RAFT_IN_SNAPSHOT_CHUNK:
		snapshot_chunk_stored(r, in->msg, in->offset);
		break;
	case RAFT_IN_UNREACHABLE:
		replicate_unreachable(r, in->to);
		break;
	case RAFT_IN_REACHABLE:
		election_back(r, in->to);
		replicate_reachable(r, in->to);
		break;
	case RAFT_IN_GONE:
		election_gone(r, in->to);
		break;
	case RAFT_IN_DISK_STUCK:
		in_disk_stuck(r);
		break;
	case RAFT_IN_DISK_SPACE:
		r->disk_full = in->ctx != 0;
		break;
	case RAFT_IN_BOOTSTRAP:
		r->err = members_bootstrap(r, in->config);
		break;
	case RAFT_IN_RECOVER:
		r->err = members_recover(r, in->config);
		break;
	case RAFT_IN_WENT_BACK:
		in_went_back(r, in);
		break;
	case RAFT_IN_RETIRE:
		in_retire(r);
		break;
	default:
		TV_ASSERT(false);
	}
}

/* -- output */

static void
begin_output(struct raft *r)
{
	r->hard_changed = false;
	r->err = TV_OK;
	r->truncate_from = 0;
	r->append = NULL;
	r->append_count = 0;
	r->send_count = 0;
	r->done_count = 0;
	r->notice_count = 0;
	r->snapshot_chunk = NULL;
}

static struct mono
deadline(const struct raft *r)
{
	struct mono due = r->role == RAFT_LEADER ? mono_min(r->heartbeat_due, r->commit_due) : r->election_due;

	if (r->transfer.active)
		due = mono_min(due, r->transfer.due);
	if (r->read_count > 0 && (r->role == RAFT_LEADER || (r->role == RAFT_FOLLOWER && r->leader != 0)))
		due = mono_min(due, r->read_retry_due);
	return due;
}

/* What may be applied: committed, and durable here (S31). */
uint64_t
raft_publishable(const struct raft *r)
{
	return r->commit < r->persisted ? r->commit : r->persisted;
}

static void
end_output(const struct raft *r, struct raft_output *out)
{
	*out = (struct raft_output){
		.err = r->err,
		.hard_changed = r->hard_changed,
		.term = r->term,
		.vote = r->vote,
		.truncate_from = r->truncate_from,
		.write_epoch = r->write_epoch,
		.append = r->append,
		.append_count = r->append_count,
		.sends = r->sends,
		.send_count = r->send_count,
		.commit_index = raft_publishable(r),
		.reads = r->done_reads,
		.read_count = r->done_count,
		.notices = r->notices,
		.notice_count = r->notice_count,
		.snapshot_chunk = r->snapshot_chunk,
		.deadline = deadline(r),
	};
}

void
raft_feed(struct raft *r, const struct raft_input *in, struct raft_output *out)
{
	begin_output(r);
	r->now = in->now;
	if (!r->started)
		start_restored(r);
	take_input(r, in);
	end_output(r, out);
}
