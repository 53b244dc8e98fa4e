/* Queries: asking and collecting, hearing and answering, filters, relays, and what Serf asks of every node. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/gossip_one.h"

#define ID 439041101u		/* of the vectors */
#define LIT(text) span_of((text), sizeof(text) - 1)

static struct one o;

static void
setup(void)
{
	one_init(&o);
}

static void
teardown(void)
{
	one_done(&o);
}

static void
add_member(const char *name, unsigned last)
{
	struct addr at = one_addr(last);

	ck_assert_int_eq(one_alive_at(&o, name, 1, &at, SPAN_NONE), TV_OK);
}

/* Members node-2 .. node-N at 10.0.0.2 .. N; then quiet. */
static void
start_pool(unsigned n)
{
	char name[16];

	one_start(&o);
	for (unsigned i = 2; i <= n; i++) {
		snprintf(name, sizeof(name), "node-%u", i);
		add_member(name, i);
	}
	one_wait(&o, MONO_S(2));
}

/* -- asking ------------------------------------------------------------------------- */

static enum tv_err
ask(struct swim_ask q)
{
	return one_feed(&o, (struct swim_input){ .type = SWIM_IN_QUERY, .ask = &q });
}

/* The query as it goes out, read. */
static struct serf_query
asked(void)
{
	static uint8_t copy[4096];	/* beyond the outputs to come */
	struct serf_query m;
	struct span said = one_said_serf(&o, SERF_QUERY, NULL);

	for (unsigned i = 0; said.len == 0 && i < 10; i++) {
		one_wait(&o, MONO_MS(200));
		said = one_said_serf(&o, SERF_QUERY, NULL);
	}
	ck_assert_uint_gt(said.len, 0);
	ck_assert_uint_le(said.len, sizeof(copy));
	memcpy(copy, said.p, said.len);
	ck_assert_int_eq(serf_get_query(span_of(copy + 1, said.len - 1), &o.arena, &m), TV_OK);
	return m;
}

static enum tv_err
respond_as(const char *from, uint64_t ltime, uint32_t id, bool ack, struct span payload)
{
	struct buf b = BUF_INIT(1 << 16);

	serf_put_query_response(&b, &(struct serf_query_response){ .ltime = ltime, .id = id, .from = span_str(from),
	    .flags = ack ? SERF_RESPONSE_FLAG_ACK : 0, .payload = payload });
	return one_serf(&o, &b);
}

/* The last output has exactly one response, and this one. */
static bool
got(enum swim_response_kind kind, const char *from, const char *payload)
{
	const struct swim_response *r = o.out->responses;

	return o.out->response_count == 1 && r->kind == kind && span_eqs(r->from, from) &&
	    span_eqs(r->payload, payload) && r->token == 77;
}

static bool
is_done(const struct one *one, void *arg)
{
	(void)arg;
	for (size_t i = 0; i < one->out->response_count; i++)
		if (one->out->responses[i].kind == SWIM_RESPONSE_DONE)
			return true;
	return false;
}

static const uint8_t plain_vector[] =
    "\x04\x8b\xa4" "Addr\xa4\x7f\x00\x00\x01\xa7" "Filters\xc0\xa5" "Flags\x00\xa2ID\xce\x1a\x2b\x3c\x4d\xa5LTime\x01"
    "\xa4Name\xa6uptime\xa7Payload\xc0\xa4Port\xcd\x1f\x0a\xabRelayFactor\x00\xaaSourceNode\xa6node-a"
    "\xa7Timeout\xcf\x00\x00\x00\x03\x7e\x11\xd6\x00";
static const uint8_t full_vector[] =
    "\x04\x8b\xa4" "Addr\xa4\x7f\x00\x00\x01\xa7" "Filters\x92\xb0\x00\x92\xa6node-a\xa6node-b\xb5\x01\x82\xa4"
    "Expr\xa4^web\xa3Tag\xa4role\xa5" "Flags\x03\xa2ID\xce\x1a\x2b\x3c\x4d\xa5LTime\x01\xa4Name\xa6uptime"
    "\xa7Payload\xa5hello\xa4Port\xcd\x1f\x0a\xabRelayFactor\x02\xaaSourceNode\xa6node-a\xa7Timeout\xcf\x00\x00\x00\x03\x7e\x11\xd6\x00";

/* What goes out, with the random id replaced by that of the vectors. */
static void
check_asked(struct span vector)
{
	static const char key[] = "\xa2ID\xce";
	struct serf_query m = asked();
	struct span said = one_said_serf(&o, SERF_QUERY, NULL);
	uint8_t *bytes, *id;

	ck_assert_uint_lt(m.id, 1u << 31);
	ck_assert_uint_eq(said.len, vector.len);
	bytes = memcpy(malloc(said.len), said.p, said.len);
	id = memmem(bytes, said.len, key, sizeof(key) - 1);
	ck_assert_ptr_nonnull(id);
	memcpy(id + 4, "\x1a\x2b\x3c\x4d", 4);
	ck_assert_mem_eq(bytes, vector.p, vector.len);
	free(bytes);
}

static void
be_node_a(void)
{
	o.opt.name = span_str("node-a");
	o.opt.self = (struct addr){ .ip = { 127, 0, 0, 1 }, .len = 4, .port = 7946 };
	start_pool(2);
}

START_TEST(asked_as_serf_does)
{
	be_node_a();
	ck_assert_int_eq(ask((struct swim_ask){ .name = LIT("uptime"), .timeout = MONO_S(15) }), TV_OK);
	check_asked(LIT(plain_vector));
}
END_TEST

START_TEST(asked_with_everything)
{
	static const uint8_t nodes[] = "\x92\xa6node-a\xa6node-b";
	struct buf node = BUF_INIT(64), tag = BUF_INIT(64);
	struct span filters[2];

	serf_put_filter(&node, &(struct serf_filter){ .type = SERF_FILTER_NODE, .nodes = LIT(nodes) });
	serf_put_filter(&tag, &(struct serf_filter){ .type = SERF_FILTER_TAG, .tag = LIT("role"),
	    .expr = LIT("^web") });
	filters[0] = buf_span(&node);
	filters[1] = buf_span(&tag);
	be_node_a();
	ck_assert_int_eq(ask((struct swim_ask){ .name = LIT("uptime"), .payload = LIT("hello"), .timeout = MONO_S(15),
	    .filters = filters, .filter_count = 2, .want_ack = true, .no_broadcast = true, .relay_factor = 2 }), TV_OK);
	check_asked(LIT(full_vector));
	buf_done(&node);
	buf_done(&tag);
}
END_TEST

START_TEST(what_may_not_be_asked)
{
	static uint8_t bytes[1100];
	struct span empty = SPAN_NONE;

	start_pool(2);
	ck_assert_int_eq(ask((struct swim_ask){ .name = SPAN_NONE }), TV_EINVAL);
	ck_assert_int_eq(ask((struct swim_ask){ .name = LIT("_serf_list-keys") }), TV_EINVAL);
	ck_assert_int_eq(ask((struct swim_ask){ .name = LIT("_serf_ping"), .payload = LIT("x") }), TV_EINVAL);
	ck_assert_int_eq(ask((struct swim_ask){ .name = LIT("_serf_ping") }), TV_OK);
	ck_assert_int_eq(ask((struct swim_ask){ .name = LIT("_serf_list-keys"), .internal = true }), TV_OK);
	/* These two would crash old peers. */
	ck_assert_int_eq(ask((struct swim_ask){ .name = LIT("_serf_use-key"), .internal = true }), TV_EINVAL);
	ck_assert_int_eq(ask((struct swim_ask){ .name = LIT("q"), .filters = &empty, .filter_count = 1 }), TV_EINVAL);
	ck_assert_int_eq(ask((struct swim_ask){ .name = LIT("q"), .payload = span_of(bytes, 1000) }), TV_ELIMIT);
	ck_assert_uint_eq(one_stats(&o).queries_open, 2);
	for (unsigned i = 2; i < SWIM_ASKED_MAX; i++)
		ck_assert_int_eq(ask((struct swim_ask){ .name = LIT("q") }), TV_OK);
	ck_assert_int_eq(ask((struct swim_ask){ .name = LIT("q") }), TV_ELIMIT);
	one_wait(&o, MONO_S(4));
	ck_assert_uint_eq(one_stats(&o).queries_open, 0);
}
END_TEST

static const struct { unsigned members; int64_t ms; } timeouts[] = { { 1, 3200 }, { 9, 3200 }, { 10, 6400 } };

START_TEST(default_timeout)
{
	struct mono begin;

	start_pool(timeouts[_i].members);
	begin = o.now;
	ck_assert_int_eq(ask((struct swim_ask){ .token = 77, .name = LIT("q") }), TV_OK);
	ck_assert_uint_eq(o.out->query_count, 1);
	ck_assert(o.out->queries[0].deadline.ns == mono_add(begin, MONO_MS(timeouts[_i].ms)).ns);
	ck_assert(one_wait_for(&o, MONO_S(10), is_done, NULL));
	ck_assert(got(SWIM_RESPONSE_DONE, "", ""));
	ck_assert_int_eq(mono_ms(mono_sub(o.now, begin)), timeouts[_i].ms);
	ck_assert(!one_wait_for(&o, MONO_S(10), is_done, NULL));
}
END_TEST

START_TEST(members_are_heard_once_each)
{
	struct serf_query q;

	start_pool(4);
	ck_assert_int_eq(ask((struct swim_ask){ .token = 77, .name = LIT("q"), .want_ack = true }), TV_OK);
	ck_assert(got(SWIM_RESPONSE_ACK, SELF, ""));		/* we are asked as well */
	q = asked();
	ck_assert_int_eq(respond_as("node-2", q.ltime, q.id, true, SPAN_NONE), TV_OK);
	ck_assert(got(SWIM_RESPONSE_ACK, "node-2", ""));
	ck_assert_int_eq(respond_as("node-2", q.ltime, q.id, false, LIT("yes")), TV_OK);
	ck_assert(got(SWIM_RESPONSE_DATA, "node-2", "yes"));
	ck_assert_int_eq(respond_as("node-2", q.ltime, q.id, false, LIT("no")), TV_OK);
	ck_assert_uint_eq(o.out->response_count, 0);
	ck_assert_int_eq(respond_as("node-2", q.ltime, q.id, true, SPAN_NONE), TV_OK);
	ck_assert_uint_eq(o.out->response_count, 0);
	ck_assert_int_eq(respond_as("stranger", q.ltime, q.id, false, LIT("no")), TV_OK);
	ck_assert_uint_eq(o.out->response_count, 0);
	ck_assert_int_eq(respond_as("node-3", q.ltime + 1, q.id, false, LIT("no")), TV_OK);
	ck_assert_int_eq(respond_as("node-3", q.ltime, q.id + 1, false, LIT("no")), TV_OK);
	ck_assert_uint_eq(o.out->response_count, 0);
	ck_assert_uint_eq(one_stats(&o).answers_strange, 5);
	ck_assert_uint_eq(one_stats(&o).answers_taken, 3);
}
END_TEST

START_TEST(done_as_soon_as_all_have_answered)
{
	struct serf_query q;
	struct swim_query own;

	start_pool(3);
	ck_assert_int_eq(ask((struct swim_ask){ .token = 77, .name = LIT("q") }), TV_OK);
	own = o.out->queries[0];
	q = asked();
	ck_assert_int_eq(respond_as("node-2", q.ltime, q.id, false, LIT("2")), TV_OK);
	ck_assert(!is_done(&o, NULL));
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_RESPOND, .ltime = own.ltime,
	    .query_id = own.id, .bytes = LIT("me too") }), TV_OK);
	ck_assert(got(SWIM_RESPONSE_DATA, SELF, "me too"));
	ck_assert_int_eq(respond_as("node-3", q.ltime, q.id, false, SPAN_NONE), TV_OK);
	ck_assert_uint_eq(o.out->response_count, 2);
	ck_assert_int_eq(o.out->responses[0].kind, SWIM_RESPONSE_DATA);
	ck_assert_int_eq(o.out->responses[1].kind, SWIM_RESPONSE_DONE);
	ck_assert_uint_eq(o.out->responses[1].token, 77);
	ck_assert_int_eq(respond_as("node-3", q.ltime, q.id, true, SPAN_NONE), TV_OK);
	ck_assert_uint_eq(o.out->response_count, 0);
	ck_assert(!one_wait_for(&o, MONO_S(10), is_done, NULL));
}
END_TEST

/* A member that answered and died is not one less to wait for. */
START_TEST(the_dead_do_not_stand_for_the_living)
{
	struct serf_query q;

	start_pool(4);
	ck_assert_int_eq(ask((struct swim_ask){ .token = 77, .name = LIT("_serf_ping"), .want_ack = true }), TV_OK);
	q = asked();
	ck_assert_int_eq(respond_as("node-2", q.ltime, q.id, true, SPAN_NONE), TV_OK);
	ck_assert_int_eq(one_dead(&o, "node-2", 1, "node-4"), TV_OK);
	ck_assert_int_eq(respond_as("node-3", q.ltime, q.id, true, SPAN_NONE), TV_OK);
	ck_assert(!is_done(&o, NULL));
	ck_assert_int_eq(respond_as("node-4", q.ltime, q.id, true, SPAN_NONE), TV_OK);
	ck_assert(is_done(&o, NULL));
}
END_TEST

START_TEST(many_members_answer)
{
	struct serf_query q;
	char name[16];

	start_pool(99);
	ck_assert_int_eq(ask((struct swim_ask){ .token = 77, .name = LIT("_serf_ping"), .want_ack = true }), TV_OK);
	q = asked();
	for (unsigned i = 2; i <= 99; i++) {
		ck_assert(!is_done(&o, NULL));
		snprintf(name, sizeof(name), "node-%u", i);
		ck_assert_int_eq(respond_as(name, q.ltime, q.id, true, SPAN_NONE), TV_OK);
		ck_assert_int_eq(respond_as(name, q.ltime, q.id, true, SPAN_NONE), TV_OK);
	}
	ck_assert_uint_eq(one_stats(&o).answers_taken, 99);
	ck_assert_uint_eq(one_stats(&o).queries_open, 0);
}
END_TEST

/* -- hearing ------------------------------------------------------------------------------ */

/* A query of node-2 at 10.0.0.2, with a second to answer. */
static struct serf_query
query_of_2(uint64_t ltime, const char *name)
{
	static const struct addr at = { .ip = { 10, 0, 0, 2 }, .len = 4, .port = 7946 };

	return (struct serf_query){ .ltime = ltime, .id = ID, .addr = span_of(at.ip, 4), .port = at.port,
		.source_node = span_str("node-2"), .timeout_ns = MONO_S(1).ns, .name = span_str(name) };
}

static enum tv_err
hear(struct serf_query q)
{
	struct buf b = BUF_INIT(1 << 16);

	serf_put_query(&b, &q);
	return one_serf(&o, &b);
}

static enum tv_err
respond(uint64_t ltime, uint32_t id, struct span bytes)
{
	return one_feed(&o, (struct swim_input){ .type = SWIM_IN_RESPOND, .ltime = ltime, .query_id = id,
	    .bytes = bytes });
}

static const uint8_t ack_vector[] =
    "\x05\x85\xa5" "Flags\x01\xa4" "From\xa6node-b\xa2ID\xce\x1a\x2b\x3c\x4d\xa5LTime\x01\xa7Payload\xc0";
static const uint8_t response_vector[] =
    "\x05\x85\xa5" "Flags\x00\xa4" "From\xa6node-b\xa2ID\xce\x1a\x2b\x3c\x4d\xa5LTime\x01\xa7Payload\xa9up 3 days";

START_TEST(heard_and_answered_as_serf_does)
{
	struct serf_query q = query_of_2(1, "uptime");
	struct addr to, want = one_addr(2);
	struct span said;

	o.opt.name = span_str("node-b");
	start_pool(3);
	q.flags = SERF_QUERY_FLAG_ACK;
	q.payload = LIT("why");
	ck_assert_int_eq(hear(q), TV_OK);
	said = one_said_serf(&o, SERF_QUERY_RESPONSE, &to);
	ck_assert(span_eq(said, LIT(ack_vector)) && addr_eq(&to, &want));
	ck_assert_uint_eq(o.out->query_count, 1);
	ck_assert_int_eq(o.out->queries[0].kind, SWIM_QUERY_USER);
	ck_assert(span_eqs(o.out->queries[0].name, "uptime") && span_eqs(o.out->queries[0].payload, "why") &&
	    span_eqs(o.out->queries[0].from, "node-2"));
	ck_assert(o.out->queries[0].deadline.ns == mono_add(o.now, MONO_S(1)).ns);
	ck_assert_int_eq(respond(1, ID, LIT("up 3 days")), TV_OK);
	said = one_said_serf(&o, SERF_QUERY_RESPONSE, &to);
	ck_assert(span_eq(said, LIT(response_vector)) && addr_eq(&to, &want));
	ck_assert_int_eq(respond(1, ID, LIT("again")), TV_ENOENT);
	ck_assert_uint_eq(one_stats(&o).queries_answered, 2);
}
END_TEST

START_TEST(an_answer_has_its_time_and_size)
{
	static uint8_t bytes[1100];

	start_pool(2);
	ck_assert_int_eq(hear(query_of_2(1, "q")), TV_OK);
	ck_assert_uint_eq(one_said_serf(&o, SERF_QUERY_RESPONSE, NULL).len, 0);	/* no ack is wanted */
	ck_assert_int_eq(respond(1, ID + 1, LIT("x")), TV_ENOENT);
	ck_assert_int_eq(respond(2, ID, LIT("x")), TV_ENOENT);
	ck_assert_int_eq(respond(1, ID, span_of(bytes, 1000)), TV_ELIMIT);
	ck_assert_int_eq(respond(1, ID, span_of(bytes, 960)), TV_OK);
	ck_assert_int_eq(hear(query_of_2(2, "q")), TV_OK);
	one_wait(&o, MONO_S(1));
	ck_assert_int_eq(respond(2, ID, LIT("late")), TV_ENOENT);
}
END_TEST

static void
hear_twice_and_count(struct serf_query q, unsigned spread)
{
	struct buf b = BUF_INIT(1 << 16);

	serf_put_query(&b, &q);
	ck_assert_int_eq(one_message(&o, WIRE_USER, buf_span(&b)), TV_OK);
	ck_assert_uint_eq(one_count_spread(&o, buf_span(&b)), spread);
	ck_assert_int_eq(one_message(&o, WIRE_USER, buf_span(&b)), TV_OK);
	ck_assert_uint_eq(o.out->query_count, 0);
	ck_assert_uint_eq(one_count_spread(&o, buf_span(&b)), 0);
	buf_done(&b);
}

START_TEST(passed_on_once_unchanged)
{
	static const uint8_t not_us[] = "\x91\xb0\x00\x91\xa6node-z\xa6node-y";
	struct serf_query q = query_of_2(1, "q");

	start_pool(2);
	hear_twice_and_count(q, 4);
	q.ltime++;
	q.flags = SERF_QUERY_FLAG_NO_BROADCAST;
	hear_twice_and_count(q, 0);
	q.ltime++;
	q.flags = 0;
	q.filters = LIT(not_us);
	hear_twice_and_count(q, 4);		/* though it is not for us */
	ck_assert_uint_eq(one_stats(&o).queries_filtered, 1);
	ck_assert_uint_eq(one_stats(&o).queries_heard, 3);
	ck_assert_uint_eq(one_stats(&o).queries_doubled, 3);
}
END_TEST

START_TEST(ids_tell_queries_of_one_time_apart)
{
	struct serf_query q = query_of_2(600, "q");

	start_pool(2);
	ck_assert_int_eq(hear(q), TV_OK);
	ck_assert_uint_eq(o.out->query_count, 1);
	q.id++;
	ck_assert_int_eq(hear(q), TV_OK);
	ck_assert_uint_eq(o.out->query_count, 1);
	ck_assert_uint_eq(one_stats(&o).query_clock, 601);
	q.ltime = 88;
	ck_assert_int_eq(hear(q), TV_OK);
	ck_assert_uint_eq(o.out->query_count, 0);
	ck_assert_uint_eq(one_stats(&o).queries_old, 1);
}
END_TEST

START_TEST(a_restart_answers_no_old_query)
{
	o.opt.clocks.query_clock = 5;
	start_pool(2);
	ck_assert_int_eq(hear(query_of_2(5, "q")), TV_OK);
	ck_assert_uint_eq(o.out->query_count, 0);
	ck_assert_int_eq(hear(query_of_2(6, "q")), TV_OK);
	ck_assert_uint_eq(o.out->query_count, 1);
}
END_TEST

/* -- what a forged query can do ------------------------------------------------------------ */

START_TEST(only_members_are_answered)
{
	static const uint8_t mapped[16] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2 };
	struct serf_query q = query_of_2(1, "_serf_ping");
	struct addr victim = { .ip = { 192, 0, 2, 1 }, .len = 4, .port = 53 };

	start_pool(3);
	q.flags = SERF_QUERY_FLAG_ACK;
	q.addr = span_of(victim.ip, 4);
	ck_assert_int_eq(hear(q), TV_OK);
	ck_assert_uint_eq(o.out->send_count, 0);
	q = query_of_2(2, "_serf_ping");
	q.flags = SERF_QUERY_FLAG_ACK;
	q.port = 53;
	ck_assert_int_eq(hear(q), TV_OK);
	ck_assert_uint_eq(o.out->send_count, 0);
	q = query_of_2(3, "_serf_ping");
	q.flags = SERF_QUERY_FLAG_ACK;
	q.addr = span_of(mapped, 16);			/* another form of the same address */
	ck_assert_int_eq(hear(q), TV_OK);
	ck_assert_uint_eq(o.out->send_count, 1);
	q = query_of_2(4, "_serf_ping");
	q.flags = SERF_QUERY_FLAG_ACK;
	q.source_node = SPAN_NONE;			/* old senders do not say */
	ck_assert_int_eq(hear(q), TV_OK);
	ck_assert_uint_eq(o.out->send_count, 1);
	ck_assert_uint_eq(one_stats(&o).over_answers, 2);
}
END_TEST

START_TEST(a_flood_of_queries_is_bounded)
{
	struct serf_query q = query_of_2(1, "q");
	struct swim_stats stats;
	uint64_t acks = 0;

	start_pool(2);
	q.flags = SERF_QUERY_FLAG_ACK;
	for (unsigned i = 0; i < 20000; i++) {
		q.id = i;
		q.ltime = 1 + i / 50;
		q.timeout_ns = INT64_MAX;
		ck_assert_int_eq(hear(q), TV_OK);
		acks += one_said_serf(&o, SERF_QUERY_RESPONSE, NULL).len > 0;
	}
	stats = one_stats(&o);
	ck_assert_uint_eq(acks, 1000);
	ck_assert_uint_eq(stats.over_answers, 19000);
	ck_assert_uint_eq(stats.queries_waiting, SWIM_HEARD_MAX);
	ck_assert_uint_le(stats.query_queue, o.opt.queue_max);
	one_wait(&o, MONO_S(10));
	q.ltime = 401;
	ck_assert_int_eq(hear(q), TV_OK);		/* and afterwards as before */
	ck_assert_uint_gt(one_said_serf(&o, SERF_QUERY_RESPONSE, NULL).len, 0);
	ck_assert_int_eq(respond(401, q.id, LIT("x")), TV_OK);
}
END_TEST

START_TEST(an_endless_timeout_ends)
{
	struct serf_query q = query_of_2(1, "q");

	start_pool(2);
	q.timeout_ns = INT64_MAX;
	ck_assert_int_eq(hear(q), TV_OK);
	ck_assert(o.out->queries[0].deadline.ns == mono_add(o.now, MONO_S(3600)).ns);
	q.ltime++;
	q.timeout_ns = -1;
	ck_assert_int_eq(hear(q), TV_OK);
	ck_assert_uint_eq(o.out->query_count, 0);	/* over before it came */
}
END_TEST

/* -- filters ---------------------------------------------------------------------------------- */

#define NODES(list) "\x00" list
#define TAG_ROLE(expr_head, expr) "\x01\x82\xa4" "Expr" expr_head expr "\xa3Tag\xa4role"

static const struct {
	const char *what;
	struct span first, second;	/* second: empty for none */
	bool passes;
} filters[] = {
	{ "our name", { (const uint8_t *)NODES("\x92\xa1x\xa2me"), 7 }, SPAN_NONE, true },
	{ "other names", { (const uint8_t *)NODES("\x92\xa1x\xa2mE"), 7 }, SPAN_NONE, false },
	{ "no names", { (const uint8_t *)NODES("\x90"), 2 }, SPAN_NONE, false },
	{ "nil names", { (const uint8_t *)NODES("\xc0"), 2 }, SPAN_NONE, false },
	{ "tag found anywhere", { (const uint8_t *)TAG_ROLE("\xa2", "eb"), 19 }, SPAN_NONE, true },
	{ "digits", { (const uint8_t *)TAG_ROLE("\xa4", "b\\d$"), 21 }, SPAN_NONE, true },
	{ "lazy", { (const uint8_t *)TAG_ROLE("\xa5", "^w.*?"), 22 }, SPAN_NONE, true },
	{ "anchored elsewhere", { (const uint8_t *)TAG_ROLE("\xa3", "^eb"), 20 }, SPAN_NONE, false },
	{ "bad expression", { (const uint8_t *)TAG_ROLE("\xa2", "(w"), 19 }, SPAN_NONE, false },
	{ "not RE2", { (const uint8_t *)TAG_ROLE("\xa5", "(?=w)"), 22 }, SPAN_NONE, false },
	{ "a tag we lack is empty", { (const uint8_t *)"\x01\x82\xa4" "Expr\xa2^$\xa3Tag\xa1x", 16 }, SPAN_NONE, true },
	{ "unknown type", { (const uint8_t *)"\x02\x90", 2 }, SPAN_NONE, false },
	{ "cut short", { (const uint8_t *)"\x01\x82\xa4", 3 }, SPAN_NONE, false },
	{ "both pass", { (const uint8_t *)NODES("\x91\xa2me"), 5 },
	    { (const uint8_t *)TAG_ROLE("\xa2", "eb"), 19 }, true },
	{ "one does not", { (const uint8_t *)NODES("\x91\xa2me"), 5 },
	    { (const uint8_t *)TAG_ROLE("\xa2", "db"), 19 }, false },
};

static void
start_with_tags(void)
{
	struct buf meta = BUF_INIT(512);
	struct member_tag tags[] = { { span_str("dc"), span_str("x") }, { span_str("role"), span_str("web1") } };

	ck_assert_int_eq(serf_put_meta(&meta, tags, 2), TV_OK);
	o.opt.meta = buf_span(&meta);
	start_pool(2);
	buf_done(&meta);
}

START_TEST(filter)
{
	struct serf_query q = query_of_2(1, "q");
	struct buf list = BUF_INIT(256);

	start_with_tags();
	mpw_array(&list, filters[_i].second.len > 0 ? 2 : 1);
	mpw_raw(&list, filters[_i].first);
	if (filters[_i].second.len > 0)
		mpw_raw(&list, filters[_i].second);
	q.filters = buf_span(&list);
	ck_assert_int_eq(hear(q), TV_OK);
	ck_assert_msg(o.out->query_count == filters[_i].passes, "%s", filters[_i].what);
	ck_assert_uint_eq(one_stats(&o).queries_filtered, !filters[_i].passes);
	buf_done(&list);
}
END_TEST

START_TEST(patterns_have_a_budget)
{
	static const char *const expr = "(.*)*(.*)*(.*)*(.*)*(.*)*(.*)*(.*)*(.*)*[xy]\\z";
	struct buf entry = BUF_INIT(256), list = BUF_INIT(256);
	struct serf_query q = query_of_2(1, "q");

	start_with_tags();
	serf_put_filter(&entry, &(struct serf_filter){ .type = SERF_FILTER_TAG, .tag = LIT("role"),
	    .expr = span_str(expr) });
	mpw_array(&list, 2);
	mpw_raw(&list, buf_span(&entry));
	mpw_raw(&list, buf_span(&entry));
	q.filters = buf_span(&list);
	for (unsigned i = 0; i < 1200; i++) {
		q.id++;
		ck_assert_int_eq(hear(q), TV_OK);
		ck_assert_uint_eq(o.out->query_count, 0);
	}
	ck_assert_uint_ge(one_stats(&o).over_filters, 1000);
	buf_done(&entry);
	buf_done(&list);
}
END_TEST

/* -- relays ---------------------------------------------------------------------------------------- */

START_TEST(answers_go_by_way_of_others_too)
{
	struct serf_query q = query_of_2(1, "_serf_ping");
	struct serf_relay m;
	bool via[8] = { false };

	start_pool(5);
	q.flags = SERF_QUERY_FLAG_ACK;
	q.relay_factor = 2;
	ck_assert_int_eq(hear(q), TV_OK);
	ck_assert_uint_eq(o.out->send_count, 3);
	struct span direct = one_said_serf(&o, SERF_QUERY_RESPONSE, NULL);
	for (size_t i = 1; i < 3; i++) {
		const struct swim_send *send = &o.out->sends[i];
		struct span part = send->parts[0];

		ck_assert(!send->crc && send->part_count == 1);
		ck_assert_uint_eq(part.p[0], WIRE_USER);
		ck_assert_uint_eq(part.p[1], SERF_RELAY);
		ck_assert_int_eq(serf_get_relay(span_of(part.p + 2, part.len - 2), &o.arena, &m), TV_OK);
		ck_assert(span_eq(m.inner, direct) && span_eqs(m.dest_name, "node-2") && m.port == 7946);
		ck_assert_mem_eq(m.ip.p, "\x0a\x00\x00\x02", 4);
		ck_assert(send->to.ip[3] >= 3 && send->to.ip[3] <= 5 && !via[send->to.ip[3]]);
		via[send->to.ip[3]] = true;
	}
	ck_assert_uint_eq(one_stats(&o).relays_sent, 2);
}
END_TEST

START_TEST(greedy_relay_factors_are_cut)
{
	struct serf_query q = query_of_2(1, "_serf_ping");

	start_pool(60);
	q.flags = SERF_QUERY_FLAG_ACK;
	q.relay_factor = 255;
	ck_assert_int_eq(hear(q), TV_OK);
	ck_assert_uint_eq(o.out->send_count, 9);
}
END_TEST

static enum tv_err
relay(unsigned last, const char *name, struct span inner)
{
	struct addr to = one_addr(last);
	struct buf b = BUF_INIT(1 << 16);

	serf_put_relay(&b, &(struct serf_relay){ .ip = span_of(to.ip, 4), .port = to.port, .zone = SPAN_NONE,
	    .dest_name = span_str(name), .inner = inner });
	return one_serf(&o, &b);
}

START_TEST(we_pass_answers_on_unchanged)
{
	struct addr to, want = one_addr(3);

	start_pool(3);
	ck_assert_int_eq(relay(3, "node-3", LIT(response_vector)), TV_OK);
	ck_assert_uint_eq(o.out->send_count, 1);
	ck_assert(span_eq(one_said_serf(&o, SERF_QUERY_RESPONSE, &to), LIT(response_vector)));
	ck_assert(addr_eq(&to, &want));
	ck_assert_uint_eq(one_stats(&o).relays_passed, 1);
}
END_TEST

START_TEST(we_pass_nothing_else_on)
{
	static const uint8_t join[] = "\x01\x82\xa5LTime\x02\xa4Node\xa6node-a";

	start_pool(3);
	ck_assert_int_lt(relay(3, "node-3", LIT(join)), 0);
	ck_assert_int_eq(relay(77, "node-3", LIT(response_vector)), TV_OK);	/* not where that member lives */
	ck_assert_uint_eq(o.out->send_count, 0);
	ck_assert_int_eq(relay(77, "stranger", LIT(response_vector)), TV_OK);
	ck_assert_uint_eq(o.out->send_count, 0);
	ck_assert_int_eq(relay(77, "", LIT(response_vector)), TV_OK);
	ck_assert_uint_eq(o.out->send_count, 0);
	ck_assert_uint_eq(one_stats(&o).over_passed, 3);
	for (unsigned i = 0; i < 1000; i++)
		ck_assert_int_eq(relay(3, "node-3", LIT(response_vector)), TV_OK);
	ck_assert_uint_eq(one_stats(&o).relays_passed, 500);
	one_wait(&o, MONO_S(1));
	ck_assert_int_eq(relay(3, "node-3", LIT(response_vector)), TV_OK);
	ck_assert_uint_eq(one_stats(&o).relays_passed, 501);
}
END_TEST

START_TEST(what_is_relayed_to_us_counts_once)
{
	struct serf_query q;
	struct buf b = BUF_INIT(256);

	start_pool(3);
	ck_assert_int_eq(ask((struct swim_ask){ .token = 77, .name = LIT("q") }), TV_OK);
	q = asked();
	serf_put_query_response(&b, &(struct serf_query_response){ .ltime = q.ltime, .id = q.id, .from = LIT("node-2"),
	    .payload = LIT("hi") });
	ck_assert_int_eq(relay(1, SELF, buf_span(&b)), TV_OK);
	ck_assert(got(SWIM_RESPONSE_DATA, "node-2", "hi"));
	ck_assert_int_eq(relay(1, SELF, buf_span(&b)), TV_OK);
	ck_assert_uint_eq(o.out->response_count, 0);
	buf_done(&b);
}
END_TEST

/* -- what Serf asks of every node ---------------------------------------------------------------- */

START_TEST(internal_ones_get_the_ack_alone)
{
	static const char *const names[] = { "_serf_ping", "_serf_no-such-thing" };

	start_pool(2);
	for (size_t i = 0; i < 2; i++) {
		struct serf_query q = query_of_2(1 + i, names[i]);

		q.flags = SERF_QUERY_FLAG_ACK;
		ck_assert_int_eq(hear(q), TV_OK);
		ck_assert_uint_gt(one_said_serf(&o, SERF_QUERY_RESPONSE, NULL).len, 0);
		ck_assert_uint_eq(o.out->query_count, 0);
		ck_assert_int_eq(respond(1 + i, ID, LIT("x")), TV_ENOENT);
	}
}
END_TEST

/* The payload of our answer to node-2's question whose `name` is; SPAN_NONE when we say nothing. */
static struct span
whose(uint64_t ltime, const char *name)
{
	struct serf_query q = query_of_2(ltime, "_serf_conflict");
	struct serf_query_response m;
	struct span said;

	q.payload = span_str(name);
	ck_assert_int_eq(hear(q), TV_OK);
	said = one_said_serf(&o, SERF_QUERY_RESPONSE, NULL);
	if (said.len == 0)
		return SPAN_NONE;
	ck_assert_int_eq(serf_get_query_response(span_of(said.p + 1, said.len - 1), &o.arena, &m), TV_OK);
	return m.payload;
}

static const uint8_t conflict_vector[] =
    "\x06\x8b\xa4" "Addr\xa4\x7f\x00\x00\x02\xab" "DelegateCur\x05\xab" "DelegateMax\x05\xab" "DelegateMin\x02"
    "\xa4Name\xa6node-b\xa4Port\xcd\x1f\x0a\xabProtocolCur\x02\xabProtocolMax\x05\xabProtocolMin\x01\xa6Status\x01"
    "\xa4Tags\x81\xa4role\xa3web";

START_TEST(whose_a_name_is)
{
	struct addr at = { .ip = { 127, 0, 0, 2 }, .len = 4, .port = 7946 };
	struct buf meta = BUF_INIT(512);

	start_pool(2);
	ck_assert_int_eq(serf_put_meta(&meta, &(struct member_tag){ span_str("role"), span_str("web") }, 1), TV_OK);
	ck_assert_int_eq(one_alive_at(&o, "node-b", 1, &at, buf_span(&meta)), TV_OK);
	ck_assert(span_eq(whose(1, "node-b"), LIT(conflict_vector)));
	ck_assert(span_eq(whose(2, "nobody"), LIT("\x06\xc0")));
	ck_assert_ptr_null(whose(3, SELF).p);
	buf_done(&meta);
}
END_TEST

/* The one who asks may live where nobody knows it: that is what it asks about. */
START_TEST(strangers_may_ask_whose_a_name_is)
{
	struct serf_query q = query_of_2(1, "_serf_conflict");
	struct addr other = one_addr(77);
	unsigned answers = 0;

	start_pool(2);
	q.addr = span_of(other.ip, 4);
	q.payload = LIT("node-2");
	for (unsigned i = 0; i < 100; i++) {
		q.id++;
		ck_assert_int_eq(hear(q), TV_OK);
		answers += one_said_serf(&o, SERF_QUERY_RESPONSE, NULL).len > 0;
	}
	ck_assert_uint_eq(answers, 20);		/* but not to be aimed at a victim */
}
END_TEST

static const struct { const char *name; enum swim_query_kind kind; } key_queries[] = {
	{ "_serf_install-key", SWIM_QUERY_KEY_INSTALL },
	{ "_serf_use-key", SWIM_QUERY_KEY_USE },
	{ "_serf_remove-key", SWIM_QUERY_KEY_REMOVE },
	{ "_serf_list-keys", SWIM_QUERY_KEY_LIST },
};

START_TEST(key_queries_go_to_the_shell)
{
	static const uint8_t request[] = "\x07\x81\xa3Key\xa4" "1234";
	struct serf_query q = query_of_2(1, key_queries[_i].name);
	struct addr to;

	start_pool(2);
	q.payload = LIT(request);
	ck_assert_int_eq(hear(q), TV_OK);
	ck_assert_uint_eq(o.out->query_count, 1);
	ck_assert_int_eq(o.out->queries[0].kind, key_queries[_i].kind);
	ck_assert(span_eqs(o.out->queries[0].payload, key_queries[_i].kind == SWIM_QUERY_KEY_LIST ? "" : "1234"));
	ck_assert_int_eq(respond(1, ID, LIT("ok")), TV_OK);
	ck_assert_uint_gt(one_said_serf(&o, SERF_QUERY_RESPONSE, &to).len, 0);
}
END_TEST

/* The memory of the output is kept for the next one, so it may be looked at. */
START_TEST(keys_do_not_outlive_their_output)
{
	static const uint8_t request[] = "\x07\x81\xa3Key\xa4" "1234";
	struct serf_query q = query_of_2(1, "_serf_install-key");
	struct span lent;

	start_pool(2);
	q.payload = LIT(request);
	ck_assert_int_eq(hear(q), TV_OK);
	lent = o.out->queries[0].payload;
	ck_assert(span_eqs(lent, "1234"));
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_TICK }), TV_OK);
	ck_assert(!span_eqs(lent, "1234"));
}
END_TEST

START_TEST(unreadable_key_requests_are_refused_at_once)
{
	struct serf_query q = query_of_2(1, "_serf_use-key");
	struct serf_query_response m;
	struct serf_key_response k;
	struct span said;

	start_pool(2);
	q.payload = LIT("\x07\xa1x");
	ck_assert_int_eq(hear(q), TV_OK);
	ck_assert_uint_eq(o.out->query_count, 0);
	said = one_said_serf(&o, SERF_QUERY_RESPONSE, NULL);
	ck_assert_uint_gt(said.len, 0);
	ck_assert_int_eq(serf_get_query_response(span_of(said.p + 1, said.len - 1), &o.arena, &m), TV_OK);
	ck_assert_uint_eq(m.payload.p[0], SERF_KEY_RESPONSE);
	ck_assert_int_eq(serf_get_key_response(span_of(m.payload.p + 1, m.payload.len - 1), &o.arena, &k), TV_OK);
	ck_assert(!k.result && k.message.len > 0);
	q.ltime++;
	q.payload = SPAN_NONE;			/* what crashes old peers goes no further */
	ck_assert_int_lt(hear(q), 0);
	ck_assert_uint_eq(one_stats(&o).query_queue, 1);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("query");
	TCase *a = tcase_create("asking"), *h = tcase_create("hearing"), *f = tcase_create("filters"),
	    *rel = tcase_create("relays"), *i = tcase_create("internal");
	TCase *all[] = { a, h, f, rel, i };
	SRunner *r = srunner_create(s);
	int failed;

	for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
		tcase_add_checked_fixture(all[k], setup, teardown);
		suite_add_tcase(s, all[k]);
	}
	tcase_add_test(a, asked_as_serf_does);
	tcase_add_test(a, asked_with_everything);
	tcase_add_test(a, what_may_not_be_asked);
	tcase_add_loop_test(a, default_timeout, 0, sizeof(timeouts) / sizeof(timeouts[0]));
	tcase_add_test(a, members_are_heard_once_each);
	tcase_add_test(a, done_as_soon_as_all_have_answered);
	tcase_add_test(a, the_dead_do_not_stand_for_the_living);
	tcase_add_test(a, many_members_answer);
	tcase_add_test(h, heard_and_answered_as_serf_does);
	tcase_add_test(h, an_answer_has_its_time_and_size);
	tcase_add_test(h, passed_on_once_unchanged);
	tcase_add_test(h, ids_tell_queries_of_one_time_apart);
	tcase_add_test(h, a_restart_answers_no_old_query);
	tcase_add_test(h, only_members_are_answered);
	tcase_add_test(h, a_flood_of_queries_is_bounded);
	tcase_add_test(h, an_endless_timeout_ends);
	tcase_add_loop_test(f, filter, 0, sizeof(filters) / sizeof(filters[0]));
	tcase_add_test(f, patterns_have_a_budget);
	tcase_set_timeout(f, 60);	/* a thousand searches that go to their limit, with sanitizers on a busy machine */
	tcase_add_test(rel, answers_go_by_way_of_others_too);
	tcase_add_test(rel, greedy_relay_factors_are_cut);
	tcase_add_test(rel, we_pass_answers_on_unchanged);
	tcase_add_test(rel, we_pass_nothing_else_on);
	tcase_add_test(rel, what_is_relayed_to_us_counts_once);
	tcase_add_test(i, internal_ones_get_the_ack_alone);
	tcase_add_test(i, whose_a_name_is);
	tcase_add_test(i, strangers_may_ask_whose_a_name_is);
	tcase_add_loop_test(i, key_queries_go_to_the_shell, 0, sizeof(key_queries) / sizeof(key_queries[0]));
	tcase_add_test(i, keys_do_not_outlive_their_output);
	tcase_add_test(i, unreadable_key_requests_are_refused_at_once);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
