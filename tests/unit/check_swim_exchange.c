/* Exchanges of whole states between members of the gossip core: merging, joining, what newcomers learn. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/swim_kit.h"

/* -- exchanges --------------------------------------------------------------------------------------- */

static struct wire_node
node(const char *name, uint32_t state, uint32_t incarnation)
{
	static struct addr addrs[256];
	uint8_t last = (uint8_t)name[strlen(name) - 1];

	addrs[last] = one_addr(last);
	return (struct wire_node){ .name = span_str(name), .addr = span_of(addrs[last].ip, 4), .port = 7946,
		.incarnation = incarnation, .state = state, .vsn = span_of(one_vsn, 6) };
}

START_TEST(exchange_merges)
{
	struct wire_node nodes[] = {
		node("a", WIRE_STATE_ALIVE, 3), node("b", WIRE_STATE_ALIVE, 1), node("c", WIRE_STATE_ALIVE, 1),
		node("d", 9, 1),			/* a state that nobody knows */
	};

	ck_assert_int_eq(one_exchange(&o, true, nodes, 4), TV_OK);
	ck_assert_uint_gt(o.out->answer.len, 0);
	ck_assert_uint_eq(o.out->answer.p[0], WIRE_PUSH_PULL);
	ck_assert_uint_eq(one_stats(&o).alive, 4);
	nodes[0] = node("a", WIRE_STATE_SUSPECT, 3);
	nodes[1] = node("b", WIRE_STATE_DEAD, 1);
	nodes[2] = node("c", WIRE_STATE_LEFT, 1);
	ck_assert_int_eq(one_exchange(&o, false, nodes, 3), TV_OK);
	ck_assert_int_eq(one_state(&o, "a"), NODE_SUSPECT);
	ck_assert_int_eq(one_state(&o, "b"), NODE_SUSPECT);	/* a death is never taken over */
	ck_assert_int_eq(one_state(&o, "c"), NODE_LEFT);
}
END_TEST

START_TEST(exchange_about_ourselves_is_refuted)
{
	struct wire_node me = node(SELF, WIRE_STATE_DEAD, 7);

	ck_assert_int_eq(one_exchange(&o, true, &me, 1), TV_OK);
	ck_assert_uint_eq(one_incarnation(&o, SELF), 8);
	me = node(SELF, WIRE_STATE_LEFT, 20);
	ck_assert_int_eq(one_exchange(&o, true, &me, 1), TV_OK);
	ck_assert_uint_eq(one_incarnation(&o, SELF), 21);
}
END_TEST

/* The state that we tell while a member is leaving must not keep others from hearing its leave. */
START_TEST(a_leave_under_way_is_not_told_as_a_join)
{
	struct one p;
	struct envelope plain = { .version = 1 };
	struct stream_limits limits = STREAM_LIMITS_DEFAULT;
	struct stream_reader r;
	struct swim_input in = { .type = SWIM_IN_REQUEST, .from = one_addr(1) };

	one_init(&p);
	p.opt.name = span_str("peer");
	p.opt.self = one_addr(2);
	one_start(&p);
	(void)one_alive(&o, "a", 1);
	(void)one_alive(&p, "a", 1);
	(void)one_leave_intent(&o, "a", 10, false);
	ck_assert_int_eq(one_exchange(&o, false, NULL, 0), TV_OK);
	stream_reader_init(&r, &plain, &limits, STREAM_ACCEPTED);
	ck_assert_int_eq(stream_feed(&r, o.out->answer), TV_OK);
	in.message = stream_message(&r);
	ck_assert_int_eq(one_feed(&p, in), TV_OK);
	(void)one_leave_intent(&p, "a", 10, false);
	ck_assert_int_eq(one_status(&p, "a"), MEMBER_LEAVING);
	stream_reader_done(&r);
	one_done(&p);
}
END_TEST

/* Version vectors that refuse the whole exchange, and those that do not. */
static const struct {
	uint8_t vsn[6], len;
	bool ok;
} versions[] = {
	{ { 1, 5, 2, 2, 5, 5 }, 6, true },
	{ { 1, 5, 2, 2, 5, 4 }, 6, true },
	{ { 0 }, 0, false },
	{ { 1, 5, 0, 2, 5, 5 }, 6, false },
	{ { 1, 5, 2, 2, 5, 6 }, 6, false },
	{ { 1, 5, 2, 0, 0, 0 }, 6, false },
	{ { 3, 5, 3, 2, 5, 5 }, 6, false },
	{ { 1, 5, 2, 2, 4, 4 }, 6, false },
};

START_TEST(exchange_versions)
{
	struct wire_node nodes[2] = { node("a", WIRE_STATE_ALIVE, 1), node("b", WIRE_STATE_ALIVE, 1) };
	enum tv_err err;

	nodes[1].vsn = span_of(versions[_i].vsn, versions[_i].len);
	err = one_exchange(&o, true, nodes, 2);
	ck_assert_int_eq(err, versions[_i].ok ? TV_OK : TV_EPERM);
	ck_assert_int_eq(one_status(&o, "a"), versions[_i].ok ? MEMBER_ALIVE : MEMBER_NONE);
	ck_assert_uint_gt(o.out->answer.len, 0);	/* the listener has answered by then */
	ck_assert_int_eq(one_noticed(&o, SWIM_NOTICE_REFUSED), !versions[_i].ok);
}
END_TEST

START_TEST(exchange_with_another_datacenter)
{
	struct member_tag theirs = { span_str("dc"), span_str("dc2") };
	struct buf b = BUF_INIT(4096);
	struct wire_node nodes[2] = { node("a", WIRE_STATE_ALIVE, 1), node("b", WIRE_STATE_ALIVE, 1) };

	o.opt.dc = span_str("dc1");
	restart();
	ck_assert_int_eq(serf_put_meta(&b, &theirs, 1), TV_OK);
	nodes[1].meta = buf_span(&b);
	ck_assert_int_eq(one_exchange(&o, true, nodes, 2), TV_EPERM);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_NONE);
	ck_assert_uint_eq(o.out->notice_count, 1);
	ck_assert(span_eqs(o.out->notices[0].name, "b") && span_eqs(o.out->notices[0].other, "dc2"));
	ck_assert(span_eqs(o.out->notices[0].dc, "dc1") && o.out->notices[0].number == 0);
	buf_done(&b);
}
END_TEST

/* The asker is told that somebody there goes by its name, though the exchange went well. */
START_TEST(join_meets_our_name)
{
	struct wire_node nodes[2] = { node("a", WIRE_STATE_ALIVE, 1), node(SELF, WIRE_STATE_ALIVE, 1) };
	struct stream_message m = { .type = WIRE_PUSH_PULL, .header = { .join = true, .nodes = 2 } };
	struct buf b = BUF_INIT(4096);
	struct addr to = one_addr(2), rival = one_addr((uint8_t)SELF[strlen(SELF) - 1]);

	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_JOIN, .token = 5, .addrs = &to,
		.addr_count = 1 }), TV_OK);
	for (int i = 0; i < 2; i++)
		wire_put_node(&b, &nodes[i]);
	m.nodes = buf_span(&b);
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_ANSWER, .stream = o.out->streams[0].id,
		.message = &m }), TV_OK);
	ck_assert_uint_eq(o.out->join_count, 1);
	ck_assert_uint_eq(o.out->joins[0].contacted, 1);
	ck_assert(addr_eq(&o.out->joins[0].rival, &rival));
	buf_done(&b);
}
END_TEST

/* One state to another core: two real ends of one exchange. */
START_TEST(join_end_to_end)
{
	struct one p;
	struct envelope plain = { .version = 1 };
	struct stream_limits limits = STREAM_LIMITS_DEFAULT;
	struct stream_reader r;
	struct swim_input in = { .type = SWIM_IN_REQUEST, .from = one_addr(1) };
	struct addr addrs[2] = { one_addr(2), one_addr(1) };
	uint64_t id;

	one_init(&p);
	p.opt.name = span_str("peer");
	p.opt.self = one_addr(2);
	one_start(&p);
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_JOIN, .token = 5, .addrs = addrs,
		.addr_count = 2 }), TV_OK);
	ck_assert_uint_eq(o.out->stream_count, 1);	/* ourselves need not be asked */
	ck_assert_uint_eq(o.out->join_count, 0);
	id = o.out->streams[0].id;
	stream_reader_init(&r, &plain, &limits, STREAM_ACCEPTED);
	ck_assert_int_eq(stream_feed(&r, o.out->streams[0].message), TV_OK);
	in.message = stream_message(&r);
	ck_assert(in.message->header.join);
	ck_assert_int_eq(one_feed(&p, in), TV_OK);
	ck_assert_int_eq(one_status(&p, SELF), MEMBER_ALIVE);
	stream_reader_done(&r);
	stream_reader_init(&r, &plain, &limits, STREAM_DIALLED);
	ck_assert_int_eq(stream_feed(&r, p.out->answer), TV_OK);
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_ANSWER, .stream = id,
		.message = stream_message(&r) }), TV_OK);
	ck_assert_int_eq(one_status(&o, "peer"), MEMBER_ALIVE);
	ck_assert_uint_eq(o.out->join_count, 1);
	ck_assert_uint_eq(o.out->joins[0].token, 5);
	ck_assert_uint_eq(o.out->joins[0].contacted, 2);
	ck_assert(one_spreads_intent(&o, SERF_JOIN, SELF));
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_FAILED, .stream = id }), TV_ENOENT);
	stream_reader_done(&r);
	one_done(&p);
}
END_TEST

/* Answers the n-th stream of the last output with a state of two members. */
static void
answer_join(uint64_t stream, char first, char second)
{
	struct buf b = BUF_INIT(4096);
	struct stream_message m = { .type = WIRE_PUSH_PULL, .header = { .nodes = 2 } };

	for (int i = 0; i < 2; i++) {
		char name[2] = { i == 0 ? first : second, 0 };
		struct addr a = one_addr((unsigned)name[0]);
		struct wire_node n = { .name = span_str(name), .addr = span_of(a.ip, a.len), .port = a.port,
			.incarnation = 1, .state = WIRE_STATE_ALIVE, .vsn = span_of(one_vsn, sizeof(one_vsn)) };

		wire_put_node(&b, &n);
	}
	m.nodes = buf_span(&b);
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_ANSWER, .stream = stream, .message = &m }),
	    TV_OK);
	buf_done(&b);
}

/* After a restart nothing is said of each member that answers, but that we are here is said once. */
START_TEST(a_quiet_join_is_announced_once)
{
	struct addr first = one_addr('b'), second = one_addr('d');

	(void)one_feed(&o, (struct swim_input){ .type = SWIM_IN_JOIN, .addrs = &first, .addr_count = 1, .quiet = true });
	answer_join(o.out->streams[0].id, 'b', 'c');
	ck_assert(one_spreads_intent(&o, SERF_JOIN, SELF));
	one_wait(&o, MONO_S(5));			/* all its copies are out */
	(void)one_feed(&o, (struct swim_input){ .type = SWIM_IN_JOIN, .addrs = &second, .addr_count = 1, .quiet = true });
	answer_join(o.out->streams[0].id, 'd', 'e');
	ck_assert(!one_spreads_intent(&o, SERF_JOIN, SELF));
}
END_TEST

/* All to whom it could tell what it learned know more than it does. */
START_TEST(a_newcomer_learns_in_silence)
{
	struct addr addr = one_addr('a');

	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_JOIN, .addrs = &addr, .addr_count = 1 }),
	    TV_OK);
	answer_join(o.out->streams[0].id, 'a', 'b');
	ck_assert_uint_eq(one_stats(&o).alive, 3);
	ck_assert_uint_eq(one_stats(&o).member_queue, 1);
	ck_assert(one_spreads(&o, WIRE_ALIVE, SELF));
	ck_assert_uint_le(one_stats(&o).member_queue, 1);
	(void)one_alive(&o, "c", 1);		/* what comes later is news */
	ck_assert(one_spreads(&o, WIRE_ALIVE, "c"));
}
END_TEST

/* Those asked may belong to pools that do not know each other. */
START_TEST(one_that_joins_two_tells_each_of_the_other)
{
	struct addr addrs[2] = { one_addr('a'), one_addr('c') };
	uint64_t ids[2];

	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_JOIN, .addrs = addrs, .addr_count = 2 }),
	    TV_OK);
	ck_assert_uint_eq(o.out->stream_count, 2);
	ids[0] = o.out->streams[0].id;
	ids[1] = o.out->streams[1].id;
	answer_join(ids[0], 'a', 'b');
	answer_join(ids[1], 'c', 'd');
	ck_assert_uint_eq(one_stats(&o).alive, 5);
	ck_assert_uint_eq(one_stats(&o).member_queue, 5);
}
END_TEST

START_TEST(join_fails)
{
	struct addr addr = one_addr(9);

	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_JOIN, .addrs = &addr, .addr_count = 0 }),
	    TV_EINVAL);
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_JOIN, .token = 1, .addrs = &addr,
		.addr_count = 1 }), TV_OK);
	(void)one_feed(&o, (struct swim_input){ .type = SWIM_IN_FAILED, .stream = o.out->streams[0].id,
		.error = TV_EUNREACH });
	ck_assert_uint_eq(o.out->join_count, 1);
	ck_assert_uint_eq(o.out->joins[0].contacted, 0);
	ck_assert_int_eq(o.out->joins[0].error, TV_EUNREACH);
	ck_assert(addr_eq(&o.out->joins[0].error_addr, &addr));
	/* A shell that forgets to answer does not keep the join for ever. */
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_JOIN, .token = 2, .addrs = &addr,
		.addr_count = 1 }), TV_OK);
	bool ended = false;
	for (int i = 0; i < 600 && !ended; i++) {
		one_wait(&o, MONO_MS(100));
		ended = o.out->join_count == 1;
	}
	ck_assert(ended);
}
END_TEST

static TCase *
exchange_case(void)
{
	TCase *t = tcase_create("exchange");

	tcase_add_test(t, exchange_merges);
	tcase_add_test(t, exchange_about_ourselves_is_refuted);
	tcase_add_loop_test(t, exchange_versions, 0, sizeof(versions) / sizeof(versions[0]));
	tcase_add_test(t, exchange_with_another_datacenter);
	tcase_add_test(t, a_leave_under_way_is_not_told_as_a_join);
	tcase_add_test(t, join_meets_our_name);
	tcase_add_test(t, join_end_to_end);
	tcase_add_test(t, a_quiet_join_is_announced_once);
	tcase_add_test(t, a_newcomer_learns_in_silence);
	tcase_add_test(t, one_that_joins_two_tells_each_of_the_other);
	tcase_add_test(t, join_fails);
	return t;
}

int
main(void)
{
	TCase *const cases[] = { exchange_case() };

	return swim_kit_main("swim_exchange", cases, sizeof(cases) / sizeof(cases[0]));
}
