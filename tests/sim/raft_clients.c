/*
 * Users: each asks one thing at a time of any server, which passes writes on to the leader that it knows.  What they saw
 * is the history that must be linearizable.  Requests and answers cross the network, so their fate can be unknown.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "tests/sim/raft_world.h"

#define LISTED_FROM (SIM_KEYS - SIM_LISTED)

static struct request *
request_at(struct world *w, uint64_t number)
{
	TV_ASSERT(number > 0 && number <= w->request_count);
	return &w->requests[number - 1];
}

static uint32_t
new_request(struct world *w, uint32_t client, const struct sim_node *n)
{
	if (w->request_count == w->request_cap) {
		w->request_cap = w->request_cap * 2 + 256;
		w->requests = realloc(w->requests, w->request_cap * sizeof(w->requests[0]));
		TV_ASSERT(w->requests != NULL);
	}
	w->requests[w->request_count++] = (struct request){ .op = { .start = w->now.ns, .outcome = LIN_UNKNOWN },
		.client = client, .server = n->i, .gen = n->gen };
	return w->request_count;
}

static void
add_step(struct request *q, enum lin_kind kind, unsigned key, uint64_t value)
{
	q->steps[q->count++] = (struct lin_step){ kind, key, value };
}

static bool
writes(const struct request *q)
{
	return q->steps[q->count - 1].kind == LIN_WRITE;
}

/* -- the end of a request */

static void think(struct world *w, uint32_t client);

static void
remember_seen(struct client *c, const struct request *q)
{
	for (uint32_t i = 0; i < q->count; i++)
		if (q->steps[i].kind != LIN_CHECK)
			c->seen[q->steps[i].key] = q->steps[i].value;
}

/* The client knows the outcome, or gives up (LIN_UNKNOWN). */
static void
close_request(struct world *w, uint32_t number, enum lin_outcome outcome)
{
	struct request *q = request_at(w, number);

	if (q->closed)
		return;
	q->closed = true;
	q->op.end = w->now.ns;
	q->op.outcome = outcome;
	q->keep = outcome == LIN_OK || (writes(q) && outcome != LIN_NONE);
	if (q->client == 0)
		return;
	if (outcome == LIN_OK)
		remember_seen(&w->clients[q->client - 1], q);
	w->clients[q->client - 1].request = 0;
	think(w, q->client);
}

static void
give_up(struct world *w, struct event *e)
{
	close_request(w, (uint32_t)e->a, LIN_UNKNOWN);
}

/* -- answers */

static void
answer_arrives(struct world *w, struct event *e)
{
	close_request(w, (uint32_t)e->a, (enum lin_outcome)e->b);
}

/* From the server that knows to the one that was asked, and so to the client, unless something breaks on the way. */
static void
answer(struct world *w, struct sim_node *from, uint32_t number, enum lin_outcome outcome)
{
	struct request *q = request_at(w, number);
	struct sim_node *to = &w->nodes[q->server];
	struct event *e;

	if (to->core == NULL || to->gen != q->gen || from->dying != 0 || w->cut[from->i][to->i])
		return;
	if (from != to && world_chance(w, w->plan.net.loss))
		return;
	e = world_at(w, mono_add(w->now, world_between(w, MONO_US(10), w->plan.net.delay_max)), answer_arrives, to);
	e->a = number;
	e->b = outcome;
}

void
clients_applied(struct world *w, struct sim_node *n, uint32_t request, bool done)
{
	if (request != 0)
		answer(w, n, request, done ? LIN_OK : LIN_FALSE);
}

void
clients_replaced(struct world *w, struct sim_node *n, uint32_t request)
{
	if (request != 0)
		answer(w, n, request, LIN_NONE);
}

void
clients_served(struct world *w, struct sim_node *n, uint32_t request, bool ok, uint64_t at)
{
	struct request *q;

	if (request == 0)
		return;
	q = request_at(w, request);
	for (uint32_t i = 0; ok && !q->closed && i < q->count; i++)
		q->steps[i].value = state_value(w, q->steps[i].key, at);
	answer(w, n, request, ok ? LIN_OK : LIN_NONE);
}

bool
clients_closed(const struct world *w, uint32_t request)
{
	return w->requests[request - 1].closed;
}

bool
clients_answered(const struct world *w, uint32_t request)
{
	return w->requests[request - 1].closed && w->requests[request - 1].op.outcome == LIN_OK;
}

/* -- at the servers */

static void
propose(struct world *w, struct sim_node *n, uint32_t number)
{
	const struct request *q = request_at(w, number);
	struct kv_op op = { .id = KV_MARK | number, .count = q->count };

	for (uint32_t i = 0; i < q->count; i++)
		op.steps[i] = (struct kv_step){ q->steps[i].kind, q->steps[i].key, q->steps[i].value };
	if (node_propose_op(w, n, &op, number) != TV_OK)
		answer(w, n, number, LIN_NONE);
}

static void
forwarded(struct world *w, struct event *e)
{
	if (!w->cut[e->b][e->node])
		propose(w, &w->nodes[e->node], (uint32_t)e->a);
}

/* A server that does not lead passes it on to the one that it takes for the leader. */
static void
forward(struct world *w, struct sim_node *n, struct sim_node *leader, uint32_t number)
{
	struct event *e;

	if (w->cut[n->i][leader->i] || leader->core == NULL || world_chance(w, w->plan.net.loss))
		return;
	e = world_at(w, mono_add(w->now, world_between(w, MONO_US(10), w->plan.net.delay_max)), forwarded, leader);
	e->a = number;
	e->b = (uint64_t)n->i;
}

static void
arrives(struct world *w, struct event *e)
{
	struct sim_node *n = &w->nodes[e->node], *leader;
	uint32_t number = (uint32_t)e->a;
	struct raft_status st;

	if (!writes(request_at(w, number))) {
		(void)node_read(w, n, NULL, number);
		return;
	}
	raft_status(n->core, &st);
	leader = st.leader != 0 ? world_node(w, st.leader) : NULL;
	if (st.role == RAFT_LEADER)
		propose(w, n, number);
	else if (leader != NULL)
		forward(w, n, leader, number);
	else
		answer(w, n, number, LIN_NONE);
}

/* -- what they ask */

static void
make_write(struct world *w, const struct client *c, struct request *q)
{
	unsigned key = (unsigned)rng_below(&w->rng, SIM_KEYS), other = LISTED_FROM + (unsigned)rng_below(&w->rng, SIM_LISTED);
	uint64_t what = rng_below(&w->rng, 10);

	if (what < 3) {			/* cas */
		add_step(q, LIN_CHECK, key, c->seen[key]);
	} else if (what < 5 && key >= LISTED_FROM && key != other) {	/* both or none */
		add_step(q, LIN_CHECK, key, c->seen[key]);
		add_step(q, LIN_WRITE, other, ++w->next_value);
	}
	add_step(q, LIN_WRITE, key, what == 9 ? LIN_ABSENT : ++w->next_value);
}

static void
make_read(struct world *w, struct request *q)
{
	uint64_t what = rng_below(&w->rng, SIM_KEYS + 2);

	if (what < SIM_KEYS) {
		add_step(q, LIN_READ, (unsigned)what, LIN_ABSENT);
		return;
	}
	for (unsigned k = LISTED_FROM; k < SIM_KEYS; k++)
		add_step(q, LIN_READ, k, LIN_ABSENT);
}

static void
ask(struct world *w, struct event *e)
{
	uint32_t client = (uint32_t)e->a, number;
	struct client *c = &w->clients[client - 1];
	struct sim_node *n = world_chance(w, 0.3) ? world_leader(w) : NULL;
	struct event *at;

	if (!w->chaos)
		return;
	if (n == NULL)
		n = &w->nodes[rng_below(&w->rng, (uint64_t)w->count)];
	if (n->core == NULL) {
		think(w, client);
		return;
	}
	number = new_request(w, client, n);
	c->request = number;
	if (world_chance(w, 0.5))
		make_write(w, c, request_at(w, number));
	else
		make_read(w, request_at(w, number));
	at = world_at(w, mono_add(w->now, world_between(w, MONO_US(10), MONO_US(300))), arrives, n);
	at->a = number;
	at = world_at(w, mono_add(w->now, world_between(w, MONO_MS(10), mono_mul(w->plan.patience, 2))), give_up, NULL);
	at->a = number;
}

static void
think(struct world *w, uint32_t client)
{
	if (w->chaos)
		world_at(w, mono_add(w->now, world_between(w, MONO_US(10), mono_mul(w->plan.think, 2))), ask, NULL)->a = client;
}

void
clients_start(struct world *w)
{
	for (int i = 0; i < w->plan.clients; i++)
		think(w, (uint32_t)i + 1);
}

uint32_t
clients_list(struct world *w, struct sim_node *n)
{
	uint32_t number = new_request(w, 0, n);
	struct event *e;

	for (unsigned k = 0; k < SIM_KEYS; k++)
		add_step(request_at(w, number), LIN_READ, k, LIN_ABSENT);
	e = world_at(w, w->now, arrives, n);
	e->a = number;
	return number;
}

/* -- judgement */

void
clients_judge(struct world *w)
{
	struct linear *l = linear_new();
	struct lin_report report = { 0 };
	enum lin_verdict v;

	for (uint32_t i = 0; i < w->request_count; i++) {
		struct request *q = &w->requests[i];

		q->op.tag = i;
		if (q->keep || (!q->closed && writes(q)))
			linear_add(l, &q->op, q->steps, q->count);
	}
	v = linear_check(l, 2000000, &report);
	w->undecided = v == LIN_TOO_HARD;
	if (v == LIN_NO)
		world_fail(w, "clients: request %u, at %.3f s, %s", report.tag + 1,
		    (double)w->requests[report.tag].op.start / 1e9, report.why);
	linear_free(l);
}

void
clients_print(const struct world *w, FILE *f)
{
	static const char *const outcomes[] = { "ok", "false", "none", "unknown" };

	for (uint32_t i = 0; i < w->request_count; i++) {
		const struct request *q = &w->requests[i];

		if (!q->keep && (q->closed || !writes(q)))
			continue;
		fprintf(f, "%u:%u %lld ", q->client, i + 1, (long long)q->op.start);
		if (q->op.outcome == LIN_UNKNOWN)
			fputs("-", f);
		else
			fprintf(f, "%lld", (long long)q->op.end);
		fprintf(f, " %s", outcomes[q->op.outcome]);
		for (uint32_t k = 0; k < q->count; k++) {
			fprintf(f, " %c:k%u", "rcw"[q->steps[k].kind], q->steps[k].key);
			if (q->steps[k].value != LIN_ABSENT)
				fprintf(f, "=%llu", (unsigned long long)q->steps[k].value);
		}
		fputc('\n', f);
	}
}

void
clients_done(struct world *w)
{
	free(w->requests);
}
