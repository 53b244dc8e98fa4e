/*
 * The real log store and the real state machine on a disk that loses power at each call.
 *
 *   sim_store                        seeds 1 to 25 of the state, to 250 of the log (5 and 50 with sanitizers)
 *   sim_store --seed N [--count M]   M runs from seed N on (1)
 *   sim_store --only log|state       one of the two
 *   sim_store --sector 512|4096 --names journal|own|posix    instead of what the seed says (see memfs.h)
 *   sim_store --seed N -v            with every call and every future on stdout
 *
 * The first failing seed is printed and ends the program with status 1; the same seed fails the same way again.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "tests/sim/store_run.h"

#ifdef TV_SANITIZERS
#define SEEDS 5
#else
#define SEEDS 25
#endif

/*
 * Leak checkers: an environment of Berkeley DB that has panicked (a failed write) is not given back by its close.  The
 * daemon ends there; this program goes on.
 */
const char *__lsan_default_suppressions(void);
const char *
__lsan_default_suppressions(void)
{
	return "leak:libdb-5.3\n";
}

static const struct kind {
	const char *name;
	bool (*fn)(struct run *r);
	uint64_t seeds;			/* unless told otherwise: a life of the log is a short one */
} kinds[] = { { "log", log_run, 10 * SEEDS }, { "state", fsm_run, SEEDS } };

/* Beyond the usual ones. */
static const struct {
	const char *kind;
	uint64_t seed;
} failed_once[] = {
	{ "state", 20020 },		/* a sync fails while a state is replaced, and closing went on writing */
	{ "state", 203 },		/* a group is undone while the file with a part of it cannot be made */
};

struct wish {
	uint64_t seed, count;		/* count 0: as many as is usual */
	const char *only;		/* NULL: both */
	int sector, names;		/* -1: as the seed says */
	bool verbose;
};

static bool
run_seed(const struct kind *k, uint64_t seed, const struct wish *w, struct totals *t)
{
	struct run r;
	bool ok;

	run_init(&r, seed, t, w->verbose);
	if (w->sector > 0)
		r.rules.sector = (unsigned)w->sector;
	if (w->names >= 0)
		r.rules.names = (enum memfs_names)w->names;
	ok = k->fn(&r);
	if (!ok)
		printf("FAIL seed %" PRIu64 ": %s\nreplay: tests/sim/sim_store --only %s --seed %" PRIu64 " -v\n", seed, r.why,
		    k->name, seed);
	run_done(&r);
	return ok;
}

static int
names_of(const char *text)
{
	static const char *const names[] = { "journal", "own", "posix" };

	for (int i = 0; i < MEMFS_NAMES_COUNT; i++)
		if (strcmp(text, names[i]) == 0)
			return i;
	return -1;
}

static bool
read_options(int argc, char **argv, struct wish *w)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' }, { "count", required_argument, NULL, 'c' },
		{ "only", required_argument, NULL, 'o' }, { "sector", required_argument, NULL, 'b' },
		{ "names", required_argument, NULL, 'n' }, { "verbose", no_argument, NULL, 'v' }, { NULL, 0, NULL, 0 },
	};
	int opt;

	while ((opt = getopt_long(argc, argv, "s:c:o:v", options, NULL)) != -1) {
		if (opt == 's') {
			w->seed = strtoull(optarg, NULL, 0);
			w->count = 1;
		} else if (opt == 'c') {
			w->count = strtoull(optarg, NULL, 0);
		} else if (opt == 'o') {
			w->only = optarg;
		} else if (opt == 'b') {
			w->sector = atoi(optarg);
		} else if (opt == 'n') {
			w->names = names_of(optarg);
		} else if (opt == 'v') {
			w->verbose = true;
		} else {
			return false;
		}
	}
	return optind == argc;
}

/*
 * Half of what the usual run covers, with 25 times SEEDS: less of it must not pass.  Of failed calls a little less, since the first
 * five seeds have few.
 */
static bool
enough(const struct totals *t)
{
	const struct { const char *what; unsigned long have, least; } floors[] = {
		{ "steps", t->steps, 5000 }, { "calls of the disk", t->calls, 380000 }, { "failed calls", t->faults, 600 },
		{ "crashes", t->futures, 28000 }, { "kills", t->kills, 4300 }, { "crashes during a recovery", t->nested, 11000 },
		{ "snapshots", t->snapshots, 20 }, { "snapshots installed", t->installs, 20 },
	};
	bool ok = true;

	for (size_t i = 0; i < sizeof(floors) / sizeof(floors[0]); i++) {
		if (floors[i].have >= floors[i].least * SEEDS / 25)
			continue;
		printf("FAIL only %lu %s, and %lu are the least\n", floors[i].have, floors[i].what, floors[i].least * SEEDS / 25);
		ok = false;
	}
	return ok;
}

int
main(int argc, char **argv)
{
	struct wish w = { .seed = 1, .sector = -1, .names = -1 };
	struct totals t = { 0 };
	bool ok = true;

	if (!read_options(argc, argv, &w)) {
		fprintf(stderr, "usage: sim_store [--seed N] [--count M] [--only log|state] [--sector 512|4096] "
		    "[--names journal|own|posix] [-v]\n");
		return 2;
	}
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]) && ok; k++) {
		uint64_t count = w.count > 0 ? w.count : kinds[k].seeds;

		if (w.only != NULL && strcmp(w.only, kinds[k].name) != 0)
			continue;
		/* What was wrong once is looked at in each usual run. */
		for (unsigned i = 0; w.count == 0 && ok && i < sizeof(failed_once) / sizeof(failed_once[0]); i++)
			if (strcmp(failed_once[i].kind, kinds[k].name) == 0)
				ok = run_seed(&kinds[k], failed_once[i].seed, &w, &t);
		for (uint64_t i = 0; i < count && ok; i++)
			ok = run_seed(&kinds[k], w.seed + i, &w, &t);
	}
	printf("%lu lives, %lu steps, %lu calls of the disk, %lu failed; %lu crashes (%lu of them kills), %lu during a recovery, "
	    "%lu refused for a torn page; %lu snapshots, %lu installed\n", t.lives, t.steps, t.calls, t.faults, t.futures,
	    t.kills, t.nested, t.refused, t.snapshots, t.installs);
	if (ok && w.count == 0 && w.only == NULL && w.seed == 1)
		ok = enough(&t);
	return ok ? 0 : 1;
}
