/*
 * Raft under chaos.
 *
 *   sim_raft                        seeds 1 to 2000 (300 with sanitizers), those that ever failed, a crash at each
 *                                   persist point of a script
 *   sim_raft --seed N [--count M]   M runs from seed N on (1)
 *   sim_raft --seed N -v            with every step on stdout
 *   sim_raft --seed N --history F   what the clients saw goes to F, for check_history
 *   sim_raft --point N:P [-v]       the script with a crash of server N at its persist point P
 *   sim_raft --elections N          how long elections take: a table
 *
 * The first failing seed is printed and ends the program with status 1; the same seed fails the same way again.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "tests/sim/raft_run.h"

#define POINTS 1200		/* at least; there are some 1,600 */
#define UNDECIDED_PART 500	/* one history of so many may be too hard to judge */
#ifdef TV_SANITIZERS
#define SEEDS 300		/* each takes ten times as long */
#define STRIDE 10
#else
#define SEEDS 2000
#define STRIDE 1
#endif

struct arguments {
	uint64_t seed, count, point;
	int node;		/* --point; -1: not given */
	unsigned elections;
	const char *history;
	bool verbose, all;
};

static bool
seeds(const struct arguments *a, struct totals *t)
{
	FILE *history = a->history != NULL ? fopen(a->history, "w") : NULL;
	char why[600];
	bool ok = true;

	for (uint64_t i = 0; i < a->count && ok; i++) {
		ok = run_seed(a->seed + i, a->verbose ? stdout : NULL, history, t, why, sizeof(why));
		if (!ok)
			printf("FAIL seed %" PRIu64 " %s\nreplay: tests/sim/sim_raft --seed %" PRIu64 " -v\n", a->seed + i, why,
			    a->seed + i);
	}
	if (history != NULL)
		fclose(history);
	return ok;
}

/* Lines "SEED PLAN why": seeds that failed once, with the version of plans in which they did: today's, or they are stale. */
static bool
failed_before(struct totals *t)
{
	FILE *f = fopen(TV_SRCDIR "/tests/data/raft/seeds.txt", "r");
	char line[512];
	bool ok = true;

	if (f == NULL) {
		perror("tests/data/raft/seeds.txt");
		return false;
	}
	while (ok && fgets(line, sizeof(line), f) != NULL) {
		struct arguments a = { .count = 1 };
		int plan;

		if (line[0] == '#' || line[0] == '\n')
			continue;
		ok = sscanf(line, "%" SCNu64 " %d ", &a.seed, &plan) == 2 && plan == PLAN_VERSION;
		if (!ok)
			printf("FAIL tests/data/raft/seeds.txt: not a seed of plan %d, whose run would be another one: "
			    "hold what it found by a script or a unit test: %s", PLAN_VERSION, line);
		ok = ok && seeds(&a, t);
	}
	fclose(f);
	return ok;
}

static bool
points(struct totals *t)
{
	char why[600];
	bool ok = run_points(STRIDE, t, why, sizeof(why));

	if (!ok)
		printf("FAIL %s\n", why);
	return ok;
}

/* Half of what the usual run covers, for 2,000 seeds: a plan that lost its faults, or its work, must not pass. */
static const struct { const char *what; size_t at; uint64_t least; } floors[] = {
	{ "requests of clients", offsetof(struct totals, requests), 800000 },
	{ "writes", offsetof(struct totals, writes), 800000 },
	{ "reads", offsetof(struct totals, reads), 350000 },
	{ "reads looked up ahead", offsetof(struct totals, ahead), 55000 },
	{ "elections", offsetof(struct totals, elections), 14000 },
	{ "changes", offsetof(struct totals, changes), 55000 },
	{ "transfers", offsetof(struct totals, transfers), 1300 },
	{ "snapshots installed", offsetof(struct totals, installs), 2100 },
	{ "crashes", offsetof(struct totals, crashes), 15000 },
	{ "failed syncs", offsetof(struct totals, sync_errors), 550 },
	{ "hangs", offsetof(struct totals, hangs), 6000 },
	{ "full disks", offsetof(struct totals, fills), 2300 },
	{ "disks lost", offsetof(struct totals, wipes), 190 },
	{ "disks that went back", offsetof(struct totals, backs), 300 },
	{ "times that was made up for", offsetof(struct totals, regained), 170 },
	{ "servers told that another's process has ended", offsetof(struct totals, told_gone), 58000 },
	{ "elections that began by that", offsetof(struct totals, prompt), 8400 },
};

static bool
enough(const struct totals *t, uint64_t point_runs)
{
	bool ok = true;

	for (size_t i = 0; i < sizeof(floors) / sizeof(floors[0]); i++) {
		uint64_t have = *(const uint64_t *)((const char *)t + floors[i].at), least = floors[i].least * SEEDS / 2000;

		if (have >= least)
			continue;
		printf("FAIL only %" PRIu64 " %s, and %" PRIu64 " are the least\n", have, floors[i].what, least);
		ok = false;
	}
	if (point_runs < POINTS / STRIDE) {
		printf("FAIL only %" PRIu64 " persist points, and %d are the least\n", point_runs, POINTS / STRIDE);
		ok = false;
	}
	if (t->undecided * UNDECIDED_PART > t->runs) {
		printf("FAIL %" PRIu64 " of %" PRIu64 " histories were too hard to judge\n", t->undecided, t->runs);
		ok = false;
	}
	return ok;
}

static bool
one_point(const struct arguments *a, struct totals *t)
{
	char why[600];
	uint64_t found;
	bool ok = run_point(a->node, a->point, a->verbose ? stdout : NULL, t, &found, why, sizeof(why));

	if (!ok)
		printf("FAIL %s\n", why);
	return ok;
}

static int
usage(void)
{
	fprintf(stderr, "usage: sim_raft [--seed N [--count M] [--history FILE] | --point N:P | --elections N] [-v]\n");
	return 2;
}

static bool
read_arguments(int argc, char **argv, struct arguments *a)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' }, { "count", required_argument, NULL, 'c' },
		{ "history", required_argument, NULL, 'h' }, { "point", required_argument, NULL, 'p' },
		{ "elections", required_argument, NULL, 'e' }, { "verbose", no_argument, NULL, 'v' }, { NULL, 0, NULL, 0 },
	};
	int opt;

	*a = (struct arguments){ .seed = 1, .count = SEEDS, .node = -1, .all = true };
	while ((opt = getopt_long(argc, argv, "s:c:v", options, NULL)) != -1) {
		if (opt == 's') {
			a->seed = strtoull(optarg, NULL, 0);
			a->count = 1;
			a->all = false;
		} else if (opt == 'c') {
			a->count = strtoull(optarg, NULL, 0);
			a->all = false;
		} else if (opt == 'h') {
			a->history = optarg;
		} else if (opt == 'p' && sscanf(optarg, "%d:%" SCNu64, &a->node, &a->point) == 2 && a->node-- >= 1 && a->node < 4) {
			a->all = false;
		} else if (opt == 'e') {
			a->elections = (unsigned)strtoul(optarg, NULL, 0);
		} else if (opt == 'v') {
			a->verbose = true;
		} else {
			return false;
		}
	}
	return optind == argc;
}

int
main(int argc, char **argv)
{
	struct arguments a;
	struct totals t = { 0 };
	uint64_t before;
	bool ok;

	if (!read_arguments(argc, argv, &a))
		return usage();
	if (a.elections > 0) {
		run_elections(a.elections, stdout);
		return 0;
	}
	if (a.node >= 0)
		ok = one_point(&a, &t);
	else
		ok = seeds(&a, &t);
	if (a.all)
		ok = ok && failed_before(&t);
	before = t.runs;
	if (a.all)
		ok = ok && points(&t) && enough(&t, t.runs - before);
	totals_print(&t, stdout);
	return ok ? 0 : 1;
}
