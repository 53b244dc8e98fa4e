/* A world of gossip cores; see gossip_world.h. */
#include "config.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/record/mpack.h"
#include "gossipd/core/swim/intern.h"
#include "gossipd/core/wire/serfwire.h"
#include "tests/sim/gossip_world.h"
#include "tests/sim/sim_queue.h"

#define PORT 7946
#define REFUSE_AFTER MONO_MS(3)		/* a refused connection */

#define SOCKET_BYTES 425984		/* what waits for a starved member: what the kernel gives without privileges */
#define SOCKET_COST 768			/* of a datagram there, besides its bytes */

struct sim_member {
	struct swim *core;		/* NULL: down */
	unsigned life;			/* counts starts; also the tag `gen` */
	unsigned side;
	unsigned shown_failed, shown_left;	/* by how many others */
	bool deaf, weak;
	struct swim_clocks clocks;	/* at its last end */
	struct mono wake;		/* when its next SIM_TICK is queued; MONO_NEVER: none */
	struct mono deadline;		/* what the core asked for */
	struct mono starved;		/* no CPU until then */
	struct sim_event *waiting;	/* what came meanwhile, in order */
	size_t waiting_count, waiting_cap, waiting_bytes;
};

struct world {
	struct world_conf conf;
	struct rng rng;
	struct mono now;
	struct sim_member *members;
	struct sim_queue *queue;
	uint64_t digest, events;
	struct world_traffic traffic;
	struct world_deaths deaths;
	unsigned false_deaths;
	struct intern *store;		/* of all members */
	struct envelope envelope;	/* plaintext, uncompressed: those layers have tests of their own */
	struct packet_scratch *scratch;
	struct buf packet;		/* under construction */
	unsigned visiting, visiting_from;
	void (*watch)(void *ctx, unsigned i, const struct swim_output *out);
	void *watch_ctx;
	bool keep_clocks;
};

static void
note(struct world *w, uint64_t a, uint64_t b)
{
	w->digest = (w->digest ^ a) * 0x100000001b3u;
	w->digest = (w->digest ^ b ^ (w->digest >> 29)) * 0x100000001b3u;
}

/* -- names and addresses ------------------------------------------------------------- */

static struct addr
addr_of(unsigned i)
{
	return (struct addr){ .ip = { 10, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i }, .len = 4,
		.port = PORT };
}

/* The member at an address, or members_max. */
static unsigned
member_at(const struct world *w, const struct addr *a)
{
	unsigned i = (unsigned)a->ip[1] << 16 | (unsigned)a->ip[2] << 8 | a->ip[3];

	return a->len == 4 && a->ip[0] == 10 && i < w->conf.members_max ? i : w->conf.members_max;
}

static struct span
name_of(unsigned i, char dst[16])
{
	snprintf(dst, 16, "n%u", i);
	return span_str(dst);
}

static unsigned
index_of(struct span name)
{
	unsigned i = 0;

	for (size_t k = 1; k < name.len; k++)
		i = i * 10 + (unsigned)(name.p[k] - '0');
	return i;
}

static bool
connected(const struct world *w, unsigned a, unsigned b)
{
	return w->members[a].side == w->members[b].side;
}

/* -- the network ------------------------------------------------------------------------ */

static struct mono
delay(struct world *w)
{
	int64_t range = w->conf.delay_max.ns - w->conf.delay_min.ns;

	return (struct mono){ w->conf.delay_min.ns + (int64_t)rng_below(&w->rng, (uint64_t)range + 1) };
}

static void
post(struct world *w, struct mono after, struct sim_event e)
{
	e.at = mono_add(w->now, after);
	queue_push(w->queue, &e);
}

static void
carry(struct world *w, struct sim_event *e, struct span bytes)
{
	e->len = (uint32_t)bytes.len;
	e->cap = e->len;
	if (e->len == 0)
		return;
	e->bytes = queue_bytes(w->queue, e->cap);
	memcpy(e->bytes, bytes.p, bytes.len);
}

static void
send_packet(struct world *w, unsigned from, const struct swim_send *send)
{
	static const uint8_t nonce[SEAL_NONCE_BYTES];
	unsigned to = member_at(w, &send->to), copies = rng_unit(&w->rng) < w->conf.duplicate ? 2 : 1;

	buf_reset(&w->packet);
	if (packet_build(&w->envelope, w->scratch, send->parts, send->part_count, send->crc, nonce, &w->packet) != TV_OK)
		TV_ASSERT(!"packet_build");
	TV_ASSERT(w->packet.len + w->conf.seal_bytes <= PACKET_MTU + 5);	/* a checksum is not counted */
	w->traffic.packets++;
	w->traffic.packet_bytes += w->packet.len + w->conf.seal_bytes;
	for (unsigned i = 0; i < copies; i++) {
		struct sim_event e = { .type = SIM_PACKET, .to = to, .from = from };

		if (to == w->conf.members_max || rng_unit(&w->rng) < w->conf.loss)
			continue;
		e.to_life = w->members[to].life;
		carry(w, &e, buf_span(&w->packet));
		post(w, delay(w), e);
	}
}

static void
count_stream(struct world *w, size_t bytes)
{
	w->traffic.stream_bytes += bytes + (w->conf.seal_bytes > 0 ? w->conf.seal_bytes + 5 : 0);
}

static void
open_stream(struct world *w, unsigned from, const struct swim_stream *st)
{
	unsigned to = member_at(w, &st->to);
	struct sim_event e = { .to = to, .from = from, .stream = st->id, .from_life = w->members[from].life,
		.deadline = st->deadline };

	w->traffic.streams++;
	if (to == w->conf.members_max || w->members[to].core == NULL || !connected(w, from, to) ||
	    w->members[to].deaf || w->members[from].deaf) {
		e.type = SIM_FAILED;
		e.to = from;
		e.to_life = w->members[from].life;
		post(w, to < w->conf.members_max && connected(w, from, to) ? REFUSE_AFTER :
		    mono_sub(st->deadline, w->now), e);
		return;
	}
	e.type = SIM_REQUEST;
	e.to_life = w->members[to].life;
	count_stream(w, st->message.len);
	carry(w, &e, st->message);
	post(w, mono_mul(delay(w), 3), e);	/* handshake, then the message */
}

/* -- a member's output ---------------------------------------------------------------------- */

static bool
healthy(const struct world *w, unsigned i)
{
	return w->members[i].core != NULL && !w->members[i].weak;
}

static void
count_death(struct world *w, unsigned i, unsigned about)
{
	if (w->members[about].core == NULL || !connected(w, i, about) || w->members[i].deaf || w->members[about].deaf)
		return;
	w->false_deaths++;
	w->deaths.of_left += world_status(w, about, about) == MEMBER_LEFT;
	w->deaths.of_healthy += healthy(w, about);
	w->deaths.of_healthy_at_healthy += healthy(w, about) && healthy(w, i);
	w->deaths.of_weak_at_healthy += !healthy(w, about) && healthy(w, i);
}

static void
take_event(struct world *w, unsigned i, const struct swim_event *ev)
{
	unsigned about = index_of(ev->member.name);
	struct sim_member *m = &w->members[about];

	note(w, (uint64_t)ev->type << 32 | i, (uint64_t)w->now.ns ^ about);
	if (ev->type == GOSSIP_EV_FAILED) {
		m->shown_failed++;
		count_death(w, i, about);
	} else if (ev->type == GOSSIP_EV_LEAVE) {
		m->shown_left++;
	}
	if (w->conf.verbose)
		printf("%9.3f n%u: event %d n%u %s\n", mono_seconds(w->now), i, ev->type, about,
		    member_status_name(ev->member.status));
}

static void
take_notice(struct world *w, unsigned i, const struct swim_notice *n)
{
	unsigned about = index_of(n->name);

	if (n->type == SWIM_NOTICE_DEAD && healthy(w, about)) {
		w->deaths.declared_healthy++;
		w->deaths.declared_healthy_by_healthy += healthy(w, i);
	} else if (n->type == SWIM_NOTICE_SUSPECT && healthy(w, about)) {
		w->deaths.suspected_healthy++;
	}
	if (w->conf.verbose)
		printf("%9.3f n%u: notice %d %.*s\n", mono_seconds(w->now), i, n->type, (int)n->name.len,
		    (const char *)n->name.p);
}

static void
push_tick(struct world *w, unsigned i)
{
	struct sim_member *m = &w->members[i];

	m->wake = m->deadline;
	queue_push(w->queue, &(struct sim_event){ .at = m->wake, .type = SIM_TICK, .to = i, .to_life = m->life });
}

static void
take_output(struct world *w, unsigned i, const struct swim_output *out)
{
	struct sim_member *m = &w->members[i];

	if (w->watch != NULL)
		w->watch(w->watch_ctx, i, out);
	for (size_t k = 0; k < out->send_count; k++)
		send_packet(w, i, &out->sends[k]);
	for (size_t k = 0; k < out->stream_count; k++)
		open_stream(w, i, &out->streams[k]);
	for (size_t k = 0; k < out->event_count; k++)
		take_event(w, i, &out->events[k]);
	for (size_t k = 0; k < out->notice_count; k++)
		take_notice(w, i, &out->notices[k]);
	if (out->left) {
		world_kill(w, i);
		return;
	}
	m->deadline = out->deadline;
	if (mono_before(m->deadline, m->wake))
		push_tick(w, i);
}

static enum tv_err
feed(struct world *w, unsigned i, struct swim_input in)
{
	const struct swim_output *out;
	enum tv_err err;

	in.now = w->now;
	err = swim_feed(w->members[i].core, &in, &out);
	take_output(w, i, out);
	return err;
}

/* -- what arrives ------------------------------------------------------------------------------ */

static void
visit(void *arg, enum wire_type type, struct span body)
{
	struct world *w = arg;

	if (w->members[w->visiting].core != NULL)	/* it may have left by an earlier part */
		(void)feed(w, w->visiting, (struct swim_input){ .type = SWIM_IN_MESSAGE, .kind = type, .bytes = body,
			.from = addr_of(w->visiting_from) });
}

static void
on_packet(struct world *w, const struct sim_event *e)
{
	struct packet_result r;

	w->visiting = e->to;
	w->visiting_from = e->from;
	r = packet_open(&w->envelope, w->scratch, span_of(e->bytes, e->len), visit, w);
	TV_ASSERT(r.dropped == 0);
}

static void
on_request(struct world *w, const struct sim_event *e, struct swim_input *in)
{
	struct sim_event answer = { .type = SIM_ANSWER, .to = e->from, .to_life = e->from_life, .from = e->to,
		.stream = e->stream };
	const struct swim_output *out;

	in->now = w->now;
	(void)swim_feed(w->members[e->to].core, in, &out);
	carry(w, &answer, out->answer);
	if (answer.len == 0)
		answer.type = SIM_FAILED;
	count_stream(w, answer.len);
	post(w, delay(w), answer);
	take_output(w, e->to, out);
}

static void
on_stream(struct world *w, const struct sim_event *e, enum swim_in_type type)
{
	struct stream_limits limits = STREAM_LIMITS_DEFAULT;
	struct stream_reader reader;
	struct swim_input in = { .type = type, .stream = e->stream, .from = addr_of(e->from) };

	stream_reader_init(&reader, &w->envelope, &limits, type == SWIM_IN_REQUEST ? STREAM_ACCEPTED : STREAM_DIALLED);
	if (stream_feed(&reader, span_of(e->bytes, e->len)) != TV_OK)
		TV_ASSERT(!"stream_feed");
	in.message = stream_message(&reader);
	if (type == SWIM_IN_REQUEST)
		on_request(w, e, &in);
	else
		(void)feed(w, e->to, in);
	stream_reader_done(&reader);
}

static void
fail_stream(struct world *w, const struct sim_event *e, struct mono at)
{
	struct sim_event failed = { .type = SIM_FAILED, .at = at, .to = e->from, .to_life = e->from_life, .from = e->to,
		.stream = e->stream };

	queue_push(w->queue, &failed);
}

static void
on_tick(struct world *w, const struct sim_event *e)
{
	struct sim_member *m = &w->members[e->to];

	if (m->wake.ns != e->at.ns && mono_before(w->now, m->wake))
		return;		/* another one was queued for an earlier time, and has come */
	m->wake = MONO_NEVER;
	if (mono_before(w->now, m->deadline))
		push_tick(w, e->to);
	else
		(void)feed(w, e->to, (struct swim_input){ .type = SWIM_IN_TICK });
}

static void
handle(struct world *w, const struct sim_event *e)
{
	switch (e->type) {
	case SIM_TICK:
		on_tick(w, e);
		break;
	case SIM_PACKET:
		on_packet(w, e);
		break;
	case SIM_REQUEST:
		on_stream(w, e, SWIM_IN_REQUEST);
		break;
	case SIM_ANSWER:
		on_stream(w, e, SWIM_IN_ANSWER);
		break;
	case SIM_FAILED:
		(void)feed(w, e->to, (struct swim_input){ .type = SWIM_IN_FAILED, .stream = e->stream,
			.error = TV_EUNREACH });
		break;
	}
}

/* -- starved members ------------------------------------------------------------------------------- */

/* Whoever asked over a stream closes it at the deadline; a datagram for which there is no room is lost. */
static bool
may_wait(struct world *w, const struct sim_member *m, const struct sim_event *e)
{
	if (e->type == SIM_REQUEST && mono_before(e->deadline, m->starved)) {
		fail_stream(w, e, e->deadline);
		return false;
	}
	return e->type != SIM_PACKET || m->waiting_bytes + e->len + SOCKET_COST <= SOCKET_BYTES;
}

/* Takes the event's bytes over. */
static void
let_wait(struct world *w, const struct sim_event *e)
{
	struct sim_member *m = &w->members[e->to];

	if (!may_wait(w, m, e)) {
		queue_give(w->queue, e->bytes, e->cap);
		return;
	}
	if (m->waiting_count == m->waiting_cap) {
		m->waiting_cap = m->waiting_cap == 0 ? 64 : m->waiting_cap * 2;
		m->waiting = realloc(m->waiting, m->waiting_cap * sizeof(*m->waiting));
		TV_ASSERT(m->waiting != NULL);
	}
	m->waiting[m->waiting_count++] = *e;
	m->waiting_bytes += e->len + SOCKET_COST;
}

static void
forget_waiting(struct world *w, struct sim_member *m)
{
	for (size_t i = 0; i < m->waiting_count; i++)
		queue_give(w->queue, m->waiting[i].bytes, m->waiting[i].cap);
	free(m->waiting);
	m->waiting = NULL;
	m->waiting_count = m->waiting_cap = m->waiting_bytes = 0;
}

/* It runs again: first its timers, then what has waited, in the order in which it came. */
static void
catch_up(struct world *w, unsigned i)
{
	struct sim_member *m = &w->members[i];
	struct sim_event *waiting = m->waiting;
	size_t count = m->waiting_count;

	m->waiting = NULL;
	m->waiting_count = m->waiting_cap = m->waiting_bytes = 0;
	if (m->core != NULL && !mono_before(w->now, m->deadline))
		(void)feed(w, i, (struct swim_input){ .type = SWIM_IN_TICK });
	for (size_t k = 0; k < count; k++) {
		if (m->core != NULL && m->life == waiting[k].to_life && waiting[k].type != SIM_TICK)
			handle(w, &waiting[k]);
		queue_give(w->queue, waiting[k].bytes, waiting[k].cap);
	}
	free(waiting);
}

void
world_starve(struct world *w, unsigned i, struct mono until)
{
	struct sim_member *m = &w->members[i];

	m->weak = true;
	m->starved = until;
	queue_push(w->queue, &(struct sim_event){ .at = until, .type = SIM_TICK, .to = i, .to_life = m->life });
}

/* -- the run ----------------------------------------------------------------------------------------- */

/* Takes the event's bytes over. */
static void
dispatch(struct world *w, const struct sim_event *e)
{
	struct sim_member *m = &w->members[e->to];

	w->now = e->at;
	w->events++;
	note(w, (uint64_t)e->at.ns, (uint64_t)e->type << 40 | (uint64_t)e->to << 20 | e->from);
	if (m->core == NULL || m->life != e->to_life ||
	    (e->type == SIM_PACKET && (m->deaf || !connected(w, e->from, e->to)))) {
		if (e->type == SIM_REQUEST && w->members[e->from].core != NULL)
			fail_stream(w, e, mono_add(w->now, delay(w)));
	} else if (mono_before(w->now, m->starved)) {
		if (e->type == SIM_TICK)
			m->wake = MONO_NEVER;
		else
			let_wait(w, e);
		return;
	} else if (m->waiting_count > 0 || (m->starved.ns > 0 && e->type == SIM_TICK && e->at.ns == m->starved.ns)) {
		m->wake = MONO_NEVER;
		catch_up(w, e->to);
		if (m->core != NULL && m->life == e->to_life && e->type != SIM_TICK)
			handle(w, e);
		if (m->core != NULL && m->wake.ns == MONO_NEVER.ns && m->deadline.ns != MONO_NEVER.ns)
			push_tick(w, e->to);
	} else {
		handle(w, e);
	}
	queue_give(w->queue, e->bytes, e->cap);
}

void
world_run(struct world *w, struct mono until)
{
	while (!mono_before(until, queue_next(w->queue))) {
		struct sim_event e = queue_pop(w->queue);

		dispatch(w, &e);
	}
	w->now = until;
}

bool
world_settle(struct world *w, struct mono until, bool (*done)(struct world *w, void *arg), void *arg)
{
	while (!done(w, arg)) {
		if (!mono_before(w->now, until))
			return false;
		world_run(w, mono_min(until, mono_add(w->now, MONO_MS(250))));
	}
	return true;
}

/* -- what the scenario does ----------------------------------------------------------------------- */

struct world *
world_new(const struct world_conf *conf)
{
	static const uint8_t key[INTERN_KEY_BYTES];
	struct world *w = calloc(1, sizeof(*w));

	TV_ASSERT(w != NULL);
	w->conf = *conf;
	rng_seed(&w->rng, conf->seed);
	w->members = calloc(conf->members_max, sizeof(*w->members));
	w->scratch = malloc(sizeof(*w->scratch));
	w->store = intern_new(key);
	TV_ASSERT(w->members != NULL && w->scratch != NULL && w->store != NULL);
	w->queue = queue_new();
	packet_scratch_init(w->scratch);
	buf_init(&w->packet, PACKET_BYTES_MAX);
	return w;
}

void
world_free(struct world *w)
{
	for (unsigned i = 0; i < w->conf.members_max; i++)
		world_kill(w, i);
	queue_free(w->queue);
	packet_scratch_done(w->scratch);
	free(w->scratch);
	buf_done(&w->packet);
	intern_free(w->store);
	free(w->members);
	free(w);
}

/* Encoded; buf_done() it. */
static struct buf
tags_of(const struct world *w, unsigned i)
{
	struct buf meta = BUF_INIT(NODE_META_BYTES_MAX);
	char gen[16], id[40];
	struct member_tag tags[] = { { span_str("role"), span_str("client") }, { span_str("gen"), SPAN_NONE },
		{ span_str("dc"), span_str("dc1") }, { span_str("id"), SPAN_NONE }, { span_str("vsn"), span_str("1.0.0") } };

	snprintf(gen, sizeof(gen), "%u", w->members[i].life);
	snprintf(id, sizeof(id), "%08x-%04x-4000-8000-%012x", i * 2654435761u, i & 0xffff, i);
	tags[1].value = span_str(gen);
	tags[3].value = span_str(id);
	TV_ASSERT(serf_put_meta(&meta, tags, w->conf.real_tags ? 5 : 2) == TV_OK);
	return meta;
}

void
world_start(struct world *w, unsigned i)
{
	struct sim_member *m = &w->members[i];
	char name[16];
	struct buf meta;
	uint32_t members_max = w->conf.members_max > 10000 ? w->conf.members_max * 2 : 20000;
	struct swim_options opt = { .name = name_of(i, name), .self = addr_of(i), .timing = w->conf.timing,
		.members_max = members_max, .intents_max = 4096, .queue_max = 4096, .relays_max = 64,
		.packet_bytes = PACKET_MTU, .seal_bytes = w->conf.seal_bytes, .tcp_pings = w->conf.tcp_pings,
		.without = w->conf.without, .store = w->conf.own_store ? NULL : w->store, .seed = rng_u64(&w->rng) };

	TV_ASSERT(m->core == NULL);
	if (w->keep_clocks) {
		opt.clocks.clock = m->clocks.clock;
		opt.clocks.event_clock = m->clocks.event_clock;
		opt.clocks.query_clock = m->clocks.query_clock;
	}
	m->life++;
	m->wake = m->deadline = MONO_NEVER;
	m->starved = MONO_ZERO;
	m->shown_failed = m->shown_left = 0;
	meta = tags_of(w, i);
	opt.meta = buf_span(&meta);
	m->core = swim_new(&opt, w->now);
	TV_ASSERT(m->core != NULL);
	buf_done(&meta);
	(void)feed(w, i, (struct swim_input){ .type = SWIM_IN_TICK });
}

/*
 * The full state of a member that knows 0..n-1, as it goes over a stream; buf_done() it.  It ends with a flaw, after all
 * else was taken: a join that succeeds is announced, and that news of all members about all members takes long to end.
 */
static struct buf
full_state(const struct world *w, unsigned n)
{
	static const uint8_t vsn[WIRE_VSN_BYTES] = { 1, 5, 2, 2, 5, 5 };
	struct buf b = BUF_INIT(64u << 20), serf = BUF_INIT(64u << 20), meta;
	char name[16];

	serf_state_begin(&serf, 1, 0);
	serf_state_left(&serf, n + 1, 0);
	serf_state_statuses(&serf, 1, n + 1);
	for (unsigned i = 0; i < n; i++)
		serf_state_status(&serf, name_of(i, name), i + 1);
	mpw_nil(&serf);		/* no name */
	mpw_nil(&serf);
	wire_put_pp_header(&b, &(struct wire_pp_header){ .nodes = n, .user_state_len = (uint32_t)serf.len });
	for (unsigned i = 0; i < n; i++) {
		struct addr a = addr_of(i);

		meta = tags_of(w, i);
		wire_put_node(&b, &(struct wire_node){ .name = name_of(i, name), .addr = span_of(a.ip, a.len),
			.port = a.port, .meta = buf_span(&meta), .incarnation = 1, .state = WIRE_STATE_ALIVE,
			.vsn = span_of(vsn, sizeof(vsn)) });
		buf_done(&meta);
	}
	buf_putspan(&b, buf_span(&serf));
	TV_ASSERT(!b.failed && !serf.failed);
	buf_done(&serf);
	return b;
}

static void
learn(struct world *w, unsigned i, const struct addr *from, const struct stream_message *state)
{
	struct swim_input in = { .type = SWIM_IN_JOIN, .now = w->now, .addrs = from, .addr_count = 1, .quiet = true };
	const struct swim_output *out;

	(void)swim_feed(w->members[i].core, &in, &out);
	TV_ASSERT(out->stream_count == 1);
	(void)feed(w, i, (struct swim_input){ .type = SWIM_IN_ANSWER, .stream = out->streams[0].id, .message = state });
	(void)feed(w, i, (struct swim_input){ .type = SWIM_IN_TICK });	/* gives back what that output took: 3 MB at 10,000 */
}

/* Lets members first..end-1 learn of 0..n-1. */
static void
learn_all(struct world *w, unsigned first, unsigned end, unsigned n)
{
	struct stream_limits limits = STREAM_LIMITS_DEFAULT;
	struct stream_reader reader;
	struct buf state = full_state(w, n);

	stream_reader_init(&reader, &w->envelope, &limits, STREAM_DIALLED);
	if (stream_feed(&reader, buf_span(&state)) != TV_OK)
		TV_ASSERT(!"stream_feed");
	for (unsigned i = first; i < end; i++) {
		struct addr from = addr_of((i + 1) % n);

		learn(w, i, &from, stream_message(&reader));
	}
	stream_reader_done(&reader);
	buf_done(&state);
}

void
world_learn(struct world *w, unsigned i, unsigned n)
{
	learn_all(w, i, i + 1, n);
}

void
world_form(struct world *w, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		world_start(w, i);
	learn_all(w, 0, n, n);
}

void
world_kill(struct world *w, unsigned i)
{
	if (w->members[i].core != NULL)
		swim_clocks(w->members[i].core, &w->members[i].clocks);
	swim_free(w->members[i].core);
	w->members[i].core = NULL;
	forget_waiting(w, &w->members[i]);
}

void
world_join(struct world *w, unsigned i, unsigned to)
{
	struct addr addr = addr_of(to);

	(void)feed(w, i, (struct swim_input){ .type = SWIM_IN_JOIN, .addrs = &addr, .addr_count = 1 });
}

void
world_leave(struct world *w, unsigned i)
{
	(void)feed(w, i, (struct swim_input){ .type = SWIM_IN_LEAVE });
}

enum tv_err
world_force_leave(struct world *w, unsigned i, unsigned whom, bool prune)
{
	char name[16];

	return feed(w, i, (struct swim_input){ .type = SWIM_IN_FORCE_LEAVE, .name = name_of(whom, name),
		.prune = prune });
}

void
world_side(struct world *w, unsigned i, unsigned side)
{
	w->members[i].side = side;
}

void
world_deaf(struct world *w, unsigned i, bool deaf)
{
	w->members[i].deaf = deaf;
}

void
world_set_loss(struct world *w, double loss)
{
	w->conf.loss = loss;
}

enum tv_err
world_feed(struct world *w, unsigned i, struct swim_input in)
{
	return feed(w, i, in);
}

void
world_watch(struct world *w, void (*watch)(void *ctx, unsigned i, const struct swim_output *out), void *ctx)
{
	w->watch = watch;
	w->watch_ctx = ctx;
}

void
world_keep_clocks(struct world *w)
{
	w->keep_clocks = true;
}

void
world_inject(struct world *w, unsigned i, enum wire_type kind, struct span body)
{
	(void)feed(w, i, (struct swim_input){ .type = SWIM_IN_MESSAGE, .kind = kind, .bytes = body,
		.from = addr_of(i) });
}

struct mono
world_now(const struct world *w)
{
	return w->now;
}

bool
world_is_up(const struct world *w, unsigned i)
{
	return w->members[i].core != NULL;
}

enum member_status
world_status(const struct world *w, unsigned i, unsigned j)
{
	char name[16];
	struct swim_member m;

	return swim_member_find(w->members[i].core, name_of(j, name), &m) ? m.status : MEMBER_NONE;
}

unsigned
world_generation(const struct world *w, unsigned i, unsigned j)
{
	char text[16];
	struct swim_member m;
	struct serf_tags it;
	struct span name, value;

	if (!swim_member_find(w->members[i].core, name_of(j, text), &m))
		return 0;
	it = serf_meta_tags(m.meta);
	while (serf_tags_next(&it, &name, &value) == TV_OK)
		if (span_eqs(name, "gen") && span_copy(value, text, sizeof(text)))
			return (unsigned)strtoul(text, NULL, 10);
	return 0;
}

const struct swim *
world_core(const struct world *w, unsigned i)
{
	return w->members[i].core;
}

unsigned
world_false_deaths(const struct world *w)
{
	return w->false_deaths;
}

uint64_t
world_digest(const struct world *w)
{
	return w->digest;
}

uint64_t
world_datagrams(const struct world *w)
{
	return w->traffic.packets;
}

unsigned
world_shown_failed(const struct world *w, unsigned j)
{
	return w->members[j].shown_failed;
}

unsigned
world_shown_left(const struct world *w, unsigned j)
{
	return w->members[j].shown_left;
}

struct world_deaths
world_deaths(const struct world *w)
{
	return w->deaths;
}

struct world_traffic
world_traffic(const struct world *w)
{
	return w->traffic;
}

uint64_t
world_events(const struct world *w)
{
	return w->events;
}
