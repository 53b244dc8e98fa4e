/*
 * The leader's passes over the catalog (raftd/leader/rules/reconcile.h) in a simulated cluster:
 *
 *	sim_reconcile [--seed N] [--count M] [--members N]
 *
 * Machines join, die, come back, are renamed, re-imaged and cloned, some with names that differ by case only; the network
 * splits; servers see all that late, each at its own pace, and take turns at leading; clients register nodes under names and
 * ids of members; archives are restored.  What must hold: nothing of a node that has lived within sight of all servers for a
 * while is changed, whatever others do; once the world is calm, the passes of all leaders come to one catalog, in a few of
 * them, and write nothing more; each member that lives is in it, or refused because of one that lives and is; and it gets
 * in by one pass when that one is gone.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "raftd/leader/rules/reconcile.h"

#define MACHINES 200
#define BASES 260			/* names without regard to case, each in two spellings */
#define NAMES (2 * BASES)
#define IDS 4000
#define SERVERS 3
#define BATCH 16			/* looks that see none of each other's writes */
#define DELAY 5				/* ticks until a server has noticed a change, at most */
#define STEADY (DELAY + 3)
#define REAP 60
#define CHAOS 150			/* ticks */
#define NOBODY -1

struct machine {
	bool up;
	int name, id, side;
	unsigned steady;		/* ticks without a change, within sight of all servers */
};

struct record {				/* what one server's gossip says of a name */
	int status;			/* MEMBER_NONE: nothing */
	int id, machine;
	int due;			/* tick at which a change is noticed; 0: there is none */
	int failed_at;
};

struct entry {				/* of the catalog */
	bool known, member, passing, critical;
	int name, id;			/* id NOBODY: none */
};

struct world {
	struct rng rng;
	int tick;
	unsigned count;			/* machines so far */
	unsigned members;		/* at most */
	struct machine m[MACHINES];
	struct record seen[SERVERS][NAMES];
	int side[SERVERS];
	int leader;
	int next_id;
	struct entry cat[BASES], archive[BASES];
	uint64_t writes, refused, takeovers;
	char why[200];
};

static char names[NAMES][16], ids[IDS][16];

static void
make_texts(void)
{
	for (int i = 0; i < NAMES; i++)
		snprintf(names[i], sizeof(names[i]), "%s%03d", i % 2 ? "N" : "n", i / 2);
	for (int i = 0; i < IDS; i++)
		snprintf(ids[i], sizeof(ids[i]), "id-%05d", i);
}

static int
below(struct world *w, unsigned n)
{
	return (int)rng_below(&w->rng, n);
}

static bool
chance(struct world *w, double p)
{
	return rng_unit(&w->rng) < p;
}

static bool
fail(struct world *w, const char *what, int name, int id)
{
	if (w->why[0] == '\0')
		snprintf(w->why, sizeof(w->why), "tick %d: %s (%s, %s)", w->tick, what, name < 0 ? "-" : names[name],
		    id < 0 ? "-" : ids[id]);
	return false;
}

/* -- what servers see -- */

static bool
is_reachable(const struct world *w, int server, const struct machine *m)
{
	return m->up && m->side == w->side[server];
}

/* The machine that a server could see by this name: the one it knows by it, else the first one. */
static int
owner_of(const struct world *w, int server, int name)
{
	const struct record *r = &w->seen[server][name];
	int found = NOBODY;

	for (int i = 0; i < (int)w->count; i++) {
		if (w->m[i].name != name || !is_reachable(w, server, &w->m[i]))
			continue;
		if (i == r->machine)
			return i;
		if (found == NOBODY)
			found = i;
	}
	return found;
}

static void
see_name(struct world *w, int server, int name)
{
	struct record *r = &w->seen[server][name];
	int owner = owner_of(w, server, name);
	bool alive = r->status == MEMBER_ALIVE;
	bool differs = owner == NOBODY ? alive : !alive || r->machine != owner || r->id != w->m[owner].id;

	if (r->status == MEMBER_FAILED && owner == NOBODY && w->tick - r->failed_at > REAP)
		*r = (struct record){ .machine = NOBODY };
	if (!differs) {
		r->due = 0;
		return;
	}
	if (r->due == 0)
		r->due = w->tick + 1 + below(w, DELAY);
	if (w->tick < r->due)
		return;
	if (owner == NOBODY)
		*r = (struct record){ .status = MEMBER_FAILED, .id = r->id, .machine = r->machine, .failed_at = w->tick };
	else
		*r = (struct record){ .status = MEMBER_ALIVE, .id = w->m[owner].id, .machine = owner };
}

static void
see(struct world *w)
{
	static bool used[NAMES];

	memset(used, 0, sizeof(used));
	for (unsigned i = 0; i < w->count; i++)
		used[w->m[i].name] = true;
	for (int s = 0; s < SERVERS; s++)
		for (int n = 0; n < NAMES; n++)
			if (used[n] || w->seen[s][n].status != MEMBER_NONE)
				see_name(w, s, n);
	for (unsigned i = 0; i < w->count; i++) {
		struct machine *m = &w->m[i];
		bool all = true;

		for (int s = 0; s < SERVERS; s++)
			all = all && is_reachable(w, s, m) && w->seen[s][m->name].status == MEMBER_ALIVE &&
			    w->seen[s][m->name].machine == (int)i && w->seen[s][m->name].id == m->id;
		m->steady = all ? m->steady + 1 : 0;
	}
}

static bool
lives(const struct world *w, const struct entry *e)
{
	for (int i = 0; e->known && i < (int)w->count; i++)
		if (w->m[i].steady > STEADY && w->m[i].name / 2 == e->name / 2 && w->m[i].id == e->id)
			return true;
	return false;
}

/* -- the catalog, as the state machine guards it -- */

static bool
is_living_entry(const struct entry *e)
{
	return e->known && e->member && !e->critical && e->id != NOBODY;
}

static struct entry *
entry_of_id(struct world *w, int id)
{
	for (int b = 0; id != NOBODY && b < BASES; b++)
		if (w->cat[b].known && w->cat[b].id == id)
			return &w->cat[b];
	return NULL;
}

/* An entry is about to go, or to become another node's. */
static void
lose(struct world *w, struct entry *e)
{
	if (lives(w, e))
		(void)fail(w, "a node that lives has lost its entry", e->name, e->id);
	w->takeovers++;
	*e = (struct entry){ .known = false };
}

/* False: refused. */
static bool
apply_register(struct world *w, int name, int id, bool member, bool passing)
{
	struct entry *e = &w->cat[name / 2], *of_id = entry_of_id(w, id);

	if (e->id != id && is_living_entry(e))
		return id == NOBODY;		/* of no id: what comes with it changes no node */
	if (of_id != NULL && of_id != e && is_living_entry(of_id))
		return false;
	if (member && e->known && e->id != id && lives(w, e))	/* of clients the guard above is all that can be asked */
		(void)fail(w, "a node that lives was registered as another one", name, id);
	if (of_id != NULL && of_id != e)
		lose(w, of_id);
	*e = (struct entry){ .known = true, .name = name, .id = id, .member = member || (e->known && e->member),
	    .passing = member ? passing : e->passing, .critical = member ? !passing : e->critical };
	w->writes++;
	return true;
}

static void
apply_deregister(struct world *w, int base, int id)
{
	struct entry *e = &w->cat[base];

	if (e->known && (id == NOBODY || e->id == NOBODY || e->id == id)) {
		lose(w, e);
		w->writes++;
	}
}

/* -- a pass of the leader -- */

struct planned {
	struct reconcile_decision dec;
	int name, id;
};

static struct reconcile_node
node_of(const struct entry *e)
{
	return (struct reconcile_node){ .known = e->known, .member = e->member, .name = span_str(e->known ? names[e->name] : ""),
	    .id = span_str(e->known && e->id != NOBODY ? ids[e->id] : "") };
}

static struct reconcile_view *
view_of(const struct world *w, int server)
{
	struct reconcile_view *v = reconcile_view_new(NAMES, span_str("server"), span_str("id-server"));

	for (int n = 0; n < NAMES; n++) {
		const struct record *r = &w->seen[server][n];

		if (r->status != MEMBER_NONE)
			reconcile_view_add(v, &(struct reconcile_member){ .name = span_str(names[n]), .id = span_str(ids[r->id]),
			    .status = (uint8_t)r->status });
	}
	return v;
}

static void
decide(struct world *w, const struct reconcile_view *v, int name, struct planned *out)
{
	const struct record *r = &w->seen[w->leader][name];
	const struct entry *e = &w->cat[name / 2], *of_id = entry_of_id(w, r->id);
	struct reconcile_member m = { .name = span_str(names[name]), .id = span_str(ids[r->id]), .status = (uint8_t)r->status };
	struct reconcile_stored st = { .named = node_of(e), .passing = e->known && e->passing, .critical = e->known && e->critical,
	    .same = e->known && e->name == name && e->id == r->id };

	if (of_id != NULL && of_id != e)
		st.held = node_of(of_id);
	out->name = name;
	out->id = r->id;
	reconcile_member(v, &m, false, &st, &out->dec);
}

static int
index_of(struct span name)
{
	return atoi((const char *)name.p + 1) * 2 + (name.p[0] == 'N');
}

/* Does a write of this batch concern the same name or id? */
static bool
is_changing(const struct planned *batch, unsigned n, const struct planned *p)
{
	for (unsigned i = 0; i < n; i++)
		if (batch[i].name / 2 == p->name / 2 || batch[i].id == p->id)
			return true;
	return false;
}

/* Has it no id, so that only its spelling tells whose it is, and does a living one of another name spell it so? */
static bool
is_twins(const struct world *w, const struct entry *e, int name)
{
	return e->known && e->member && e->id == NOBODY && e->name != name &&
	    w->seen[w->leader][e->name].status == MEMBER_ALIVE;
}

static bool
carry_out(struct world *w, const struct planned *p)
{
	struct reconcile_node node = p->dec.node;
	int base;

	switch (p->dec.action) {
	case RECONCILE_WRITE_FAILED:			/* which ends sessions */
		if (w->seen[w->leader][p->name ^ 1].status == MEMBER_ALIVE && w->seen[w->leader][p->name ^ 1].id == p->id)
			(void)fail(w, "a node that lives is marked as failed", p->name, p->id);
		if (is_twins(w, &w->cat[p->name / 2], p->name))
			(void)fail(w, "the entry of a twin that lives is marked as failed", p->name, p->id);
		return apply_register(w, p->name, p->id, true, false);
	case RECONCILE_WRITE_ALIVE:
		return apply_register(w, p->name, p->id, true, true);
	case RECONCILE_REMOVE:
		base = index_of(node.name) / 2;
		apply_deregister(w, base, node.id.len > 0 ? atoi((const char *)node.id.p + 3) : NOBODY);
		return true;
	case RECONCILE_FORGET:
		for (int s = 0; s < SERVERS; s++)
			if (w->side[s] == w->side[w->leader] && w->seen[s][p->name].status == MEMBER_FAILED)
				w->seen[s][p->name] = (struct record){ .machine = NOBODY };
		return true;
	default:
		return true;
	}
}

/* All members, as often as needed until none is to be looked at again; strays too.  Returns how many writes there were. */
static uint64_t
pass(struct world *w)
{
	uint64_t before = w->writes;

	for (int round = 0; round < 6; round++) {
		struct planned batch[BATCH], p;
		bool again = false;
		unsigned n = 0;

		for (int name = 0; name < NAMES || n > 0; name++) {
			struct reconcile_view *v;

			if (n == BATCH || name >= NAMES) {
				for (unsigned i = 0; i < n; i++)
					again |= !carry_out(w, &batch[i]);
				n = 0;
			}
			if (name >= NAMES || w->seen[w->leader][name].status == MEMBER_NONE)
				continue;
			v = view_of(w, w->leader);
			decide(w, v, name, &p);
			if (p.dec.action == RECONCILE_REMOVE)
				again = true;
			if (is_changing(batch, n, &p))
				again = true;
			else if (p.dec.action != RECONCILE_NOTHING && p.dec.action != RECONCILE_REFUSE)
				batch[n++] = p;
			reconcile_view_free(v);
		}
		if (!again)
			break;
	}
	struct reconcile_view *v = view_of(w, w->leader);
	for (int b = 0; b < BASES; b++) {
		struct reconcile_node n = node_of(&w->cat[b]);

		if (n.known && reconcile_is_stray(v, &n))
			apply_deregister(w, b, w->cat[b].id);
	}
	reconcile_view_free(v);
	return w->writes - before;
}

/* -- what happens -- */

static void
changed(struct machine *m)
{
	m->steady = 0;
}

static void
join(struct world *w)
{
	struct machine *m;

	if (w->count >= w->members || w->next_id >= IDS - 1)
		return;
	m = &w->m[w->count];
	*m = (struct machine){ .up = true, .name = 2 * below(w, w->members + w->members / 4 + 1), .id = w->next_id++ };
	m->name += chance(w, 0.3);			/* it may be the case twin of another one, or have its very name */
	if (w->count > 0 && chance(w, 0.25))		/* from another one's image */
		m->id = w->m[below(w, w->count)].id;
	w->count++;
}

static void
change_machine(struct world *w)
{
	struct machine *m;

	if (w->count == 0)
		return;
	m = &w->m[below(w, w->count)];
	switch (below(w, 6)) {
	case 0:
	case 1:
		m->up = !m->up;
		break;
	case 2:						/* renamed, perhaps in case only */
		m->name = chance(w, 0.4) ? m->name ^ 1 : 2 * below(w, w->members + w->members / 4 + 1) + chance(w, 0.3);
		break;
	case 3:						/* re-imaged */
		if (w->next_id < IDS - 1)
			m->id = w->next_id++;
		break;
	case 4:						/* from another one's image */
		m->id = w->m[below(w, w->count)].id;
		break;
	default:
		m->up = true;
		break;
	}
	changed(m);
}

static void
split_or_heal(struct world *w)
{
	bool heal = chance(w, 0.6);

	for (int s = 0; s < SERVERS; s++)
		w->side[s] = !heal && s == SERVERS - 1;		/* two stay together */
	for (unsigned i = 0; i < w->count; i++) {
		w->m[i].side = !heal && chance(w, 0.4);
		changed(&w->m[i]);
	}
	if (w->side[w->leader] != 0)
		w->leader = 0;
}

/* A client of the API: a node of its own, or names and ids of members. */
static void
register_by_api(struct world *w)
{
	int name = below(w, 2 * (w->members + w->members / 4 + 1)), id = NOBODY;

	if (w->count > 0 && chance(w, 0.5))
		id = w->m[below(w, w->count)].id;
	else if (chance(w, 0.5) && w->next_id < IDS - 1)
		id = w->next_id++;
	(void)apply_register(w, name, id, false, false);
}

/* An archive of some time ago, in which some nodes have other ids.  The leader compares it with gossip at once. */
static void
restore(struct world *w)
{
	memcpy(w->cat, w->archive, sizeof(w->cat));
	for (int b = 0; b < BASES; b++) {
		int other = below(w, BASES), id = w->cat[b].id;

		if (w->cat[b].known && w->cat[other].known && chance(w, 0.2)) {
			w->cat[b].id = w->cat[other].id;
			w->cat[other].id = id;
		}
	}
	(void)pass(w);
}

static void
step(struct world *w)
{
	w->tick++;
	if (chance(w, 0.5))
		join(w);
	if (chance(w, 0.5))
		change_machine(w);
	if (chance(w, 0.04))
		split_or_heal(w);
	if (chance(w, 0.2))
		register_by_api(w);
	if (chance(w, 0.02))
		memcpy(w->archive, w->cat, sizeof(w->archive));
	if (chance(w, 0.01))
		restore(w);
	if (chance(w, 0.1)) {
		int to = below(w, SERVERS);

		if (w->side[to] == 0)
			w->leader = to;
	}
	see(w);
	if (chance(w, 0.6))
		(void)pass(w);
}

/* -- what must hold when it is calm -- */

/* Of machines with one and the same name gossip lets one stay: the members vote, and the others' gossipd stop. */
static void
vote(struct world *w)
{
	for (int i = 0; i < (int)w->count; i++) {
		int owner = owner_of(w, w->leader, w->m[i].name);

		if (w->m[i].up && owner != NOBODY && owner != i)
			w->m[i].up = false;
	}
}

/* Exchanges of state tell all servers of members that have failed, too: of one name, the newest that any knows. */
static void
exchange(struct world *w)
{
	for (int n = 0; n < NAMES; n++) {
		const struct record *newest = NULL;
		struct record r;

		for (int s = 0; s < SERVERS; s++)
			if (w->seen[s][n].status == MEMBER_FAILED &&
			    (newest == NULL || w->seen[s][n].failed_at > newest->failed_at))
				newest = &w->seen[s][n];
		if (newest == NULL || owner_of(w, w->leader, n) != NOBODY)
			continue;
		r = *newest;
		r.failed_at = w->tick;
		for (int s = 0; s < SERVERS; s++)
			w->seen[s][n] = r;
	}
}

static void
calm(struct world *w)
{
	for (int s = 0; s < SERVERS; s++)
		w->side[s] = 0;
	for (unsigned i = 0; i < w->count; i++) {
		w->m[i].side = 0;
		changed(&w->m[i]);
	}
	vote(w);
	for (int i = 0; i <= DELAY + 2; i++) {
		w->tick++;
		see(w);
	}
	exchange(w);
}

/* By its id; or by its spelling, where an archive's entry has none. */
static bool
is_in(const struct world *w, int name, int id)
{
	const struct entry *e = &w->cat[name / 2];

	return e->known && e->name == name && (e->id == id || (e->id == NOBODY && e->member)) && e->passing;
}

/* Is there a member that lives and is in the catalog, with its name or id? */
static bool
is_blocked(const struct world *w, int name, int id)
{
	for (int n = 0; n < NAMES; n++) {
		const struct record *r = &w->seen[w->leader][n];

		if (n != name && r->status == MEMBER_ALIVE && (r->id == id || n / 2 == name / 2) && is_in(w, n, r->id))
			return true;
	}
	return false;
}

static bool
check_calm(struct world *w)
{
	for (int n = 0; n < NAMES; n++) {
		const struct record *r = &w->seen[w->leader][n];

		if (r->status != MEMBER_ALIVE || is_in(w, n, r->id))
			continue;
		if (!is_blocked(w, n, r->id))
			return fail(w, "a member is kept out, and no other one stands in its way", n, r->id);
		w->refused++;
	}
	for (int b = 0; b < BASES; b++) {
		const struct entry *e = &w->cat[b];
		bool alive = e->known && w->seen[w->leader][e->name].status == MEMBER_ALIVE &&
		    (e->id == NOBODY || w->seen[w->leader][e->name].id == e->id);

		if (e->known && e->member && e->passing && !alive)
			return fail(w, "an entry passes for alive, and is not", e->name, e->id);
	}
	return true;
}

/* Two passes at most write anything; then none of any leader does. */
static bool
settle(struct world *w)
{
	(void)pass(w);
	(void)pass(w);
	for (int s = 0; s < SERVERS; s++) {
		w->leader = s;
		if (pass(w) != 0)
			return fail(w, "the passes do not come to an end", NOBODY, NOBODY);
	}
	return check_calm(w);
}

/* The holders of what refused members want die: one pass later somebody else has it. */
static bool
release(struct world *w)
{
	for (unsigned i = 0; i < w->count; i++)
		if (w->m[i].up && is_in(w, w->m[i].name, w->m[i].id) && chance(w, 0.5))
			w->m[i].up = false;
	calm(w);
	(void)pass(w);
	return check_calm(w);
}

static bool
run(uint64_t seed, unsigned members, struct world *w)
{
	*w = (struct world){ .members = members, .next_id = 0 };
	rng_seed(&w->rng, seed);
	if (members == 0)
		w->members = 3 + (unsigned)below(w, MACHINES - 2);
	for (int s = 0; s < SERVERS; s++)
		for (int n = 0; n < NAMES; n++)
			w->seen[s][n].machine = NOBODY;
	for (unsigned i = 0; i < w->members / 2; i++)
		join(w);
	for (int t = 0; t < CHAOS && w->why[0] == '\0'; t++)
		step(w);
	calm(w);
	return w->why[0] == '\0' && settle(w) && release(w) && settle(w) && w->why[0] == '\0';
}

struct tally {
	uint64_t seeds, failed, refused, writes;
};

static void
run_seed(uint64_t seed, unsigned members, struct tally *t)
{
	static struct world w;

	if (!run(seed, members, &w)) {
		printf("FAILED: %s\n  replay: sim_reconcile --seed %" PRIu64 " --count 1 --members %u\n", w.why, seed, members);
		t->failed++;
	}
	t->seeds++;
	t->refused += w.refused;
	t->writes += w.writes;
}

int
main(int argc, char **argv)
{
	/* These failed once: entries without an id, of nodes that were registered or restored. */
	static const struct { uint64_t seed; unsigned members; } once[] = {
		{ 131, 0 }, { 188, 0 }, { 271, 0 }, { 843, 0 }, { 2005, 0 }, { 3044, 0 }, { 3802, 0 }, { 7366, 0 },
		{ 1454, 200 }, { 6579, 200 },
	};
	uint64_t first = 1, count = 100;
	struct tally t = { 0 };
	unsigned members = 0;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--seed") == 0)
			first = strtoull(argv[i + 1], NULL, 10);
		else if (strcmp(argv[i], "--count") == 0)
			count = strtoull(argv[i + 1], NULL, 10);
		else if (strcmp(argv[i], "--members") == 0)
			members = (unsigned)strtoul(argv[i + 1], NULL, 10);
	}
	if (argc % 2 == 0 || members > MACHINES) {
		fprintf(stderr, "usage: sim_reconcile [--seed N] [--count M] [--members N]\n");
		return 2;
	}
	make_texts();
	for (uint64_t seed = first; seed < first + count; seed++)
		run_seed(seed, members, &t);
	for (size_t i = 0; argc == 1 && i < sizeof(once) / sizeof(once[0]); i++)
		run_seed(once[i].seed, once[i].members, &t);
	printf("%" PRIu64 " seeds, %" PRIu64 " failed; %" PRIu64 " writes, %" PRIu64 " members refused when it was calm\n", t.seeds,
	    t.failed, t.writes, t.refused);
	return t.failed > 0;
}
