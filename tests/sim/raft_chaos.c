/* Plans drawn from a seed, and what makes a run hard: faults, clients, operators.  Then peace, and progress is due. */
#include <string.h>

#include "tests/sim/raft_world.h"

typedef void event_fn(struct world *w, struct event *e);

/* -- plans */

struct plan
plan_quiet(int nodes, int voters)
{
	struct plan p = {
		.nodes = nodes, .voters = voters,
		.opt = {
			.election_timeout = MONO_MS(300), .heartbeat = MONO_MS(60), .append_entries_max = 16,
			.append_bytes_max = 4096, .inflight_max = 16, .snapshot_chunk_bytes = 64, .catchup_rounds = 10,
			.check_quorum = true, .pre_vote = true,
		},
		.net = { .delay_min = MONO_MS(1), .delay_max = MONO_MS(1) },
		.disk = { .write_min = MONO_US(500), .write_max = MONO_US(500) },
		.snap_bytes = 400,
	};

	return p;
}

static struct mono
rnd_ms(struct rng *r, int64_t min, int64_t max)
{
	return MONO_MS(min + (int64_t)rng_below(r, (uint64_t)(max - min) + 1));
}

static void
draw_options(struct rng *r, struct plan *p)
{
	p->opt.election_timeout = rnd_ms(r, 150, 500);
	p->opt.heartbeat = (struct mono){ p->opt.election_timeout.ns / (3 + (int64_t)rng_below(r, 4)) };
	p->opt.append_entries_max = 1 + (uint32_t)rng_below(r, 16);
	p->opt.append_bytes_max = 20 + (uint32_t)rng_below(r, 500);
	p->opt.inflight_max = 1 + (uint32_t)rng_below(r, 8);
	p->opt.uncommitted_entries_max = rng_below(r, 4) == 0 ? 8 : 0;
	p->opt.check_quorum = rng_below(r, 8) != 0;
	p->opt.pre_vote = rng_below(r, 8) != 0;
}

static void
draw_models(struct rng *r, struct plan *p)
{
	p->net.delay_min = MONO_US(200);
	p->net.delay_max = rnd_ms(r, 1, rng_below(r, 4) == 0 ? 60 : 10);
	p->net.fifo = rng_below(r, 3) == 0;
	p->net.loss = rng_below(r, 2) == 0 ? 0 : 0.15 * rng_unit(r);
	p->net.dup = rng_below(r, 2) == 0 ? 0 : 0.1 * rng_unit(r);
	p->net.slow = rng_below(r, 2) == 0 ? 0 : 0.02 * rng_unit(r);
	p->disk.write_min = MONO_US(100);
	p->disk.write_max = rnd_ms(r, 1, rng_below(r, 4) == 0 ? 60 : 8);
	p->disk.slow = rng_below(r, 2) == 0 ? 0 : 0.01 * rng_unit(r);
	p->disk.torn = rng_unit(r);
	p->snap_bytes = 20 + (uint32_t)rng_below(r, 1500);
	p->snap_fail = rng_below(r, 3) == 0 ? 0.1 * rng_unit(r) : 0;
}

static struct mono
sometimes(struct rng *r, unsigned of, int64_t min, int64_t max)
{
	return rng_below(r, of) == 0 ? MONO_ZERO : rnd_ms(r, min, max);
}

/*
 * Leaders are struck down soon after each election, and entries travel one by one: the way to the rare orders of
 * events, such as figure 8 of the Raft paper or a change of configuration under an old one.
 */
static void
draw_hunt(struct rng *r, struct plan *p)
{
	p->hunt_every = rnd_ms(r, 50, 600);
	p->opt.append_entries_max = 1 + (uint32_t)rng_below(r, 3);
	p->opt.inflight_max = 1 + (uint32_t)rng_below(r, 3);
	p->opt.election_timeout = rnd_ms(r, 100, 200);
	p->opt.heartbeat = (struct mono){ p->opt.election_timeout.ns / 3 };
	p->net.delay_max = rnd_ms(r, 1, 40);
	p->write_every = rnd_ms(r, 10, 200);
	p->chaos_for = rnd_ms(r, 15000, 30000);
	if (p->change_every.ns > 0)
		p->change_every = rnd_ms(r, 50, 400);
}

struct plan
plan_of(uint64_t seed)
{
	static const int voters[] = { 1, 2, 3, 3, 3, 3, 3, 4, 5, 5, 5, 5, 7 };
	struct plan p = plan_quiet(0, 0);
	struct rng r;

	rng_seed(&r, seed ^ 0x5eed0fa11c0de5u);
	p.voters = voters[rng_below(&r, sizeof(voters) / sizeof(voters[0]))];
	p.nodes = p.voters + (int)rng_below(&r, 3);
	if (rng_below(&r, 6) == 0)
		p.voters = 1;	/* the others are added one by one */
	draw_options(&r, &p);
	draw_models(&r, &p);
	p.chaos_for = rnd_ms(&r, 8000, 16000);
	p.write_every = rnd_ms(&r, 3, 40);
	p.read_every = rnd_ms(&r, 5, 60);
	p.crash_every = sometimes(&r, 5, 400, 4000);
	p.cut_every = sometimes(&r, 4, 400, 3000);
	p.change_every = sometimes(&r, 3, 100, 2000);
	p.transfer_every = sometimes(&r, 2, 500, 4000);
	p.compact_every = sometimes(&r, 3, 50, 1500);
	p.pause_every = sometimes(&r, 2, 500, 5000);
	p.stuck_every = sometimes(&r, 2, 1000, 8000);
	p.unreach_every = sometimes(&r, 2, 100, 2000);
	if (rng_below(&r, 3) == 0)
		draw_hunt(&r, &p);
	return p;
}

/* -- faults */

static struct sim_node *
any_node(struct world *w)
{
	return &w->nodes[rng_below(&w->rng, (uint64_t)w->count)];
}

/* Runs fn again after a random time with that mean; false: there is peace, do nothing more. */
static bool
again(struct world *w, struct mono mean, event_fn *fn)
{
	if (mean.ns > 0 && w->chaos)
		(void)world_at(w, mono_add(w->now, world_between(w, MONO_US(1), mono_mul(mean, 2))), fn, NULL);
	return w->chaos;
}

static void
restart(struct world *w, struct event *e)
{
	if (w->nodes[e->a].core == NULL)
		node_start(w, &w->nodes[e->a]);
}

static void heal(struct world *w, struct event *e);

static void
crash(struct world *w, struct event *e)
{
	struct sim_node *n = any_node(w);

	(void)e;
	if (!again(w, w->plan.crash_every, crash))
		return;
	if (n->core == NULL)
		return;
	node_crash(w, n, world_chance(w, w->plan.disk.torn));
	world_at(w, mono_add(w->now, world_between(w, MONO_MS(1), MONO_MS(2000))), restart, NULL)->a = (uint64_t)n->i;
}

/* The leader goes down for a short while, or loses some of its links. */
static void
hunt(struct world *w, struct event *e)
{
	struct sim_node *n = world_leader(w);

	(void)e;
	if (!again(w, w->plan.hunt_every, hunt) || n == NULL)
		return;
	if (world_chance(w, 0.4)) {
		node_crash(w, n, world_chance(w, w->plan.disk.torn));
		world_at(w, mono_add(w->now, world_between(w, MONO_MS(1), MONO_MS(600))), restart, NULL)->a = (uint64_t)n->i;
		return;
	}
	for (int i = 0; i < w->count; i++)
		w->cut[n->i][i] = w->cut[i][n->i] = world_chance(w, 0.7);
	world_say(w, "n%d loses links", n->i + 1);
	(void)world_at(w, mono_add(w->now, world_between(w, MONO_MS(50), MONO_MS(1500))), heal, NULL);
}

static void
heal(struct world *w, struct event *e)
{
	(void)e;
	memset(w->cut, 0, sizeof(w->cut));
	world_say(w, "network healed");
}

static void
cut_isolate(struct world *w)
{
	int a = any_node(w)->i;

	for (int i = 0; i < w->count; i++)
		w->cut[a][i] = w->cut[i][a] = true;
}

static void
cut_one_way(struct world *w)
{
	w->cut[any_node(w)->i][any_node(w)->i] = true;
}

static void
cut_halves(struct world *w)
{
	uint64_t side = rng_u64(&w->rng);

	for (int i = 0; i < w->count; i++)
		for (int k = 0; k < w->count; k++)
			w->cut[i][k] = (side >> i & 1) != (side >> k & 1);
}

/* Two halves that share one server, which sees both (S6). */
static void
cut_bridge(struct world *w)
{
	int bridge = any_node(w)->i;

	cut_halves(w);
	for (int i = 0; i < w->count; i++)
		w->cut[bridge][i] = w->cut[i][bridge] = false;
}

/* Everybody sees only the neighbours (S8). */
static void
cut_ring(struct world *w)
{
	for (int i = 0; i < w->count; i++)
		for (int k = 0; k < w->count; k++) {
			int far = (i - k + w->count) % w->count;

			w->cut[i][k] = far != 1 && far != w->count - 1;
		}
}

static void
cut(struct world *w, struct event *e)
{
	static void (*const kinds[])(struct world *) = { cut_isolate, cut_one_way, cut_one_way, cut_halves, cut_bridge,
		cut_ring };

	(void)e;
	if (!again(w, w->plan.cut_every, cut))
		return;
	kinds[rng_below(&w->rng, sizeof(kinds) / sizeof(kinds[0]))](w);
	world_say(w, "network cut");
	(void)world_at(w, mono_add(w->now, world_between(w, MONO_MS(50), MONO_MS(3000))), heal, NULL);
}

static void
do_pause(struct world *w, struct event *e)
{
	struct sim_node *n = any_node(w);

	(void)e;
	if (!again(w, w->plan.pause_every, do_pause))
		return;
	n->paused_until = mono_add(w->now, world_between(w, MONO_MS(10), MONO_MS(1500)));
	world_say(w, "n%d pauses", n->i + 1);
}

/* Links report trouble, truly or not: the core must bear both. */
static void
unreach(struct world *w, struct event *e)
{
	struct sim_node *n = any_node(w);
	struct raft_input in = { .to = any_node(w)->id };

	(void)e;
	if (!again(w, w->plan.unreach_every, unreach))
		return;
	in.type = world_chance(w, 0.5) ? RAFT_IN_UNREACHABLE : RAFT_IN_REACHABLE;
	if (mono_before(n->paused_until, w->now))
		(void)node_feed(w, n, &in);
}

static void
disk_stuck(struct world *w, struct event *e)
{
	struct sim_node *n = world_chance(w, 0.7) ? world_leader(w) : any_node(w);

	(void)e;
	if (!again(w, w->plan.stuck_every, disk_stuck))
		return;
	if (n != NULL && mono_before(n->paused_until, w->now))
		(void)node_feed(w, n, &(struct raft_input){ .type = RAFT_IN_DISK_STUCK });
}

static void
compact(struct world *w, struct event *e)
{
	(void)e;
	if (!again(w, w->plan.compact_every, compact))
		return;
	snap_compact(w, any_node(w), world_chance(w, 0.3));
}

/* -- clients */

static struct sim_node *
client_target(struct world *w)
{
	struct sim_node *n = world_chance(w, 0.8) ? world_leader(w) : NULL;

	if (n == NULL)
		n = any_node(w);
	return n->core != NULL && mono_before(n->paused_until, w->now) ? n : NULL;
}

static void
client_write(struct world *w, struct event *e)
{
	struct sim_node *n = client_target(w);

	(void)e;
	if (!again(w, w->plan.write_every, client_write))
		return;
	if (n != NULL)
		(void)node_propose(w, n, 1 + (unsigned)rng_below(&w->rng, 4));
}

static void
client_read(struct world *w, struct event *e)
{
	struct sim_node *n = any_node(w);

	(void)e;
	if (!again(w, w->plan.read_every, client_read))
		return;
	if (n->core != NULL && mono_before(n->paused_until, w->now))
		(void)node_read(w, n, NULL);
}

/* -- operators */

static enum raft_change_type
choose_change(struct world *w, const struct raft_config *c, raft_id id)
{
	const struct raft_server_conf *s = raft_config_find(c, id);

	if (s == NULL)
		return RAFT_ADD_LEARNER;
	if (!s->voter)
		return world_chance(w, 0.8) ? RAFT_PROMOTE : RAFT_REMOVE;
	return world_chance(w, 0.7) ? RAFT_REMOVE : RAFT_UPDATE_ADDR;
}

static void
change(struct world *w, struct event *e)
{
	struct sim_node *n = client_target(w), *subject = any_node(w);
	struct raft_change ch;
	struct raft_input in = { .type = RAFT_IN_CHANGE, .change = &ch };

	(void)e;
	if (!again(w, w->plan.change_every, change))
		return;
	if (n == NULL)
		return;
	ch.type = choose_change(w, raft_config(n->core), subject->id);
	ch.server = node_conf(subject, false);
	(void)node_feed(w, n, &in);
}

static void
transfer(struct world *w, struct event *e)
{
	struct sim_node *n = client_target(w);
	struct raft_input in = { .type = RAFT_IN_TRANSFER, .to = world_chance(w, 0.5) ? 0 : any_node(w)->id };

	(void)e;
	if (!again(w, w->plan.transfer_every, transfer))
		return;
	if (n != NULL)
		(void)node_feed(w, n, &in);
}

/* -- runs */

void
chaos_start(struct world *w)
{
	w->chaos = true;
	(void)again(w, w->plan.write_every, client_write);
	(void)again(w, w->plan.read_every, client_read);
	(void)again(w, w->plan.crash_every, crash);
	(void)again(w, w->plan.cut_every, cut);
	(void)again(w, w->plan.hunt_every, hunt);
	(void)again(w, w->plan.change_every, change);
	(void)again(w, w->plan.transfer_every, transfer);
	(void)again(w, w->plan.compact_every, compact);
	(void)again(w, w->plan.pause_every, do_pause);
	(void)again(w, w->plan.stuck_every, disk_stuck);
	(void)again(w, w->plan.unreach_every, unreach);
}

static void
make_peace(struct world *w)
{
	w->chaos = false;
	world_say(w, "peace");
	memset(w->cut, 0, sizeof(w->cut));
	w->plan.net.loss = w->plan.net.dup = w->plan.net.slow = w->plan.disk.slow = w->plan.snap_fail = 0;
	w->plan.net.delay_max = MONO_MS(2);
	w->plan.disk.write_max = MONO_MS(2);
	for (int i = 0; i < w->count; i++) {
		w->nodes[i].paused_until = w->now;
		if (w->nodes[i].core == NULL)
			node_start(w, &w->nodes[i]);
	}
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
		struct sim_node *n = world_node(w, c->servers[i].id);

		if (n->applied != st.applied || n->state != leader->state || n->read_count > 0)
			return false;
	}
	return true;
}

/* A write and a read through every member must succeed. */
static void
ask_everybody(struct world *w, struct sim_node *leader)
{
	const struct raft_config *c = raft_config(leader->core);

	(void)node_propose(w, leader, 1);
	for (unsigned i = 0; i < c->count; i++)
		(void)node_read(w, world_node(w, c->servers[i].id), NULL);
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

bool
chaos_settle(struct world *w, struct mono bound)
{
	struct mono end = mono_add(w->now, bound), asked = w->now;
	unsigned long writes = 0, reads = 0;
	bool waiting = false;

	while (!w->failed && mono_before(w->now, end)) {
		struct sim_node *leader = world_leader(w);

		if (waiting && leader != NULL && w->writes_acked > writes && w->reads_done > reads && all_equal(w, leader))
			return true;
		if (leader != NULL && (!waiting || mono_before(mono_add(asked, MONO_S(2)), w->now))) {
			writes = w->writes_acked;
			reads = w->reads_done;
			ask_everybody(w, leader);
			waiting = true;
			asked = w->now;
		}
		world_run(w, mono_add(w->now, MONO_MS(20)));
	}
	say_states(w);
	return false;
}

bool
chaos_run(struct world *w)
{
	struct mono end;

	for (int i = 0; i < w->plan.voters; i++)
		node_bootstrap(w, &w->nodes[i], w->plan.voters);
	world_run(w, mono_add(w->now, MONO_MS(100)));
	chaos_start(w);
	end = mono_add(w->now, w->plan.chaos_for);
	world_run(w, end);
	make_peace(w);
	/* The bound that scenarios.md asks for: twenty seconds, forty election timeouts at the slowest setting. */
	if (!w->failed && !chaos_settle(w, MONO_S(20)))
		world_fail(w, "no progress within 20 s of peace");
	return !w->failed;
}
