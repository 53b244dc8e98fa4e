/* What the links between servers tell of processes that have ended, rightly or not. */
#include "tests/sim/raft_world.h"

void
links_tell(struct world *w, struct sim_node *n, raft_id id)
{
	const struct sim_node *about = world_node(w, id);

	w->told_gone++;
	world_say(w, "n%d is told that the process of n%d has ended", n->i + 1, about != NULL ? about->i + 1 : 0);
	(void)node_feed(w, n, &(struct raft_input){ .type = RAFT_IN_UNREACHABLE, .to = id });
	(void)node_feed(w, n, &(struct raft_input){ .type = RAFT_IN_GONE, .to = id });
}

static void
told(struct world *w, struct event *e)
{
	const struct sim_node *about = world_node(w, e->a);

	/* A server that was paused looks only now. */
	if (!w->peace || about == NULL || about->core == NULL)
		links_tell(w, &w->nodes[e->node], e->a);
}

/* Connections close as fast as messages travel. */
static void
tell_soon(struct world *w, struct sim_node *n, raft_id id)
{
	if (n->core != NULL)
		world_at(w, mono_add(w->now, world_between(w, w->plan.net.delay_min, w->plan.net.delay_max)), told, n)->a = id;
}

void
links_died(struct world *w, const struct sim_node *n)
{
	if (!world_chance(w, w->plan.resets))
		return;
	for (int i = 0; i < w->count; i++)
		if (i != n->i && !w->cut[i][n->i] && !w->cut[n->i][i])
			tell_soon(w, &w->nodes[i], n->id);
}

void
links_reset(struct world *w, struct sim_node *a, struct sim_node *b)
{
	world_say(w, "the links between n%d and n%d are reset", a->i + 1, b->i + 1);
	w->cut[a->i][b->i] = w->cut[b->i][a->i] = true;
	tell_soon(w, a, b->id);
	tell_soon(w, b, a->id);
}
