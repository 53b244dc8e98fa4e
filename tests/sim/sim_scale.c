/*
 * How a gossip pool behaves as it grows: the real core for every member, in virtual time.
 *
 *	sim_scale [--seed N] [--without PARTS] [--weak PERCENT] SCENARIO MEMBERS
 *
 * Prints one line "scenario members key=value ..." and fails when a pool does not do what it must.
 * Without arguments: a short form of each scenario, as `make check` runs it.  tests/sim/scale-report
 * makes doc/gossip.md's table and plot of the lines.
 */
#include "config.h"

#include <getopt.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gossipd/core/swim/scale.h"
#include "gossipd/core/wire/seal.h"
#include "tests/sim/gossip_world.h"

struct run {
	struct world *w;
	struct rng rng;			/* the scenario's own choices */
	unsigned n, up;			/* members that ever were; how many of them live */
	unsigned victim;		/* the member that the question is about */
	unsigned weak;			/* percent */
	unsigned without;
	unsigned *leavers, leaver_count;
	uint32_t queue_max, intents_max;	/* that any member had waiting, as far as somebody looked */
	const char *failed;
};

/* -- questions -------------------------------------------------------------- */

/* Everybody that is up shows exactly `up` members as alive, and nobody else. */
static bool
all_know_all(struct world *w, void *arg)
{
	const struct run *r = arg;
	struct swim_stats stats;

	for (unsigned i = 0; i < r->n; i++) {
		if (!world_is_up(w, i))
			continue;
		swim_stats(world_core(w, i), &stats);
		if (stats.alive != r->up || stats.leaving > 0)
			return false;
	}
	return true;
}

static bool
all_know_failed(struct world *w, void *arg)
{
	const struct run *r = arg;

	return world_shown_failed(w, r->victim) >= r->up;
}

static bool
some_know_failed(struct world *w, void *arg)
{
	const struct run *r = arg;

	return world_shown_failed(w, r->victim) > 0;
}

/* Seconds until it holds, or -1 and the run has failed. */
static double
settle(struct run *r, struct mono within, bool (*done)(struct world *, void *), const char *what)
{
	struct mono from = world_now(r->w);

	if (r->failed == NULL && !world_settle(r->w, mono_add(from, within), done, r))
		r->failed = what;
	return r->failed == NULL ? mono_seconds(mono_sub(world_now(r->w), from)) : -1;
}

static void
rest(struct run *r, struct mono span)
{
	world_run(r->w, mono_add(world_now(r->w), span));
}

static void
form(struct run *r)
{
	world_form(r->w, r->n);
	r->up = r->n;
	rest(r, MONO_S(4));	/* each has announced itself */
	settle(r, MONO_ZERO, all_know_all, "a formed pool does not know itself");
}

/* Bytes that the allocator gave out. */
static size_t
heap_bytes(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

struct totals {
	struct swim_stats sum;
	uint32_t queue_max;
};

static struct totals
totals(const struct run *r)
{
	struct totals t = { 0 };
	struct swim_stats s;

	for (unsigned i = 0; i < r->n; i++) {
		if (!world_is_up(r->w, i))
			continue;
		swim_stats(world_core(r->w, i), &s);
		t.sum.probes += s.probes;
		t.sum.probes_failed += s.probes_failed;
		t.sum.refutations += s.refutations;
		t.sum.queue_dropped += s.queue_dropped;
		t.sum.over_intents += s.over_intents;
		t.queue_max = s.member_queue > t.queue_max ? s.member_queue : t.queue_max;
	}
	return t;
}

static bool
queues_empty(struct world *w, void *arg)
{
	const struct run *r = arg;

	for (unsigned i = 0; i < r->n; i++) {
		struct swim_stats s;

		if (!world_is_up(w, i))
			continue;
		swim_stats(world_core(w, i), &s);
		if (s.member_queue > 0 || s.intent_queue > 0)
			return false;
	}
	return true;
}

static void
look_at_queues(struct run *r)
{
	struct swim_stats s;

	for (unsigned i = 0; i < r->n; i++) {
		if (!world_is_up(r->w, i))
			continue;
		swim_stats(world_core(r->w, i), &s);
		r->queue_max = s.member_queue > r->queue_max ? s.member_queue : r->queue_max;
		r->intents_max = s.intent_queue > r->intents_max ? s.intent_queue : r->intents_max;
	}
}

/* Newcomers may never have heard of it. */
static bool
watched_gone(struct world *w, void *arg)
{
	struct run *r = arg;

	look_at_queues(r);
	for (unsigned i = 0; i < r->n; i++)
		if (world_is_up(w, i) && world_status(w, i, r->victim) == MEMBER_ALIVE)
			return false;
	return true;
}

/* Nobody shows one of those that left in order as failed: newcomers, who missed the word of it, do for a while. */
static bool
leavers_left(struct world *w, void *arg)
{
	const struct run *r = arg;

	for (unsigned k = 0; k < r->leaver_count; k++)
		for (unsigned i = 0; i < r->n; i++)
			if (world_is_up(w, i) && world_status(w, i, r->leavers[k]) == MEMBER_FAILED)
				return false;
	return true;
}

static bool
watched_agree(struct world *w, void *arg)
{
	look_at_queues(arg);
	return all_know_all(w, arg);
}

/* -- scenarios -------------------------------------------------------------- */

/* All start within ten seconds and join through random ones that are up. */
static void
scenario_join(struct run *r)
{
	size_t heap = heap_bytes();
	struct world_traffic t;
	double seconds;

	world_start(r->w, 0);
	for (unsigned i = 1; i < r->n; i++) {
		rest(r, (struct mono){ (int64_t)rng_below(&r->rng, 2 * (uint64_t)MONO_S(5).ns / r->n) });
		world_start(r->w, i);
		world_join(r->w, i, (unsigned)rng_below(&r->rng, i));
	}
	r->up = r->n;
	seconds = settle(r, MONO_S(900), all_know_all, "views do not agree after a mass join");
	t = world_traffic(r->w);
	printf(" converged_s=%.2f false_deaths=%u queue_max=%" PRIu32 " heap_mb=%zu packets_per_member=%.0f"
	    " udp_kb_per_member=%.0f stream_kb_per_member=%.0f", seconds, world_false_deaths(r->w),
	    totals(r).queue_max, (heap_bytes() - heap) >> 20, (double)t.packets / r->n,
	    (double)t.packet_bytes / r->n / 1000, (double)t.stream_bytes / r->n / 1000);
	if (world_false_deaths(r->w) > r->n)
		r->failed = "a mass join kills";
}

static void
idle(struct run *r)
{
	const struct mono span = MONO_S(60);
	struct world_traffic a = world_traffic(r->w), b;
	double per = mono_seconds(span) * r->n;

	rest(r, span);
	b = world_traffic(r->w);
	printf(" packets_s=%.3f udp_bytes_s=%.1f stream_bytes_s=%.1f exchanges_s=%.5f", (double)(b.packets - a.packets) / per,
	    (double)(b.packet_bytes - a.packet_bytes) / per, (double)(b.stream_bytes - a.stream_bytes) / per,
	    (double)(b.streams - a.streams) / per);
	fflush(stdout);
}

/* Deaths, one after the other, of which each must be known by all. */
static void
deaths(struct run *r, unsigned count)
{
	const struct swim_timing *t = swim_preset("lan");
	struct mono bound = mono_mul(scale_suspicion_min(t->suspicion_mult, r->n, t->probe_interval),
	    t->suspicion_max_mult);
	double first = 0, all = 0, most = 0;

	for (unsigned d = 0; d < count && r->failed == NULL; d++) {
		double seen, known;

		do
			r->victim = (unsigned)rng_below(&r->rng, r->n);
		while (!world_is_up(r->w, r->victim));
		world_kill(r->w, r->victim);
		r->up--;
		seen = settle(r, mono_add(bound, MONO_S(23)), some_know_failed, "a death is not noticed");
		known = seen + settle(r, MONO_S(60), all_know_failed, "a death is not known to all");
		first += seen / count;
		all += known / count;
		most = known > most ? known : most;
	}
	printf(" deaths=%u first_s=%.2f all_s=%.2f worst_s=%.2f", count, first, all, most);
}

/* A pool that is left alone, then some deaths. */
static void
scenario_steady(struct run *r)
{
	size_t heap = heap_bytes();

	form(r);
	printf(" record_bytes=%.1f", (double)(heap_bytes() - heap) / r->n / r->n);
	idle(r);
	if (world_false_deaths(r->w) > 0)
		r->failed = "live members were declared dead";
	deaths(r, r->n < 3 ? 0 : r->n < 20 ? 3 : r->n < 5000 ? 5 : 2);
	printf(" false_deaths=%u", world_false_deaths(r->w));
	if (r->failed == NULL && world_false_deaths(r->w) > 0)
		r->failed = "live members were declared dead";
}

/* One member with a store of its own, as in gossipd, that knows all others. */
static void
scenario_memory(struct run *r)
{
	struct swim_stats s;
	size_t heap;

	world_start(r->w, 0);
	heap = heap_bytes();
	world_learn(r->w, 0, r->n);
	rest(r, MONO_S(1));	/* what that one output took is given back */
	swim_stats(world_core(r->w, 0), &s);
	printf(" bytes_per_member=%.1f", (double)(heap_bytes() - heap) / (r->n - 1));
	if (s.alive != r->n)
		r->failed = "a member does not take all that it is told";
	else if (r->n >= 1000 && heap_bytes() - heap > (size_t)512 * r->n)
		r->failed = "a member costs more than 512 bytes";
}

/* The members that are starved, and the healthy ones that die meanwhile. */
struct stress {
	unsigned weak, killed, noticed;
	struct mono *next;		/* when each is starved again */
	struct mono kill_at, killed_at;
	bool waiting;			/* for the last death to be noticed */
	double latency;
};

/* After 1 to 1,000 ms with CPU, evenly over the orders of magnitude, come 5 to 30 s without. */
static void
starve(struct run *r, struct stress *x, unsigned i)
{
	struct mono span = { MONO_S(5).ns + (int64_t)rng_below(&r->rng, (uint64_t)MONO_S(25).ns) };
	struct mono until = mono_add(world_now(r->w), span), pause = MONO_MS(1);

	for (unsigned k = (unsigned)rng_below(&r->rng, 11); k > 0; k--)
		pause = mono_mul(pause, 2);
	world_starve(r->w, i, until);
	x->next[i] = mono_add(until, pause);
}

/* One healthy member after the other dies; each counts as noticed once half of the healthy ones show it. */
static void
kill_next(struct run *r, struct stress *x)
{
	if (x->waiting && world_shown_failed(r->w, r->victim) >= (r->n - x->weak) / 2) {
		x->latency += mono_seconds(mono_sub(world_now(r->w), x->killed_at));
		x->noticed++;
		x->waiting = false;
		x->kill_at = mono_add(world_now(r->w), MONO_S(5));
	}
	if (x->waiting || mono_before(world_now(r->w), x->kill_at) || x->killed >= (r->n - x->weak) / 4)
		return;
	r->victim = x->weak + x->killed++;
	world_kill(r->w, r->victim);
	x->killed_at = world_now(r->w);
	x->waiting = true;
}

static void
stress_until(struct run *r, struct stress *x, struct mono end)
{
	struct mono step = mono_add(world_now(r->w), MONO_MS(100));

	while (mono_before(world_now(r->w), end)) {
		unsigned first = 0;

		for (unsigned i = 1; i < x->weak; i++)
			if (mono_before(x->next[i], x->next[first]))
				first = i;
		if (x->weak > 0 && mono_before(x->next[first], step)) {
			world_run(r->w, x->next[first]);
			starve(r, x, first);
			continue;
		}
		world_run(r->w, step);
		step = mono_add(step, MONO_MS(100));
		kill_next(r, x);
	}
}

#define PLAIN_SWIM (SWIM_WITHOUT_AWARENESS | SWIM_WITHOUT_DYNAMIC | SWIM_WITHOUT_BUDDY | SWIM_WITHOUT_STALL)

/* False positives: none with all that gossipd does, few with Lifeguard alone, and without both there must be some. */
static const char *
judge_lifeguard(const struct run *r, const struct world_deaths *d, unsigned starved)
{
	if (r->without == 0 && d->of_healthy > 0)
		return "a healthy member was shown as failed";
	if (r->without == SWIM_WITHOUT_STALL && d->of_healthy > starved + 3)
		return "more healthy members were shown as failed than members were starved, and three";
	if (r->without == PLAIN_SWIM && r->weak > 0 && d->of_healthy == 0)
		return "plain SWIM took no healthy member for failed: nobody is starved, and the other runs prove nothing";
	return NULL;
}

/* Some members are starved over and over, and healthy ones die meanwhile (S123). */
static void
scenario_lifeguard(struct run *r)
{
	struct stress x = { .weak = r->n * r->weak / 100 };
	struct world_deaths d;

	form(r);
	x.next = calloc(x.weak + 1, sizeof(*x.next));
	x.kill_at = mono_add(world_now(r->w), MONO_S(20));
	for (unsigned i = 0; i < x.weak; i++)
		x.next[i] = mono_add(world_now(r->w), (struct mono){ (int64_t)rng_below(&r->rng, (uint64_t)MONO_S(15).ns) });
	stress_until(r, &x, mono_add(world_now(r->w), MONO_S(300)));
	free(x.next);
	d = world_deaths(r->w);
	printf(" weak=%u without=%u fp=%" PRIu64 " fp_healthy=%" PRIu64 " declared=%" PRIu64 " declared_by_healthy=%" PRIu64
	    " suspected=%" PRIu64 " weak_shown_failed=%" PRIu64 " deaths=%u latency_s=%.2f", r->weak, r->without,
	    d.of_healthy, d.of_healthy_at_healthy, d.declared_healthy, d.declared_healthy_by_healthy,
	    d.suspected_healthy, d.of_weak_at_healthy, x.noticed, x.noticed > 0 ? x.latency / x.noticed : -1);
	r->failed = judge_lifeguard(r, &d, x.weak);
	if (x.killed > x.noticed + 1 || x.noticed == 0)
		r->failed = "true deaths are not noticed";
}

/* Four and a half of ten restart at once, as after a push of new software (S125). */
static void
scenario_restart(struct run *r)
{
	unsigned many = r->n * 45 / 100;
	double seconds;

	form(r);
	for (unsigned i = 0; i < many; i++)
		world_kill(r->w, i);
	rest(r, MONO_S(rng_below(&r->rng, 20)));
	for (unsigned i = 0; i < many; i++) {
		world_start(r->w, i);
		world_join(r->w, i, many + (unsigned)rng_below(&r->rng, r->n - many));
		rest(r, (struct mono){ (int64_t)rng_below(&r->rng, 2 * (uint64_t)MONO_S(5).ns / many) });
	}
	seconds = settle(r, MONO_S(900), all_know_all, "views do not agree after a mass restart");
	printf(" restarted=%u converged_s=%.2f queue_max=%" PRIu32, many, seconds, totals(r).queue_max);
}

static bool
pruned_are_gone(struct world *w, void *arg)
{
	const struct run *r = arg;
	struct swim_stats s;

	for (unsigned i = 0; i < r->n; i++) {
		if (!world_is_up(w, i))
			continue;
		swim_stats(world_core(w, i), &s);
		if (s.members != r->up)
			return false;
	}
	return true;
}

static bool
half_failed(struct world *w, void *arg)
{
	const struct run *r = arg;
	struct swim_stats s;

	for (unsigned i = 0; i < r->n; i++) {
		if (!world_is_up(w, i))
			continue;
		swim_stats(world_core(w, i), &s);
		if (s.failed != r->n - r->up)
			return false;
	}
	return true;
}

/* A third dies, and is then pruned all at once while full exchanges go on (S126). */
static void
scenario_prune(struct run *r)
{
	unsigned many = r->n / 3;
	double known, gone, drained;

	form(r);
	for (unsigned i = 0; i < many; i++)
		world_kill(r->w, i);
	r->up = r->n - many;
	known = settle(r, MONO_S(900), half_failed, "a mass death is not known to all");
	for (unsigned i = 0; i < many; i++)
		(void)world_force_leave(r->w, many + (unsigned)rng_below(&r->rng, r->up), i, true);
	gone = settle(r, MONO_S(900), pruned_are_gone, "pruned members are still shown");
	drained = settle(r, MONO_S(900), queues_empty, "queues do not drain");
	rest(r, MONO_S(r->n > 2000 ? 60 : 120));	/* some full exchanges */
	settle(r, MONO_ZERO, pruned_are_gone, "pruned members came back");
	printf(" pruned=%u known_s=%.2f gone_s=%.2f drained_s=%.2f", many, known, gone, drained);
}

/* One that sends and does not receive (S124). */
static void
scenario_deaf(struct run *r)
{
	struct world_deaths d;
	struct world_traffic a, b;
	const struct mono span = MONO_S(120);

	form(r);
	a = world_traffic(r->w);
	world_deaf(r->w, 0, true);
	rest(r, span);
	b = world_traffic(r->w);
	d = world_deaths(r->w);
	printf(" suspected=%" PRIu64 " declared=%" PRIu64 " refutations=%" PRIu64 " false_deaths=%" PRIu64
	    " packets_s=%.3f", d.suspected_healthy, d.declared_healthy, totals(r).sum.refutations,
	    d.of_healthy, (double)(b.packets - a.packets) / mono_seconds(span) / r->n);
	if (d.of_healthy > 2 + r->n / 8)
		r->failed = "many believe one that does not hear them";
}

/* One of the first `among` that is up and has not begun to leave. */
static unsigned
any_staying(struct run *r, unsigned among)
{
	unsigned i;

	do
		i = (unsigned)rng_below(&r->rng, among);
	while (!world_is_up(r->w, i) || world_status(r->w, i, i) != MEMBER_ALIVE);
	return i;
}

/* One of the first leaves, every second one without a word, and a fresh one comes in its place. */
static void
replace(struct run *r, unsigned before)
{
	unsigned fresh = r->n++, old = any_staying(r, before);

	if (fresh % 2 == 0) {
		world_leave(r->w, old);
		r->leavers[r->leaver_count++] = old;
	} else {
		world_kill(r->w, old);
	}
	world_start(r->w, fresh);
	world_join(r->w, fresh, any_staying(r, before));
}

/* Who could not join, since the one that was asked was gone, asks another one, as gossipd does. */
static void
retry_joins(struct run *r, unsigned before)
{
	struct swim_stats s;

	for (unsigned i = before; i < r->n; i++) {
		if (!world_is_up(r->w, i))
			continue;
		swim_stats(world_core(r->w, i), &s);
		if (s.alive < r->up / 2)
			world_join(r->w, i, any_staying(r, before));
	}
}

#define ONE_BY_ONE_S 60
#define BURSTS 3

static void
replace_burst(struct run *r, unsigned before, unsigned count)
{
	for (unsigned k = 0; k < count; k++)
		replace(r, before);
}

/* A queue holds one message about a member at most: one that is gone, or came. */
static const char *
judge_replace(const struct run *r, unsigned one_by_one, unsigned changes)
{
	struct world_deaths d = world_deaths(r->w);

	if (one_by_one > 30)
		return "queues grow while members are replaced one by one";
	if (r->queue_max > changes || r->intents_max > changes)
		return "a queue holds more than there are changes";
	if (totals(r).sum.queue_dropped > 0)
		return "a queue was full";
	return world_false_deaths(r->w) > d.of_left ? "live members were declared dead" : NULL;
}

/*
 * Members are replaced by fresh ones: some one by one, a second apart, then a tenth of all in bursts, a third of that at
 * once.  Another one dies in the middle of the last burst (S133).
 */
static void
scenario_replace(struct run *r)
{
	unsigned before = r->n, burst = r->n / 10 / BURSTS, one_by_one;
	double known, agreed, drained, left;

	r->leavers = calloc(ONE_BY_ONE_S + BURSTS * burst, sizeof(*r->leavers));
	form(r);
	for (unsigned k = 0; k < ONE_BY_ONE_S; k++) {
		replace(r, before);
		rest(r, MONO_S(1));
		look_at_queues(r);
	}
	one_by_one = r->queue_max;
	for (unsigned k = 1; k < BURSTS; k++) {
		replace_burst(r, before, burst);
		rest(r, MONO_S(5));
	}
	replace_burst(r, before, burst);
	r->victim = any_staying(r, before);
	world_kill(r->w, r->victim);
	r->up--;
	known = settle(r, MONO_S(30), watched_gone, "a death in a burst is not known to all");
	retry_joins(r, before);
	agreed = settle(r, MONO_S(300), watched_agree, "views do not agree after members were replaced");
	drained = settle(r, MONO_S(60), queues_empty, "queues do not drain");
	left = settle(r, MONO_S(900), leavers_left, "some who left are shown as failed");
	printf(" one_by_one=%u queue_then=%u in_bursts=%u known_s=%.2f agreed_s=%.2f drained_s=%.2f left_s=%.2f"
	    " queue_max=%" PRIu32 " intents_max=%" PRIu32 " left_as_failed=%" PRIu64, ONE_BY_ONE_S, one_by_one,
	    BURSTS * burst, known, agreed, drained, left, r->queue_max, r->intents_max, world_deaths(r->w).of_left);
	if (r->failed == NULL)
		r->failed = judge_replace(r, one_by_one, 2 * (ONE_BY_ONE_S + BURSTS * burst));
	free(r->leavers);
}

static const struct {
	const char *name;
	void (*play)(struct run *);
	double loss;			/* of datagrams */
	unsigned small;			/* members in make check */
} scenarios[] = {
	{ "join", scenario_join, 0.01, 200 },
	{ "memory", scenario_memory, 0, 10000 },
	{ "steady", scenario_steady, 0.001, 200 },
	{ "lifeguard", scenario_lifeguard, 0.01, 50 },
	{ "restart", scenario_restart, 0.01, 100 },
	{ "prune", scenario_prune, 0.01, 100 },
	{ "deaf", scenario_deaf, 0.01, 100 },
	{ "replace", scenario_replace, 0.01, 200 },
};
#define SCENARIOS (sizeof(scenarios) / sizeof(scenarios[0]))
#define LIFEGUARD 3			/* its place */

/* -- runs ------------------------------------------------------------------------ */

struct choice {
	size_t scenario;
	uint64_t seed;
	unsigned members, without, weak;
};

/* 0 or 1. */
static unsigned
play(const struct choice *c)
{
	struct run r = { .n = c->members, .without = c->without, .weak = c->weak };
	struct world_conf conf = { .seed = c->seed, .timing = *swim_preset("lan"), .members_max = c->members * 2 + 100,
		.delay_min = MONO_US(100), .delay_max = MONO_MS(5), .loss = scenarios[c->scenario].loss,
		.seal_bytes = SEAL_OVERHEAD, .without = c->without, .tcp_pings = true, .real_tags = true,
		.own_store = strcmp(scenarios[c->scenario].name, "memory") == 0 };

	rng_seed(&r.rng, c->seed ^ 0x5ca1e);
	printf("%s %u", scenarios[c->scenario].name, c->members);
	fflush(stdout);
	r.w = world_new(&conf);
	scenarios[c->scenario].play(&r);
	printf(" simulated_s=%.0f events=%" PRIu64 "\n", mono_seconds(world_now(r.w)), world_events(r.w));
	if (r.failed != NULL)
		printf("FAILED: %s\n  replay: sim_scale --seed %" PRIu64 " --without %u --weak %u %s %u\n", r.failed,
		    c->seed, c->without, c->weak, scenarios[c->scenario].name, c->members);
	fflush(stdout);
	world_free(r.w);
	return r.failed != NULL;
}

static int
usage(void)
{
	fprintf(stderr, "usage: sim_scale [--seed N] [--without PARTS] [--weak PERCENT] SCENARIO MEMBERS\n"
	    "scenarios: join memory steady lifeguard restart prune deaf replace\n");
	return 2;
}

static unsigned
play_all(void)
{
	static const unsigned less[] = { SWIM_WITHOUT_STALL, PLAIN_SWIM };
	unsigned failures = 0;

	for (size_t i = 0; i < SCENARIOS; i++)
		failures += play(&(struct choice){ .scenario = i, .seed = 1, .members = scenarios[i].small, .weak = 10 });
	for (unsigned i = 0; i < sizeof(less) / sizeof(less[0]); i++)
		failures += play(&(struct choice){ .scenario = LIFEGUARD, .seed = 1, .members = scenarios[LIFEGUARD].small,
		    .weak = 10, .without = less[i] });
	return failures;
}

int
main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "seed", required_argument, NULL, 's' }, { "without", required_argument, NULL, 'x' },
		{ "weak", required_argument, NULL, 'w' }, { 0 },
	};
	struct choice c = { .seed = 1, .weak = 10 };
	int opt;

	while ((opt = getopt_long(argc, argv, "s:x:w:", longs, NULL)) != -1) {
		if (opt == 's')
			c.seed = strtoull(optarg, NULL, 10);
		else if (opt == 'x')
			c.without = (unsigned)strtoul(optarg, NULL, 10);
		else if (opt == 'w')
			c.weak = (unsigned)strtoul(optarg, NULL, 10);
		else
			return usage();
	}
	if (argc == 1)
		return play_all() > 0;
	if (argc - optind != 2 || (c.members = (unsigned)strtoul(argv[optind + 1], NULL, 10)) < 3 || c.weak > 90)
		return usage();
	while (c.scenario < SCENARIOS && strcmp(scenarios[c.scenario].name, argv[optind]) != 0)
		c.scenario++;
	return c.scenario == SCENARIOS ? usage() : (int)play(&c);
}
