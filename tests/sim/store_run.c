/* Futures: where a life could have ended. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "tests/sim/store_run.h"

void
run_fail(struct run *r, const char *fmt, ...)
{
	va_list ap;

	if (r->failed)
		return;
	r->failed = true;
	va_start(ap, fmt);
	vsnprintf(r->why, sizeof(r->why), fmt, ap);
	va_end(ap);
	run_say(r, "FAILED: %s", r->why);
}

void
run_say(struct run *r, const char *fmt, ...)
{
	va_list ap;

	if (!r->verbose)
		return;
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

bool
run_chance(struct run *r, double p)
{
	return p > 0 && rng_unit(&r->rng) < p;
}

uint64_t
run_below(struct run *r, uint64_t n)
{
	return rng_below(&r->rng, n);
}

void
run_init(struct run *r, uint64_t seed, struct totals *t, bool verbose)
{
	memset(r, 0, sizeof(*r));
	r->seed = seed;
	r->t = t;
	r->verbose = verbose;
	rng_seed(&r->rng, seed);
	r->rules.sector = run_chance(r, 0.5) ? 4096 : 512;
	r->rules.names = (enum memfs_names)run_below(r, MEMFS_NAMES_COUNT);
}

void
run_done(struct run *r)
{
	for (size_t i = 0; i < r->count; i++)
		memfs_free(r->futures[i].fs);
	free(r->futures);
	r->futures = NULL;
	r->count = r->cap = 0;
}

/* How much of the unsynced got to the disk: the ends are worth more than the middle. */
static double
how_much(struct run *r)
{
	switch (run_below(r, 4)) {
	case 0:
		return 0;
	case 1:
		return 2;			/* all */
	default:
		return rng_unit(&r->rng);
	}
}

static void
split_off(struct run *r, const char *call, const char *name)
{
	struct future f = { .expect = r->now, .depth = r->depth + 1, .killed = run_chance(r, 0.15) };

	if (r->count == r->cap) {
		r->cap = r->cap > 0 ? r->cap * 2 : 256;
		r->futures = realloc(r->futures, r->cap * sizeof(f));
		TV_ASSERT(r->futures != NULL);
	}
	f.fs = f.killed ? memfs_kill(r->fs) : memfs_crash(r->fs, &r->rng, how_much(r));
	snprintf(f.where, sizeof(f.where), "%s before %s %s (call %lu)", f.killed ? "killed" : "power lost", call, name,
	    r->t->calls);
	r->futures[r->count++] = f;
	r->t->futures++;
	r->t->kills += f.killed;
	r->t->nested += f.depth > 1;
}

/* Recovery fills its write-ahead file with zeros, in hundreds of writes. */
static bool
split_here(struct run *r, enum memfs_call call, const char *name)
{
	if (call == r->last_call && strcmp(name, r->last_name) == 0) {
		r->same++;
	} else {
		r->same = 0;
		r->last_call = call;
		snprintf(r->last_name, sizeof(r->last_name), "%s", name);
	}
	return run_chance(r, r->same < 8 ? r->split : r->split / 50);
}

/* A full disk refuses what needs room, and nothing else. */
static bool
may_fail(const struct run *r, enum memfs_call call, const char *name)
{
	if (r->fault_logs)
		return call == MEMFS_CREATE && strncmp(name, "log.", 4) == 0 && strcmp(name, "log.0000000001") != 0;
	return r->fault_errno != ENOSPC || call == MEMFS_CREATE || call == MEMFS_WRITE || call == MEMFS_MKDIR;
}

static int
on_call(void *ctx, struct memfs *fs, enum memfs_call call, const char *name)
{
	struct run *r = ctx;

	(void)fs;
	r->t->calls++;
	if (r->verbose)
		run_say(r, "    call %lu: %s %s", r->t->calls, memfs_call_name(call), name);
	if (r->meanwhile != NULL)
		r->meanwhile(r->ctx, call, name);
	if (split_here(r, call, name))
		split_off(r, memfs_call_name(call), name);
	if (r->fault_at == 0 || !may_fail(r, call, name) || --r->fault_at > 0)
		return 0;
	run_say(r, "    it fails: %s", strerror(r->fault_errno));
	r->faulted = true;
	r->t->faults++;
	if (r->fault_more > 0) {
		r->fault_more--;
		r->fault_at = 1;
	}
	return r->fault_errno;
}

void
run_mount(struct run *r, struct memfs *fs)
{
	r->fs = fs;
	memfs_mount(fs, "a");
	memfs_watch(fs, on_call, r);
}

void
run_unmount(struct run *r)
{
	r->fault_at = 0;
	r->faulted = false;
	memfs_unmount(r->fs);
	memfs_free(r->fs);
	r->fs = NULL;
}

bool
run_pick(struct run *r, struct future *out)
{
	size_t at;

	if (r->count == 0)
		return false;
	at = (size_t)run_below(r, r->count);
	*out = r->futures[at];
	r->futures[at] = r->futures[--r->count];
	return true;
}
