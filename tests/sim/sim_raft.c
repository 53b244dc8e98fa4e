/*
 * Raft under chaos.
 *
 *   sim_raft                        seeds 1 to 1000 (300 with sanitizers)
 *   sim_raft --seed N [--count M]   M runs from seed N on (1)
 *   sim_raft --seed N -v            with every step on stdout
 *
 * The first failing seed is printed and ends the program with status 1; the same seed fails the same way again.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>

#include "config.h"
#include "tests/sim/raft_world.h"

#ifdef TV_SANITIZERS
#define SEEDS 300		/* each takes ten times as long */
#else
#define SEEDS 1000
#endif

struct totals {
	unsigned long runs, writes, reads, elections, installs, changes, transfers, crashes;
	uint64_t steps;
};

static bool
run_seed(uint64_t seed, bool verbose, struct totals *t)
{
	static struct world w;	/* large */
	struct plan plan = plan_of(seed);
	bool ok;

	world_init(&w, seed, &plan);
	w.trace = verbose ? stdout : NULL;
	ok = chaos_run(&w);
	if (!ok)
		printf("FAIL seed %" PRIu64 " at %.3f s: %s\nreplay: tests/sim/sim_raft --seed %" PRIu64 " -v\n", seed,
		    mono_seconds(w.now), w.why, seed);
	t->runs++;
	t->steps += w.steps;
	t->writes += w.writes_acked;
	t->reads += w.reads_done;
	t->elections += w.elections;
	t->installs += w.installs;
	t->changes += w.changes;
	t->transfers += w.transfers;
	t->crashes += w.crashes;
	world_done(&w);
	return ok;
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "count", required_argument, NULL, 'c' },
		{ "verbose", no_argument, NULL, 'v' },
		{ NULL, 0, NULL, 0 },
	};
	uint64_t seed = 1, count = SEEDS;
	struct totals t = { 0 };
	bool verbose = false, ok = true;
	int opt;

	while ((opt = getopt_long(argc, argv, "s:c:v", options, NULL)) != -1) {
		if (opt == 's') {
			seed = strtoull(optarg, NULL, 0);
			count = 1;
		} else if (opt == 'c') {
			count = strtoull(optarg, NULL, 0);
		} else if (opt == 'v') {
			verbose = true;
		} else {
			fprintf(stderr, "usage: sim_raft [--seed N] [--count M] [-v]\n");
			return 2;
		}
	}
	for (uint64_t i = 0; i < count && ok; i++)
		ok = run_seed(seed + i, verbose, &t);
	printf("%lu runs: %" PRIu64 " steps, %lu elections, %lu writes, %lu reads, %lu crashes, %lu changes, %lu transfers, "
	    "%lu snapshots installed\n", t.runs, t.steps, t.elections, t.writes, t.reads, t.crashes, t.changes, t.transfers,
	    t.installs);
	return ok ? 0 : 1;
}
