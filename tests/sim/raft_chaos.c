/* What makes a run hard: faults and operators.  Then peace, and progress is due. */
#include <string.h>

#include "tests/sim/raft_world.h"

typedef void event_fn(struct world *w, struct event *e);

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
	node_restart_later(w, n, world_between(w, MONO_MS(1), MONO_MS(2000)));
}

/* All at once; each comes back in its own time (S75). */
static void
power_cut(struct world *w, struct event *e)
{
	(void)e;
	if (!again(w, w->plan.power_every, power_cut))
		return;
	for (int i = 0; i < w->count; i++) {
		if (w->nodes[i].core == NULL)
			continue;
		node_crash(w, &w->nodes[i], world_chance(w, 0.7));
		node_restart_later(w, &w->nodes[i], world_between(w, MONO_MS(1), MONO_MS(1500)));
	}
}

static void
lose_links(struct world *w, struct sim_node *n, struct mono longest)
{
	for (int i = 0; i < w->count; i++)
		w->cut[n->i][i] = w->cut[i][n->i] = world_chance(w, 0.7);
	world_say(w, "n%d loses links", n->i + 1);
	(void)world_at(w, mono_add(w->now, world_between(w, MONO_MS(50), longest)), heal, NULL);
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
		node_restart_later(w, n, world_between(w, MONO_MS(1), MONO_MS(600)));
		return;
	}
	lose_links(w, n, MONO_MS(1500));
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
	if (!again(w, w->plan.pause_every, do_pause) || mono_before(w->now, n->paused_until))
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

/* A server is told that another one's process has ended, most often the leader's, which is not so. */
static void
mislead(struct world *w, struct event *e)
{
	struct sim_node *n = any_node(w), *about = world_chance(w, 0.7) ? world_leader(w) : any_node(w);

	(void)e;
	if (!again(w, w->plan.mislead_every, mislead) || about == NULL || mono_before(w->now, n->paused_until))
		return;
	links_tell(w, n, about->id);
}

/* One pair of servers loses its connections, most often the leader and a follower, while all live. */
static void
reset(struct world *w, struct event *e)
{
	struct sim_node *n = world_chance(w, 0.7) ? world_leader(w) : any_node(w), *other = any_node(w);

	(void)e;
	if (!again(w, w->plan.reset_every, reset) || n == NULL || n == other)
		return;
	links_reset(w, n, other);
	(void)world_at(w, mono_add(w->now, world_between(w, MONO_MS(5), MONO_MS(1000))), heal, NULL);
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

/* A configuration in anybody's log that gives n a vote. */
static bool
votes_somewhere(const struct world *w, const struct sim_node *n)
{
	for (int i = 0; i < w->count; i++) {
		const struct sim_node *at = &w->nodes[i];
		const struct raft_config *c = NULL;
		struct raft_status st;

		if (at->core == NULL)
			return true;	/* who knows */
		raft_status(at->core, &st);
		for (uint64_t k = st.snapshot_index; k <= st.last_index; k++) {
			const struct raft_server_conf *s;

			if (c == raft_config_at(at->core, k))
				continue;
			c = raft_config_at(at->core, k);
			s = raft_config_find(c, n->id);
			if (s != NULL && s->voter)
				return true;
		}
	}
	return false;
}

static bool
may_lose_disk(const struct world *w, const struct sim_node *n)
{
	return !votes_somewhere(w, n);
}

static void
unhang(struct world *w, struct event *e)
{
	if (w->nodes[e->node].disk.stall == e->a)
		disk_unstall(w, &w->nodes[e->node]);
}

static void
hang(struct world *w, struct event *e)
{
	struct sim_node *n = any_node(w);

	(void)e;
	if (!again(w, w->plan.hang_every, hang) || n->core == NULL || n->disk.stalled)
		return;
	w->hangs++;
	disk_stall(w, n);
	world_say(w, "n%d: the disk hangs", n->i + 1);
	world_at(w, mono_add(w->now, world_between(w, MONO_MS(20), MONO_MS(4000))), unhang, n)->a = n->disk.stall;
}

static void
has_room(struct world *w, struct event *e)
{
	disk_fill(w, &w->nodes[e->node], false);
}

/* The disk is full: the shell refuses writes, and hands the leadership over (S85). */
static void
fill(struct world *w, struct event *e)
{
	struct sim_node *n = any_node(w);

	(void)e;
	if (!again(w, w->plan.full_every, fill) || n->core == NULL || n->full || mono_before(w->now, n->paused_until))
		return;
	w->fills++;
	world_say(w, "n%d: the disk is full", n->i + 1);
	disk_fill(w, n, true);
	if (n->role == RAFT_LEADER)
		(void)node_feed(w, n, &(struct raft_input){ .type = RAFT_IN_TRANSFER });
	(void)world_at(w, mono_add(w->now, world_between(w, MONO_MS(50), MONO_MS(3000))), has_room, n);
}

/* A server's clock steps forward, by up to an hour: to it, everything takes longer than it bears. */
static void
jump(struct world *w, struct event *e)
{
	struct sim_node *n = any_node(w);
	struct mono by = world_between(w, MONO_MS(10), world_chance(w, 0.1) ? MONO_S(3600) : MONO_S(5));

	(void)e;
	if (!again(w, w->plan.jump_every, jump) || n->core == NULL || mono_before(w->now, n->paused_until))
		return;
	n->skew = mono_add(n->skew, by);
	(void)node_feed(w, n, &(struct raft_input){ .type = RAFT_IN_TICK });
}

/*
 * A server loses its disk and comes back as a new one (S61).  Only one that has no vote in any configuration in
 * anybody's log: another loss could cost what is committed, by right.
 */
static void
wipe(struct world *w, struct event *e)
{
	struct sim_node *n = any_node(w);

	(void)e;
	if (!again(w, w->plan.wipe_every, wipe) || n->core == NULL || !may_lose_disk(w, n))
		return;
	node_wipe(w, n);
}

/* A copy is taken, or put back; then the leader, which could make up for it, is often away. */
static void
go_back(struct world *w, struct event *e)
{
	struct sim_node *n = any_node(w), *leader = world_leader(w);

	(void)e;
	if (!again(w, w->plan.back_every, go_back))
		return;
	if (!back_may(w, n) || world_chance(w, 0.3)) {
		back_copy(n);
		return;
	}
	back_put(w, n, true);
	node_restart_later(w, n, world_between(w, MONO_MS(1), MONO_MS(2000)));
	if (leader != NULL && leader != n && world_chance(w, 0.6)) {
		node_crash(w, leader, false);
		node_restart_later(w, leader, world_between(w, MONO_MS(500), MONO_MS(4000)));
	}
}

static void
demote(struct world *w, struct event *e)
{
	struct sim_node *n = &w->nodes[e->node], *subject = &w->nodes[e->a];
	struct raft_change ch = { .type = RAFT_DEMOTE, .server = node_conf(subject, false) };

	(void)node_feed(w, n, &(struct raft_input){ .type = RAFT_IN_CHANGE, .change = &ch });
}

void
chaos_went_back(struct world *w, struct sim_node *n, raft_id id)
{
	struct sim_node *subject = world_node(w, id);

	if (w->chaos && subject != NULL && world_chance(w, 0.6))
		world_at(w, w->now, demote, n)->a = (uint64_t)subject->i;
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
		(void)node_read(w, n, NULL, 0);
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

/* In an ambush the leader has the change in its log, and hardly anybody else. */
static void
ask_for_change(struct world *w, struct sim_node *n, struct raft_change *ch)
{
	if (node_feed(w, n, &(struct raft_input){ .type = RAFT_IN_CHANGE, .change = ch }) == TV_OK &&
	    world_chance(w, w->plan.ambush))
		lose_links(w, n, MONO_MS(1500));
}

/* An operator asks for a change that moment in which the server has become leader: too early. */
static void
eager_change(struct world *w, struct event *e)
{
	struct sim_node *n = &w->nodes[e->node], *subject = any_node(w);
	struct raft_change ch = { .type = choose_change(w, raft_config(n->core), subject->id) };

	if (back_pending(w))
		return;			/* fewer voters could not do without it */
	ch.server = node_conf(subject, false);
	ask_for_change(w, n, &ch);
}

void
chaos_elected(struct world *w, struct sim_node *n)
{
	if (w->chaos && world_chance(w, w->plan.eager))
		(void)world_at(w, w->now, eager_change, n);
}

static void
change(struct world *w, struct event *e)
{
	struct sim_node *n = client_target(w), *subject = any_node(w);
	struct raft_change ch;

	(void)e;
	if (!again(w, w->plan.change_every, change))
		return;
	if (n == NULL || back_pending(w))
		return;
	ch.type = choose_change(w, raft_config(n->core), subject->id);
	ch.server = node_conf(subject, false);
	ask_for_change(w, n, &ch);
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

/* What is to be checked from time to time. */
static void
watch(struct world *w, struct event *e)
{
	(void)e;
	if (!w->chaos)
		return;
	check_quorums(w);
	(void)world_at(w, mono_add(w->now, (struct mono){ w->plan.opt.election_timeout.ns / 4 }), watch, NULL);
}

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
	(void)again(w, w->plan.hang_every, hang);
	(void)again(w, w->plan.jump_every, jump);
	(void)again(w, w->plan.power_every, power_cut);
	(void)again(w, w->plan.wipe_every, wipe);
	(void)again(w, w->plan.full_every, fill);
	(void)again(w, w->plan.mislead_every, mislead);
	(void)again(w, w->plan.reset_every, reset);
	(void)again(w, w->plan.back_every, go_back);
	watch(w, NULL);
	clients_start(w);
}

void
chaos_form(struct world *w)
{
	struct mono end = mono_add(w->now, MONO_S(60));
	bool formed = false;

	while (!formed && !w->failed) {
		if (mono_before(end, w->now))
			world_fail(w, "the founders never came together");
		formed = true;
		for (int i = 0; i < w->plan.voters; i++) {
			struct sim_node *n = &w->nodes[i];
			struct raft_status st = { .term = 2 };

			if (n->core != NULL)
				raft_status(n->core, &st);
			if (st.term <= 1 && st.vote == 0 && st.last_index == 0)	/* else the others have told it */
				node_bootstrap(w, n, w->plan.voters);
			formed &= n->disk.log.count > 0;
		}
		world_run(w, mono_add(w->now, MONO_MS(10)));
	}
}

bool
chaos_run(struct world *w)
{
	struct mono end;

	chaos_form(w);
	world_run(w, mono_add(w->now, MONO_MS(100)));
	chaos_start(w);
	end = mono_add(w->now, w->plan.chaos_for);
	world_run(w, end);
	peace_make(w);
	peace_check(w);
	if (!w->failed)
		clients_judge(w);
	return !w->failed;
}
