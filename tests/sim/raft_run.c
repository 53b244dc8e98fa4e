/* Whole runs: by seed, and a crash at each persist point of a script. */
#include <inttypes.h>
#include <string.h>

#include "tests/sim/raft_run.h"

void
totals_add(struct totals *t, const struct totals *other)
{
	uint64_t *to = &t->runs;
	const uint64_t *from = &other->runs;

	for (size_t i = 0; i <= offsetof(struct totals, undecided) / sizeof(*to); i++)
		to[i] += from[i];
	t->led = other->led > t->led ? other->led : t->led;
	t->served = other->served > t->served ? other->served : t->served;
	t->equal = other->equal > t->equal ? other->equal : t->equal;
}

void
totals_print(const struct totals *t, FILE *f)
{
	fprintf(f, "%" PRIu64 " runs: %" PRIu64 " steps, %" PRIu64 " requests of clients (%" PRIu64 " histories undecided), %"
	    PRIu64 " writes, %" PRIu64 " reads (%" PRIu64 " looked up ahead)\n", t->runs, t->steps, t->requests, t->undecided, t->writes, t->reads,
	    t->ahead);
	fprintf(f, "  %" PRIu64 " elections, %" PRIu64 " changes, %" PRIu64 " transfers, %" PRIu64 " snapshots installed, %"
	    PRIu64 " crashes, %" PRIu64 " failed syncs, %" PRIu64 " hangs, %" PRIu64 " full disks, %" PRIu64 " disks lost\n", t->elections, t->changes,
	    t->transfers, t->installs, t->crashes, t->sync_errors, t->hangs, t->fills,
	    t->wipes);
	fprintf(f, "  %" PRIu64 " servers told that another's process has ended, %" PRIu64 " elections that began by that, %" PRIu64
	    " disks went back, %" PRIu64 " times made up for\n", t->told_gone, t->prompt, t->backs, t->regained);
	fprintf(f, "  longest in peace, in election timeouts: %.1f to a leader, %.1f to service through all, %.1f until all are "
	    "equal\n", t->led, t->served, t->equal);
}

static void
count(const struct world *w, struct totals *t)
{
	struct totals of_run = { .runs = 1, .steps = w->steps, .requests = w->request_count, .writes = w->writes_acked,
		.reads = w->reads_done, .ahead = w->reads_ahead, .elections = w->elections, .installs = w->installs, .changes = w->changes,
		.transfers = w->transfers, .crashes = w->crashes, .sync_errors = w->sync_errors, .hangs = w->hangs,
		.wipes = w->wipes, .fills = w->fills, .told_gone = w->told_gone, .prompt = w->prompt,
		.backs = w->backs, .regained = w->regained, .undecided = w->undecided, .led = w->led_after, .served = w->served_after,
		.equal = w->equal_after };

	totals_add(t, &of_run);
}

bool
run_seed(uint64_t seed, FILE *trace, FILE *history, struct totals *t, char *why, size_t cap)
{
	static struct world w;	/* large */
	struct plan plan = plan_of(seed);
	bool ok;

	world_init(&w, seed, &plan);
	w.trace = trace;
	ok = chaos_run(&w);
	if (!ok)
		snprintf(why, cap, "at %.3f s: %s", mono_seconds(w.now), w.why);
	if (history != NULL)
		clients_print(&w, history);
	count(&w, t);
	world_done(&w);
	return ok;
}

/* -- persist points */

static void
change(struct world *w, enum raft_change_type type, int node)
{
	struct sim_node *leader = world_leader(w);
	struct raft_change ch = { .type = type, .server = node_conf(&w->nodes[node], false) };

	if (leader != NULL)
		(void)node_feed(w, leader, &(struct raft_input){ .type = RAFT_IN_CHANGE, .change = &ch });
}

static void
add_last(struct world *w)
{
	change(w, RAFT_ADD_LEARNER, 3);
}

static void
promote_last(struct world *w)
{
	change(w, RAFT_PROMOTE, 3);
}

static void
remove_second(struct world *w)
{
	change(w, RAFT_REMOVE, 1);
}

static void
transfer_away(struct world *w)
{
	struct sim_node *leader = world_leader(w);

	if (leader != NULL)
		(void)node_feed(w, leader, &(struct raft_input){ .type = RAFT_IN_TRANSFER });
}

static void
compact_all(struct world *w)
{
	for (int i = 0; i < w->count; i++)
		snap_compact(w, &w->nodes[i], true);
}

static void
cut_first(struct world *w)
{
	for (int i = 1; i < w->count; i++)
		w->cut[0][i] = w->cut[i][0] = true;
}

static void
heal(struct world *w)
{
	memset(w->cut, 0, sizeof(w->cut));
}

/* Two clients write and read all the time. */
static const struct {
	int64_t ms;
	void (*act)(struct world *w);
} script[] = {
	{ 500, add_last }, { 200, promote_last }, { 150, transfer_away }, { 250, compact_all }, { 50, cut_first },
	{ 500, compact_all }, { 50, heal }, { 300, remove_second }, { 300, compact_all }, { 100, heal },
};

bool
run_point(int node, uint64_t at, FILE *trace, struct totals *t, uint64_t *points, char *why, size_t cap)
{
	static struct world w;	/* large */
	struct plan plan = plan_quiet(4, 3);
	bool ok;

	plan.clients = 2;
	plan.think = MONO_MS(60);
	world_init(&w, 4711, &plan);
	w.trace = trace;
	w.point_node = node;
	w.point_at = at;
	chaos_form(&w);
	chaos_start(&w);
	for (size_t i = 0; i < sizeof(script) / sizeof(script[0]) && !w.failed; i++) {
		world_run(&w, mono_add(w.now, MONO_MS(script[i].ms)));
		script[i].act(&w);
	}
	world_run(&w, mono_add(w.now, MONO_MS(300)));
	*points = w.point_count;
	w.point_node = -1;
	peace_make(&w);
	peace_check(&w);
	if (!w.failed)
		clients_judge(&w);
	ok = !w.failed;
	if (!ok)
		snprintf(why, cap, "crash of n%d at its persist point %" PRIu64 ", at %.3f s: %s", node + 1, at,
		    mono_seconds(w.now), w.why);
	count(&w, t);
	world_done(&w);
	return ok;
}

bool
run_points(unsigned stride, struct totals *t, char *why, size_t cap)
{
	for (int node = 0; node < 4; node++) {
		uint64_t points, unused;

		if (!run_point(node, 0, NULL, t, &points, why, cap))
			return false;
		for (uint64_t at = 1; at <= points; at += stride)
			if (!run_point(node, at, NULL, t, &unused, why, cap))
				return false;
	}
	return true;
}
