/* Whole runs of the Raft simulator, for sim_raft and soak. */
#ifndef TV_TESTS_SIM_RAFT_RUN_H
#define TV_TESTS_SIM_RAFT_RUN_H

#include "tests/sim/raft_world.h"

struct totals {
	uint64_t runs, steps, requests;
	uint64_t writes, reads, ahead, elections, installs, changes, transfers, crashes, sync_errors, hangs, wipes, fills, told_gone, prompt,
	    backs, regained, undecided;
	double led, served, equal;	/* longest, in election timeouts of peace */
};

void totals_add(struct totals *t, const struct totals *other);
void totals_print(const struct totals *t, FILE *f);
/*
 * One seed.  trace: every step goes there; history: what the clients saw, for check_history; both may be NULL.  False: it
 * failed; `why` says when and how.
 */
bool run_seed(uint64_t seed, FILE *trace, FILE *history, struct totals *t, char *why, size_t cap);
/*
 * A small script, again and again, with one crash in each run: of each server, at each of its persist points in turn, or
 * at each stride-th.  False: one run failed, see `why`.
 */
bool run_points(unsigned stride, struct totals *t, char *why, size_t cap);
/* One such run; at 0: no crash.  The number of persist points of the server is returned in *points. */
bool run_point(int node, uint64_t at, FILE *trace, struct totals *t, uint64_t *points, char *why, size_t cap);
/* `count` elections each with 0, 1 and 2 of five servers dead, on two networks: prints how long they took. */
void run_elections(unsigned count, FILE *f);

#endif
