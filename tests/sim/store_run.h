/*
 * Lives of the real stores on a file system that loses its power, for sim_store.
 *
 * A life is a random workload, and at each call that changes or syncs a file one or more futures are split off: the
 * power is lost there, or the program is killed.  The life itself goes on as if nothing had been.  Then each future
 * is opened and compared with what the model allows there: the steps that were reported done, and the one in progress
 * wholly or not at all.  Opening splits off futures of its own, and one of all futures is the start of the next life.
 */
#ifndef TV_TESTS_SIM_STORE_RUN_H
#define TV_TESTS_SIM_STORE_RUN_H

#include "common/base/arena.h"
#include "tests/sim/memfs.h"

struct totals {
	unsigned long lives, steps, calls, futures, nested, kills, faults, refused, installs, snapshots;
};

/* What may be found: positions in the model's history, both included. */
struct expect {
	uint64_t low, high;
};

struct future {
	struct memfs *fs;		/* owned */
	struct expect expect;
	unsigned depth;			/* crashes since the last life */
	bool killed;			/* else the power went */
	char where[80];
};

struct run {
	uint64_t seed;
	struct rng rng;
	struct memfs_rules rules;
	struct memfs *fs;		/* of the life at hand, mounted as "a" */
	struct expect now;		/* what a future that begins now may have */
	double split;			/* share of calls that split off a future; 1: each of them */
	enum memfs_call last_call;	/* and its file: long runs of the same are split off more rarely */
	char last_name[64];
	unsigned same;
	unsigned depth;
	struct future *futures;
	size_t count, cap;
	/* a fault of the disk: the fault_at-th call from now fails, and fault_more after it */
	uint64_t fault_at;
	unsigned fault_more;
	int fault_errno;
	bool fault_logs;		/* only the making of further write-ahead files counts */
	bool faulted;
	/* called before each call of the disk, for what another thread might do meanwhile; NULL: nothing */
	void (*meanwhile)(void *ctx, enum memfs_call call, const char *name);
	void *ctx;
	bool verbose, failed;
	char why[1024];
	struct totals *t;
};

void run_init(struct run *r, uint64_t seed, struct totals *t, bool verbose);
void run_done(struct run *r);
void run_fail(struct run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void run_say(struct run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Mounts a file system and splits off futures from now on. */
void run_mount(struct run *r, struct memfs *fs);
/* Unmounts and frees it; nothing of it is open. */
void run_unmount(struct run *r);
/* One of them, at random; the caller owns its file system.  False: there is none. */
bool run_pick(struct run *r, struct future *out);
bool run_chance(struct run *r, double p);
uint64_t run_below(struct run *r, uint64_t n);

/* A whole run of one seed; false: failed, r->why says how. */
bool log_run(struct run *r);
bool fsm_run(struct run *r);

#endif
