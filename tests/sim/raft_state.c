/*
 * The modelled state machine: registers, and a hash chain over everything that was applied.  All servers that applied
 * the same sequence have the same registers, so their contents are kept once, by index.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "tests/sim/raft_world.h"

/* -- registers */

uint64_t
state_value(const struct world *w, unsigned key, uint64_t index)
{
	size_t low = 0, high = w->version_count[key];

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (w->versions[key][mid].index <= index)
			low = mid + 1;
		else
			high = mid;
	}
	return low > 0 ? w->versions[key][low - 1].value : LIN_ABSENT;
}

static void
set_value(struct world *w, unsigned key, uint64_t index, uint64_t value)
{
	if (w->version_count[key] == w->version_cap[key]) {
		w->version_cap[key] = w->version_cap[key] * 2 + 64;
		w->versions[key] = realloc(w->versions[key], w->version_cap[key] * sizeof(w->versions[key][0]));
		TV_ASSERT(w->versions[key] != NULL);
	}
	w->versions[key][w->version_count[key]++] = (struct kv_version){ index, value };
}

bool
state_do(struct world *w, const struct sim_entry *e)
{
	struct kv_op op = { 0 };

	if (e->type != RAFT_ENTRY_OP || e->payload->size < offsetof(struct kv_op, steps))
		return true;
	memcpy(&op, e->payload->bytes, e->payload->size < sizeof(op) ? e->payload->size : sizeof(op));
	if ((op.id & KV_MARK) == 0)
		return true;
	for (uint64_t i = 0; i < op.count; i++)
		if (op.steps[i].kind == LIN_CHECK && state_value(w, op.steps[i].key, e->index) != op.steps[i].value)
			return false;
	for (uint64_t i = 0; i < op.count; i++)
		if (op.steps[i].kind == LIN_WRITE)
			set_value(w, op.steps[i].key, e->index, op.steps[i].value);
	return true;
}

void
state_done(struct world *w)
{
	for (unsigned k = 0; k < SIM_KEYS; k++)
		free(w->versions[k]);
}

/* -- applying */

void
state_opened(struct world *w, struct sim_node *n)
{
	struct raft_input in = { .type = RAFT_IN_STATE_OPEN, .index = n->opens_at };

	if (!n->opening)
		return;
	world_say(w, "n%d has opened its state at %llu", n->i + 1, (unsigned long long)n->opens_at);
	n->opening = false;
	if (n->opens_at > n->applied) {
		n->applied = n->opens_at;
		n->state = check_state_at(w, n->applied);
	}
	(void)node_feed(w, n, &in);
	if (n->core != NULL && !w->failed)
		state_schedule(w, n);
}

static void
opened(struct world *w, struct event *e)
{
	state_opened(w, &w->nodes[e->node]);
}

/* It comes back somewhere between its last sync and what it had applied: it is written without sync. */
void
state_restore(struct world *w, struct sim_node *n, struct raft_restore *from)
{
	uint64_t low = n->disk.snap.index, high = n->applied > low ? n->applied : low;

	from->applied = low + rng_below(&w->rng, high - low + 1);
	if (w->plan.stores != NULL)
		from->applied = w->plan.stores->applied(n);
	n->opening = from->opening = w->plan.stores == NULL && world_chance(w, w->plan.opens);
	n->opens_at = from->applied;
	if (n->opening)
		(void)world_at(w, mono_add(w->now, world_between(w, MONO_MS(1), MONO_MS(3000))), opened, n);
	n->applied = n->commit = n->opening ? low : from->applied;
	n->state = n->applied == low ? n->disk.snap.state : check_state_at(w, n->applied);
}

/* A proposal whose entry was applied succeeded; one whose place was taken by another entry did not. */
static void
acknowledge(struct world *w, struct sim_node *n, const struct sim_entry *e)
{
	for (size_t i = n->write_count; i-- > 0; ) {
		struct pending_write wr = n->writes[i];

		if (wr.index != e->index)
			continue;
		n->writes[i] = n->writes[--n->write_count];
		if (wr.term == e->term) {
			w->writes_acked++;
			if (e->index > w->acked)
				w->acked = e->index;
			clients_applied(w, n, wr.request, check_outcome(w, e->index));
		} else {
			clients_replaced(w, n, wr.request);
		}
	}
}

void
state_serve(struct world *w, struct sim_node *n)
{
	for (size_t i = n->read_count; i-- > 0; ) {
		struct pending_read r = n->reads[i];

		if (r.serve_at == 0 || r.serve_at > n->applied)
			continue;
		n->reads[i] = n->reads[--n->read_count];
		clients_served(w, n, r.request, true, n->applied);
	}
}

static void
apply(struct world *w, struct event *ev)
{
	struct sim_node *n = &w->nodes[ev->node];
	struct raft_input in = { .type = RAFT_IN_APPLIED };

	n->apply_scheduled = false;
	while (n->applied < n->commit && !w->failed) {
		const struct sim_entry *e = simlog_at(&n->log, n->applied + 1);

		if (e == NULL) {
			world_fail(w, "n%d: entry %llu to apply is not in its log", n->i + 1,
			    (unsigned long long)n->applied + 1);
			return;
		}
		if (node_point(w, n, 0))
			return;
		check_apply(w, n, e);
		if (w->plan.stores != NULL && !w->plan.stores->apply(w, n, e))
			return;
		n->applied++;
		if (node_point(w, n, 0))
			return;
		acknowledge(w, n, e);
	}
	state_serve(w, n);
	in.index = n->applied;
	(void)node_feed(w, n, &in);
}

void
state_schedule(struct world *w, struct sim_node *n)
{
	if (n->apply_scheduled || n->opening)
		return;
	n->apply_scheduled = true;
	(void)world_at(w, mono_add(w->now, world_between(w, MONO_US(10), MONO_MS(3))), apply, n);
}
