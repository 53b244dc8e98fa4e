/*
 * Whole servers under chaos: the real core over the real log store and the real state machine, each server on a disk in
 * memory that loses power, or fails a write or a sync, in the midst of things; network, clients and time are those of sim_raft.
 *
 *   sim_server                       seeds 1 to 150 (15 with sanitizers), and those that failed before
 *   sim_server --seed N [--count M]  M runs from seed N on (1)
 *   sim_server --seed N -v           with every step on stdout
 *
 * The first failing seed is printed and ends the program with status 1; the same seed fails the same way again.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>

#include "config.h"
#include "common/base/log.h"
#include "tests/sim/raft_real.h"

#ifdef TV_SANITIZERS
#define SEEDS 15
#else
#define SEEDS 150
#endif

/*
 * 5574: recovery cleared a torn end of the state's write-ahead log without a sync and began the next file, and then the
 * power went.
 */
static const uint64_t failed_before[] = { 5574 };

/* As in sim_store: an environment of Berkeley DB that met EIO is not given back by its close. */
const char *__lsan_default_suppressions(void);
const char *
__lsan_default_suppressions(void)
{
	return "leak:libdb-5.3\n";
}

struct sums {
	uint64_t runs, steps, requests, writes, crashes, installs, calls, recoveries, errors;
};

/* Smaller than sim_raft's: every write is a transaction, every entry is applied. */
static struct plan
server_plan(uint64_t seed)
{
	struct plan p = plan_of(seed);

	p.stores = &real_stores;
	p.opt.snapshot_chunk_bytes = 4096;
	p.snap_fail = 0;
	p.resets = 0;			/* what links tell is the core's affair: sim_raft has it */
	p.mislead_every = p.reset_every = MONO_ZERO;
	if (p.chaos_for.ns > MONO_S(6).ns)
		p.chaos_for = MONO_S(6);
	if (p.compact_every.ns == 0)
		p.compact_every = MONO_MS(400);
	if (p.crash_every.ns == 0)
		p.crash_every = MONO_MS(1500);
	return p;
}

static bool
run_seed(uint64_t seed, bool verbose, struct sums *t)
{
	static struct world w;	/* large */
	struct plan plan = server_plan(seed);
	bool ok;

	world_init(&w, seed, &plan);
	w.trace = verbose ? stdout : NULL;
	ok = chaos_run(&w);
	if (!ok)
		printf("FAIL seed %" PRIu64 " at %.3f s: %s\nreplay: tests/sim/sim_server --seed %" PRIu64 " -v\n", seed,
		    mono_seconds(w.now), w.why, seed);
	t->runs++;
	t->steps += w.steps;
	t->requests += w.request_count;
	t->writes += w.writes_acked;
	t->crashes += w.crashes;
	t->installs += w.installs;
	t->calls += w.real_calls;
	t->recoveries += w.real_recoveries;
	t->errors += w.real_errors;
	world_done(&w);
	return ok;
}

/* Half of what the usual run covers, with 150 SEEDS: less of it must not pass. */
static bool
enough(const struct sums *t)
{
	const struct { const char *what; uint64_t have, least; } floors[] = {
		{ "requests of clients", t->requests, 23000 }, { "writes", t->writes, 32000 }, { "crashes", t->crashes, 450 },
		{ "crashes during a recovery", t->recoveries, 30 }, { "crashes for EIO", t->errors, 20 },
		{ "snapshots installed", t->installs, 65 }, { "calls of the disks", t->calls, 210000 },
	};
	bool ok = true;

	for (size_t i = 0; i < sizeof(floors) / sizeof(floors[0]); i++) {
		uint64_t least = floors[i].least * SEEDS / 150;

		/* So few come by chance: in a short run it may be one as well. */
		if (least > 1 && least < 5)
			least = 1;
		if (floors[i].have >= least)
			continue;
		printf("FAIL only %" PRIu64 " %s, and %" PRIu64 " are the least\n", floors[i].have, floors[i].what, least);
		ok = false;
	}
	return ok;
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' }, { "count", required_argument, NULL, 'c' },
		{ "verbose", no_argument, NULL, 'v' }, { NULL, 0, NULL, 0 },
	};
	uint64_t seed = 1, count = 0;
	struct sums t = { 0 };
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
			fprintf(stderr, "usage: sim_server [--seed N] [--count M] [-v]\n");
			return 2;
		}
	}
	log_init("sim_server", LOG_LVL_ERR, LOG_TO_STDERR);
	for (size_t i = 0; count == 0 && i < sizeof(failed_before) / sizeof(failed_before[0]) && ok; i++)
		ok = run_seed(failed_before[i], verbose, &t);
	for (uint64_t i = 0; i < (count > 0 ? count : SEEDS) && ok; i++)
		ok = run_seed(seed + i, verbose, &t);
	printf("%" PRIu64 " runs: %" PRIu64 " steps, %" PRIu64 " requests of clients, %" PRIu64 " writes, %" PRIu64 " crashes (%"
	    PRIu64 " of them during a recovery, %" PRIu64 " for EIO), %" PRIu64 " snapshots installed, %" PRIu64 " calls of the disks\n", t.runs,
	    t.steps, t.requests, t.writes, t.crashes + t.recoveries, t.recoveries, t.errors, t.installs, t.calls);
	if (ok && count == 0)
		ok = enough(&t);
	return ok ? 0 : 1;
}
