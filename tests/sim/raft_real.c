/*
 * Servers with the real stores: the log store, the state machine and the installation of snapshots (raftd/snapshot/snapshot_recv.c)
 * as raftd has them, each server's on a file system in memory of its own (memfs.h).  Beside them goes the model of
 * raft_disk.c, and after each crash what was recovered must be what the model allows.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "common/base/assert.h"
#include "raftd/snapshot/install_meta.h"
#include "raftd/snapshot/snapshot_recv.h"
#include "tests/sim/memfs.h"
#include "tests/sim/raft_real.h"
#include "tests/sim/sim_ops.h"

#define PREFIX 8			/* bytes before the file in what travels: hash of the state */
#define DIGEST_EVERY 4			/* indexes */
#define RECOVERIES_MAX 4		/* crashes within one recovery */
#define ULL(x) ((unsigned long long)(x))

struct digest {
	bool known;
	uint8_t b[32];
};

struct real_world {
	struct rng rng;			/* of its own: the plan's course does not depend on it */
	struct rng installs;		/* likewise, for faults of installations: seeds without one stay as they are */
	struct memfs_rules rules;
	struct digest *digests;		/* by applied index, of whoever was there first */
	uint64_t digest_cap;
};

/* -- crashes */

static struct memfs *
crash_image(struct real_node *r)
{
	struct rng *g = &r->w->real->rng;
	double keep = rng_below(g, 3) == 0 ? 0 : rng_below(g, 3) == 0 ? 2 : rng_unit(g);

	return rng_below(g, 4) == 0 ? memfs_kill(r->fs) : memfs_crash(r->fs, g, keep);
}

static int
on_call(void *ctx, struct memfs *fs, enum memfs_call call, const char *name)
{
	struct real_node *r = ctx;

	(void)fs;
	r->w->real_calls++;
	if (r->crash_in == 0 || --r->crash_in > 0)
		return 0;
	/* The mark and the spares may fail: they only help. */
	r->failed = r->failing && (call == MEMFS_WRITE || call == MEMFS_SYNC) && strcmp(name, "durable") != 0 &&
	    strstr(name, "spare") == NULL;
	world_say(r->w, "n%d %s at %s %s", r->n->i + 1, r->failed ? "meets EIO" : "crashes", memfs_call_name(call), name);
	r->left = crash_image(r);
	r->sync = call == MEMFS_SYNC;
	r->w->real_errors += r->failed;
	return r->failed ? EIO : 0;
}

/* Perhaps the call that follows is the last. */
static void
maybe_crash_by(struct rng *g, struct real_node *r, double chance, unsigned calls)
{
	r->crash_in = r->w->chaos && rng_unit(g) < chance ? 1 + rng_below(g, calls) : 0;
	r->failing = r->crash_in > 0 && rng_below(g, 3) == 0;
	r->failed = false;
}

static void
maybe_crash(struct real_node *r, double chance, unsigned calls)
{
	maybe_crash_by(&r->w->real->rng, r, chance, calls);
}

/* What the disk refused must be an error of the step, and nothing else may be one. */
static void
judge_step(struct real_node *r, enum tv_err err, const char *what)
{
	if (err != TV_OK && !r->failed)
		world_fail(r->w, "n%d: cannot %s: %s", r->n->i + 1, what, tv_strerror(err));
	if (err == TV_OK && r->failed && r->sync)	/* a write may be tried again, and has been */
		world_fail(r->w, "n%d: goes on after EIO, while it was to %s", r->n->i + 1, what);
}

/* Has it died since?  What it did afterwards never happened. */
static bool
died(struct real_node *r)
{
	r->crash_in = 0;
	if (r->left == NULL)
		return false;
	r->n->dying = 1;
	return true;
}

/* -- opening and closing */

static void
mount(struct real_node *r, struct memfs *fs)
{
	r->fs = fs;
	memfs_mount(fs, r->name);
	memfs_watch(fs, on_call, r);
}

static void
close_stores(struct real_node *r)
{
	memfs_watch(r->fs, NULL, NULL);		/* what its process does now is seen by nobody */
	snapshot_recv_free(r->recv);
	fsm_close(r->d.fsm);
	log_close(r->d.log);
	r->recv = NULL;
	r->d.fsm = NULL;
	r->d.log = NULL;
	memfs_unmount(r->fs);
	memfs_free(r->fs);
	r->fs = NULL;
}

/* As raftd's main.c does it. */
static bool
open_stores(struct real_node *r)
{
	static const uint32_t files[] = { 65536, 131072, 262144 };
	struct rng *g = &r->w->real->rng;
	struct log_options lo = { .dir = r->log_dir, .log_buffer_bytes = 16384, .no_thread = true };
	struct fsm_options fo = { .dir = r->state_dir, .cache_bytes = 1, .datacenter = "dc1", .log_buffer_bytes = 16384 };
	char why[512] = "";
	enum tv_err err;

	lo.log_file_bytes = files[rng_below(g, 3)];
	fo.log_file_bytes = files[rng_below(g, 3)];
	fo.sync = rng_below(g, 3) > 0 ? FSM_SYNC_BEHIND : FSM_SYNC_DIRECT;
	lo.spares = rng_below(g, 2) == 0;
	err = log_open(&lo, &r->d.log, &r->d.meta, why, sizeof(why));
	if (err == TV_OK)
		err = fsm_open(&fo, &r->d.fsm, why, sizeof(why));
	if (err == TV_OK)
		err = snapshot_recv_recover(&r->d, why, sizeof(why));
	r->recv = snapshot_recv_new(&r->d);
	TV_ASSERT(r->recv != NULL);
	if (err != TV_OK && !r->failed)
		world_fail(r->w, "n%d: its stores cannot be opened: %s", r->n->i + 1, why[0] != '\0' ? why : tv_strerror(err));
	return err == TV_OK;
}

/* Opens what a crash left, which may crash again. */
static bool
recover(struct real_node *r)
{
	for (unsigned i = 0; i < RECOVERIES_MAX; i++) {
		struct memfs *again;
		bool ok;

		maybe_crash(r, i + 1 < RECOVERIES_MAX ? 0.15 : 0, 100);
		ok = open_stores(r);
		r->crash_in = 0;
		if (r->left == NULL)
			return ok;
		again = r->left;
		r->left = NULL;
		r->w->real_recoveries++;
		close_stores(r);
		mount(r, again);
	}
	return false;
}

static void
make_disk(struct real_node *r)
{
	struct world *w = r->w;
	int fd;

	mount(r, memfs_new(&w->real->rules, rng_u64(&w->real->rng)));
	TV_ASSERT(mkdir(r->dir, 0700) == 0);
	fd = open(r->d.cluster.data_dir, O_RDONLY | O_DIRECTORY);
	TV_ASSERT(fd != -1 && fsync(fd) == 0);
	close(fd);
	(void)open_stores(r);
}

/* -- what was found against what may be */

static enum tv_err
find_entry(void *ctx, const struct raft_entry *e)
{
	struct real_node *r = ctx;
	struct sim_entry s = { e->index, e->term, e->type, blob_new(e->payload, e->size) };

	simlog_push(&r->found, &s);
	blob_drop(s.payload);
	return TV_OK;
}

static bool
same_entry(const struct sim_entry *a, const struct sim_entry *b)
{
	return a->term == b->term && a->type == b->type && a->payload->size == b->payload->size &&
	    memcmp(a->payload->bytes, b->payload->bytes, a->payload->size) == 0;
}

/* Is the modelled disk, which may be cut less than the real one, what was found? */
static bool
is_found(void *ctx, const struct sim_disk *d)
{
	struct real_node *r = ctx;
	const struct log_meta *m = &r->d.meta;
	uint64_t last = m->last != 0 ? m->last : m->snapshot_index, applied = fsm_applied(r->d.fsm);

	if (m->term != d->term || m->vote != d->vote || simlog_last(&d->log) != last)
		return false;
	if (m->snapshot_index != d->snap.index && (r->cutting == 0 || m->snapshot_index != r->cutting))
		return false;
	for (uint64_t i = m->first; m->last != 0 && i <= m->last; i++) {
		const struct sim_entry *want = simlog_at(&d->log, i);

		if (want != NULL && !same_entry(want, simlog_at(&r->found, i)))
			return false;
	}
	return applied >= d->snap.index && applied <= last && (m->last == 0 || applied + 1 >= m->first);
}

static void
say_found(struct real_node *r, const struct sim_disk *d)
{
	const struct log_meta *m = &r->d.meta;

	world_fail(r->w, "n%d: recovered term %llu vote %llx log %llu..%llu snapshot %llu state %llu; the disk had term %llu vote "
	    "%llx log to %llu snapshot %llu", r->n->i + 1, ULL(m->term), ULL(m->vote), ULL(m->first), ULL(m->last),
	    ULL(m->snapshot_index), ULL(fsm_applied(r->d.fsm)), ULL(d->term), ULL(d->vote), ULL(simlog_last(&d->log)),
	    ULL(d->snap.index));
}

/* The model goes on from what is there. */
static void
adopt(struct real_node *r)
{
	const struct log_meta *m = &r->d.meta;
	struct sim_disk *d = &r->n->disk;

	d->term = m->term;
	d->vote = m->vote;
	if (d->snap.index != m->snapshot_index) {
		d->snap.index = m->snapshot_index;
		d->snap.term = m->snapshot_term;
		d->snap.state = check_state_at(r->w, m->snapshot_index);
	}
	d->snap.config = m->snapshot_config;
	simlog_reset(&d->log, m->last != 0 ? m->first : m->snapshot_index + 1);
	for (size_t i = 0; i < r->found.count; i++)
		simlog_push(&d->log, &r->found.e[i]);
	r->cutting = 0;
}

/* -- the state against the others' */

static struct digest *
digest_at(struct world *w, uint64_t index)
{
	struct real_world *rw = w->real;

	if (index >= rw->digest_cap) {
		uint64_t cap = index * 2 + 256;

		rw->digests = realloc(rw->digests, cap * sizeof(rw->digests[0]));
		TV_ASSERT(rw->digests != NULL);
		memset(rw->digests + rw->digest_cap, 0, (cap - rw->digest_cap) * sizeof(rw->digests[0]));
		rw->digest_cap = cap;
	}
	return &rw->digests[index];
}

static void
compare_state(struct real_node *r)
{
	uint64_t at = fsm_applied(r->d.fsm);
	struct digest *d = digest_at(r->w, at);
	uint8_t got[32];

	if (fsm_digest(r->d.fsm, got) != TV_OK) {
		world_fail(r->w, "n%d: its state cannot be read", r->n->i + 1);
		return;
	}
	if (d->known && memcmp(d->b, got, sizeof(got)) != 0)
		world_fail(r->w, "n%d: its state at %llu differs from that of another server", r->n->i + 1, ULL(at));
	memcpy(d->b, got, sizeof(got));
	d->known = true;
}

/* -- what the world asks for */

static void
real_begin(struct world *w)
{
	struct real_world *rw = calloc(1, sizeof(*rw));

	TV_ASSERT(rw != NULL && sodium_init() != -1);
	w->real = rw;
	rng_seed(&rw->rng, w->seed ^ 0x7ea15703e5u);
	rng_seed(&rw->installs, w->seed ^ 0x1257a115u);
	rw->rules.sector = 4096;
	rw->rules.names = (enum memfs_names)rng_below(&rw->rng, MEMFS_NAMES_COUNT);
}

static void
forget_found(struct real_node *r)
{
	simlog_done(&r->found);
}

static void
real_end(struct world *w)
{
	for (int i = 0; i < w->count; i++) {
		struct real_node *r = w->nodes[i].real;

		if (r == NULL)
			continue;
		if (r->fs != NULL)
			close_stores(r);
		memfs_free(r->left);
		forget_found(r);
		free(r->d.cluster.data_dir);
		free(r);
		w->nodes[i].real = NULL;
	}
	free(w->real->digests);
	free(w->real);
}

static void
real_start(struct world *w, struct sim_node *n)
{
	struct real_node *r = n->real;

	if (r != NULL)
		return;			/* its last crash has left it open */
	r = n->real = calloc(1, sizeof(*r));
	TV_ASSERT(r != NULL);
	r->w = w;
	r->n = n;
	r->d.engine = (struct engine *)r;	/* see raft_real_shell.c */
	r->d.state = (struct statethread *)r;
	r->d.worker = &r->worker;
	r->found.first = 1;
	snprintf(r->name, sizeof(r->name), "n%d", n->i + 1);
	snprintf(r->dir, sizeof(r->dir), MEMFS_ROOT "%s/raftd", r->name);
	snprintf(r->log_dir, sizeof(r->log_dir), "%s/log", r->dir);
	snprintf(r->state_dir, sizeof(r->state_dir), "%s/state", r->dir);
	r->dir[strlen(r->dir) - strlen("/raftd")] = '\0';
	r->d.cluster.data_dir = strdup(r->dir);
	r->dir[strlen(r->dir)] = '/';
	make_disk(r);
}

static void
real_crash(struct world *w, struct sim_node *n)
{
	struct real_node *r = n->real;
	struct memfs *left;

	if (r->left == NULL && n->disk.started > 0) {	/* in the midst of what it was writing */
		r->crash_in = 1 + rng_below(&w->real->rng, 30);
		(void)w->plan.stores->write(w, n);
		n->dying = 0;
	}
	r->crash_in = 0;
	left = r->left != NULL ? r->left : crash_image(r);
	r->left = NULL;
	/* A received snapshot that is damaged is asked for again, if the state was not made of it already. */
	if (rng_below(&w->real->installs, 3) == 0 && memfs_rot(left, &w->real->installs, "snapshot-install"))
		world_say(w, "n%d: its received snapshot is damaged", n->i + 1);
	close_stores(r);
	mount(r, left);
	if (!recover(r))
		return;
	forget_found(r);
	if (log_each(r->d.log, r->d.meta.first, find_entry, r) != TV_OK)
		world_fail(w, "n%d: its log cannot be read", n->i + 1);
	if (!disk_crash_to(&n->disk, is_found, r))
		say_found(r, &n->disk);
	adopt(r);
	compare_state(r);
}

static void
real_wipe(struct world *w, struct sim_node *n)
{
	struct real_node *r = n->real;

	(void)w;
	close_stores(r);
	forget_found(r);
	r->found.first = 1;
	memset(&r->d.meta, 0, sizeof(r->d.meta));
	make_disk(r);
}

static bool
write_entries(struct real_node *r, const struct sim_write *wr)
{
	struct raft_entry *e = calloc(wr->entries.count + 1, sizeof(*e));
	struct log_batch b = { .hard_changed = wr->hard, .term = wr->term, .vote = wr->vote,
	    .truncate_from = wr->truncate_from, .entries = e, .count = (uint32_t)wr->entries.count };
	enum tv_err err;

	TV_ASSERT(e != NULL);
	for (size_t i = 0; i < wr->entries.count; i++) {
		const struct sim_entry *s = &wr->entries.e[i];

		e[i] = (struct raft_entry){ .index = s->index, .term = s->term, .type = s->type, .size = s->payload->size,
		    .payload = s->payload->bytes };
	}
	err = log_write(r->d.log, &b);
	free(e);
	judge_step(r, err, "write the log");
	return err == TV_OK;
}

/* All of the snapshot in one chunk: chunks are the core's matter. */
static bool
write_snapshot(struct real_node *r, const struct sim_snap *snap)
{
	struct raft_msg m = { .type = RAFT_MSG_SNAPSHOT, .log_index = snap->index, .log_term = snap->term, .done = true };
	uint8_t hash[crypto_generichash_BYTES];
	struct buf config = BUF_INIT(1u << 20);

	raft_config_write(&config, &snap->config);
	m.config = buf_span(&config);
	m.data = span_of(snap->data->bytes + PREFIX, snap->data->size - PREFIX);
	m.total = m.data.len;
	crypto_generichash(hash, sizeof(hash), m.data.p, m.data.len, NULL, 0);
	m.checksum = snapshot_sum(hash);
	r->installed = false;
	if (r->crash_in == 0)
		maybe_crash_by(&r->w->real->installs, r, 0.2, 200);
	snapshot_recv_chunk(r->recv, &m);
	buf_done(&config);
	if (!r->failed || r->installed)
		judge_step(r, r->installed ? TV_OK : TV_EINVAL, "install a good snapshot");
	if (r->installed && r->left == NULL)
		compare_state(r);
	return r->installed;
}

static bool
real_write(struct world *w, struct sim_node *n)
{
	struct real_node *r = n->real;
	unsigned i = 0;

	if (r->crash_in == 0)
		maybe_crash(r, 0.005, 40);
	for (const struct sim_write *wr = n->disk.head; wr != NULL && i < n->disk.started; wr = wr->next, i++) {
		if (wr->install != NULL ? !write_snapshot(r, wr->install) : !write_entries(r, wr))
			break;
		if (r->left != NULL)
			break;
	}
	return !died(r) && !w->failed;
}

static bool
real_apply(struct world *w, struct sim_node *n, const struct sim_entry *e)
{
	struct real_node *r = n->real;
	struct buf payload = BUF_INIT(65536);
	struct raft_entry re = { .index = e->index, .term = e->term, .type = e->type };
	enum tv_err err;

	if (e->type == RAFT_ENTRY_OP)
		sim_op_payload(hash_bytes(w->seed, e->payload->bytes, e->payload->size), e->index, &payload);
	re.payload = payload.data;
	re.size = (uint32_t)payload.len;
	maybe_crash(r, 0.002, 5);
	err = fsm_apply(r->d.fsm, &re, 1, NULL, NULL);
	buf_done(&payload);
	judge_step(r, err, "apply an entry");
	if (err == TV_OK && e->index % DIGEST_EVERY == 0)
		compare_state(r);
	return !died(r) && !w->failed;
}

static uint64_t
real_applied(const struct sim_node *n)
{
	return fsm_applied(n->real->d.fsm);
}

static bool
real_compact(struct world *w, struct sim_node *n, uint64_t upto, uint64_t term, const struct raft_config *config)
{
	struct real_node *r = n->real;
	uint64_t index, at_term;
	enum tv_err err;

	maybe_crash(r, 0.1, 40);
	r->cutting = n->applied;
	err = fsm_checkpoint(r->d.fsm, &index, &at_term);
	if (err == TV_OK && (index != n->applied || at_term != term))
		world_fail(w, "n%d: checkpoint at %llu, applied is %llu", n->i + 1, ULL(index), ULL(n->applied));
	if (err == TV_OK)
		err = log_compact(r->d.log, upto, n->applied, term, config);
	judge_step(r, err, "compact");
	if (died(r))
		return false;
	r->cutting = 0;
	return !w->failed;
}

static struct blob *
read_file(const char *path, uint64_t state, uint64_t bytes)
{
	struct blob *b = blob_new(&state, PREFIX);
	int fd = open(path, O_RDONLY);

	b = realloc(b, sizeof(*b) + PREFIX + bytes);
	TV_ASSERT(b != NULL && fd != -1);
	TV_ASSERT(pread(fd, b->bytes + PREFIX, bytes, 0) == (ssize_t)bytes);
	close(fd);
	b->size = PREFIX + (uint32_t)bytes;
	return b;
}

static struct blob *
real_snapshot(struct world *w, struct sim_node *n)
{
	struct real_node *r = n->real;
	struct fsm_snapshot *s;
	uint64_t index, term, bytes, sum;
	char path[128];
	struct blob *b;
	enum tv_err err;

	snprintf(path, sizeof(path), "%s/snapshot-%llu.tmp", r->dir, ULL(n->applied));
	maybe_crash(r, 0.1, 10);
	err = fsm_snapshot_begin(r->d.fsm, &s, &index, &term);
	if (err == TV_OK) {
		err = fsm_snapshot_write(s, path, &bytes, &sum);
		fsm_snapshot_end(s);
	}
	judge_step(r, err, "write a snapshot");
	if (err == TV_OK && index != n->applied)
		world_fail(w, "n%d: a snapshot at %llu, applied is %llu", n->i + 1, ULL(index), ULL(n->applied));
	if (err != TV_OK) {
		(void)died(r);
		return NULL;
	}
	b = read_file(path, n->state, bytes);
	(void)unlink(path);
	if (!died(r))
		return b;
	blob_drop(b);
	return NULL;
}

const struct sim_stores real_stores = { .begin = real_begin, .end = real_end, .start = real_start, .crash = real_crash,
    .wipe = real_wipe, .write = real_write, .apply = real_apply, .applied = real_applied, .compact = real_compact,
    .snapshot = real_snapshot };
