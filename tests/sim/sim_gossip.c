/*
 * Simulations of a gossip pool.
 *
 *	sim_gossip [--seed N] [--count M] [--members N] [--scenario NAME] [-v]
 *
 * Seed and scenario decide everything; a failure prints the line that replays it.  Without
 * options: what `make check` runs.
 */
#include "config.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gossipd/core/swim/scale.h"
#include "tests/sim/gossip_world.h"

#define LARGE 300

struct run {
	struct world *w;
	struct rng rng;			/* the scenario's own choices */
	unsigned n;
	unsigned victim;		/* the member that the question is about */
	unsigned want;			/* its status, or its generation */
	const char *failed;		/* what did not hold */
};

/* -- questions ------------------------------------------------------------------------ */

/* All that are up show all that are up as alive, in their present life. */
static bool
views_agree(struct world *w, void *arg)
{
	struct run *r = arg;

	for (unsigned i = 0; i < r->n; i++)
		for (unsigned j = 0; j < r->n && world_is_up(w, i); j++)
			if (world_is_up(w, j) && world_status(w, i, j) != MEMBER_ALIVE)
				return false;
	return true;
}

static bool
all_show_status(struct world *w, void *arg)
{
	struct run *r = arg;

	for (unsigned i = 0; i < r->n; i++)
		if (i != r->victim && world_is_up(w, i) && world_status(w, i, r->victim) != r->want)
			return false;
	return true;
}

static bool
all_show_generation(struct world *w, void *arg)
{
	struct run *r = arg;

	for (unsigned i = 0; i < r->n; i++)
		if (world_is_up(w, i) && (world_status(w, i, r->victim) != MEMBER_ALIVE ||
		    world_generation(w, i, r->victim) != r->want))
			return false;
	return true;
}

/* Each side shows the other as failed. */
static bool
sides_lost(struct world *w, void *arg)
{
	struct run *r = arg;

	for (unsigned i = 0; i < r->n; i++)
		for (unsigned j = 0; j < r->n; j++)
			if (i % 2 != j % 2 && world_status(w, i, j) != MEMBER_FAILED)
				return false;
	return true;
}

static bool
is_down(struct world *w, void *arg)
{
	struct run *r = arg;

	return !world_is_up(w, r->victim);
}

static bool
settle(struct run *r, struct mono within, bool (*done)(struct world *, void *), const char *what)
{
	if (r->failed == NULL && !world_settle(r->w, mono_add(world_now(r->w), within), done, r))
		r->failed = what;
	return r->failed == NULL;
}

static void
rest(struct run *r, struct mono span)
{
	world_run(r->w, mono_add(world_now(r->w), span));
}

static void
no_false_deaths(struct run *r)
{
	if (r->failed == NULL && world_false_deaths(r->w) > 0)
		r->failed = "live members were declared dead";
}

/* -- scenarios ---------------------------------------------------------------------------- */

/*
 * All start within ten seconds and join through random ones that are up.  What gossip misses, full exchanges
 * bring: three intervals are enough for each.
 */
static bool
mass_join(struct run *r)
{
	world_start(r->w, 0);
	for (unsigned i = 1; i < r->n; i++) {
		rest(r, (struct mono){ (int64_t)rng_below(&r->rng, 2 * (uint64_t)MONO_S(5).ns / r->n) });
		world_start(r->w, i);
		world_join(r->w, i, (unsigned)rng_below(&r->rng, i));
	}
	return settle(r, MONO_S(100), views_agree, "views do not agree after a mass join");
}

static void
scenario_join(struct run *r)
{
	mass_join(r);
	rest(r, MONO_S(r->n > 100 ? 20 : 90));
	settle(r, MONO_ZERO, views_agree, "views that agreed fell apart");
	no_false_deaths(r);
}

/* From the last message of a member until everybody must know: SWIM's worst case plus Lifeguard's wait. */
static struct mono
death_bound(const struct run *r, const struct swim_timing *t)
{
	struct mono min = scale_suspicion_min(t->suspicion_mult, r->n, t->probe_interval);
	struct mono bound = mono_mul(min, t->suspicion_max_mult);

	return mono_add(bound, mono_mul(t->probe_interval, 8 + 15));	/* the slowest probe, then gossip */
}

static void
scenario_death(struct run *r)
{
	const struct swim_timing *t = swim_preset("lan");

	if (!mass_join(r))
		return;
	rest(r, MONO_S(10));
	r->victim = (unsigned)rng_below(&r->rng, r->n);
	world_kill(r->w, r->victim);
	r->want = MEMBER_FAILED;
	settle(r, death_bound(r, t), all_show_status, "a death is not known to all within the bound");
	rest(r, MONO_S(5));
	settle(r, MONO_ZERO, all_show_status, "a dead member came back");
	no_false_deaths(r);
}

static void
scenario_leave(struct run *r)
{
	if (!mass_join(r))
		return;
	rest(r, MONO_S(5));
	r->victim = (unsigned)rng_below(&r->rng, r->n);
	if (r->n == 2)
		world_set_loss(r->w, 0);	/* nobody is left to make good what the only other one missed */
	world_leave(r->w, r->victim);
	settle(r, MONO_S(12), is_down, "a leave does not end");
	r->want = MEMBER_LEFT;
	/* One that missed the intent shows it as failed until its next exchange. */
	settle(r, MONO_S(60), all_show_status, "a leave is not seen as left by all");
	if (world_false_deaths(r->w) > 1 + r->n / 4)
		r->failed = "many saw a leave as a failure";
}

static void
scenario_partition(struct run *r)
{
	if (!mass_join(r))
		return;
	for (unsigned i = 0; i < r->n; i++)
		world_side(r->w, i, i % 2);
	settle(r, MONO_S(120), sides_lost, "a partition is not noticed");
	rest(r, MONO_S(rng_below(&r->rng, 90)));	/* before and after SWIM forgets the dead */
	for (unsigned i = 0; i < r->n; i++)
		world_side(r->w, i, 0);
	settle(r, MONO_S(240), views_agree, "a healed partition does not come together");
}

/*
 * With the clocks of its snapshot: one that lost them can come back with the time of its own leave, if the one that it
 * joins missed that leave; who missed only its death shows it as leaving then (1 of 7,000 seeds).
 */
static void
scenario_restart(struct run *r)
{
	world_keep_clocks(r->w);
	if (!mass_join(r))
		return;
	rest(r, MONO_S(5));
	r->victim = (unsigned)rng_below(&r->rng, r->n);
	for (unsigned life = 2; life <= 3 && r->failed == NULL; life++) {
		if (life == 3 && rng_below(&r->rng, 2) == 0) {
			world_leave(r->w, r->victim);
			settle(r, MONO_S(12), is_down, "a leave does not end");
		} else {
			world_kill(r->w, r->victim);
		}
		rest(r, MONO_MS(rng_below(&r->rng, 60000)));	/* before and after it is known as failed */
		world_start(r->w, r->victim);
		world_join(r->w, r->victim, (r->victim + 1) % r->n);
		r->want = life;
		settle(r, MONO_S(60), all_show_generation, "a restarted member is not seen in its new life");
	}
}

/* All but the victim show all but the victim as alive. */
static bool
others_agree(struct world *w, void *arg)
{
	struct run *r = arg;

	for (unsigned i = 0; i < r->n; i++)
		for (unsigned j = 0; j < r->n && i != r->victim; j++)
			if (j != r->victim && world_status(w, i, j) != MEMBER_ALIVE)
				return false;
	return true;
}

/*
 * One that sends and does not receive accuses everybody; the others must not believe it (S124).  One that missed a
 * refutation may, until its next exchange.
 */
static void
scenario_deaf(struct run *r)
{
	if (!mass_join(r))
		return;
	r->victim = (unsigned)rng_below(&r->rng, r->n);
	world_deaf(r->w, r->victim, true);
	rest(r, MONO_S(120));
	settle(r, MONO_S(60), others_agree, "the others believe one that does not hear them");
	if (r->failed == NULL && world_false_deaths(r->w) > 2 + r->n / 8)
		r->failed = "many believed one that does not hear them";
	world_deaf(r->w, r->victim, false);
	settle(r, MONO_S(240), views_agree, "one that hears again does not come back");
}

/* Those that are up show those that are down as failed. */
static bool
losses_known(struct world *w, void *arg)
{
	struct run *r = arg;

	for (unsigned i = 0; i < r->n; i++)
		for (unsigned j = 0; j < r->n && world_is_up(w, i); j++)
			if (!world_is_up(w, j) && world_status(w, i, j) != MEMBER_FAILED)
				return false;
	return true;
}

/*
 * Half of the pool dies at once.  Limits on what one accuser is believed must not hold up the news: with most probes
 * failing and most helpers dead it takes longer than one death, but not many times.
 */
static void
scenario_half(struct run *r)
{
	if (!mass_join(r))
		return;
	rest(r, MONO_S(5));
	for (unsigned i = 0; i < r->n / 2; i++)
		world_kill(r->w, i);
	settle(r, mono_mul(death_bound(r, swim_preset("lan")), 3), losses_known, "the loss of half is not known to all");
	settle(r, MONO_S(60), views_agree, "those that are left do not agree");
}

/* Member `to` hears that `by` accuses everybody, with the incarnations that `to` knows. */
static void
accuse_all(struct run *r, unsigned to, unsigned by)
{
	struct buf b = BUF_INIT(1024);
	char from[16], name[16];

	snprintf(from, sizeof(from), "n%u", by);
	for (unsigned j = 0; j < r->n; j++) {
		struct wire_accuse m = { .node = span_str(name), .from = span_str(from) };
		enum node_state state;

		snprintf(name, sizeof(name), "n%u", j);
		if (j == to || j == by || !swim_state_of(world_core(r->w, to), m.node, &state, &m.incarnation))
			continue;
		buf_reset(&b);
		wire_put_suspect(&b, &m);
		world_inject(r->w, to, WIRE_SUSPECT, span_of(b.data + 1, b.len - 1));
	}
	buf_done(&b);
}

/*
 * One accuses everybody, each second anew: plain SWIM that does not hear, or a liar (S124, S177).  Nobody dies of it,
 * but for one whose refutation gets lost, and what the pool has to say because of it stays within a small multiple of
 * what it says anyway.
 */
static void
scenario_storm(struct run *r)
{
	const struct mono phase = MONO_S(30);
	uint64_t calm, storm;

	if (r->n < 3 || !mass_join(r))
		return;
	rest(r, MONO_S(60));
	calm = world_datagrams(r->w);
	rest(r, phase);
	calm = world_datagrams(r->w) - calm;
	storm = world_datagrams(r->w);
	r->victim = (unsigned)rng_below(&r->rng, r->n);
	for (int second = 0; second < 30; second++) {
		accuse_all(r, (r->victim + 1 + (unsigned)rng_below(&r->rng, r->n - 1)) % r->n, r->victim);
		rest(r, MONO_S(1));
	}
	storm = world_datagrams(r->w) - storm;
	settle(r, MONO_S(60), others_agree, "the others believe one that accuses everybody");
	if (r->failed == NULL && storm > 6 * calm)
		r->failed = "accusations by one grow into a storm";
	if (r->failed == NULL && world_false_deaths(r->w) > r->n)	/* each that sees one death counts */
		r->failed = "many believed one that accuses everybody";
}

static const struct {
	const char *name;
	void (*play)(struct run *);
} scenarios[] = {
	{ "join", scenario_join },
	{ "death", scenario_death },
	{ "leave", scenario_leave },
	{ "partition", scenario_partition },
	{ "restart", scenario_restart },
	{ "deaf", scenario_deaf },
	{ "half", scenario_half },
	{ "storm", scenario_storm },
};
#define SCENARIOS (sizeof(scenarios) / sizeof(scenarios[0]))

/* -- runs ----------------------------------------------------------------------------------- */

struct choice {
	uint64_t seed;
	unsigned members;		/* 0: by the seed */
	size_t scenario;
	bool verbose;
};

/* Plays one run; returns its digest.  *failed tells what did not hold, or NULL. */
static uint64_t
play(const struct choice *c, const char **failed)
{
	struct run r = { .n = c->members };
	struct world_conf conf = { .seed = c->seed, .timing = *swim_preset("lan"), .verbose = c->verbose };
	uint64_t digest;

	rng_seed(&r.rng, c->seed ^ 0x5eed);
	if (r.n == 0)
		r.n = 2 + (unsigned)rng_below(&r.rng, 23);
	conf.members_max = r.n;
	conf.delay_min = MONO_US(100);
	conf.delay_max = MONO_MS(1 + rng_below(&r.rng, 60));
	conf.loss = r.n >= LARGE ? 0.10 : (double)rng_below(&r.rng, 11) / 100.0;
	conf.duplicate = (double)rng_below(&r.rng, 6) / 100.0;
	conf.tcp_pings = rng_below(&r.rng, 4) != 0;
	r.w = world_new(&conf);
	scenarios[c->scenario].play(&r);
	*failed = r.failed;
	digest = world_digest(r.w);
	world_free(r.w);
	return digest;
}

/* 0 or 1. */
static unsigned
check(const struct choice *c)
{
	const char *failed;

	(void)play(c, &failed);
	if (failed == NULL)
		return 0;
	printf("FAILED: %s\n  replay: sim_gossip --scenario %s --seed %" PRIu64 " --members %u\n", failed,
	    scenarios[c->scenario].name, c->seed, c->members);
	return 1;
}

static unsigned
check_seeds(uint64_t first, uint64_t count, struct choice c, bool all_scenarios)
{
	unsigned failures = 0;

	for (c.seed = first; c.seed < first + count; c.seed++) {
		if (all_scenarios)
			c.scenario = c.seed % SCENARIOS;
		failures += check(&c);
	}
	return failures;
}

/* The same seed must give the same run, or replays are worth nothing. */
static unsigned
check_replay(void)
{
	struct choice c = { .seed = 7, .members = 12, .scenario = 1 };
	const char *failed;
	uint64_t first = play(&c, &failed), second = play(&c, &failed);

	if (first == second)
		return 0;
	printf("FAILED: two runs of one seed differ\n");
	return 1;
}

static unsigned
check_default(void)
{
	static const size_t large[] = { 0, 1 };		/* join, death */
	struct choice c = { 0 };
	unsigned failures = check_replay();

	failures += check_seeds(1, 300, c, true);
	c.members = LARGE;
	for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++) {
		c.scenario = large[i];
		c.seed = 1000 + i;
		failures += check(&c);
	}
	return failures;
}

static size_t
scenario_index(const char *name)
{
	for (size_t i = 0; i < SCENARIOS; i++)
		if (strcmp(scenarios[i].name, name) == 0)
			return i;
	fprintf(stderr, "sim_gossip: no scenario %s (join, death, leave, partition, restart, deaf, half, storm)\n", name);
	exit(2);
}

int
main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "seed", required_argument, NULL, 's' }, { "count", required_argument, NULL, 'c' },
		{ "members", required_argument, NULL, 'm' }, { "scenario", required_argument, NULL, 'p' },
		{ "verbose", no_argument, NULL, 'v' }, { 0 },
	};
	struct choice c = { .seed = 1 };
	uint64_t count = 1;
	bool all = true, by_default = argc == 1;
	unsigned failures;
	int opt;

	while ((opt = getopt_long(argc, argv, "s:c:m:p:v", longs, NULL)) != -1) {
		switch (opt) {
		case 's':
			c.seed = strtoull(optarg, NULL, 10);
			break;
		case 'c':
			count = strtoull(optarg, NULL, 10);
			break;
		case 'm':
			c.members = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 'p':
			c.scenario = scenario_index(optarg);
			all = false;
			break;
		case 'v':
			c.verbose = true;
			break;
		default:
			return 2;
		}
	}
	failures = by_default ? check_default() : check_seeds(c.seed, count, c, all);
	printf("%u runs failed\n", failures);
	return failures > 0;
}
