/* The modelled disk: entries, the write queue, and what a crash leaves of it. */
#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
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
	disk_kick(w, n);
}

void
disk_install(struct world *w, struct sim_node *n, struct sim_snap *snap)
{
	struct sim_write *wr = queue_write(&n->disk);

	wr->install = malloc(sizeof(*wr->install));
	TV_ASSERT(wr->install != NULL);
	*wr->install = *snap;
	blob_ref(wr->install->data);
	disk_kick(w, n);
}

/* Puts one write onto the platter; `entries_max` limits how much of a torn one gets there. */
static void
apply_write(struct sim_disk *d, const struct sim_write *wr, size_t entries_max)
{
	if (wr->hard) {
		d->term = wr->term;
		d->vote = wr->vote;
	}
	if (wr->truncate_from != 0)
		simlog_truncate(&d->log, wr->truncate_from);
	for (size_t i = 0; i < wr->entries.count && i < entries_max; i++)
		simlog_push(&d->log, &wr->entries.e[i]);
	if (wr->install != NULL) {
		snap_drop(&d->snap);
		d->snap = *wr->install;
		blob_ref(d->snap.data);
		simlog_reset(&d->log, wr->install->index + 1);
	}
}

/* The transaction in progress is durable. */
static void
write_finished(struct world *w, struct event *e)
{
	struct sim_node *n = &w->nodes[e->node];
	struct sim_disk *d = &n->disk;
	struct raft_input in = { .type = RAFT_IN_PERSISTED };
	struct sim_snap installed = { 0 };
	bool entries = false, install = false;

	for (; d->started > 0; d->started--) {
		struct sim_write *wr = d->head;

		apply_write(d, wr, SIZE_MAX);
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
	if (entries)
		(void)node_feed(w, n, &in);
	if (install)
		snap_installed(w, n, &installed);
	snap_drop(&installed);
	net_release(w, n);
	disk_kick(w, n);
}

/* All that waits goes into one transaction, as the log thread does. */
void
disk_kick(struct world *w, struct sim_node *n)
{
	struct sim_disk *d = &n->disk;
	struct mono took;

	if (d->started > 0 || d->head == NULL || d->stalled)
		return;
	for (struct sim_write *wr = d->head; wr != NULL; wr = wr->next)
		d->started++;
	took = world_between(w, w->plan.disk.write_min, w->plan.disk.write_max);
	if (world_chance(w, w->plan.disk.slow))
		took = mono_mul(took, 50);
	(void)world_at(w, mono_add(w->now, took), write_finished, n);
}

/*
 * What was not synced is lost.  Torn: the transaction in progress had got somewhere; writes are in order, and
 * within one the hard state comes before the entries.
 */
void
disk_crash(struct world *w, struct sim_node *n, bool torn)
{
	struct sim_disk *d = &n->disk;
	uint64_t whole = torn ? rng_below(&w->rng, d->started + 1) : 0;

	for (uint64_t i = 0; d->head != NULL; i++) {
		if (i < whole)
			apply_write(d, d->head, SIZE_MAX);
		else if (i == whole && torn && i < d->started && d->head->install == NULL)
			apply_write(d, d->head, (size_t)rng_below(&w->rng, d->head->entries.count + 1));
		pop_write(d);
	}
	d->started = 0;
	d->seq_done = d->seq_hard = d->seq_issued;
}
