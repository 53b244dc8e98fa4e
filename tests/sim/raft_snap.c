/* The modelled snapshots: making, sending, receiving, installing, and compaction of the log. */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "tests/sim/raft_world.h"

void
snap_drop(struct sim_snap *s)
{
	blob_drop(s->data);
	memset(s, 0, sizeof(*s));
}

/* The bytes of a snapshot: the state's hash, then filler that depends on it, so that damage shows. */
static struct blob *
snap_bytes(const struct world *w, uint64_t state)
{
	uint32_t size = 8 + (uint32_t)(state % (w->plan.snap_bytes + 1));
	struct blob *b = blob_new(NULL, 0);

	b = realloc(b, sizeof(*b) + size);
	TV_ASSERT(b != NULL);
	b->size = size;
	memcpy(b->bytes, &state, 8);
	for (uint32_t i = 8; i < size; i++)
		b->bytes[i] = (uint8_t)(state >> (i % 56)) ^ (uint8_t)i;
	return b;
}

static void
snap_made(struct world *w, struct event *e)
{
	struct sim_node *n = &w->nodes[e->node];
	struct raft_input in = { .type = RAFT_IN_SNAPSHOT_READY };

	struct blob *real = NULL;

	n->making_snapshot = false;
	if (n->applied == 0)
		return;
	if (w->plan.stores != NULL && (real = w->plan.stores->snapshot(w, n)) == NULL)
		return;
	snap_drop(&n->offer);
	n->offer.index = n->applied;
	n->offer.term = raft_term_at(n->core, n->applied);
	n->offer.state = n->state;
	n->offer.config = *raft_config_at(n->core, n->applied);
	n->offer.data = real != NULL ? real : snap_bytes(w, n->state);
	in.index = n->applied;
	in.offset = n->offer.data->size;
	(void)node_feed(w, n, &in);
}

void
snap_need(struct world *w, struct sim_node *n)
{
	if (n->making_snapshot)
		return;
	n->making_snapshot = true;
	(void)world_at(w, mono_add(w->now, world_between(w, MONO_MS(1), MONO_MS(200))), snap_made, n);
}

bool
snap_fill(struct sim_node *n, uint32_t chunk, struct raft_msg *m, struct buf *config)
{
	const struct sim_snap *s = &n->offer;
	uint64_t len;

	if (s->data == NULL || s->index != m->log_index)
		return false;
	len = s->data->size - m->offset;
	if (len > chunk)
		len = chunk;
	raft_config_write(config, &s->config);
	m->config = buf_span(config);
	m->checksum = hash_bytes(7, s->data->bytes, s->data->size);
	m->data = span_of(s->data->bytes + m->offset, len);
	return true;
}

/* -- receiving */

/* The chunk that ends at e->a of the snapshot with checksum e->b is stored. */
static void
chunk_stored(struct world *w, struct event *e)
{
	struct sim_node *n = &w->nodes[e->node];
	struct raft_msg m = { .type = RAFT_MSG_SNAPSHOT, .log_index = n->incoming.index, .log_term = n->incoming.term,
		.total = n->incoming_total, .checksum = e->b };
	struct raft_input in = { .type = RAFT_IN_SNAPSHOT_CHUNK, .msg = &m, .offset = e->a };
	uint64_t state;

	if (n->incoming.index == 0 || n->incoming_checksum != e->b || n->incoming.data->size < e->a)
		return;		/* another snapshot was begun since */
	m.offset = e->a;
	if (node_point(w, n, 0))
		return;
	(void)node_feed(w, n, &in);
	if (e->a < n->incoming_total || n->core == NULL || node_point(w, n, 0))
		return;
	if (hash_bytes(7, n->incoming.data->bytes, n->incoming.data->size) != e->b) {
		world_fail(w, "n%d: received snapshot does not match its checksum", n->i + 1);
		return;
	}
	memcpy(&state, n->incoming.data->bytes, 8);
	n->incoming.state = state;
	disk_install(w, n, &n->incoming);
}

static void
append_bytes(struct sim_snap *s, struct span data)
{
	uint32_t was = s->data->size;

	s->data = realloc(s->data, sizeof(*s->data) + was + data.len);
	TV_ASSERT(s->data != NULL);
	if (data.len > 0)
		memcpy(s->data->bytes + was, data.p, data.len);
	s->data->size = was + (uint32_t)data.len;
}

/* No space, or a checksum that is wrong at the end: what was received is dropped. */
static void
chunk_failed(struct world *w, struct event *e)
{
	struct sim_node *n = &w->nodes[e->node];
	struct raft_msg m = { .type = RAFT_MSG_SNAPSHOT, .log_index = n->incoming.index, .log_term = n->incoming.term,
		.total = n->incoming_total, .checksum = e->b, .offset = e->a };
	struct raft_input in = { .type = RAFT_IN_SNAPSHOT_CHUNK, .msg = &m, .offset = 0 };

	if (n->incoming.index == 0 || n->incoming_checksum != e->b)
		return;
	snap_drop(&n->incoming);
	(void)node_feed(w, n, &in);
}

void
snap_chunk(struct world *w, struct sim_node *n, const struct raft_msg *m)
{
	bool fails = world_chance(w, w->plan.snap_fail) || (n->opening && m->done);
	struct event *e;

	if (m->offset == 0) {
		snap_drop(&n->incoming);
		n->incoming.index = m->log_index;
		n->incoming.term = m->log_term;
		n->incoming.data = blob_new(NULL, 0);
		n->incoming_total = m->total;
		n->incoming_checksum = m->checksum;
		TV_ASSERT(raft_config_read(m->config, &n->incoming.config) == TV_OK);
	}
	if (n->incoming.index == 0)
		return;			/* dropped; the core will hear of it, chunks under way find it so */
	if (n->incoming.index != m->log_index || n->incoming.data->size != m->offset) {
		world_fail(w, "n%d: chunk at %llu handed out of order", n->i + 1, (unsigned long long)m->offset);
		return;
	}
	append_bytes(&n->incoming, m->data);
	e = world_at(w, mono_add(w->now, MONO_MS(1)), fails ? chunk_failed : chunk_stored, n);
	e->a = m->offset + m->data.len;
	e->b = m->checksum;
}

void
snap_installed(struct world *w, struct sim_node *n, struct sim_snap *snap)
{
	struct raft_msg m = { .type = RAFT_MSG_SNAPSHOT, .log_index = snap->index, .log_term = snap->term,
		.total = snap->data->size };
	struct raft_input in = { .type = RAFT_IN_SNAPSHOT_INSTALLED, .msg = &m, .config = &snap->config };

	if (snap->state != check_state_at(w, snap->index))
		world_fail(w, "n%d: snapshot at %llu holds another state", n->i + 1, (unsigned long long)snap->index);
	w->installs++;
	if (node_point(w, n, 0))
		return;
	simlog_reset(&n->log, snap->index + 1);
	n->applied = n->commit = snap->index;
	n->state = snap->state;
	snap_drop(&n->incoming);
	(void)node_feed(w, n, &in);
	state_serve(w, n);
}

/* -- compaction */

void
snap_compact(struct world *w, struct sim_node *n, bool all)
{
	struct raft_input in = { .type = RAFT_IN_COMPACTED };
	uint64_t keep, upto;

	if (n->core == NULL || n->dying != 0 || n->opening || n->applied <= n->disk.snap.index || !disk_idle(&n->disk))
		return;
	keep = all ? 0 : rng_below(&w->rng, 10);
	upto = n->applied > keep ? n->applied - keep : 0;
	if (!all && world_chance(w, 0.5) && raft_compact_limit(n->core) < upto)
		upto = raft_compact_limit(n->core);
	if (w->plan.stores != NULL && !w->plan.stores->compact(w, n, upto, raft_term_at(n->core, n->applied),
	    raft_config_at(n->core, n->applied)))
		return;
	/* The state is synced up to what is applied; then the log may be cut there, or somewhat before. */
	snap_drop(&n->disk.snap);
	n->disk.snap.index = n->applied;
	n->disk.snap.term = raft_term_at(n->core, n->applied);
	n->disk.snap.config = *raft_config_at(n->core, n->applied);
	n->disk.snap.state = n->state;
	if (node_point(w, n, 0))	/* the state is synced, the log not cut yet */
		return;
	in.snapshot_index = n->applied;
	in.index = upto;
	simlog_compact(&n->log, upto);
	simlog_compact(&n->disk.log, upto);
	if (node_point(w, n, 0))
		return;
	world_say(w, "n%d compacts to %llu, state at %llu", n->i + 1, (unsigned long long)upto,
	    (unsigned long long)n->applied);
	(void)node_feed(w, n, &in);
}
