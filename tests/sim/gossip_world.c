/* A world of gossip cores; see gossip_world.h. */
#include "config.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/assert.h"
#include "gossipd/core/serfwire.h"
#include "tests/sim/gossip_world.h"

#define PORT 7946
#define REFUSE_AFTER MONO_MS(3)		/* a refused connection */

enum sim_event_type { SIM_TICK, SIM_PACKET, SIM_REQUEST, SIM_ANSWER, SIM_FAILED };

struct sim_event {
	struct mono at;
	uint64_t order;			/* among equal times: as they were made */
	enum sim_event_type type;
	unsigned to, from;		/* members */
	unsigned to_life;		/* an earlier life of `to` does not get it */
	uint64_t stream;
	unsigned from_life;
	struct buf bytes;
};

struct sim_member {
	struct swim *core;		/* NULL: down */
	unsigned life;			/* counts starts; also the tag `gen` */
	unsigned side;
	bool deaf;
	struct swim_clocks clocks;	/* at its last end */
	struct mono wake;		/* when its next SIM_TICK is queued; MONO_NEVER: none */
};

struct world {
	struct world_conf conf;
	struct rng rng;
	struct mono now;
	struct sim_member *members;
	struct sim_event *heap;		/* earliest first */
	size_t heap_count, heap_cap;
	uint64_t orders, digest, datagrams;
	unsigned false_deaths;
	struct envelope envelope;	/* plaintext, uncompressed: those layers have tests of their own */
	struct packet_scratch *scratch;
	unsigned visiting, visiting_from;
	void (*watch)(void *ctx, unsigned i, const struct swim_output *out);
	void *watch_ctx;
	bool keep_clocks;
};

/* -- event queue ------------------------------------------------------------------ */

static bool
event_before(const struct sim_event *a, const struct sim_event *b)
{
	return a->at.ns != b->at.ns ? a->at.ns < b->at.ns : a->order < b->order;
}

static void
event_push(struct world *w, struct sim_event e)
{
	size_t i = w->heap_count++;

	if (w->heap_count > w->heap_cap) {
		w->heap_cap = w->heap_cap == 0 ? 1024 : w->heap_cap * 2;
		w->heap = realloc(w->heap, w->heap_cap * sizeof(*w->heap));
		TV_ASSERT(w->heap != NULL);
	}
	e.order = w->orders++;
	for (; i > 0 && event_before(&e, &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
		w->heap[i] = w->heap[(i - 1) / 2];
	w->heap[i] = e;
}

static struct sim_event
event_pop(struct world *w)
{
	struct sim_event top = w->heap[0], last = w->heap[--w->heap_count];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < w->heap_count) {
		if (child + 1 < w->heap_count && event_before(&w->heap[child + 1], &w->heap[child]))
			child++;
		if (!event_before(&w->heap[child], &last))
			break;
		w->heap[i] = w->heap[child];
		i = child;
	}
	w->heap[i] = last;
	return top;
}

static void
note(struct world *w, uint64_t a, uint64_t b)
{
	w->digest = (w->digest ^ a) * 0x100000001b3u;
	w->digest = (w->digest ^ b ^ (w->digest >> 29)) * 0x100000001b3u;
}

/* -- names and addresses ------------------------------------------------------------- */

static struct gaddr
addr_of(unsigned i)
{
	return (struct gaddr){ .ip = { 10, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i }, .len = 4,
		.port = PORT };
}

/* The member at an address, or members_max. */
static unsigned
member_at(const struct world *w, const struct gaddr *a)
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
	event_push(w, e);
}

static void
send_packet(struct world *w, unsigned from, const struct swim_send *send)
{
	static const uint8_t nonce[SEAL_NONCE_BYTES];
	unsigned to = member_at(w, &send->to), copies = rng_unit(&w->rng) < w->conf.duplicate ? 2 : 1;

	w->datagrams++;
	for (unsigned i = 0; i < copies; i++) {
		struct sim_event e = { .type = SIM_PACKET, .to = to, .from = from,
			.bytes = BUF_INIT(PACKET_BYTES_MAX) };

		if (to == w->conf.members_max || rng_unit(&w->rng) < w->conf.loss)
			continue;
		e.to_life = w->members[to].life;
		if (packet_build(&w->envelope, w->scratch, send->parts, send->part_count, send->crc, nonce,
		    &e.bytes) != TV_OK)
			TV_ASSERT(!"packet_build");
		TV_ASSERT(e.bytes.len <= PACKET_MTU + 5);	/* a checksum is not counted */
		post(w, delay(w), e);
	}
}

static void
open_stream(struct world *w, unsigned from, const struct swim_stream *st)
{
	unsigned to = member_at(w, &st->to);
	struct sim_event e = { .to = to, .from = from, .stream = st->id, .from_life = w->members[from].life,
		.bytes = BUF_INIT(64u << 20) };

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
	buf_putspan(&e.bytes, st->message);
	post(w, mono_mul(delay(w), 3), e);	/* handshake, then the message */
}

/* -- a member's output ---------------------------------------------------------------------- */

static void
take_event(struct world *w, unsigned i, const struct swim_event *ev)
{
	unsigned about = index_of(ev->member.name);

	note(w, (uint64_t)ev->type << 32 | i, (uint64_t)w->now.ns ^ about);
	if (ev->type == GOSSIP_EV_FAILED && w->members[about].core != NULL && connected(w, i, about) &&
	    !w->members[i].deaf && !w->members[about].deaf)
		w->false_deaths++;
	if (w->conf.verbose)
		printf("%9.3f n%u: event %d n%u %s\n", mono_seconds(w->now), i, ev->type, about,
		    member_status_name(ev->member.status));
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
	for (size_t k = 0; k < out->notice_count && w->conf.verbose; k++)
		printf("%9.3f n%u: notice %d %.*s\n", mono_seconds(w->now), i, out->notices[k].type,
		    (int)out->notices[k].name.len, (const char *)out->notices[k].name.p);
	if (out->left) {
		world_kill(w, i);
		return;
	}
	if (out->deadline.ns < m->wake.ns) {
		m->wake = out->deadline;
		event_push(w, (struct sim_event){ .at = out->deadline, .type = SIM_TICK, .to = i, .to_life = m->life });
	}
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
	r = packet_open(&w->envelope, w->scratch, buf_span(&e->bytes), visit, w);
	TV_ASSERT(r.dropped == 0);
}

static void
on_stream(struct world *w, const struct sim_event *e, enum swim_in_type type)
{
	struct stream_limits limits = STREAM_LIMITS_DEFAULT;
	struct stream_reader reader;
	struct swim_input in = { .type = type, .stream = e->stream, .from = addr_of(e->from) };

	stream_reader_init(&reader, &w->envelope, &limits, type == SWIM_IN_REQUEST ? STREAM_ACCEPTED : STREAM_DIALLED);
	if (stream_feed(&reader, buf_span(&e->bytes)) != TV_OK)
		TV_ASSERT(!"stream_feed");
	in.message = stream_message(&reader);
	if (type == SWIM_IN_REQUEST) {
		struct sim_event answer = { .type = SIM_ANSWER, .to = e->from, .to_life = e->from_life, .from = e->to,
			.stream = e->stream, .bytes = BUF_INIT(64u << 20) };
		const struct swim_output *out;

		in.now = w->now;
		(void)swim_feed(w->members[e->to].core, &in, &out);
		buf_putspan(&answer.bytes, out->answer);
		if (answer.bytes.len == 0)
			answer.type = SIM_FAILED;
		post(w, delay(w), answer);
		take_output(w, e->to, out);
	} else {
		(void)feed(w, e->to, in);
	}
	stream_reader_done(&reader);
}

static void
dispatch(struct world *w, const struct sim_event *e)
{
	struct sim_member *m = &w->members[e->to];

	w->now = e->at;
	note(w, (uint64_t)e->at.ns, (uint64_t)e->type << 40 | (uint64_t)e->to << 20 | e->from);
	if (m->core == NULL || m->life != e->to_life || (e->type == SIM_PACKET && (m->deaf || !connected(w, e->from, e->to)))) {
		if (e->type == SIM_REQUEST && w->members[e->from].core != NULL)
			post(w, delay(w), (struct sim_event){ .type = SIM_FAILED, .to = e->from,
				.to_life = e->from_life, .from = e->to, .stream = e->stream });
		return;
	}
	switch (e->type) {
	case SIM_TICK:
		m->wake = MONO_NEVER;
		(void)feed(w, e->to, (struct swim_input){ .type = SWIM_IN_TICK });
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

void
world_run(struct world *w, struct mono until)
{
	while (w->heap_count > 0 && !mono_before(until, w->heap[0].at)) {
		struct sim_event e = event_pop(w);

		dispatch(w, &e);
		buf_done(&e.bytes);
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
	struct world *w = calloc(1, sizeof(*w));

	TV_ASSERT(w != NULL);
	w->conf = *conf;
	rng_seed(&w->rng, conf->seed);
	w->members = calloc(conf->members_max, sizeof(*w->members));
	w->scratch = malloc(sizeof(*w->scratch));
	TV_ASSERT(w->members != NULL && w->scratch != NULL);
	packet_scratch_init(w->scratch);
	return w;
}

void
world_free(struct world *w)
{
	for (unsigned i = 0; i < w->conf.members_max; i++)
		swim_free(w->members[i].core);
	while (w->heap_count > 0)
		buf_done(&w->heap[--w->heap_count].bytes);
	packet_scratch_done(w->scratch);
	free(w->scratch);
	free(w->heap);
	free(w->members);
	free(w);
}

void
world_start(struct world *w, unsigned i)
{
	struct sim_member *m = &w->members[i];
	char name[16], gen[16];
	struct buf meta = BUF_INIT(NODE_META_BYTES_MAX);
	struct swim_options opt = { .name = name_of(i, name), .self = addr_of(i), .timing = w->conf.timing,
		.members_max = 20000, .intents_max = 1024, .queue_max = 4096, .relays_max = 64,
		.packet_bytes = PACKET_MTU, .tcp_pings = w->conf.tcp_pings, .seed = rng_u64(&w->rng) };
	struct member_tag tags[] = { { span_str("role"), span_str("client") }, { span_str("gen"), SPAN_NONE } };

	TV_ASSERT(m->core == NULL);
	if (w->keep_clocks) {
		opt.clocks.event_clock = m->clocks.event_clock;
		opt.clocks.query_clock = m->clocks.query_clock;
	}
	m->life++;
	m->wake = MONO_NEVER;
	snprintf(gen, sizeof(gen), "%u", m->life);
	tags[1].value = span_str(gen);
	TV_ASSERT(serf_put_meta(&meta, tags, 2) == TV_OK);
	opt.meta = buf_span(&meta);
	m->core = swim_new(&opt, w->now);
	TV_ASSERT(m->core != NULL);
	buf_done(&meta);
	(void)feed(w, i, (struct swim_input){ .type = SWIM_IN_TICK });
}

void
world_kill(struct world *w, unsigned i)
{
	swim_clocks(w->members[i].core, &w->members[i].clocks);
	swim_free(w->members[i].core);
	w->members[i].core = NULL;
}

void
world_join(struct world *w, unsigned i, unsigned to)
{
	struct gaddr addr = addr_of(to);

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
	return w->datagrams;
}
