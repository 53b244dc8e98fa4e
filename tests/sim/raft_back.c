/*
 * A disk that is put back to an older state of itself: what the reverted snapshot of a virtual machine does, or an old copy of the
 * data folder (S61).  Promises are forgotten that others count on.
 */
#include <string.h>

#include "common/base/assert.h"
#include "tests/sim/raft_world.h"

static void
copy_log(struct sim_log *to, const struct sim_log *from)
{
	simlog_reset(to, from->first);
	for (size_t i = 0; i < from->count; i++)
		simlog_push(to, &from->e[i]);
}

void
back_copy(struct sim_node *n)
{
	struct disk_copy *c = &n->copy;

	c->taken = true;
	c->term = n->disk.term;
	c->vote = n->disk.vote;
	c->applied = n->applied;
	snap_drop(&c->snap);
	c->snap = n->disk.snap;
	blob_ref(c->snap.data);
	copy_log(&c->log, &n->disk.log);
}

void
back_forget(struct sim_node *n)
{
	snap_drop(&n->copy.snap);
	simlog_done(&n->copy.log);
	simlog_done(&n->lost);
	n->copy = (struct disk_copy){ .log = { .first = 1 } };
	n->lost_snap = 0;
	n->back = BACK_NOT;
}

/* What its mark says, as other servers remember it: durable, so at most what the disk has. */
static void
remember(struct sim_node *n)
{
	struct raft_status st;

	raft_status(n->core, &st);
	n->mark_term = n->disk.term;
	n->mark_vote = n->disk.vote;
	n->mark_kept = st.term == n->disk.term ? st.kept : 0;
}

void
back_put(struct world *w, struct sim_node *n, bool told)
{
	struct disk_copy *c = &n->copy;

	TV_ASSERT(c->taken && w->plan.stores == NULL);
	world_say(w, "n%d: its disk goes back from term %llu, log to %llu, to term %llu, log to %llu", n->i + 1,
	    (unsigned long long)n->disk.term, (unsigned long long)simlog_last(&n->disk.log), (unsigned long long)c->term,
	    (unsigned long long)simlog_last(&c->log));
	if (n->core != NULL) {
		remember(n);
		node_crash(w, n, true);
	}
	copy_log(&n->lost, &n->disk.log);
	n->lost_snap = n->disk.snap.index;
	n->disk.term = c->term;
	n->disk.vote = c->vote;
	snap_drop(&n->disk.snap);
	n->disk.snap = c->snap;
	blob_ref(n->disk.snap.data);
	copy_log(&n->disk.log, &c->log);
	n->applied = c->applied;
	n->back = told ? BACK_TO_BE_TOLD : BACK_UNKNOWN;
	n->forgot_term = n->vote_term;
	n->backs++;
	w->backs++;
}

/* Is less there than what others remember? */
static bool
lacks(const struct sim_node *n)
{
	uint64_t last = simlog_last(&n->disk.log);

	if (last < n->disk.snap.index)
		last = n->disk.snap.index;
	if (n->disk.term != n->mark_term)
		return n->disk.term < n->mark_term;
	return last < n->mark_kept || n->disk.vote != n->mark_vote;
}

void
back_started(struct world *w, struct sim_node *n)
{
	struct raft_input in = { .type = RAFT_IN_WENT_BACK, .term = n->mark_term, .index = n->mark_kept };

	if (n->back == BACK_TO_BE_TOLD && !lacks(n))
		n->back = BACK_NOT;
	if (n->back == BACK_NOT || n->back == BACK_UNKNOWN)
		return;
	n->back = BACK_TOLD;		/* and told again after a restart, until it is made up for */
	(void)node_feed(w, n, &in);
}

bool
back_pending(const struct world *w)
{
	for (int i = 0; i < w->count; i++) {
		struct raft_status st;

		if (w->nodes[i].back != BACK_NOT)
			return true;
		if (w->nodes[i].core == NULL)
			continue;
		raft_status(w->nodes[i].core, &st);
		if (st.went_back)
			return true;
	}
	return false;
}

void
back_regained(struct world *w, struct sim_node *n)
{
	w->regained++;
	simlog_done(&n->lost);
	n->lost_snap = 0;
	n->back = BACK_NOT;
}

/* Is n spared by every configuration in the log of `at`, so that the others can elect a leader without it? */
static bool
spared_by(const struct sim_node *at, raft_id id)
{
	const struct raft_config *c = NULL;
	struct raft_status st;

	if (at->core == NULL || at->stopped)
		return false;
	raft_status(at->core, &st);
	for (uint64_t k = st.snapshot_index; k <= st.last_index; k++) {
		const struct raft_server_conf *s;

		if (c == raft_config_at(at->core, k))
			continue;
		c = raft_config_at(at->core, k);
		s = raft_config_find(c, id);
		if (s != NULL && s->voter && raft_config_voters(c) < 3)
			return false;
	}
	return true;
}

bool
back_may(const struct world *w, const struct sim_node *n)
{
	if (!n->copy.taken || w->plan.stores != NULL || n->core == NULL || back_pending(w))
		return false;
	for (int i = 0; i < w->count; i++)
		if (!spared_by(&w->nodes[i], n->id))
			return false;
	return true;
}
