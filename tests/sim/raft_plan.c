/* What differs between seeds.  A change of what is drawn here changes every run: then PLAN_VERSION grows. */
#include "tests/sim/raft_world.h"

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
		.snap_bytes = 400, .think = MONO_MS(20), .patience = MONO_MS(1000),
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

/* Disks that fail and hang, clocks that differ and jump, all servers without power at once, lost disks. */
static void
draw_hardware(struct rng *r, struct plan *p)
{
	p->disk.small = rng_below(r, 2) == 0 ? 0 : rng_unit(r);
	p->disk.sync_error = rng_below(r, 2) == 0 ? 0 : 0.002 * rng_unit(r);
	p->disk.stuck_after = mono_mul(p->opt.election_timeout, 2 + (int64_t)rng_below(r, 3));
	p->hang_every = sometimes(r, 2, 500, 5000);
	p->full_every = sometimes(r, 2, 500, 6000);
	p->jump_every = sometimes(r, 2, 300, 4000);
	p->drift = rng_below(r, 3) == 0 ? 0 : 100000;
	p->power_every = rng_below(r, 4) == 0 ? rnd_ms(r, 2000, 8000) : MONO_ZERO;
	if (p->hunt_every.ns > 0 && rng_below(r, 2) == 0) {
		p->hang_every = rnd_ms(r, 100, 800);	/* writes in progress meet several leaders */
		p->disk.small = 0.5 + 0.5 * rng_unit(r);
	}
	p->wipe_every = rng_below(r, 4) == 0 ? rnd_ms(r, 1000, 6000) : MONO_ZERO;
}

static void
draw_clients(struct rng *r, struct plan *p)
{
	p->clients = 2 + (int)rng_below(r, CLIENTS_MAX - 1);
	p->think = rnd_ms(r, 5, 80);
	p->patience = rnd_ms(r, 100, 1500);
	p->eager = rng_below(r, 2) == 0 ? 0 : rng_unit(r);
}

/*
 * Links tell of dead processes, and sometimes of ones that live.  Each seventh seed goes without: its run is what it was before
 * there was this, and two of tests/data/raft/seeds.txt are of these.
 */
static void
draw_links(struct rng *r, struct plan *p)
{
	p->resets = rng_below(r, 4) == 0 ? 0 : 0.3 + 0.7 * rng_unit(r);
	p->mislead_every = sometimes(r, 2, 100, 2000);
	p->reset_every = sometimes(r, 2, 300, 4000);
}

/*
 * Changes of membership under leaders that come and go: an even number of voters, each new leader is asked for a change at
 * once, and cut off as soon as it has one in its log.
 */
static void
draw_ambush(struct rng *r, struct plan *p)
{
	p->voters = rng_below(r, 4) == 0 ? p->voters : 4;
	if (p->nodes < p->voters)
		p->nodes = p->voters;
	p->change_every = rnd_ms(r, 50, 300);
	p->eager = 0.3 + 0.7 * rng_unit(r);
	p->ambush = 0.2 + 0.8 * rng_unit(r);
}

/* Drawn after all else, and by its own numbers: seeds without it run as they did before there was this. */
static void
draw_back(uint64_t seed, struct plan *p)
{
	struct rng r;

	if (seed % 6 != 1 || p->voters < 3)
		return;
	rng_seed(&r, seed ^ 0xbacd15cu);
	p->back_every = rnd_ms(&r, 60, 900);
}

struct plan
plan_of(uint64_t seed)
{
	static const int voters[] = { 1, 2, 3, 3, 3, 3, 3, 4, 5, 5, 5, 5, 7 };
	struct plan p = plan_quiet(0, 0);
	struct rng r;

	rng_seed(&r, seed ^ 0x5eed0fa11c0de5u);
	p.opt.commit_delay = seed % 3 == 0 ? MONO_ZERO : MONO_MS(1 + (int64_t)(seed % 40));
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
	draw_hardware(&r, &p);
	draw_clients(&r, &p);
	if (p.hunt_every.ns > 0 && rng_below(&r, 2) == 0)
		draw_ambush(&r, &p);
	if (seed % 7 != 5)
		draw_links(&r, &p);
	p.opens = seed % 4 == 2 ? 0.5 : 0;
	draw_back(seed, &p);
	return p;
}
