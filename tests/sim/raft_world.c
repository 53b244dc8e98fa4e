/* Virtual time and the life of a server: the modelled shell carries out what the core asks for. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "tests/sim/raft_world.h"

/* -- reporting */

void
world_fail(struct world *w, const char *fmt, ...)
{
	va_list ap;

	if (w->failed)
		return;
	w->failed = true;
	va_start(ap, fmt);
	vsnprintf(w->why, sizeof(w->why), fmt, ap);
	va_end(ap);
	world_say(w, "FAILED: %s", w->why);
}

void
world_say(struct world *w, const char *fmt, ...)
{
	va_list ap;

	if (w->trace == NULL)
		return;
	fprintf(w->trace, "%9.3f ", mono_seconds(w->now));
	va_start(ap, fmt);
	vfprintf(w->trace, fmt, ap);
	va_end(ap);
	fputc('\n', w->trace);
}

/* -- clocks */

#define BIRTH MONO_S(1).ns		/* virtual time when a world begins */

struct mono
node_now(const struct world *w, const struct sim_node *n)
{
	return (struct mono){ w->now.ns + n->skew.ns + (w->now.ns - BIRTH) / 1000000 * n->drift };
}

struct mono
node_when(const struct world *w, const struct sim_node *n, struct mono local)
{
	int64_t ahead = local.ns - node_now(w, n).ns, most = MONO_S(3600).ns;

	if (local.ns == INT64_MAX)
		return MONO_NEVER;
	if (ahead > most)	/* it will be asked again */
		ahead = most;
	if (n->drift != 0 && ahead > 0)
		ahead = ahead * 1000000 / (1000000 + n->drift) + 1;
	return ahead <= 0 ? w->now : (struct mono){ w->now.ns + ahead };
}

/* -- chance */

bool
world_chance(struct world *w, double p)
{
	return p > 0 && rng_unit(&w->rng) < p;
}

struct mono
world_between(struct world *w, struct mono min, struct mono max)
{
	return (struct mono){ min.ns + (int64_t)rng_below(&w->rng, (uint64_t)(max.ns - min.ns) + 1) };
}

/* -- events: a binary heap by time, then by order of creation */

static bool
earlier(const struct event *a, const struct event *b)
{
	return a->when.ns != b->when.ns ? a->when.ns < b->when.ns : a->order < b->order;
}

static void
swap(struct event *a, struct event *b)
{
	struct event t = *a;

	*a = *b;
	*b = t;
}

static size_t
sift_up(struct world *w, size_t i)
{
	for (; i > 0 && earlier(&w->heap[i], &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
		swap(&w->heap[i], &w->heap[(i - 1) / 2]);
	return i;
}

static void
sift_down(struct world *w, size_t i)
{
	for (;;) {
		size_t c = 2 * i + 1;

		if (c >= w->heap_count)
			return;
		if (c + 1 < w->heap_count && earlier(&w->heap[c + 1], &w->heap[c]))
			c++;
		if (!earlier(&w->heap[c], &w->heap[i]))
			return;
		swap(&w->heap[c], &w->heap[i]);
		i = c;
	}
}

struct event *
world_at(struct world *w, struct mono when, void (*fn)(struct world *, struct event *), const struct sim_node *n)
{
	if (w->heap_count == w->heap_cap) {
		w->heap_cap = w->heap_cap > 0 ? w->heap_cap * 2 : 256;
		w->heap = realloc(w->heap, w->heap_cap * sizeof(w->heap[0]));
		TV_ASSERT(w->heap != NULL);
	}
	w->heap[w->heap_count] = (struct event){ .when = when, .order = w->order++, .fn = fn,
		.node = n != NULL ? n->i : -1, .gen = n != NULL ? n->gen : 0 };
	return &w->heap[sift_up(w, w->heap_count++)];
}

static struct event
take_event(struct world *w)
{
	struct event e = w->heap[0];

	w->heap[0] = w->heap[--w->heap_count];
	sift_down(w, 0);
	return e;
}

static void crash(struct world *w, struct sim_node *n, unsigned survive);

#define STEPS_MAX 20000000		/* usual are some 20,000: what takes so many turns in circles */

/* Crashes at persist points happen when the step is over: until then the dead server does nothing. */
static void
bury_the_dying(struct world *w)
{
	for (int i = 0; i < w->count; i++) {
		struct sim_node *n = &w->nodes[i];
		unsigned survive = (unsigned)n->dying - 1;

		if (n->dying == 0)
			continue;
		n->dying = 0;
		crash(w, n, survive);
		node_restart_later(w, n, MONO_MS(50));
	}
}

bool
world_step(struct world *w)
{
	struct event e;
	struct sim_node *n;

	if (w->heap_count == 0 || w->failed)
		return false;
	e = take_event(w);
	w->now = e.when;
	if (++w->steps == STEPS_MAX)
		world_fail(w, "no end after %d steps", STEPS_MAX);
	n = e.node >= 0 ? &w->nodes[e.node] : NULL;
	if (n == NULL || (n->gen == e.gen && n->core != NULL)) {
		if (n != NULL && mono_before(w->now, n->paused_until)) {
			struct event *later = world_at(w, n->paused_until, e.fn, n);

			later->a = e.a;
			later->b = e.b;
			later->bytes = blob_ref(e.bytes);
		} else {
			e.fn(w, &e);
		}
	}
	blob_drop(e.bytes);
	bury_the_dying(w);
	return !w->failed;
}

void
world_run(struct world *w, struct mono until)
{
	while (!w->failed && w->heap_count > 0 && !mono_before(until, w->heap[0].when))
		world_step(w);
	if (!w->failed && mono_before(w->now, until))
		w->now = until;
}

/* -- servers */

struct sim_node *
world_node(struct world *w, raft_id id)
{
	for (int i = 0; i < w->count; i++)
		if (w->nodes[i].id == id)
			return &w->nodes[i];
	return NULL;
}

struct sim_node *
world_leader(struct world *w)
{
	struct sim_node *best = NULL;
	uint64_t term = 0;

	for (int i = 0; i < w->count; i++) {
		struct raft_status st;

		if (w->nodes[i].core == NULL)
			continue;
		raft_status(w->nodes[i].core, &st);
		if (st.role == RAFT_LEADER && st.term > term) {
			best = &w->nodes[i];
			term = st.term;
		}
	}
	return best;
}

struct raft_server_conf
node_conf(const struct sim_node *n, bool voter)
{
	struct raft_server_conf s = { .id = n->id, .voter = voter };

	snprintf(s.uuid, sizeof(s.uuid), "uuid-%d", n->i + 1);
	snprintf(s.store_id, sizeof(s.store_id), "store-%d", n->i + 1);
	if (n->stores > 0)
		snprintf(s.store_id, sizeof(s.store_id), "store-%d-%u", n->i + 1, n->stores);
	snprintf(s.name, sizeof(s.name), "n%d", n->i + 1);
	snprintf(s.addr, sizeof(s.addr), "127.0.0.%d:8300", n->i + 1);
	return s;
}

void
world_init(struct world *w, uint64_t seed, const struct plan *plan)
{
	memset(w, 0, sizeof(*w));
	w->seed = seed;
	w->plan = *plan;
	rng_seed(&w->rng, seed);
	w->count = plan->nodes;
	w->now = MONO_S(1);
	w->next_id = w->next_ctx = 1;
	w->point_node = -1;
	if (plan->stores != NULL)
		plan->stores->begin(w);
	for (int i = 0; i < w->count; i++) {
		struct sim_node *n = &w->nodes[i];
		struct raft_server_conf s;

		n->i = i;
		s = node_conf(n, false);
		n->id = raft_id_of(s.uuid, s.store_id);
		n->log.first = n->lost.first = n->copy.log.first = 1;
		n->held_tail = &n->held;
		disk_init(&n->disk);
		if (plan->drift > 0)
			n->drift = (int64_t)rng_below(&w->rng, (uint64_t)plan->drift * 2 + 1) - plan->drift;
		node_start(w, n);
	}
}

static void
node_stop(struct world *w, struct sim_node *n)
{
	(void)w;
	raft_free(n->core);
	n->core = NULL;
	n->gen++;
	net_forget(n);
	simlog_reset(&n->log, 1);
	snap_drop(&n->offer);
	snap_drop(&n->incoming);
	n->write_count = n->read_count = 0;
	n->making_snapshot = n->apply_scheduled = false;
	n->paused_until = MONO_ZERO;
	n->role = RAFT_FOLLOWER;
	n->full = false;	/* the shell finds out again */
}

void
world_done(struct world *w)
{
	while (w->heap_count > 0)
		blob_drop(w->heap[--w->heap_count].bytes);
	free(w->heap);
	if (w->plan.stores != NULL)
		w->plan.stores->end(w);
	for (int i = 0; i < w->count; i++) {
		struct sim_node *n = &w->nodes[i];

		node_stop(w, n);
		simlog_done(&n->log);
		back_forget(n);
		disk_done(&n->disk);
		free(n->writes);
		free(n->reads);
	}
	state_done(w);
	clients_done(w);
	check_done(w);
}

static void
restore_entries(struct world *w, struct sim_node *n)
{
	for (size_t i = 0; i < n->disk.log.count; i++) {
		const struct sim_entry *e = &n->disk.log.e[i];
		struct raft_entry re = { .index = e->index, .term = e->term, .type = e->type, .size = e->payload->size,
			.payload = e->payload->bytes };

		simlog_push(&n->log, e);
		if (raft_restore_entry(n->core, &re) != TV_OK)
			world_fail(w, "n%d: stored entry %llu refused at start", n->i + 1, (unsigned long long)e->index);
	}
}

void
node_start(struct world *w, struct sim_node *n)
{
	struct raft_options opt = w->plan.opt;
	struct raft_restore from;

	opt.self = n->id;
	opt.seed = rng_u64(&w->rng);
	if (w->plan.stores != NULL)
		w->plan.stores->start(w, n);
	if (w->failed)
		return;				/* its stores may not even be open */
	from = (struct raft_restore){ .term = n->disk.term, .vote = n->disk.vote, .snapshot_index = n->disk.snap.index,
		.snapshot_term = n->disk.snap.term, .snapshot_config = n->disk.snap.config };
	state_restore(w, n, &from);
	simlog_reset(&n->log, n->disk.snap.index + 1);
	if (w->plan.drift > 0 && n->gen > 0)
		n->skew = world_between(w, MONO_ZERO, MONO_S(1000));	/* another boot, another clock */
	n->core = raft_new(&opt, &from, node_now(w, n));
	TV_ASSERT(n->core != NULL);
	restore_entries(w, n);
	check_restart(w, n);
	n->tick_at = MONO_NEVER;
	n->stopped = false;
	world_say(w, "n%d starts: term %llu, log to %llu, applied %llu", n->i + 1, (unsigned long long)from.term,
	    (unsigned long long)simlog_last(&n->log), (unsigned long long)from.applied);
	back_started(w, n);
	(void)node_feed(w, n, &(struct raft_input){ .type = RAFT_IN_TICK });
}

static void
crash(struct world *w, struct sim_node *n, unsigned survive)
{
	world_say(w, "n%d crashes, %u of %u records survive", n->i + 1, survive, disk_records(&n->disk));
	w->crashes++;
	disk_crash(w, n, survive);
	check_crash(w, n);
	links_died(w, n);
	node_stop(w, n);
}

void
node_crash(struct world *w, struct sim_node *n, bool torn)
{
	if (n->core == NULL)
		return;
	crash(w, n, torn ? (unsigned)rng_below(&w->rng, disk_records(&n->disk) + 1) : 0);
}

static void
restart(struct world *w, struct event *e)
{
	if (w->nodes[e->a].core == NULL)
		node_start(w, &w->nodes[e->a]);
}

void
node_restart_later(struct world *w, struct sim_node *n, struct mono after)
{
	world_at(w, mono_add(w->now, after), restart, NULL)->a = (uint64_t)n->i;
}

void
node_wipe(struct world *w, struct sim_node *n)
{
	struct raft_server_conf s;

	world_say(w, "n%d loses its disk", n->i + 1);
	node_crash(w, n, false);
	disk_done(&n->disk);
	disk_init(&n->disk);
	if (w->plan.stores != NULL)
		w->plan.stores->wipe(w, n);
	w->wipes++;
	n->stores++;
	s = node_conf(n, false);
	n->id = raft_id_of(s.uuid, s.store_id);
	n->applied = n->commit = n->state = n->term_seen = n->vote_term = n->vote_for = 0;
	back_forget(n);
	node_start(w, n);
}

bool
node_point(struct world *w, struct sim_node *n, unsigned survive)
{
	if (n->dying != 0)
		return true;
	if (w->point_node != n->i)
		return false;
	if (++w->point_count != w->point_at)
		return false;
	world_say(w, "n%d dies at its persist point %llu", n->i + 1, (unsigned long long)w->point_count);
	n->dying = (int)survive + 1;
	return true;
}

void
node_take_commit(struct world *w, struct sim_node *n, uint64_t commit)
{
	if (commit <= n->commit)
		return;
	check_commit(w, n, n->commit, commit);
	n->commit = commit;
	state_schedule(w, n);
}

/* -- outputs */

static void
take_append(struct world *w, struct sim_node *n, const struct raft_output *out)
{
	if (out->truncate_from != 0)
		simlog_truncate(&n->log, out->truncate_from);
	for (uint32_t i = 0; i < out->append_count; i++) {
		const struct raft_entry *re = &out->append[i];
		struct sim_entry e = { re->index, re->term, re->type, blob_new(re->payload, re->size) };

		if (n->full && n->role != RAFT_LEADER && e.type == RAFT_ENTRY_OP)
			world_fail(w, "n%d takes entry %llu, though its disk is full", n->i + 1, (unsigned long long)e.index);
		check_append(w, n, &e, re->index > 1 ? raft_term_at(n->core, re->index - 1) : 0);
		simlog_push(&n->log, &e);
		blob_drop(e.payload);
	}
}

static void tick(struct world *w, struct event *e);

static void
schedule_tick(struct world *w, struct sim_node *n)
{
	struct mono at = node_when(w, n, n->deadline);

	if (!mono_before(at, n->tick_at))
		return;
	n->tick_at = at;
	(void)world_at(w, at, tick, n);
}

static void
tick(struct world *w, struct event *e)
{
	struct sim_node *n = &w->nodes[e->node];

	if (!mono_before(w->now, n->tick_at))
		n->tick_at = MONO_NEVER;
	if (mono_before(node_now(w, n), n->deadline))
		schedule_tick(w, n);
	else
		(void)node_feed(w, n, &(struct raft_input){ .type = RAFT_IN_TICK });
}

static void
count_notices(struct world *w, struct sim_node *n, const struct raft_output *out)
{
	for (uint32_t i = 0; i < out->notice_count; i++) {
		enum raft_notice_type type = out->notices[i].type;

		w->changes += type == RAFT_NOTICE_CONFIG_COMMITTED;
		w->transfers += type == RAFT_NOTICE_TRANSFER_DONE;
		w->prompt += type == RAFT_NOTICE_LEADER_GONE;
		if (type == RAFT_NOTICE_REGAINED && out->notices[i].id == n->id)
			back_regained(w, n);
		if (type == RAFT_NOTICE_WENT_BACK && out->notices[i].id != n->id)
			chaos_went_back(w, n, out->notices[i].id);
		if (type == RAFT_NOTICE_NEED_SNAPSHOT)
			snap_need(w, n);
		if (type == RAFT_NOTICE_READ_ONLY_CORRUPT)
			n->stopped = true;
	}
}

enum tv_err
node_feed(struct world *w, struct sim_node *n, struct raft_input *in)
{
	struct raft_output out;
	enum raft_role before = n->role;

	if (n->core == NULL || n->stopped || n->dying != 0)
		return TV_ECLOSED;
	in->now = node_now(w, n);
	raft_feed(n->core, in, &out);
	check_output(w, n, &out);
	if (before != n->role)
		world_say(w, "n%d is %s of term %llu", n->i + 1, raft_role_name(n->role), (unsigned long long)out.term);
	if (before != n->role && n->role == RAFT_LEADER)
		chaos_elected(w, n);
	take_append(w, n, &out);
	if ((out.hard_changed || out.append_count > 0 || out.truncate_from != 0) && node_point(w, n, 0))
		return TV_ECLOSED;
	disk_submit(w, n, &out);
	for (uint32_t i = 0; i < out.send_count && n->dying == 0; i++)
		net_send(w, n, &out.sends[i]);
	if (out.snapshot_chunk != NULL)
		snap_chunk(w, n, out.snapshot_chunk);
	if (n->dying != 0)
		return TV_ECLOSED;
	node_take_commit(w, n, out.commit_index);
	count_notices(w, n, &out);
	n->deadline = out.deadline;
	schedule_tick(w, n);
	return out.err;
}

/* -- requests */

void
node_bootstrap(struct world *w, struct sim_node *n, int voters)
{
	struct raft_config c = { .count = (unsigned)voters };
	struct raft_input in = { .type = RAFT_IN_BOOTSTRAP, .config = &c };

	for (int i = 0; i < voters; i++)
		c.servers[i] = node_conf(&w->nodes[i], true);
	if (node_feed(w, n, &in) != TV_OK && n->dying == 0)
		world_fail(w, "n%d: bootstrap refused", n->i + 1);
}

static void
remember_write(struct sim_node *n, uint64_t index, uint64_t term, uint32_t request)
{
	if (n->write_count == n->write_cap) {
		n->write_cap = n->write_cap > 0 ? n->write_cap * 2 : 32;
		n->writes = realloc(n->writes, n->write_cap * sizeof(n->writes[0]));
		TV_ASSERT(n->writes != NULL);
	}
	n->writes[n->write_count++] = (struct pending_write){ .index = index, .term = term, .request = request };
}

static enum tv_err
propose(struct world *w, struct sim_node *n, struct raft_entry *e, unsigned count, uint32_t request)
{
	struct raft_input in = { .type = RAFT_IN_PROPOSE, .entries = e, .entry_count = count };
	struct raft_status st;
	uint64_t first;
	enum tv_err err = n->full ? TV_ENOSPACE : node_feed(w, n, &in);

	if (err != TV_OK)
		return err;
	raft_status(n->core, &st);
	first = st.last_index - count + 1;
	for (unsigned i = 0; i < count; i++)
		remember_write(n, first + i, st.term, request);
	return TV_OK;
}

enum tv_err
node_propose(struct world *w, struct sim_node *n, unsigned count)
{
	struct raft_entry e[8];
	uint64_t ids[8][4];

	TV_ASSERT(count <= 8);
	for (unsigned i = 0; i < count; i++) {
		ids[i][0] = w->next_id++;
		ids[i][1] = ids[i][2] = ids[i][3] = w->seed;
		e[i] = (struct raft_entry){ .type = RAFT_ENTRY_OP, .size = 8 + (uint32_t)rng_below(&w->rng, 25),
			.payload = (const uint8_t *)ids[i] };
	}
	return propose(w, n, e, count, 0);
}

enum tv_err
node_propose_op(struct world *w, struct sim_node *n, const struct kv_op *op, uint32_t request)
{
	struct raft_entry e = { .type = RAFT_ENTRY_OP, .payload = (const uint8_t *)op,
		.size = (uint32_t)(offsetof(struct kv_op, steps) + op->count * sizeof(op->steps[0])) };

	return propose(w, n, &e, 1, request);
}

enum tv_err
node_read(struct world *w, struct sim_node *n, uint64_t *ctx, uint32_t request)
{
	struct raft_input in = { .type = RAFT_IN_READ, .ctx = w->next_ctx++ };

	if (n->read_count == n->read_cap) {
		n->read_cap = n->read_cap > 0 ? n->read_cap * 2 : 32;
		n->reads = realloc(n->reads, n->read_cap * sizeof(n->reads[0]));
		TV_ASSERT(n->reads != NULL);
	}
	n->reads[n->read_count++] = (struct pending_read){ .ctx = in.ctx, .floor = w->acked, .request = request,
		.seen_at = request % 2 != 0 ? n->applied : 0 };
	if (ctx != NULL)
		*ctx = in.ctx;
	return node_feed(w, n, &in);
}
