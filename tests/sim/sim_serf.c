/*
 * User events and queries in simulated pools.
 *
 *	sim_serf [--seed N] [--count M] [--members N] [--scenario NAME] [-v]
 *
 * Seed and scenario decide everything; a failure prints the line that replays it.  Without options: what
 * `make check` runs.
 */
#include "config.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "tests/sim/gossip_world.h"

#define LARGE 300
#define EVENTS_MAX 400			/* fewer than a window is wide */
#define WAITING_MAX 4096

struct answer_due {
	unsigned member;
	uint64_t ltime;
	uint32_t id;
};

struct run {
	struct world *w;
	struct rng rng;			/* the scenario's own choices */
	unsigned n;
	unsigned lives[LARGE];		/* starts of each member so far */
	/* Events: the name of one is its number. */
	unsigned event_count;
	bool expected[EVENTS_MAX][LARGE];	/* who was up and in the pool when it was fired, and still is */
	uint8_t heard[EVENTS_MAX][LARGE];	/* how often, over all lives */
	/* The query under way. */
	struct answer_due due[WAITING_MAX];
	unsigned due_count;
	bool acked[LARGE], answered[LARGE];
	unsigned acks, answers, ends;
	const char *failed;		/* what did not hold */
};

static void
fail(struct run *r, const char *what)
{
	if (r->failed == NULL)
		r->failed = what;
}

static unsigned
number_of(struct span text, unsigned below)
{
	unsigned n = 0;

	for (size_t i = 0; i < text.len; i++)
		n = n * 10 + (unsigned)(text.p[i] - '0');
	TV_ASSERT(n < below);
	return n;
}

/* -- what members tell ------------------------------------------------------------------- */

static void
on_user_event(struct run *r, unsigned i, const struct swim_user_event *e)
{
	unsigned number = number_of(e->name, r->event_count);

	if (++r->heard[number][i] > 1)
		fail(r, "an event was delivered twice to one member");
}

static void
on_query(struct run *r, unsigned i, const struct swim_query *q)
{
	TV_ASSERT(r->due_count < WAITING_MAX);
	r->due[r->due_count++] = (struct answer_due){ i, q->ltime, q->id };
}

static void
on_response(struct run *r, const struct swim_response *resp)
{
	unsigned from;

	if (r->ends > 0)
		fail(r, "a query went on after its end");
	if (resp->kind == SWIM_RESPONSE_DONE) {
		r->ends++;
		return;
	}
	from = number_of(span_of(resp->from.p + 1, resp->from.len - 1), r->n);
	bool *seen = resp->kind == SWIM_RESPONSE_ACK ? r->acked : r->answered;
	if (seen[from])
		fail(r, "a member's answer was delivered twice");
	seen[from] = true;
	if (resp->kind == SWIM_RESPONSE_ACK)
		r->acks++;
	else if (number_of(resp->payload, r->n) != from)
		fail(r, "an answer has another's payload");
	else
		r->answers++;
}

static void
watch(void *ctx, unsigned i, const struct swim_output *out)
{
	struct run *r = ctx;

	for (size_t k = 0; k < out->user_event_count; k++)
		on_user_event(r, i, &out->user_events[k]);
	for (size_t k = 0; k < out->query_count; k++)
		on_query(r, i, &out->queries[k]);
	for (size_t k = 0; k < out->response_count; k++)
		on_response(r, &out->responses[k]);
}

/* -- the pool ------------------------------------------------------------------------------- */

static bool
views_agree(struct world *w, void *arg)
{
	struct run *r = arg;

	for (unsigned i = 0; i < r->n; i++)
		for (unsigned j = 0; j < r->n && world_is_up(w, i); j++)
			if (world_is_up(w, j) && (world_status(w, i, j) != MEMBER_ALIVE ||
			    world_generation(w, i, j) != r->lives[j]))
				return false;
	return true;
}

static bool
settle(struct run *r, struct mono within, bool (*done)(struct world *, void *), const char *what)
{
	if (r->failed == NULL && !world_settle(r->w, mono_add(world_now(r->w), within), done, r))
		fail(r, what);
	return r->failed == NULL;
}

static void
rest(struct run *r, struct mono span)
{
	world_run(r->w, mono_add(world_now(r->w), span));
}

static void
start(struct run *r, unsigned i)
{
	world_start(r->w, i);
	r->lives[i]++;
}

static bool
form_pool(struct run *r)
{
	start(r, 0);
	for (unsigned i = 1; i < r->n; i++) {
		start(r, i);
		world_join(r->w, i, (unsigned)rng_below(&r->rng, i));
		rest(r, MONO_MS(rng_below(&r->rng, 50)));
	}
	return settle(r, MONO_S(300), views_agree, "views do not agree after a mass join");
}

/* -- events ------------------------------------------------------------------------------------ */

static void
fire(struct run *r, unsigned i)
{
	char name[16];

	if (r->event_count == EVENTS_MAX)
		return;
	snprintf(name, sizeof(name), "%u", r->event_count);
	for (unsigned j = 0; j < r->n; j++)
		r->expected[r->event_count][j] = world_is_up(r->w, j);
	r->event_count++;
	if (world_feed(r->w, i, (struct swim_input){ .type = SWIM_IN_FIRE, .name = span_str(name),
	    .bytes = span_str("payload"), .coalesce = rng_below(&r->rng, 2) }) != TV_OK)
		fail(r, "a member cannot fire");
}

static void
fire_some(struct run *r, unsigned count)
{
	for (unsigned k = 0; k < count; k++) {
		unsigned i = (unsigned)rng_below(&r->rng, r->n);

		if (world_is_up(r->w, i))
			fire(r, i);
		rest(r, MONO_MS(rng_below(&r->rng, 1500)));
	}
}

static bool
all_heard(struct world *w, void *arg)
{
	struct run *r = arg;

	(void)w;
	for (unsigned e = 0; e < r->event_count; e++)
		for (unsigned j = 0; j < r->n; j++)
			if (r->expected[e][j] && r->heard[e][j] == 0)
				return false;
	return true;
}

/* Gossip reaches nearly all; full exchanges, one in 30 s and rarer in large pools, the rest. */
static void
all_must_hear(struct run *r)
{
	settle(r, MONO_S(600), all_heard, "an event did not reach a member that was up");
	rest(r, MONO_S(120));		/* nor may one come again */
}

static void
scenario_events(struct run *r)
{
	if (form_pool(r))
		fire_some(r, 40);
	all_must_hear(r);
}

static void
scenario_split(struct run *r)
{
	if (!form_pool(r))
		return;
	fire_some(r, 10);
	for (unsigned i = 0; i < r->n; i++)
		world_side(r->w, i, i % 2);
	fire_some(r, 40);
	rest(r, MONO_S(rng_below(&r->rng, 60)));
	for (unsigned i = 0; i < r->n; i++)
		world_side(r->w, i, 0);
	fire_some(r, 10);
	all_must_hear(r);
}

/* S132: one that was away hears what is fired from then on, and nothing again. */
static void
scenario_return(struct run *r)
{
	unsigned victim;

	world_keep_clocks(r->w);
	if (!form_pool(r))
		return;
	for (unsigned round = 0; round < 3; round++) {
		fire_some(r, 10);
		settle(r, MONO_S(600), all_heard, "an event did not reach a member that was up");
		victim = (unsigned)rng_below(&r->rng, r->n);
		world_kill(r->w, victim);
		for (unsigned e = 0; e < r->event_count; e++)
			r->expected[e][victim] = false;
		fire_some(r, (unsigned)rng_below(&r->rng, 20));
		start(r, victim);
		world_join(r->w, victim, (victim + 1) % r->n);
		settle(r, MONO_S(120), views_agree, "one that came back is not seen by all");
	}
	fire_some(r, 10);
	all_must_hear(r);
}

/* -- queries ------------------------------------------------------------------------------------- */

static void
answer_all(struct run *r)
{
	while (r->due_count > 0) {
		struct answer_due d = r->due[--r->due_count];
		char text[16];

		snprintf(text, sizeof(text), "%u", d.member);
		if (world_feed(r->w, d.member, (struct swim_input){ .type = SWIM_IN_RESPOND, .ltime = d.ltime,
		    .query_id = d.id, .bytes = span_str(text) }) != TV_OK)
			fail(r, "a member cannot answer in time");
	}
}

static void
ask(struct run *r, unsigned relays)
{
	struct swim_ask q = { .token = 1, .name = span_str("who"), .want_ack = true, .relay_factor = (uint8_t)relays };
	struct mono limit = mono_add(world_now(r->w), MONO_S(30));

	memset(r->acked, 0, sizeof(r->acked));
	memset(r->answered, 0, sizeof(r->answered));
	r->acks = r->answers = r->ends = 0;
	if (world_feed(r->w, (unsigned)rng_below(&r->rng, r->n), (struct swim_input){ .type = SWIM_IN_QUERY,
	    .ask = &q }) != TV_OK)
		fail(r, "a member cannot ask");
	while (r->failed == NULL && r->ends == 0 && mono_before(world_now(r->w), limit)) {
		answer_all(r);
		rest(r, MONO_MS(10));
	}
	if (r->ends != 1)
		fail(r, "a query has no end");
	r->due_count = 0;		/* what was heard too late to answer */
	rest(r, MONO_S(5));
	r->due_count = 0;
}

static void
scenario_queries(struct run *r)
{
	if (!form_pool(r))
		return;
	world_set_loss(r->w, 0);
	for (unsigned k = 0; k < 10 && r->failed == NULL; k++) {
		ask(r, 0);
		if (r->acks != r->n || r->answers != r->n)
fail(r, "not all members answered, though nothing was lost");
	}
}

/* What gets lost is made good by relays, mostly; what comes comes once. */
static void
scenario_relays(struct run *r)
{
	unsigned answers = 0;

	if (!form_pool(r))
		return;
	world_set_loss(r->w, 0.2);
	for (unsigned k = 0; k < 10 && r->failed == NULL; k++) {
		ask(r, 3);
		answers += r->answers;
	}
	if (r->n > 5 && answers < 10 * r->n * 9 / 10)
		fail(r, "relays do not make up for loss");
}

static const struct {
	const char *name;
	void (*play)(struct run *);
} scenarios[] = {
	{ "events", scenario_events },
	{ "split", scenario_split },
	{ "return", scenario_return },
	{ "queries", scenario_queries },
	{ "relays", scenario_relays },
};
#define SCENARIOS (sizeof(scenarios) / sizeof(scenarios[0]))

/* -- runs -------------------------------------------------------------------------------------------- */

struct choice {
	uint64_t seed;
	unsigned members;		/* 0: by the seed */
	size_t scenario;
	bool verbose;
};

/* 0 or 1. */
static unsigned
check(const struct choice *c)
{
	struct run *r = calloc(1, sizeof(*r));
	struct world_conf conf = { .seed = c->seed, .timing = *swim_preset("lan"), .verbose = c->verbose };
	const char *failed;

	TV_ASSERT(r != NULL);
	rng_seed(&r->rng, c->seed ^ 0xe7e27);
	r->n = c->members != 0 ? c->members : 2 + (unsigned)rng_below(&r->rng, 23);
	TV_ASSERT(r->n <= LARGE);
	conf.members_max = r->n;
	conf.delay_min = MONO_US(100);
	conf.delay_max = MONO_MS(1 + rng_below(&r->rng, 60));
	conf.loss = (double)rng_below(&r->rng, 11) / 100.0;
	conf.duplicate = (double)rng_below(&r->rng, 6) / 100.0;
	conf.tcp_pings = rng_below(&r->rng, 4) != 0;
	r->w = world_new(&conf);
	world_watch(r->w, watch, r);
	scenarios[c->scenario].play(r);
	failed = r->failed;
	world_free(r->w);
	free(r);
	if (failed == NULL)
		return 0;
	printf("FAILED: %s\n  replay: sim_serf --scenario %s --seed %" PRIu64 " --members %u\n", failed,
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

static unsigned
check_default(void)
{
	struct choice c = { 0 }, large = { .seed = 1000, .members = 100 };

	return check_seeds(1, 100, c, true) + check(&large);
}

static size_t
scenario_index(const char *name)
{
	for (size_t i = 0; i < SCENARIOS; i++)
		if (strcmp(scenarios[i].name, name) == 0)
			return i;
	fprintf(stderr, "sim_serf: no scenario %s (events, split, return, queries, relays)\n", name);
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
