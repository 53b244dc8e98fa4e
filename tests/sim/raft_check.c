/* Invariants, checked with every step (scenarios.md, sections A and B). */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "tests/sim/raft_world.h"

struct truth {			/* a committed entry */
	uint64_t term, payload, state;	/* hashes; state: of the chain up to here, 0 until applied somewhere */
	uint64_t by_term;		/* it was committed in this term or before */
	bool done;			/* the state machine did what it says */
};

struct leadership {		/* of one term */
	raft_id id;
	unsigned gen;
};

struct ident {			/* what (index, term) is: the same wherever it appears */
	uint64_t index, term, payload, prev_term;
	bool void_;			/* see check_crash(): may be something else */
};

#define ULL(x) ((unsigned long long)(x))

static uint64_t
payload_hash(const struct sim_entry *e)
{
	return hash_bytes(e->type, e->payload->bytes, e->payload->size);
}

static struct truth *
truth_at(struct world *w, uint64_t index)
{
	if (index >= w->truth_cap) {
		size_t cap = w->truth_cap > 0 ? w->truth_cap * 2 : 1024;

		while (cap <= index)
			cap *= 2;
		w->truth = realloc(w->truth, cap * sizeof(w->truth[0]));
		TV_ASSERT(w->truth != NULL);
		memset(w->truth + w->truth_cap, 0, (cap - w->truth_cap) * sizeof(w->truth[0]));
		w->truth_cap = cap;
	}
	return &w->truth[index];
}

void
check_done(struct world *w)
{
	free(w->truth);
	free(w->leaders);
	free(w->idents);
}

uint64_t
check_state_at(const struct world *w, uint64_t index)
{
	return index < w->truth_cap ? w->truth[index].state : 0;
}

bool
check_outcome(const struct world *w, uint64_t index)
{
	return w->truth[index].done;
}

/* -- log matching */

static struct ident *
ident_slot(struct ident *table, size_t cap, uint64_t index, uint64_t term)
{
	uint64_t key[2] = { index, term };
	size_t at = hash_bytes(1, key, sizeof(key)) & (cap - 1);

	while (table[at].index != 0 && (table[at].index != index || table[at].term != term))
		at = (at + 1) & (cap - 1);
	return &table[at];
}

static void
grow_idents(struct world *w)
{
	size_t cap = w->ident_cap > 0 ? w->ident_cap * 2 : 4096;
	struct ident *to = calloc(cap, sizeof(*to));

	TV_ASSERT(to != NULL);
	for (size_t i = 0; i < w->ident_cap; i++)
		if (w->idents[i].index != 0)
			*ident_slot(to, cap, w->idents[i].index, w->idents[i].term) = w->idents[i];
	free(w->idents);
	w->idents = to;
	w->ident_cap = cap;
}

/* By induction over the log: if (index, term) is the same entry after the same one everywhere, logs match. */
void
check_append(struct world *w, struct sim_node *n, const struct sim_entry *e, uint64_t prev_term)
{
	struct ident *slot, is = { e->index, e->term, payload_hash(e), prev_term, false };

	if (w->ident_count * 2 >= w->ident_cap)
		grow_idents(w);
	slot = ident_slot(w->idents, w->ident_cap, e->index, e->term);
	if (slot->index == 0) {
		*slot = is;
		w->ident_count++;
	} else if (slot->void_) {
		*slot = is;
	} else if (slot->payload != is.payload || slot->prev_term != is.prev_term) {
		world_fail(w, "log matching: entry %llu of term %llu on n%d differs from elsewhere", ULL(e->index),
		    ULL(e->term), n->i + 1);
	}
}

/* -- commitment */

/* It acknowledged that before its disk went back. */
static bool
had(const struct sim_node *n, uint64_t index, uint64_t term)
{
	const struct sim_entry *e = simlog_at(&n->lost, index);

	return n->lost_snap >= index || (e != NULL && e->term == term);
}

/* On how many disks of the configuration's voters is (index, term) safe? */
static unsigned
durable_on(const struct world *w, const struct raft_config *c, uint64_t index, uint64_t term)
{
	unsigned have = 0;

	for (int i = 0; i < w->count; i++) {
		const struct sim_node *n = &w->nodes[i];
		const struct raft_server_conf *s = raft_config_find(c, n->id);
		const struct sim_entry *e = simlog_at(&n->disk.log, index);

		if (s != NULL && s->voter)
			have += n->disk.snap.index >= index || (e != NULL && e->term == term) || had(n, index, term);
	}
	return have;
}

static bool
majority_has(const struct world *w, const struct raft_config *c, uint64_t index, uint64_t term)
{
	return durable_on(w, c, index, term) >= raft_config_voters(c) / 2 + 1;
}

/*
 * The configuration that counted was in the leader's log at that time: at the entry or above it, and perhaps not yet
 * in this server's log.
 */
static void
check_majority(struct world *w, struct sim_node *n, uint64_t index, uint64_t term)
{
	const struct raft_config *c = NULL;
	struct raft_status st;

	raft_status(n->core, &st);
	for (uint64_t at = index; at <= st.last_index; at++) {
		if (c == raft_config_at(n->core, at))
			continue;
		c = raft_config_at(n->core, at);
		if (majority_has(w, c, index, term))
			return;
	}
	for (int i = 0; i < w->count; i++)
		if (w->nodes[i].role == RAFT_LEADER && majority_has(w, raft_config(w->nodes[i].core), index, term))
			return;
	world_fail(w, "commit: entry %llu of term %llu is committed on n%d, but durable on no majority", ULL(index),
	    ULL(term), n->i + 1);
}

/* n says for the first time that the entry is committed. */
static void
first_commit(struct world *w, struct sim_node *n, uint64_t index, uint64_t term)
{
	struct truth *t = truth_at(w, index);
	const struct sim_entry *e = simlog_at(&n->log, index);
	struct raft_status st;

	raft_status(n->core, &st);
	check_majority(w, n, index, term);
	TV_ASSERT(e != NULL);
	t->term = term;
	t->payload = payload_hash(e);
	t->by_term = st.term;
	if (index > w->truth_last)
		w->truth_last = index;
}

/*
 * A leader tells the others what is committed, perhaps before it is durable on its own disk, and by a configuration that
 * it alone knows yet.
 */
static void
check_told(struct world *w, struct sim_node *n, const struct raft_msg *m)
{
	for (uint64_t i = w->truth_last + 1; i <= m->commit && !w->failed; i++)
		first_commit(w, n, i, raft_term_at(n->core, i));
}

void
check_commit(struct world *w, struct sim_node *n, uint64_t from, uint64_t to)
{
	if (to > simlog_last(&n->disk.log) && to > n->disk.snap.index)
		world_fail(w, "n%d: commit index %llu passes its durable log", n->i + 1, ULL(to));
	for (uint64_t i = from + 1; i <= to && !w->failed; i++) {
		struct truth *t = truth_at(w, i);
		uint64_t term = raft_term_at(n->core, i);

		if (t->term == 0) {
			first_commit(w, n, i, term);
		} else if (t->term != term) {
			world_fail(w, "n%d: entry %llu committed with term %llu, elsewhere with %llu", n->i + 1, ULL(i),
			    ULL(term), ULL(t->term));
		}
	}
}

void
check_apply(struct world *w, struct sim_node *n, const struct sim_entry *e)
{
	struct truth *t = truth_at(w, e->index);
	uint64_t payload = payload_hash(e);

	n->state = hash_bytes(n->state, &payload, sizeof(payload));
	if (t->term != e->term || t->payload != payload)
		world_fail(w, "n%d applies another entry at %llu", n->i + 1, ULL(e->index));
	if (t->state == 0) {
		t->state = n->state;
		t->done = state_do(w, e);
	} else if (t->state != n->state) {
		world_fail(w, "n%d: state after %llu differs", n->i + 1, ULL(e->index));
	}
}

/* -- leaders */

static void
new_leader(struct world *w, struct sim_node *n, const struct raft_status *st)
{
	struct leadership *l;
	uint64_t at = w->truth_last;

	if (st->term >= w->leader_cap) {
		size_t cap = st->term * 2 + 64;

		w->leaders = realloc(w->leaders, cap * sizeof(*l));
		TV_ASSERT(w->leaders != NULL);
		memset(w->leaders + w->leader_cap, 0, (cap - w->leader_cap) * sizeof(*l));
		w->leader_cap = cap;
	}
	l = &w->leaders[st->term];
	if (l->id != 0 && (l->id != n->id || l->gen != n->gen))
		world_fail(w, "two leaders in term %llu: n%d is the second", ULL(st->term), n->i + 1);
	*l = (struct leadership){ n->id, n->gen };
	w->elections++;
	n->leads_since = w->now;
	/* Leader completeness: all that was committed in earlier terms is in its log. */
	while (at > 0 && w->truth[at].by_term >= st->term)
		at--;
	if (at > 0 && (at > st->last_index || (at > st->snapshot_index && at >= st->first_index &&
	    raft_term_at(n->core, at) != w->truth[at].term)))
		world_fail(w, "n%d leads term %llu without committed entry %llu", n->i + 1, ULL(st->term), ULL(at));
}

/* -- one step of one server */

static void
check_notice(struct world *w, struct sim_node *n, const struct raft_notice *note)
{
	if (note->type == RAFT_NOTICE_READ_ONLY_CORRUPT)
		world_fail(w, "n%d: would cut a committed entry (at %llu)", n->i + 1, ULL(note->index));
	if (note->type == RAFT_NOTICE_WENT_BACK && world_node(w, note->id) != NULL && world_node(w, note->id)->backs == 0)
		world_fail(w, "n%d: says that the disk of n%d went back", n->i + 1, world_node(w, note->id)->i + 1);
	if (note->type == RAFT_NOTICE_VIOLATION)
		world_fail(w, "n%d: protocol violation by n%d: %s", n->i + 1,
		    world_node(w, note->id) != NULL ? world_node(w, note->id)->i + 1 : 0,
		    raft_violation_text((enum raft_violation)note->index));
}

static void
check_read(struct world *w, struct sim_node *n, const struct raft_read *read)
{
	for (size_t i = 0; i < n->read_count; i++) {
		struct pending_read r = n->reads[i];

		if (r.ctx != read->ctx || r.serve_at > 0)
			continue;
		if (read->ok && read->index < r.floor)
			world_fail(w, "n%d: read at %llu misses the write acknowledged at %llu", n->i + 1,
			    ULL(read->index), ULL(r.floor));
		w->reads_done += read->ok;
		if (read->ok && r.seen_at > 0 && r.seen_at >= read->index) {
			w->reads_ahead++;
			n->reads[i] = n->reads[--n->read_count];
			clients_served(w, n, r.request, true, r.seen_at);
			return;
		}
		if (read->ok && r.request != 0 && read->index > n->applied) {
			n->reads[i].serve_at = read->index;
			return;
		}
		n->reads[i] = n->reads[--n->read_count];
		clients_served(w, n, r.request, read->ok, n->applied);
		return;
	}
	world_fail(w, "n%d: answer to a read that nobody asked (%llu)", n->i + 1, ULL(read->ctx));
}

void
check_output(struct world *w, struct sim_node *n, const struct raft_output *out)
{
	struct raft_status st;

	raft_status(n->core, &st);
	if (st.role == RAFT_LEADER && n->role != RAFT_LEADER)
		new_leader(w, n, &st);
	n->role = st.role;
	if (raft_config(n->core)->index != n->config_index) {
		n->config_index = raft_config(n->core)->index;
		n->config_since = w->now;
	}
	if (out->commit_index < n->commit)
		world_fail(w, "n%d: commit index goes back from %llu to %llu", n->i + 1, ULL(n->commit),
		    ULL(out->commit_index));
	if (out->truncate_from != 0 && out->truncate_from <= n->commit)
		world_fail(w, "n%d cuts at %llu, committed is %llu", n->i + 1, ULL(out->truncate_from), ULL(n->commit));
	for (uint32_t i = 0; i < out->notice_count; i++) {
		if (w->on_notice != NULL)
			w->on_notice(w, n, &out->notices[i]);
		else
			check_notice(w, n, &out->notices[i]);
	}
	for (uint32_t i = 0; i < out->read_count; i++) {
		if (w->on_read != NULL)
			w->on_read(w, n, &out->reads[i]);
		check_read(w, n, &out->reads[i]);
	}
}

/* Messages show the sender's term and vote to others: neither may ever be taken back, crash or not. */
void
check_send(struct world *w, struct sim_node *n, const struct raft_msg *m)
{
	if (m->type == RAFT_MSG_PRE_VOTE || m->type == RAFT_MSG_PRE_VOTE_REPLY)
		return;
	if (m->type == RAFT_MSG_APPEND)
		check_told(w, n, m);
	if (m->term < n->term_seen && m->type != RAFT_MSG_READ_INDEX_REPLY)
		world_fail(w, "n%d: term goes back from %llu to %llu", n->i + 1, ULL(n->term_seen), ULL(m->term));
}

void
check_restart(struct world *w, struct sim_node *n)
{
	struct raft_status st;

	raft_status(n->core, &st);
	if (n->back != BACK_NOT)
		return;			/* it does not know yet, or never can */
	if (st.term < n->term_seen)
		world_fail(w, "n%d restarts in term %llu, it was in %llu", n->i + 1, ULL(st.term), ULL(n->term_seen));
	if (st.term == n->vote_term && st.vote != n->vote_for && n->vote_term != n->forgot_term)
		world_fail(w, "n%d forgot its vote in term %llu", n->i + 1, ULL(st.term));
}

/*
 * A server that is its own majority leads before its vote is durable.  If it crashes then, that term and its entries
 * never happened, provided that no message of the term had left it: somebody may lead the term again.
 */
void
check_crash(struct world *w, struct sim_node *n)
{
	uint64_t from = (n->term_seen > n->disk.term ? n->term_seen : n->disk.term) + 1;

	for (uint64_t term = from; term < w->leader_cap; term++) {
		if (w->leaders[term].id != n->id)
			continue;
		w->leaders[term] = (struct leadership){ 0, 0 };
		for (size_t i = 0; i < w->ident_cap; i++)
			if (w->idents[i].index != 0 && w->idents[i].term == term)
				w->idents[i].void_ = true;
	}
}

/* A message leaves: from here on others may have seen it. */
void
check_leaves(struct world *w, struct sim_node *n, const struct raft_msg *m)
{
	if (m->type == RAFT_MSG_PRE_VOTE || m->type == RAFT_MSG_PRE_VOTE_REPLY)
		return;
	if (m->term > n->term_seen)
		n->term_seen = m->term;
	if (m->type != RAFT_MSG_VOTE_REPLY || !m->granted)
		return;
	if (m->term == n->vote_term && m->to != n->vote_for)
		world_fail(w, "n%d votes twice in term %llu", n->i + 1, ULL(m->term));
	n->vote_term = m->term;
	n->vote_for = m->to;
}

/* Has it heard from a majority of its voters within that time? */
static bool
hears_majority(const struct world *w, const struct sim_node *n, struct mono limit)
{
	const struct raft_config *c = raft_config(n->core);
	const struct raft_server_conf *self = raft_config_find(c, n->id);
	unsigned alive = self != NULL && self->voter;

	for (unsigned i = 0; i < c->count; i++)
		for (int k = 0; k < w->count; k++)
			alive += k != n->i && w->nodes[k].id == c->servers[i].id && c->servers[i].voter &&
			    mono_before(w->now, mono_add(w->heard[n->i][k], limit));
	return alive >= raft_config_voters(c) / 2 + 1;
}

/* Two election timeouts and a half: one of silence, by a clock that may be slow, and the heartbeat that notices (S10). */
void
check_quorums(struct world *w)
{
	struct mono limit = { w->plan.opt.election_timeout.ns * 5 / 2 };

	for (int i = 0; i < w->count && w->plan.opt.check_quorum; i++) {
		const struct sim_node *n = &w->nodes[i];

		if (n->core == NULL || n->role != RAFT_LEADER || mono_before(w->now, mono_add(n->leads_since, limit)) ||
		    mono_before(w->now, mono_add(n->paused_until, limit)) ||
		    mono_before(w->now, mono_add(n->config_since, limit)))
			continue;
		if (!hears_majority(w, n, limit))
			world_fail(w, "n%d still leads without having heard from a majority", n->i + 1);
	}
}
