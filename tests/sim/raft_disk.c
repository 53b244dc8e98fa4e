/* The modelled disk: entries, the write queue, and what a crash leaves of it. */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "tests/sim/raft_world.h"

/* -- payloads */

struct blob *
blob_new(const void *bytes, uint32_t size)
{
	struct blob *b = malloc(sizeof(*b) + size);

	TV_ASSERT(b != NULL);
	b->refs = 1;
	b->size = size;
	if (size > 0)
		memcpy(b->bytes, bytes, size);
	return b;
}

struct blob *
blob_ref(struct blob *b)
{
	if (b != NULL)
		b->refs++;
	return b;
}

void
blob_drop(struct blob *b)
{
	if (b != NULL && --b->refs == 0)
		free(b);
}

uint64_t
hash_bytes(uint64_t seed, const void *p, size_t n)
{
	const uint8_t *at = p;
	uint64_t h = seed ^ 0xcbf29ce484222325u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ at[i]) * 0x100000001b3u;
	return h ^ (h >> 29);
}

/* -- logs */

uint64_t
simlog_last(const struct sim_log *l)
{
	return l->first + l->count - 1;
}

const struct sim_entry *
simlog_at(const struct sim_log *l, uint64_t index)
{
	return index >= l->first && index - l->first < l->count ? &l->e[index - l->first] : NULL;
}

void
simlog_push(struct sim_log *l, const struct sim_entry *e)
{
	TV_ASSERT(l->count == 0 || e->index == simlog_last(l) + 1);
	if (l->count == 0)
		l->first = e->index;
	if (l->count == l->cap) {
		l->cap = l->cap > 0 ? l->cap * 2 : 32;
		l->e = realloc(l->e, l->cap * sizeof(l->e[0]));
		TV_ASSERT(l->e != NULL);
	}
	l->e[l->count] = *e;
	blob_ref(l->e[l->count++].payload);
}

void
simlog_truncate(struct sim_log *l, uint64_t from)
{
	while (l->count > 0 && simlog_last(l) >= from)
		blob_drop(l->e[--l->count].payload);
}

void
simlog_compact(struct sim_log *l, uint64_t upto)
{
	size_t n = 0;

	while (n < l->count && l->first + n <= upto)
		blob_drop(l->e[n++].payload);
	if (n == 0)
		return;
	memmove(l->e, l->e + n, (l->count - n) * sizeof(l->e[0]));
	l->count -= n;
	l->first += n;
}

void
simlog_reset(struct sim_log *l, uint64_t first)
{
	simlog_truncate(l, 0);
	l->first = first;
}

void
simlog_done(struct sim_log *l)
{
	simlog_truncate(l, 0);
	free(l->e);
	*l = (struct sim_log){ .first = 1 };
}

/* -- the write queue */

void
disk_init(struct sim_disk *d)
{
	memset(d, 0, sizeof(*d));
	d->log.first = 1;
	d->tail = &d->head;
}

static void
write_free(struct sim_write *wr)
{
	simlog_done(&wr->entries);
	if (wr->install != NULL) {
		snap_drop(wr->install);
		free(wr->install);
	}
	free(wr);
}

static void
pop_write(struct sim_disk *d)
{
	struct sim_write *wr = d->head;

	d->head = wr->next;
	if (d->head == NULL)
		d->tail = &d->head;
	write_free(wr);
}

void
disk_done(struct sim_disk *d)
{
	while (d->head != NULL)
		pop_write(d);
	simlog_done(&d->log);
	snap_drop(&d->snap);
}

bool
disk_idle(const struct sim_disk *d)
{
	return d->head == NULL;
}

static struct sim_write *
queue_write(struct sim_disk *d)
{
	struct sim_write *wr = calloc(1, sizeof(*wr));

	TV_ASSERT(wr != NULL);
	wr->seq = ++d->seq_issued;
	wr->entries.first = 1;
	*d->tail = wr;
	d->tail = &wr->next;
	return wr;
}

void
disk_submit(struct world *w, struct sim_node *n, const struct raft_output *out)
{
	struct sim_write *wr;

	if (!out->hard_changed && out->append_count == 0 && out->truncate_from == 0)
		return;
	wr = queue_write(&n->disk);
	wr->epoch = out->write_epoch;
	wr->hard = out->hard_changed;
	if (wr->hard)
		n->disk.seq_hard = wr->seq;
	wr->term = out->term;
	wr->vote = out->vote;
	wr->truncate_from = out->truncate_from;
	for (uint32_t i = 0; i < out->append_count; i++)
		simlog_push(&wr->entries, simlog_at(&n->log, out->append[i].index));
	disk_wake(w, n);
}

void
disk_install(struct world *w, struct sim_node *n, struct sim_snap *snap)
{
	struct sim_write *wr = queue_write(&n->disk);

	wr->install = malloc(sizeof(*wr->install));
	TV_ASSERT(wr->install != NULL);
	*wr->install = *snap;
	blob_ref(wr->install->data);
	disk_wake(w, n);
}

/*
 * Puts one write onto the platter, or as many of its records as are left.  In that order: term and vote, cut, entries,
 * snapshot.
 */
static void
apply_write(struct sim_disk *d, const struct sim_write *wr, unsigned *left)
{
	if (wr->hard && *left > 0) {
		d->term = wr->term;
		d->vote = wr->vote;
		--*left;
	}
	if (wr->truncate_from != 0 && *left > 0) {
		simlog_truncate(&d->log, wr->truncate_from);
		--*left;
	}
	for (size_t i = 0; i < wr->entries.count && *left > 0; i++, --*left)
		simlog_push(&d->log, &wr->entries.e[i]);
	if (wr->install != NULL && *left > 0) {
		snap_drop(&d->snap);
		d->snap = *wr->install;
		blob_ref(d->snap.data);
		simlog_reset(&d->log, wr->install->index + 1);
		--*left;
	}
}

unsigned
disk_records(const struct sim_disk *d)
{
	unsigned n = 0, i = 0;

	for (const struct sim_write *wr = d->head; wr != NULL && i < d->started; wr = wr->next, i++)
		n += wr->hard + (wr->truncate_from != 0) + (unsigned)wr->entries.count + (wr->install != NULL);
	return n;
}

/* The transaction in progress is durable: the core hears of it, and messages that waited for it leave. */
static void
finish(struct world *w, struct sim_node *n)
{
	struct sim_disk *d = &n->disk;
	struct raft_input in = { .type = RAFT_IN_PERSISTED };
	struct sim_snap installed = { 0 };
	bool entries = false, install = false;

	if (w->plan.stores != NULL && !w->plan.stores->write(w, n))
		return;
	for (; d->started > 0; d->started--) {
		struct sim_write *wr = d->head;
		unsigned all = UINT32_MAX;

		apply_write(d, wr, &all);
		d->seq_done = wr->seq;
		if (wr->entries.count > 0) {
			entries = true;
			in.index = simlog_last(&wr->entries);
			in.term = wr->entries.e[wr->entries.count - 1].term;
			in.ctx = wr->epoch;
		}
		if (wr->install != NULL) {
			install = true;
			installed = *wr->install;
			blob_ref(installed.data);
		}
		pop_write(d);
	}
	if (!node_point(w, n, 0) && entries)
		(void)node_feed(w, n, &in);
	if (install && n->dying == 0)
		snap_installed(w, n, &installed);
	snap_drop(&installed);
	if (node_point(w, n, 0))
		return;
	net_release(w, n);
	(void)node_point(w, n, 0);
	disk_wake(w, n);
}

/* Each record of it could be the last that a crash leaves. */
static bool
torn_somewhere(struct world *w, struct sim_node *n)
{
	unsigned records = disk_records(&n->disk);

	for (unsigned i = 0; i <= records && w->point_node == n->i; i++)
		if (node_point(w, n, i))
			return true;
	return false;
}

static void
write_finished(struct world *w, struct event *e)
{
	struct sim_node *n = &w->nodes[e->node];
	struct sim_disk *d = &n->disk;

	if (d->stalled) {
		d->waiting = true;
		return;
	}
	if (torn_somewhere(w, n))
		return;
	if (world_chance(w, w->plan.disk.sync_error)) {
		world_say(w, "n%d: sync fails, it stops", n->i + 1);
		w->sync_errors++;
		node_crash(w, n, true);
		node_restart_later(w, n, world_between(w, MONO_MS(1), MONO_MS(2000)));
		return;
	}
	finish(w, n);
}

/* All that waits goes into one transaction, as the log thread does; the contract allows fewer. */
void
disk_wake(struct world *w, struct sim_node *n)
{
	struct sim_disk *d = &n->disk;
	struct mono took;
	unsigned most = UINT32_MAX;

	if (d->started > 0 || d->head == NULL || d->stalled || n->dying != 0)
		return;
	if (world_chance(w, w->plan.disk.small))
		most = 1 + (unsigned)rng_below(&w->rng, 3);
	for (struct sim_write *wr = d->head; wr != NULL && d->started < most; wr = wr->next)
		d->started++;
	took = world_between(w, w->plan.disk.write_min, w->plan.disk.write_max);
	if (world_chance(w, w->plan.disk.slow))
		took = mono_mul(took, 50);
	(void)world_at(w, mono_add(w->now, took), write_finished, n);
}

/* -- a disk that hangs */

static void
complain(struct world *w, struct event *e)
{
	struct sim_node *n = &w->nodes[e->node];

	if (n->disk.stalled && n->disk.stall == e->a && n->disk.started > 0)
		(void)node_feed(w, n, &(struct raft_input){ .type = RAFT_IN_DISK_STUCK });
}

void
disk_stall(struct world *w, struct sim_node *n)
{
	if (n->disk.stalled)
		return;
	n->disk.stalled = true;
	n->disk.stall++;
	if (w->plan.disk.stuck_after.ns > 0)
		world_at(w, mono_add(w->now, w->plan.disk.stuck_after), complain, n)->a = n->disk.stall;
}

void
disk_unstall(struct world *w, struct sim_node *n)
{
	n->disk.stalled = false;
	if (n->disk.waiting && n->disk.started > 0 && n->core != NULL) {
		n->disk.waiting = false;
		(void)world_at(w, w->now, write_finished, n);
	} else {
		disk_wake(w, n);
	}
}

void
disk_fill(struct world *w, struct sim_node *n, bool full)
{
	n->full = full;
	(void)node_feed(w, n, &(struct raft_input){ .type = RAFT_IN_DISK_SPACE, .ctx = full });
}

/*
 * What was not synced is lost, or some of it: each record that had been written may have reached the disk or not, in any
 * order.  Whoever reads the log back takes records as long as none is missing, so what survives is a beginning.
 */
void
disk_crash(struct world *w, struct sim_node *n, unsigned survive)
{
	struct sim_disk *d = &n->disk;

	if (w->plan.stores != NULL) {
		w->plan.stores->crash(w, n);
		return;
	}
	for (unsigned i = 0; d->head != NULL; i++) {
		if (i < d->started)
			apply_write(d, d->head, &survive);
		pop_write(d);
	}
	d->started = 0;
	d->stalled = d->waiting = false;
	d->seq_done = d->seq_hard = d->seq_issued;
}

bool
disk_crash_to(struct sim_disk *d, bool (*is)(void *ctx, const struct sim_disk *d), void *ctx)
{
	bool found = is(ctx, d);

	for (; !found && d->started > 0; d->started--) {
		unsigned all = UINT32_MAX;

		apply_write(d, d->head, &all);
		pop_write(d);
		found = is(ctx, d);
	}
	while (d->head != NULL)
		pop_write(d);
	d->started = 0;
	d->stalled = d->waiting = false;
	d->seq_done = d->seq_hard = d->seq_issued;
	return found;
}
