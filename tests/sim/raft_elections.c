/*
 * How long elections take (S21): from the death of a leader, or from the start of all servers at once, to the first entry of
 * the new leader that is committed.
 */
#include <stdlib.h>

#include "tests/sim/raft_run.h"

struct sample {
	double ms;
	uint64_t terms;
};

static int
by_time(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;

	return x->ms < y->ms ? -1 : x->ms > y->ms;
}

/* The leader that has committed an entry of its term; NULL: none. */
static struct sim_node *
ready_leader(struct world *w)
{
	struct sim_node *n = world_leader(w);
	struct raft_status st;

	if (n == NULL)
		return NULL;
	raft_status(n->core, &st);
	return st.ready ? n : NULL;
}

static uint64_t
term_of(const struct sim_node *n)
{
	struct raft_status st;

	raft_status(n->core, &st);
	return st.term;
}

static struct sim_node *
wait_for_leader(struct world *w)
{
	while (ready_leader(w) == NULL && !w->failed)
		world_run(w, mono_add(w->now, MONO_MS(1)));
	return ready_leader(w);
}

/* The leader dies; when another one is at work, the dead one comes back and all is as before. */
static struct sample
one(struct world *w)
{
	struct sim_node *old = wait_for_leader(w), *new;
	struct mono began = w->now;
	uint64_t term = term_of(old);
	struct sample s;

	node_crash(w, old, false);
	new = wait_for_leader(w);
	s = (struct sample){ (double)(w->now.ns - began.ns) / 1e6, term_of(new) - term };
	node_start(w, old);
	world_run(w, mono_add(w->now, MONO_MS(500)));
	return s;
}

/* All five start at once. */
static struct sample
cold(struct world *w)
{
	uint64_t term = term_of(wait_for_leader(w));
	struct mono began = w->now;
	struct sample s;

	for (int i = 0; i < w->count; i++)
		node_crash(w, &w->nodes[i], false);
	for (int i = 0; i < w->count; i++)
		node_start(w, &w->nodes[i]);
	s.terms = term_of(wait_for_leader(w)) - term;
	s.ms = (double)(w->now.ns - began.ns) / 1e6;
	world_run(w, mono_add(w->now, MONO_MS(500)));
	return s;
}

static void
series(unsigned count, int dead, bool told, struct mono delay, FILE *f)
{
	static struct world w;	/* large */
	struct sample *s = calloc(count, sizeof(*s));
	struct plan plan = plan_quiet(5, 5);
	unsigned first = 0;

	plan.resets = told;
	plan.net.delay_min = delay;
	plan.net.delay_max = (struct mono){ delay.ns + delay.ns / 5 };
	world_init(&w, 21 + (uint64_t)dead, &plan);
	for (int i = 0; i < 5; i++)
		node_bootstrap(&w, &w.nodes[i], 5);
	/* The others that are dead stay so; the one that dies is one of three to five. */
	(void)wait_for_leader(&w);
	for (int i = 0, left = dead - 1; i < 5 && left > 0; i++)
		if (world_leader(&w) != &w.nodes[i]) {
			node_crash(&w, &w.nodes[i], false);
			left--;
		}
	for (unsigned i = 0; i < count && s != NULL && !w.failed; i++) {
		s[i] = dead > 0 ? one(&w) : cold(&w);
		first += s[i].terms == 1;
	}
	if (s != NULL && !w.failed) {
		qsort(s, count, sizeof(*s), by_time);
		fprintf(f, "| %d%s | %.1f ms | %.0f | %.0f | %.0f | %.0f | %.1f %% |\n", dead, told ? ", links closed" : "", (double)delay.ns / 1e6,
		    s[count / 2].ms, s[count * 9 / 10].ms, s[count * 99 / 100].ms, s[count - 1].ms, 100.0 * first / count);
	}
	free(s);
	world_done(&w);
}

void
run_elections(unsigned count, FILE *f)
{
	fprintf(f, "| dead of five | one way | p50 ms | p90 | p99 | longest | won in the first term |\n");
	fprintf(f, "| --- | --- | --- | --- | --- | --- | --- |\n");
	for (int dead = 0; dead <= 2; dead++) {
		series(count, dead, false, MONO_US(500), f);
		series(count, dead, false, MONO_MS(50), f);
	}
	for (int dead = 1; dead <= 2; dead++) {
		series(count, dead, true, MONO_US(500), f);
		series(count, dead, true, MONO_MS(50), f);
	}
}
