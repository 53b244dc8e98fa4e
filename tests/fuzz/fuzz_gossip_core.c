/*
 * The gossip core under a scripted life: messages and streams of strangers, time, and orders of our own.
 * Whatever comes, the core keeps its limits and its own name, and what it says can be read.
 *
 * Input: steps.  A step is an operation byte, then what that operation takes; a step cut short ends the run.
 */
#include "config.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "gossipd/core/swim.h"
#include "gossipd/core/wire/serfwire.h"

#ifdef TV_SANITIZERS
extern const unsigned fuzz_share;
const unsigned fuzz_share = 6;		/* of the same runs that other builds do whole: they take minutes here */
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MEMBERS_MAX 24
#define STEPS_MAX 400

struct run {
	struct swim *s;
	struct mono now;
	struct rd in;
	struct packet_scratch *scratch;
	struct envelope envelope;
	uint64_t stream;		/* the last exchange that it asked for; 0: none */
	uint64_t ltime, asked_ltime;	/* the last query that it delivered; the last that it asked */
	uint32_t id, asked_id;
	uint64_t token;			/* of queries, counted up */
	uint32_t open;			/* asked and not done */
	bool left;
};

static void
count_message(void *arg, enum wire_type type, struct span body)
{
	(void)type;
	(void)body;
	++*(unsigned *)arg;
}

/* Everything sent is a datagram that a peer can open whole. */
static void
check_send(struct run *r, const struct swim_send *send)
{
	static const uint8_t nonce[SEAL_NONCE_BYTES];
	struct buf b = BUF_INIT(PACKET_BYTES_MAX);
	unsigned seen = 0;
	struct packet_result res;

	TV_ASSERT(send->part_count > 0 && (send->to.len == 4 || send->to.len == 16));
	TV_ASSERT(packet_build(&r->envelope, r->scratch, send->parts, send->part_count, send->crc, nonce, &b) == TV_OK);
	TV_ASSERT(b.len <= PACKET_MTU + 5 || send->part_count == 1);
	res = packet_open(&r->envelope, r->scratch, buf_span(&b), count_message, &seen);
	TV_ASSERT(res.err == TV_OK && seen == send->part_count);
	buf_done(&b);
}

/* A message for a stream is one that a peer can read whole. */
static void
check_stream(const struct run *r, struct span message)
{
	struct stream_limits limits = STREAM_LIMITS_DEFAULT;
	struct stream_reader reader;

	if (message.len == 0)
		return;
	stream_reader_init(&reader, &r->envelope, &limits, STREAM_ACCEPTED);
	TV_ASSERT(stream_feed(&reader, message) == TV_OK);
	stream_reader_done(&reader);
}

/* A query of its own: what answers must name. */
static void
note_asked(struct run *r, struct span part)
{
	struct serf_query q;

	if (part.len < 3 || part.p[0] != WIRE_USER || part.p[1] != SERF_QUERY)
		return;
	TV_ASSERT(serf_get_query(span_of(part.p + 2, part.len - 2), NULL, &q) == TV_OK);
	if (!span_eqs(q.source_node, "me"))
		return;
	r->asked_ltime = q.ltime;
	r->asked_id = q.id;
}

static void
check_query(struct run *r, const struct swim_query *q)
{
	TV_ASSERT(mono_before(r->now, q->deadline));
	TV_ASSERT(span_starts(q->name, span_str("_serf_")) == (q->kind != SWIM_QUERY_USER));
	r->ltime = q->ltime;
	r->id = q->id;
}

/* Each query ends once, and says nothing afterwards. */
static void
check_response(struct run *r, const struct swim_response *resp)
{
	TV_ASSERT(resp->token > 0 && resp->token <= r->token);
	TV_ASSERT((resp->from.len > 0) == (resp->kind != SWIM_RESPONSE_DONE));
	if (resp->kind == SWIM_RESPONSE_DONE) {
		TV_ASSERT(r->open > 0);
		r->open--;
	}
}

static void
check_state(const struct run *r)
{
	struct swim_stats stats;
	struct swim_member m;
	uint32_t cursor = 0, shown = 0;

	swim_stats(r->s, &stats);
	while (swim_member_next(r->s, &cursor, &m)) {
		shown++;
		TV_ASSERT(m.name.len > 0 && m.name.len <= NODE_NAME_BYTES_MAX && m.meta.len <= NODE_META_BYTES_MAX);
	}
	TV_ASSERT(shown == stats.members && shown <= MEMBERS_MAX && stats.known <= MEMBERS_MAX);
	TV_ASSERT(stats.health < SWIM_HEALTH_MAX && stats.member_queue <= MEMBERS_MAX);
	TV_ASSERT(swim_member_find(r->s, span_str("me"), &m));
	TV_ASSERT(stats.event_queue <= 16 && stats.query_queue <= 16);
	TV_ASSERT(stats.events_kept_bytes <= 512 << 10 && stats.queries_waiting <= SWIM_HEARD_MAX);
	TV_ASSERT(stats.queries_open >= r->open && stats.queries_open <= r->open + 1);	/* a vote on its name */
}

static void
feed(struct run *r, struct swim_input in)
{
	const struct swim_output *out;

	in.now = r->now;
	if (in.type == SWIM_IN_QUERY)
		r->token++;
	if (swim_feed(r->s, &in, &out) == TV_OK && in.type == SWIM_IN_QUERY)
		r->open++;
	for (size_t i = 0; i < out->send_count; i++) {
		check_send(r, &out->sends[i]);
		for (unsigned p = 0; p < out->sends[i].part_count; p++)
			note_asked(r, out->sends[i].parts[p]);
	}
	for (size_t i = 0; i < out->query_count; i++)
		check_query(r, &out->queries[i]);
	for (size_t i = 0; i < out->response_count; i++)
		check_response(r, &out->responses[i]);
	for (size_t i = 0; i < out->stream_count; i++) {
		check_stream(r, out->streams[i].message);
		r->stream = out->streams[i].id;
	}
	check_stream(r, out->answer);
	TV_ASSERT(mono_before(r->now, out->deadline));
	r->left = r->left || out->left;
	check_state(r);
}

static struct span
take(struct run *r, size_t n)
{
	return rd_bytes(&r->in, n < rd_left(&r->in) ? n : rd_left(&r->in));
}

static void
step_message(struct run *r)
{
	uint8_t kind = rd_u8(&r->in);
	struct span body = take(r, rd_u8(&r->in));

	feed(r, (struct swim_input){ .type = SWIM_IN_MESSAGE, .kind = kind, .bytes = body,
	    .from = { .ip = { 10, 0, 0, 9 }, .len = 4, .port = 7946 } });
}

static void
step_wait(struct run *r)
{
	unsigned tenths = rd_u8(&r->in);

	for (unsigned i = 0; i < tenths && i < 60; i++) {
		r->now = mono_add(r->now, MONO_MS(100));
		feed(r, (struct swim_input){ .type = SWIM_IN_TICK });
	}
}

static void
step_sleep(struct run *r)
{
	r->now = mono_add(r->now, MONO_S(1 + rd_u8(&r->in)));
	feed(r, (struct swim_input){ .type = SWIM_IN_TICK });
}

static void
stream_in(struct run *r, enum swim_in_type type)
{
	struct stream_limits limits = STREAM_LIMITS_DEFAULT;
	struct span bytes = take(r, rd_u16be(&r->in));
	struct stream_reader reader;

	stream_reader_init(&reader, &r->envelope, &limits, STREAM_ACCEPTED);
	if (stream_feed(&reader, bytes) == TV_OK)
		feed(r, (struct swim_input){ .type = type, .stream = r->stream, .message = stream_message(&reader),
		    .from = { .ip = { 10, 0, 0, 9 }, .len = 4, .port = 7946 } });
	stream_reader_done(&reader);
}

static void
step_request(struct run *r)
{
	stream_in(r, SWIM_IN_REQUEST);
}

static void
step_answer(struct run *r)
{
	stream_in(r, SWIM_IN_ANSWER);
}

static void
step_fail(struct run *r)
{
	feed(r, (struct swim_input){ .type = SWIM_IN_FAILED, .stream = r->stream, .error = TV_ETIMEOUT });
}

static void
step_join(struct run *r)
{
	struct addr to = { .ip = { 10, 0, 0, rd_u8(&r->in) }, .len = 4 };

	feed(r, (struct swim_input){ .type = SWIM_IN_JOIN, .addrs = &to, .addr_count = 1 });
}

static void
step_leave(struct run *r)
{
	feed(r, (struct swim_input){ .type = SWIM_IN_LEAVE });
}

static void
step_force_leave(struct run *r)
{
	uint8_t head = rd_u8(&r->in);

	feed(r, (struct swim_input){ .type = SWIM_IN_FORCE_LEAVE, .prune = head & 128, .name = take(r, head & 127) });
}

static void
step_meta(struct run *r)
{
	feed(r, (struct swim_input){ .type = SWIM_IN_META, .bytes = take(r, rd_u16be(&r->in)) });
}

/* A message longer than step_message can carry. */
static void
step_long(struct run *r)
{
	uint8_t kind = rd_u8(&r->in);
	struct span body = take(r, rd_u16be(&r->in));

	feed(r, (struct swim_input){ .type = SWIM_IN_MESSAGE, .kind = kind, .bytes = body,
	    .from = { .ip = { 10, 0, 0, 9 }, .len = 4, .port = 7946 } });
}

static void
step_fire(struct run *r)
{
	uint8_t head = rd_u8(&r->in);
	struct span name = take(r, head & 127);

	feed(r, (struct swim_input){ .type = SWIM_IN_FIRE, .coalesce = head & 128, .name = name,
	    .bytes = take(r, rd_u16be(&r->in)) });
}

#define FILTERS_MAX 4

static void
step_ask(struct run *r)
{
	uint8_t flags = rd_u8(&r->in);
	struct span filters[FILTERS_MAX];
	struct swim_ask q = { .token = r->token + 1, .want_ack = flags & 1, .no_broadcast = flags & 2,
		.internal = flags & 4, .filters = filters, .filter_count = flags >> 3 & (FILTERS_MAX - 1) };

	q.relay_factor = rd_u8(&r->in);
	q.timeout = MONO_S(rd_u8(&r->in));
	q.name = take(r, rd_u8(&r->in));
	q.payload = take(r, rd_u8(&r->in));
	for (unsigned i = 0; i < q.filter_count; i++)
		filters[i] = take(r, rd_u8(&r->in));
	feed(r, (struct swim_input){ .type = SWIM_IN_QUERY, .ask = &q });
}

/* The shell answers the last query that it was given. */
static void
step_respond(struct run *r)
{
	feed(r, (struct swim_input){ .type = SWIM_IN_RESPOND, .ltime = r->ltime, .query_id = r->id,
	    .bytes = take(r, rd_u16be(&r->in)) });
}

/* Somebody answers the last query that was asked. */
static void
step_reply(struct run *r)
{
	uint8_t flags = rd_u8(&r->in);
	struct span from = take(r, rd_u8(&r->in)), payload = take(r, rd_u8(&r->in));
	struct buf b = BUF_INIT(4096);

	serf_put_query_response(&b, &(struct serf_query_response){ .ltime = r->asked_ltime, .id = r->asked_id,
	    .from = from, .flags = flags, .payload = payload });
	feed(r, (struct swim_input){ .type = SWIM_IN_MESSAGE, .kind = WIRE_USER, .bytes = buf_span(&b),
	    .from = { .ip = { 10, 0, 0, 9 }, .len = 4, .port = 7946 } });
	buf_done(&b);
}

static void (*const steps[])(struct run *) = {
	step_message, step_wait, step_sleep, step_request, step_answer, step_fail, step_join, step_leave,
	step_force_leave, step_meta, step_long, step_fire, step_ask, step_respond, step_reply,
};
#define STEPS (sizeof(steps) / sizeof(steps[0]))

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct swim_options opt = { .name = span_str("me"), .self = { .ip = { 10, 0, 0, 1 }, .len = 4, .port = 7946 },
		.dc = span_str("dc1"), .timing = *swim_preset("lan"), .members_max = MEMBERS_MAX, .intents_max = 8,
		.queue_max = 16, .relays_max = 4, .packet_bytes = PACKET_MTU, .tcp_pings = true,
		.coordinates = true, .seed = 1, .event_bytes = SERF_EVENT_BYTES_MAX };
	struct run r = { .now = MONO_S(1), .in = rd_over(data, size), .envelope = { .version = 1 } };

	r.scratch = malloc(sizeof(*r.scratch));
	TV_ASSERT(r.scratch != NULL);
	packet_scratch_init(r.scratch);
	r.s = swim_new(&opt, r.now);
	TV_ASSERT(r.s != NULL);
	for (int i = 0; i < STEPS_MAX && rd_left(&r.in) > 0 && !r.left; i++)
		steps[rd_u8(&r.in) % STEPS](&r);
	swim_free(r.s);
	packet_scratch_done(r.scratch);
	free(r.scratch);
	return 0;
}
