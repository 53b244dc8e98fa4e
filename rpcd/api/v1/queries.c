/*
 * Gossip queries, which are not prepared queries: asking the pool, and answering what it asks.
 *
 *	PUT /v1/agent/query/NAME	body: payload; ?node ?tag=KEY=PATTERN, both repeatable,
 *					?timeout ?relay ?no-ack
 *	GET /v1/agent/queries		those heard here that may still be answered; ?name, ?index and ?wait
 *	PUT /v1/agent/query-answer/ID	body: the answer; ID from the list
 */
#include <inttypes.h>

#include "common/base/clock.h"
#include "common/net/msg.h"
#include "common/record/mpack.h"
#include "common/text/base64.h"
#include "common/text/duration.h"
#include "rpcd/api/api.h"
#include "rpcd/event/queries.h"

#define FILTERS_MAX 32
#define RELAY_MAX 5
#define TIMEOUT_MAX_S 3600
#define TIMEOUT_DEFAULT_S 60		/* no pool takes longer by itself */
#define MARGIN_S 10			/* gossipd ends the query; this is for its end */
#define BODY_BYTES_MAX (1u << 20)

/* -- asking -- */

/* Both kinds of filter as Serf's wire has them: a type byte, then a list of names, or a map. */
static void
put_node_filter(struct request *r, struct buf *b, unsigned count)
{
	struct buf one = BUF_INIT(BODY_BYTES_MAX);

	buf_u8(&one, 0);
	mpw_array(&one, count);
	for (uint32_t i = 0; i < r->query.n; i++)
		if (span_eqs(r->query.v[i].name, "node"))
			mpw_raw(&one, r->query.v[i].value);
	mpw_bin(b, buf_span(&one));
	b->failed |= one.failed;
	buf_done(&one);
}

static bool
put_tag_filter(struct buf *b, struct span text)
{
	const uint8_t *equals = text.len == 0 ? NULL : memchr(text.p, '=', text.len);
	struct buf one = BUF_INIT(BODY_BYTES_MAX);

	if (equals == NULL || equals == text.p)
		return false;
	buf_u8(&one, 1);
	mpw_map(&one, 2);
	mpw_raw_cstr(&one, "Expr");
	mpw_raw(&one, span_of(equals + 1, (size_t)(text.p + text.len - equals) - 1));
	mpw_raw_cstr(&one, "Tag");
	mpw_raw(&one, span_of(text.p, (size_t)(equals - text.p)));
	mpw_bin(b, buf_span(&one));
	b->failed |= one.failed;
	buf_done(&one);
	return true;
}

static unsigned
count_of(const struct params *query, const char *name)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < query->n; i++)
		n += span_eqs(query->v[i].name, name);
	return n;
}

static bool
put_filters(struct request *r, struct buf *b)
{
	unsigned nodes = count_of(&r->query, "node"), tags = count_of(&r->query, "tag");

	if (tags > FILTERS_MAX) {
		answer_text(r, 400, "Bad request: more than %d tag filters", FILTERS_MAX);
		return false;
	}
	mpw_array(b, (nodes > 0) + tags);
	if (nodes > 0)
		put_node_filter(r, b, nodes);
	for (uint32_t i = 0; i < r->query.n; i++)
		if (span_eqs(r->query.v[i].name, "tag") && !put_tag_filter(b, r->query.v[i].value)) {
			answer_text(r, 400, "Bad request: write a tag filter as KEY=PATTERN");
			return false;
		}
	return true;
}

struct asking {
	int64_t timeout_ns;		/* 0: by the size of the pool */
	uint64_t relay;
};

static bool
take_options(struct request *r, struct asking *a)
{
	struct span timeout = params_get(&r->query, "timeout"), relay = params_get(&r->query, "relay");

	if (timeout.len > 0 && (duration_parse(timeout, &a->timeout_ns) != TV_OK || a->timeout_ns < 0 ||
	    a->timeout_ns > MONO_S(TIMEOUT_MAX_S).ns)) {
		answer_text(r, 400, "Bad request: invalid timeout (0s to %ds)", TIMEOUT_MAX_S);
		return false;
	}
	if (relay.len > 0 && (u64_parse(relay, &a->relay) != TV_OK || a->relay > RELAY_MAX)) {
		answer_text(r, 400, "Bad request: invalid relay factor (0 to %d)", RELAY_MAX);
		return false;
	}
	return true;
}

RECORD_LOCAL(query_response, (STR, From), (STR, Payload))	/* base64; an empty one is "", not null */
RECORD_LOCAL(query_answers,
	(STRS, Acks), (OBJS, Responses, query_response), (U64, Alive), (STR, Warning, SF_OMITEMPTY))

static void
show_answers(struct request *r, struct span body)
{
	struct msg_query_answers got = { .alive = 0 };
	struct msg_answer a;
	struct buf coded = BUF_INIT(BODY_BYTES_MAX);
	bool good = msg_answer_read(body, &a, &msg_query_answers_schema, &r->arena, &got) == TV_OK;
	const struct msg_query_answer *from = got.answers.v;
	uint32_t n = good ? got.answers.n : 0, acks = 0, responses = 0;
	struct span *names = arena_array(&r->arena, n, sizeof(*names));
	struct query_response *list = arena_array(&r->arena, n, sizeof(*list));

	for (uint32_t i = 0; names != NULL && list != NULL && i < n; i++) {
		if (from[i].ack) {
			names[acks++] = from[i].from;
			continue;
		}
		buf_reset(&coded);
		base64_encode(from[i].payload, &coded);
		list[responses++] = (struct query_response){ from[i].from, arena_copy(&r->arena, buf_span(&coded)) };
	}
	if (!good) {
		answer_text(r, 500, "malformed reply from gossipd");
	} else if (a.err != TV_OK) {
		answer_span(r, 500, a.text);
	} else if (acks + responses < n || coded.failed) {
		answer_text(r, 500, "%s", tv_strerror(TV_ENOMEM));
	} else {
		schema_json_rec(&query_answers_schema, &(struct query_answers){ { names, acks, true },
		    { list, responses, true }, got.alive, a.text }, &r->answer.body);
		answer_json(r);
	}
	buf_done(&coded);
}

/* Nothing came from gossipd. */
static void
no_answer(struct request *r, enum tv_err err)
{
	answer_text(r, 500, "%s", err == TV_EUNREACH ? "gossipd is not running on this node" :
	    err == TV_ECLOSED ? "gossipd closed the connection before it answered" :
	    err == TV_ETIMEOUT ? "gossipd did not answer in time" : tv_strerror(err));
}

static void
on_answers(void *ctx, enum tv_err err, struct span body)
{
	struct request *r = ctx;

	r->cancel = NULL;
	if (err == TV_OK)
		show_answers(r, body);
	else
		no_answer(r, err);
}

static void
stop_asking(struct request *r)
{
	const uint64_t *call = r->state;

	daemon_client_cancel(members_daemon(r->api->members), *call);
}

/* Asks gossipd; done gets r.  A query may take an hour: a client that goes takes its question back. */
static void
ask_gossipd(struct request *r, uint16_t type, struct buf *body, struct mono timeout, calls_done *done)
{
	uint64_t *call = arena_alloc(&r->arena, sizeof(*call));
	struct daemon_client *daemon = members_daemon(r->api->members);
	enum tv_err err = TV_ENOMEM;

	if (call == NULL || body->failed ||
	    (*call = daemon_client_call(daemon, type, buf_span(body), timeout, done, r, &err)) == 0) {
		no_answer(r, err);
		return;
	}
	r->state = call;
	r->cancel = stop_asking;
}

static void
run_ask(struct request *r)
{
	struct asking a = { .timeout_ns = 0 };
	struct buf body = BUF_INIT(BODY_BYTES_MAX);
	struct mono wait;

	if (!api_must(r, ACL_EVENT, r->rest, ACL_WRITE) || api_too_large(r, "body_bytes_max") || !take_options(r, &a))
		return;
	mpw_array(&body, 7);
	mpw_uint(&body, POOL_LAN);
	mpw_str(&body, r->rest);
	mpw_bin(&body, buf_span(&r->body));
	if (put_filters(r, &body)) {
		mpw_bool(&body, !params_has(&r->query, "no-ack"));
		mpw_uint(&body, a.relay);
		mpw_uint(&body, ((uint64_t)a.timeout_ns + 999999) / 1000000);
		wait = a.timeout_ns > 0 ? (struct mono){ a.timeout_ns } : MONO_S(TIMEOUT_DEFAULT_S);
		ask_gossipd(r, MSG_GOSSIP_QUERY, &body, mono_add(wait, MONO_S(MARGIN_S)), on_answers);
	}
	buf_done(&body);
}

/* -- hearing -- */

RECORD_LOCAL(query_heard, (STR, ID), (STR, Name), (BIN, Payload), (STR, From), (U64, LTime), (STR, TimeLeft))

static void
put_heard(const struct heard *h, struct buf *out)
{
	struct mono left = mono_sub(h->deadline, clock_mono());
	char id[48], ms[32];

	snprintf(id, sizeof(id), "%" PRIu64 "-%" PRIu32, h->ltime, h->id);
	snprintf(ms, sizeof(ms), "%" PRId64 "ms", left.ns > 0 ? mono_ms(left) : 0);
	schema_json_rec(&query_heard_schema, &(struct query_heard){ span_str(id), h->name, h->payload, h->from,
	    h->ltime, span_str(ms) }, out);
}

/* What came behind ?index; how many. */
static unsigned
put_hearings(struct request *r)
{
	struct span name = params_get(&r->query, "name");
	struct buf *out = &r->answer.body;
	const struct heard *h;
	uint64_t number = r->op.index;
	unsigned count = 0;

	buf_reset(out);
	buf_u8(out, '[');
	while ((h = queries_next(r->api->queries, number)) != NULL) {
		number = h->number;
		if ((name.len > 0 && !span_eq(name, h->name)) || !api_may(r, ACL_EVENT, h->name, ACL_READ))
			continue;
		buf_puts(out, count++ > 0 ? "," : "");
		put_heard(h, out);
	}
	buf_u8(out, ']');
	return count;
}

static void
show_hearings(struct request *r)
{
	struct local_read *w;

	if (put_hearings(r) == 0 && r->op.index > 0 && (w = api_may_wait(r)) != NULL) {
		queries_wait(r->api->queries, &w->wait, w->left, api_news, r);
		return;
	}
	answer_header_u64(r, "X-Consul-Index", queries_newest(r->api->queries));
	answer_json(r);
}

static void
run_hear(struct request *r)
{
	api_read_local(r, show_hearings);
}

/* -- answering -- */

static void
on_responded(void *ctx, enum tv_err err, struct span body)
{
	struct request *r = ctx;
	struct msg_answer a;

	r->cancel = NULL;
	if (err != TV_OK)
		no_answer(r, err);
	else if (msg_answer_read(body, &a, NULL, NULL, NULL) != TV_OK)
		answer_text(r, 500, "malformed reply from gossipd");
	else if (a.err != TV_OK)
		answer_span(r, a.err == TV_ENOENT ? 404 : 500, a.text);
	else
		answer_empty(r, 200);
}

/* "LTIME-ID" */
static bool
parse_id(struct span text, uint64_t *ltime, uint64_t *id)
{
	const uint8_t *dash = text.len == 0 ? NULL : memchr(text.p, '-', text.len);

	return dash != NULL && u64_parse(span_of(text.p, (size_t)(dash - text.p)), ltime) == TV_OK &&
	    u64_parse(span_of(dash + 1, (size_t)(text.p + text.len - dash) - 1), id) == TV_OK && *id <= UINT32_MAX;
}

static void
run_answer(struct request *r)
{
	struct buf body = BUF_INIT(BODY_BYTES_MAX);
	uint64_t ltime, id;

	if (api_too_large(r, "body_bytes_max"))
		return;
	if (!parse_id(r->rest, &ltime, &id)) {
		answer_text(r, 400, "Bad request: a query ID is LTIME-NUMBER, as /v1/agent/queries shows it");
		return;
	}
	schema_pack(&msg_respond_schema, &(struct msg_respond){ POOL_LAN, ltime, id, buf_span(&r->body) }, &body);
	ask_gossipd(r, MSG_GOSSIP_RESPOND, &body, MONO_S(MARGIN_S), on_responded);
	buf_done(&body);
}

const struct endpoint api_queries[] = {
	{ "/v1/agent/query/", "PUT", ACCESS_NAMED, .body = BODY_BYTES, .missing = "Missing name", .run = run_ask },
	{ "/v1/agent/queries", "GET", ACCESS_SHOWN, .run = run_hear },
	{ "/v1/agent/query-answer/", "PUT", ACCESS_AGENT_WRITE, .body = BODY_BYTES, .missing = "Missing query ID",
	    .run = run_answer },
	{ .path = NULL },
};
