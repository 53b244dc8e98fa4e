/*
 * The state machine: applying, checkpoints, snapshots written while applying goes on, and the state replaced by one.
 * What is found after a crash is compared with a machine on a disk without faults that applied entry after entry.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "tests/sim/fsm_batch.h"
#include "tests/sim/sim_ops.h"
#include "tests/sim/store_run.h"

#define STATE_DIR MEMFS_ROOT "a/state"
#define SNAP_OUT MEMFS_ROOT "a/snapshot-out"
#define SNAP_IN MEMFS_ROOT "a/snapshot-in"
#define REF_DIR MEMFS_ROOT "ref/state"
#define REF_SNAP MEMFS_ROOT "ref/snapshot"
#define INDEX_MAX 1500
#define BATCH_MAX 12
#define DEPTH_MAX 3
#define ULL(x) ((unsigned long long)(x))

/* expect.low, .high are applied indexes; of those between, the ends of transactions are allowed. */
struct life {
	struct run *r;
	struct fsm_options opt, ref_opt;
	struct fsm *f, *ref;
	struct memfs *ref_fs;
	uint8_t digest[INDEX_MAX + 1][32];	/* by applied index, of the reference */
	bool boundary[INDEX_MAX + 1];		/* a transaction ended there */
	struct fsm_snapshot *writing;		/* a snapshot is being written: apply between its writes */
	bool flushing;				/* what waited for the disk is written: apply between its writes and syncs */
	struct future next;
	unsigned long checked;
};

/* -- entries */

/*
 * In every third run each entry is a group of operations, after another group that fails: that one leaves nothing, so the
 * reference, which has neither, is the same.  By the number of the seed, without a draw: the others go on as they were.
 */
static bool
has_groups(const struct run *r)
{
	return r->seed % 3 == 2;
}

static enum tv_err
apply_groups(struct life *l, struct fsm *f, const struct raft_entry *e, uint32_t n)
{
	enum { LOST_MAX = 12 };
	struct arena a = ARENA_INIT(1u << 20);
	struct buf payload = BUF_INIT(65536);
	struct span lost[LOST_MAX], one;
	uint8_t needs;

	if (batch_begin(f) != 0)
		return TV_ESYS;
	for (uint32_t i = 0; i < n && f->failed == 0; i++) {
		uint32_t count = 1 + (uint32_t)(e[i].index * 7 % LOST_MAX);

		for (uint32_t j = 0; j < count; j++) {
			buf_reset(&payload);
			sim_op_payload(l->r->seed + 1, e[i].index * LOST_MAX + j, &payload);
			lost[j] = arena_copy(&a, buf_span(&payload));
		}
		batch_entry(f, e[i].term);
		needs = f->needs;
		(void)batch_group(f, lost, count, count - 1, &a);
		f->needs = needs;		/* which is of entries: none of the log held these */
		one = span_of(e[i].payload, e[i].size);
		(void)batch_group(f, &one, 1, UINT32_MAX, &a);	/* one that is refused changes nothing either way */
		arena_reset(&a);
	}
	arena_done(&a);
	buf_done(&payload);
	return batch_end(f) == TV_OK ? TV_OK : TV_ESYS;
}

static enum tv_err
apply(struct life *l, struct fsm *f, uint64_t last)
{
	struct buf payload[BATCH_MAX];
	struct raft_entry e[BATCH_MAX];
	enum tv_err err;
	uint64_t first = fsm_applied(f) + 1;
	uint32_t n = (uint32_t)(last - first + 1);

	TV_ASSERT(last >= first && n <= BATCH_MAX);
	for (uint32_t i = 0; i < n; i++) {
		payload[i] = (struct buf)BUF_INIT(65536);
		sim_op_payload(l->r->seed, first + i, &payload[i]);
		e[i] = (struct raft_entry){ .index = first + i, .term = 1 + (first + i) / 100, .type = RAFT_ENTRY_OP,
		    .size = (uint32_t)payload[i].len, .payload = payload[i].data };
	}
	err = f == l->f && has_groups(l->r) ? apply_groups(l, f, e, n) : fsm_apply(f, e, n, NULL, NULL);
	for (uint32_t i = 0; i < n; i++)
		buf_done(&payload[i]);
	return err;
}

/* -- the reference */

static void
reference_to(struct life *l, uint64_t index)
{
	TV_ASSERT(index <= INDEX_MAX);
	while (fsm_applied(l->ref) < index) {
		uint64_t at = fsm_applied(l->ref) + 1;

		TV_ASSERT(apply(l, l->ref, at) == TV_OK);
		TV_ASSERT(fsm_digest(l->ref, l->digest[at]) == TV_OK);
	}
}

static void
reference_open(struct life *l)
{
	static const struct memfs_rules rules = { .sector = 4096, .names = MEMFS_JOURNAL };
	char why[256];

	l->ref_fs = memfs_new(&rules, 1);
	memfs_mount(l->ref_fs, "ref");
	l->ref_opt = (struct fsm_options){ .dir = REF_DIR, .cache_bytes = 1u << 20, .datacenter = "dc1",
	    .log_file_bytes = 1u << 20, .log_buffer_bytes = 1u << 16 };
	TV_ASSERT(fsm_open(&l->ref_opt, &l->ref, why, sizeof(why)) == TV_OK);
	TV_ASSERT(fsm_digest(l->ref, l->digest[0]) == TV_OK);
	l->boundary[0] = true;
}

static void
reference_close(struct life *l)
{
	fsm_close(l->ref);
	memfs_unmount(l->ref_fs);
	memfs_free(l->ref_fs);
}

/* -- opening and comparing */

static void
check_state(struct life *l, const char *where)
{
	struct run *r = l->r;
	uint64_t at = fsm_applied(l->f);
	uint8_t got[32];

	if (at > INDEX_MAX || !l->boundary[at] || at < r->now.low || at > r->now.high) {
		run_fail(r, "state, %s: found at index %llu; allowed are ends of transactions from %llu to %llu", where, ULL(at),
		    ULL(r->now.low), ULL(r->now.high));
		return;
	}
	reference_to(l, at);
	if (fsm_digest(l->f, got) != TV_OK)
		run_fail(r, "state, %s: cannot be read", where);
	else if (memcmp(got, l->digest[at], sizeof(got)) != 0)
		run_fail(r, "state, %s: not the state of index %llu that it says it is", where, ULL(at));
}

static bool
open_state(struct life *l, const char *where)
{
	struct run *r = l->r;
	char why[512];
	enum tv_err err = fsm_open(&l->opt, &l->f, why, sizeof(why));

	if (err != TV_OK) {
		l->f = NULL;
		if (r->faulted)
			return false;
		if (r->rules.sector < 4096)
			r->t->refused++;
		else
			run_fail(r, "state, %s: refused: %s", where, why);
		return false;
	}
	check_state(l, where);
	r->now = (struct expect){ fsm_applied(l->f), fsm_applied(l->f) };
	return !r->failed;
}

/* -- steps */

static enum tv_err
step_apply(struct life *l)
{
	struct run *r = l->r;
	uint64_t last = fsm_applied(l->f) + 1 + run_below(r, BATCH_MAX);
	enum tv_err err;

	if (last > INDEX_MAX)
		return TV_OK;
	run_say(r, "  apply to %llu", ULL(last));
	l->boundary[last] = true;
	r->now.high = last;
	err = apply(l, l->f, last);
	/* The daemon does it now and then between its turns; it draws no lots, so that a seed stays what it was. */
	while (err == TV_OK && fsm_compact(l->f))
		;
	if (err == TV_OK)
		err = fsm_trouble(l->f);
	if (err == TV_OK)
		check_state(l, "after applying");
	return err;
}

static enum tv_err
step_checkpoint(struct life *l)
{
	struct run *r = l->r;
	uint64_t index, term;
	enum tv_err err;

	run_say(r, "  checkpoint at %llu", ULL(fsm_applied(l->f)));
	err = fsm_checkpoint(l->f, &index, &term);
	if (err == TV_OK) {
		if (index != fsm_applied(l->f))
			run_fail(r, "state: checkpoint of index %llu, applied is %llu", ULL(index), ULL(fsm_applied(l->f)));
		r->now.low = index;
	}
	return err;
}

/* Loads a snapshot file into a machine of its own and compares it with the reference. */
static void
check_snapshot(struct life *l, const char *path, uint64_t index)
{
	static const struct memfs_rules rules = { .sector = 4096, .names = MEMFS_JOURNAL };
	struct memfs *fs = memfs_new(&rules, 1);
	struct fsm_options opt = l->ref_opt;
	struct run *r = l->r;
	uint64_t got, term;
	uint8_t digest[32];
	struct fsm *f;
	char why[512];

	memfs_mount(fs, "check");
	opt.dir = MEMFS_ROOT "check/state";
	TV_ASSERT(fsm_open(&opt, &f, why, sizeof(why)) == TV_OK);
	reference_to(l, index);
	if (fsm_restore(f, path, &got, &term, why, sizeof(why)) != TV_OK)
		run_fail(r, "state: the snapshot at %llu cannot be loaded: %s", ULL(index), why);
	else if (got != index || fsm_digest(f, digest) != TV_OK || memcmp(digest, l->digest[index], 32) != 0)
		run_fail(r, "state: the snapshot at %llu is not the state of that index", ULL(index));
	fsm_close(f);
	memfs_unmount(fs);
	memfs_free(fs);
}

/* Another thread: it does not hold the lock while the file is written to. */
static void
meanwhile(void *ctx, enum memfs_call call, const char *name)
{
	struct life *l = ctx;

	bool copying = l->writing != NULL && call == MEMFS_WRITE && strcmp(name, "snapshot-out") == 0;
	/* Outside of Berkeley DB, which writes to its log itself. */
	bool flushing = l->flushing && (call == MEMFS_SYNC || (call == MEMFS_WRITE && strcmp(name, "state.db") == 0));

	if ((!copying && !flushing) || !run_chance(l->r, copying ? 0.7 : 0.3))
		return;
	l->flushing = false;			/* its own calls are none of the flush's */
	if (step_apply(l) != TV_OK && !l->r->faulted)
		run_fail(l->r, "state: cannot apply while a snapshot or what waited is written");
	l->flushing = flushing;
}

/* While it is written, entries are applied (S53). */
static enum tv_err
step_snapshot(struct life *l)
{
	struct run *r = l->r;
	uint64_t index, term, bytes, sum;
	enum tv_err err = fsm_snapshot_begin(l->f, &l->writing, &index, &term);

	if (err != TV_OK)
		return err;
	run_say(r, "  snapshot at %llu", ULL(index));
	for (unsigned i = 0; i < 3 && err == TV_OK; i++)
		err = step_apply(l);
	r->meanwhile = meanwhile;
	r->ctx = l;
	if (err == TV_OK)
		err = fsm_snapshot_write(l->writing, SNAP_OUT, &bytes, &sum);
	r->meanwhile = NULL;
	fsm_snapshot_end(l->writing);
	l->writing = NULL;
	if (err == TV_OK) {
		r->t->snapshots++;
		check_snapshot(l, SNAP_OUT, index);
	}
	return err;
}

/* The write-ahead log becomes durable, and what waited for that is written. */
static enum tv_err
step_flush(struct life *l)
{
	struct run *r = l->r;
	enum tv_err err;

	run_say(r, "  flush at %llu", ULL(fsm_applied(l->f)));
	l->flushing = run_chance(r, 0.7);
	r->meanwhile = meanwhile;
	r->ctx = l;
	err = fsm_flush(l->f);
	r->meanwhile = NULL;
	l->flushing = false;
	if (err == TV_OK)
		check_state(l, "after a flush");
	return err;
}

/* A file as it comes from the leader, durable with its name. */
static bool
fetch_snapshot(uint64_t *bytes)
{
	int from = open(REF_SNAP, O_RDONLY), to = open(SNAP_IN, O_WRONLY | O_CREAT | O_TRUNC, 0600), dir;
	char chunk[4096];
	bool ok = from != -1 && to != -1;
	ssize_t n = 0;

	*bytes = 0;
	while (ok && (n = read(from, chunk, sizeof(chunk))) > 0) {
		ok = write(to, chunk, (size_t)n) == n;
		*bytes += (uint64_t)n;
	}
	ok = ok && n == 0 && fsync(to) == 0;
	if (from != -1)
		close(from);
	if (to != -1)
		close(to);
	dir = open(MEMFS_ROOT "a", O_RDONLY | O_DIRECTORY);
	ok = ok && dir != -1 && fsync(dir) == 0;
	if (dir != -1)
		close(dir);
	return ok;
}

static void
no_calls(void *ctx, enum memfs_call call, const char *name)
{
	struct life *l = ctx;

	run_fail(l->r, "state: taking a state that is ready asks the disk to %s %s", memfs_call_name(call), name);
}

/* As the daemon does it: the loop reads the old state meanwhile, and waits for no disk when it takes the new one. */
static enum tv_err
install_in_steps(struct life *l)
{
	struct run *r = l->r;
	uint64_t index, term, at = fsm_applied(l->f);
	char why[512];
	enum tv_err err = fsm_restore_ready(l->f, why, sizeof(why));

	if (err != TV_OK)
		return err;
	check_state(l, "before it is replaced");
	if (fsm_applied(l->f) != at)
		run_fail(r, "state: replaced before its time");
	/* Nothing of this may touch what is in its place: it has its files, not their names. */
	if (run_chance(r, 0.3) && (fsm_checkpoint(l->f, &index, &term) != TV_OK || index != at))
		run_fail(r, "state: a checkpoint while it is replaced");
	if (run_chance(r, 0.2)) {
		fsm_close(l->f);
		l->f = NULL;
		r->now.low = r->now.high;
		return open_state(l, "ended while it was replaced") ? TV_OK : TV_ESYS;
	}
	r->meanwhile = no_calls;
	r->ctx = l;
	err = fsm_restore_swap(l->f, &index, &term, why, sizeof(why));
	r->meanwhile = NULL;
	return err;
}

static enum tv_err
step_install(struct life *l)
{
	struct run *r = l->r;
	uint64_t target = fsm_applied(l->f) + 1 + run_below(r, 60), index, term, bytes, sum;
	struct fsm_snapshot *s;
	char why[512];
	enum tv_err err;

	if (target < fsm_applied(l->ref))
		target = fsm_applied(l->ref);
	if (target > INDEX_MAX)
		return TV_OK;
	reference_to(l, target);
	run_say(r, "  install a snapshot at %llu", ULL(target));
	TV_ASSERT(fsm_snapshot_begin(l->ref, &s, &index, &term) == TV_OK && index == target);
	TV_ASSERT(fsm_snapshot_write(s, REF_SNAP, &bytes, &sum) == TV_OK);
	fsm_snapshot_end(s);
	if (!fetch_snapshot(&bytes))
		return TV_ESYS;
	err = fsm_restore_load(l->f, SNAP_IN, why, sizeof(why));
	if (err != TV_OK) {			/* the old state is as good as it was */
		if (!r->faulted)
			run_fail(r, "state: a good snapshot is refused: %s", why);
		return err;
	}
	l->boundary[target] = true;
	r->now.high = target;
	err = install_in_steps(l);
	if (err != TV_OK)
		return err;
	r->now.low = target;
	r->t->installs++;
	check_state(l, "after the installation");
	fsm_restore_tidy(l->f);
	check_state(l, "after the old state was closed");
	return TV_OK;
}

static enum tv_err
step(struct life *l)
{
	uint64_t kind = run_below(l->r, 12);

	l->r->t->steps++;
	if (l->opt.sync != FSM_SYNC_DIRECT && run_chance(l->r, 0.3))
		return step_flush(l);
	if (kind == 0)
		return step_install(l);
	if (kind == 1)
		return step_snapshot(l);
	if (kind < 5)
		return step_checkpoint(l);
	return step_apply(l);
}

/* -- lives */

/* After an error of the disk the process ends.  Nothing may be said to be durable any more. */
static void
after_error(struct life *l, enum tv_err err)
{
	struct run *r = l->r;
	uint64_t index, term;

	if (!r->faulted)
		run_fail(r, "state: a step failed (%s) and the disk had not", tv_strerror(err));
	r->fault_at = 0;
	if (!r->failed && l->f != NULL && fsm_checkpoint(l->f, &index, &term) == TV_OK)	/* NULL: it was not even opened again */
		r->now.low = index;
}

/*
 * In every fourth run files of the write-ahead log are small, and for a while there is no room for the next ones.  By the number
 * of the seed, without a draw: those that failed once go on as they were.
 */
static bool
lacks_logs(const struct run *r)
{
	return r->seed % 4 == 3;
}

static void
plan_fault(struct run *r)
{
	static const int errors[] = { EIO, EIO, ENOSPC };

	r->fault_logs = lacks_logs(r);
	if (r->fault_logs) {
		r->fault_at = 1;
		r->fault_more = (unsigned)(r->seed / 4 % 4);
		r->fault_errno = ENOSPC;
		return;
	}
	if (!run_chance(r, 0.25))
		return;
	r->fault_at = 1 + run_below(r, 60);
	r->fault_more = run_chance(r, 0.5) ? (unsigned)run_below(r, 1000) : 0;
	r->fault_errno = errors[run_below(r, 3)];
}

static void
live(struct life *l, unsigned steps)
{
	struct run *r = l->r;
	enum tv_err err = TV_OK;

	r->t->lives++;
	if (!open_state(l, "start of a life"))
		return;
	plan_fault(r);
	for (unsigned i = 0; i < steps && err == TV_OK && !r->failed; i++)
		err = step(l);
	if (err != TV_OK)
		after_error(l, err);
	r->fault_at = 0;
	if (run_chance(r, 0.5)) {
		fsm_close(l->f);
		l->f = NULL;
	}
}

/* What was lost comes from the log again, and gives the same state. */
static void
replay(struct life *l, const char *where)
{
	struct run *r = l->r;
	uint64_t to = fsm_applied(l->f) + BATCH_MAX;

	if (to > INDEX_MAX || to > fsm_applied(l->ref))
		return;
	l->boundary[to] = true;
	r->now.high = to;
	if (apply(l, l->f, to) != TV_OK)
		run_fail(r, "state, %s: cannot apply", where);
	else
		check_state(l, where);
}

static void
check_future(struct life *l, struct future *f)
{
	struct run *r = l->r;

	l->checked++;
	if (run_below(r, l->checked) == 0) {
		memfs_free(l->next.fs);
		l->next = *f;
		l->next.fs = memfs_kill(f->fs);
	}
	run_say(r, "  future: %s, depth %u, allowed %llu..%llu", f->where, f->depth, ULL(f->expect.low), ULL(f->expect.high));
	r->now = f->expect;
	r->depth = f->depth;
	r->split = f->depth < DEPTH_MAX ? 0.05 : 0;
	run_mount(r, f->fs);
	f->fs = NULL;
	if (open_state(l, f->where) && run_chance(r, 0.3))
		replay(l, f->where);
	fsm_close(l->f);
	l->f = NULL;
	run_unmount(r);
}

static void
check_futures(struct life *l)
{
	struct future f;

	while (!l->r->failed && run_pick(l->r, &f))
		check_future(l, &f);
}

static void
end_life(struct life *l)
{
	struct run *r = l->r;

	r->split = 0;
	fsm_close(l->f);
	l->f = NULL;
	run_unmount(r);
}

static void
begin_life(struct life *l)
{
	static const uint32_t files[] = { 65536, 98304, 196608 };
	struct run *r = l->r;

	l->opt = (struct fsm_options){ .dir = STATE_DIR, .cache_bytes = 1, .datacenter = "dc1", .log_buffer_bytes = 16384,
	    .tidy_pages = 1 };
	l->opt.log_file_bytes = files[run_below(r, 3)];
	if (lacks_logs(r))
		l->opt.log_file_bytes = 4 * (l->opt.log_buffer_bytes = 4096);
	l->opt.sync = run_chance(r, 0.7) ? FSM_SYNC_BEHIND : FSM_SYNC_DIRECT;
	r->depth = 0;
	r->split = run_chance(r, 0.5) ? 1 : 0.3;
	l->checked = 0;
}

bool
fsm_run(struct run *r)
{
	struct life *l = calloc(1, sizeof(*l));
	struct memfs *fs = memfs_new(&r->rules, r->seed);
	unsigned lives = 2 + (unsigned)run_below(r, 3);

	TV_ASSERT(l != NULL);
	l->r = r;
	reference_open(l);
	for (unsigned i = 0; i < lives && !r->failed && fs != NULL; i++) {
		run_say(r, "life %u: sector %u, names %d", i, r->rules.sector, (int)r->rules.names);
		begin_life(l);
		run_mount(r, fs);
		live(l, 3 + (unsigned)run_below(r, 20));
		end_life(l);
		check_futures(l);
		fs = l->next.fs;
		r->now = l->next.expect;
		l->next.fs = NULL;
	}
	memfs_free(fs);
	memfs_free(l->next.fs);
	reference_close(l);
	free(l);
	return !r->failed;
}
