/* What is due when the faults end: a leader, service through every member, the same state everywhere, and then calm. */
#include <string.h>

#include "tests/sim/raft_world.h"

#define CALM 10			/* election timeouts without a change, once all is well */

struct peace {
	struct mono began, wrote;
	struct mono first;		/* when a leader was first seen; 0: not yet */
	unsigned long writes;		/* acknowledged when we wrote */
	uint32_t lists[NODES_MAX];	/* reads through each server; 0: none asked yet */
	struct mono listed[NODES_MAX];
	bool written, served;
	int64_t feeding;		/* election timeouts that may pass until all have what the others have */
};

void
peace_make(struct world *w)
{
	w->chaos = false;
	w->peace = true;
	world_say(w, "peace");
	memset(w->cut, 0, sizeof(w->cut));
	memset(w->fifo_last, 0, sizeof(w->fifo_last));
	w->plan.net.loss = w->plan.net.dup = w->plan.net.slow = w->plan.disk.slow = w->plan.snap_fail = 0;
	w->plan.disk.sync_error = w->plan.opens = 0;
	w->plan.net.delay_max = MONO_MS(2);
	w->plan.disk.write_max = MONO_MS(2);
	for (int i = 0; i < w->count; i++) {
		struct sim_node *n = &w->nodes[i];

		n->paused_until = w->now;
		if (n->core == NULL)
			node_start(w, n);
		if (w->failed)
			return;
		state_opened(w, n);
		n->tick_at = MONO_NEVER;	/* ticks that a pause delayed are late */
		(void)node_feed(w, n, &(struct raft_input){ .type = RAFT_IN_TICK });
		disk_unstall(w, n);
		disk_fill(w, n, false);
	}
}

/* How many appends carry the entries of a log from that index on. */
static int64_t
appends(const struct world *w, const struct sim_log *log, uint64_t from)
{
	const struct raft_options *o = &w->plan.opt;
	uint32_t entries = 0, bytes = 0;
	int64_t n = 0;

	for (const struct sim_entry *e; (e = simlog_at(log, from)) != NULL; from++) {
		if (n == 0 || entries == o->append_entries_max || bytes + e->payload->size > o->append_bytes_max) {
			n++;
			entries = bytes = 0;
		}
		entries++;
		bytes += e->payload->size;
	}
	return n;
}

/*
 * Whoever is ten thousand entries behind on a seed whose appends carry one entry each, and wait for each other's answers, is
 * not fed within any fixed time: a round trip for each append, and the write there.
 */
static int64_t
time_to_feed(const struct world *w)
{
	int64_t turn = 2 * w->plan.net.delay_max.ns + w->plan.disk.write_max.ns, most = 0;
	const struct sim_log *longest = &w->nodes[0].log;

	for (int i = 1; i < w->count; i++)
		if (simlog_last(&w->nodes[i].log) > simlog_last(longest))
			longest = &w->nodes[i].log;
	for (int i = 0; i < w->count; i++) {
		uint64_t last = simlog_last(&w->nodes[i].log);
		int64_t n = appends(w, longest, last < longest->first ? longest->first : last + 1);

		most = n > most ? n : most;
	}
	return most * turn / w->plan.opt.election_timeout.ns;
}

static double
timeouts(const struct world *w, struct mono since)
{
	return (double)(w->now.ns - since.ns) / (double)w->plan.opt.election_timeout.ns;
}

static bool
longer_than(const struct world *w, struct mono since, int64_t t)
{
	return mono_before(mono_add(since, mono_mul(w->plan.opt.election_timeout, t)), w->now);
}

/* An operator lets go of servers that will never return: their disks are lost. */
static void
bury_lost(struct world *w, struct sim_node *leader)
{
	const struct raft_config *c = raft_config(leader->core);
	struct raft_change ch = { .type = RAFT_REMOVE };

	for (unsigned i = 0; i < c->count && ch.server.id == 0; i++)
		if (world_node(w, c->servers[i].id) == NULL)
			ch.server = c->servers[i];
	if (ch.server.id != 0)
		(void)node_feed(w, leader, &(struct raft_input){ .type = RAFT_IN_CHANGE, .change = &ch });
}

/* A write through the leader and a read through every member; repeated when they fail or take long. */
static bool
all_serve(struct world *w, struct peace *p, struct sim_node *leader)
{
	const struct raft_config *c = raft_config(leader->core);
	bool all = true;

	if (!p->written && w->writes_acked > p->writes && p->wrote.ns > 0)
		p->written = true;
	if (!p->written && (p->wrote.ns == 0 || longer_than(w, p->wrote, 4))) {
		p->writes = w->writes_acked;
		if (node_propose(w, leader, 1) == TV_OK)
			p->wrote = w->now;
	}
	for (unsigned i = 0; i < c->count; i++) {
		struct sim_node *n = world_node(w, c->servers[i].id);

		if (n == NULL || (p->lists[n->i] > 0 && clients_answered(w, p->lists[n->i])))
			continue;
		all = false;
		if (p->lists[n->i] > 0 && !clients_closed(w, p->lists[n->i]) && !longer_than(w, p->listed[n->i], 4))
			continue;
		p->lists[n->i] = clients_list(w, n);
		p->listed[n->i] = w->now;
	}
	return all && p->written;
}

/* Does everybody in the leader's committed configuration have all that it has, applied? */
static bool
all_equal(struct world *w, struct sim_node *leader)
{
	const struct raft_config *c = raft_config(leader->core);
	struct raft_status st;

	raft_status(leader->core, &st);
	if (!st.ready || st.change_pending || st.applied != st.last_index)
		return false;
	for (unsigned i = 0; i < c->count; i++) {
		const struct sim_node *n = world_node(w, c->servers[i].id);

		if (n == NULL || n->back != BACK_NOT || n->applied != st.applied || n->state != leader->state || n->read_count > 0)
			return false;
	}
	return true;
}

/* Who is how far, for the report. */
static void
say_states(struct world *w)
{
	for (int i = 0; i < w->count; i++) {
		struct sim_node *n = &w->nodes[i];
		struct raft_status st;

		raft_status(n->core, &st);
		world_say(w, "n%d: %s term %llu last %llu commit %llu applied %llu durable %llu, %zu reads wait", i + 1,
		    raft_role_name(st.role), (unsigned long long)st.term, (unsigned long long)st.last_index,
		    (unsigned long long)st.commit, (unsigned long long)st.applied, (unsigned long long)st.persisted,
		    n->read_count);
	}
}

/*
 * What was settled stays: no election, although servers that were removed may not know it (S12), and although one server
 * is told again and again that the leader has died: the others hear it.  Quorum checks are what guards against both.
 */
static void
check_calm(struct world *w)
{
	struct mono end = mono_add(w->now, mono_mul(w->plan.opt.election_timeout, CALM));
	struct sim_node *leader = world_leader(w), *misled = &w->nodes[rng_below(&w->rng, (uint64_t)w->count)];
	unsigned long elections = w->elections;

	if (!w->plan.opt.check_quorum)
		return;
	while (!w->failed && mono_before(w->now, end)) {
		world_run(w, mono_add(w->now, world_between(w, MONO_US(1), w->plan.opt.election_timeout)));
		links_tell(w, misled, leader->id);
	}
	if (world_leader(w) != leader || w->elections != elections)
		world_fail(w, "no calm: another election, though all was well");
}

/*
 * The leader that stays; without quorum checks the first one: a removed server that does not know it may then stand again and
 * again, and ends each term (S12).
 */
static void
judge_times(struct world *w, const struct peace *p, const struct sim_node *leader)
{
	struct mono since = w->plan.opt.check_quorum ? leader->leads_since : p->first;
	struct mono led = mono_before(p->began, since) ? mono_sub(since, p->began) : MONO_ZERO;

	w->led_after = (double)led.ns / (double)w->plan.opt.election_timeout.ns;
	if (w->led_after > PEACE_LED)
		world_fail(w, "the leader took %.1f election timeouts of peace", w->led_after);
	if (w->served_after > (double)(PEACE_SERVED + p->feeding))
		world_fail(w, "service through all members took %.1f election timeouts of peace", w->served_after);
}

void
peace_check(struct world *w)
{
	struct peace p = { .began = w->now, .feeding = time_to_feed(w) };

	while (!w->failed && !longer_than(w, p.began, PEACE_EQUAL + p.feeding)) {
		struct sim_node *leader = world_leader(w);

		if (leader != NULL) {
			if (p.first.ns == 0)
				p.first = w->now;
			bury_lost(w, leader);
			if (!p.served && all_serve(w, &p, leader)) {
				p.served = true;
				w->served_after = timeouts(w, p.began);
			}
			if (p.served && all_equal(w, leader)) {
				w->equal_after = timeouts(w, p.began);
				judge_times(w, &p, leader);
				check_calm(w);
				return;
			}
		}
		world_run(w, mono_add(w->now, (struct mono){ w->plan.opt.election_timeout.ns / 8 }));
	}
	if (w->failed)
		return;				/* some may not even run */
	say_states(w);
	world_fail(w, "no progress within %lld election timeouts of peace", (long long)(PEACE_EQUAL + p.feeding));
}
