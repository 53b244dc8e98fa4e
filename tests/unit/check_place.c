/* Coordinates through the core's contract: what acks carry, which answers count, and who is forgotten. */
#include "config.h"

#include <check.h>
#include <string.h>

#include "gossipd/core/coord/coord.h"
#include "tests/unit/gossip_one.h"

static struct one o;

static void
setup(void)
{
	one_init(&o);
	one_start(&o);
	(void)one_alive(&o, "a", 1);
}

static void
teardown(void)
{
	one_done(&o);
}

static const struct coordinate far = { .vec = { 0.02 }, .error = 0.5, .height = 1e-5 };

static bool
says_ping(const struct one *one, void *arg)
{
	(void)arg;
	return one_said(one, WIRE_PING, NULL).p != NULL;
}

/* Waits for the next direct ping. */
static uint32_t
pinged(void)
{
	struct wire_ping m;

	ck_assert(one_wait_for(&o, MONO_S(2), says_ping, NULL));
	ck_assert_int_eq(wire_get_ping(one_said(&o, WIRE_PING, NULL), &o.arena, &m), TV_OK);
	return m.seq;
}

static void
ack_with(uint32_t seq, struct span payload)
{
	struct buf b = BUF_INIT(4096);

	wire_put_ack(&b, &(struct wire_ack){ .seq = seq, .payload = payload });
	ck_assert_int_eq(one_message(&o, WIRE_ACK, span_of(b.data + 1, b.len - 1)), TV_OK);
	buf_done(&b);
}

/* Answers the next ping after `rtt`. */
static void
answer(const struct coordinate *at, struct mono rtt)
{
	struct buf payload = BUF_INIT(4096);
	uint32_t seq = pinged();

	serf_put_coord(&payload, at);
	one_wait(&o, rtt);
	ack_with(seq, buf_span(&payload));
	buf_done(&payload);
}

static struct coordinate
own(void)
{
	struct coordinate c;

	swim_coord(o.s, &c);
	return c;
}

static bool
moved(void)
{
	static const struct coordinate start = { .error = 1.5, .height = 1e-5 };
	struct coordinate c = own();

	return memcmp(&c, &start, sizeof(c)) != 0;
}

START_TEST(acks_to_pings_carry_our_place)
{
	struct coordinate told, is;
	struct wire_ack ack;

	answer(&far, MONO_MS(30));
	is = own();
	ck_assert_int_eq(one_ping(&o, 5, SELF), TV_OK);
	ck_assert_int_eq(wire_get_ack(one_said(&o, WIRE_ACK, NULL), &o.arena, &ack), TV_OK);
	ck_assert_int_eq(serf_get_coord(ack.payload, &told), TV_OK);
	ck_assert_mem_eq(&told, &is, sizeof(is));
}
END_TEST

START_TEST(acks_over_streams_and_for_others_do_not)
{
	struct buf b = BUF_INIT(4096);
	struct stream_message m = { .type = WIRE_PING };
	struct addr target = one_addr(50);
	struct wire_ping ping;
	struct wire_ack ack;

	wire_put_ping(&b, &(struct wire_ping){ .seq = 5, .node = span_str(SELF) });
	m.body = span_of(b.data + 1, b.len - 1);
	(void)one_feed(&o, (struct swim_input){ .type = SWIM_IN_REQUEST, .message = &m });
	ck_assert_uint_eq(o.out->answer.p[0], WIRE_ACK);
	ck_assert_int_eq(wire_get_ack(span_of(o.out->answer.p + 1, o.out->answer.len - 1), &o.arena, &ack), TV_OK);
	ck_assert_uint_eq(ack.payload.len, 0);

	buf_reset(&b);
	wire_put_indirect(&b, &(struct wire_indirect){ .seq = 9, .target = span_of(target.ip, 4), .port = 7946,
	    .node = span_str("t") });
	ck_assert_int_eq(one_message(&o, WIRE_INDIRECT_PING, span_of(b.data + 1, b.len - 1)), TV_OK);
	ck_assert_int_eq(wire_get_ping(one_said(&o, WIRE_PING, NULL), &o.arena, &ping), TV_OK);
	buf_reset(&b);
	serf_put_coord(&b, &far);
	ack_with(ping.seq, buf_span(&b));
	ck_assert_int_eq(wire_get_ack(one_said(&o, WIRE_ACK, NULL), &o.arena, &ack), TV_OK);
	ck_assert_uint_eq(ack.seq, 9);
	ck_assert_uint_eq(ack.payload.len, 0);
	ck_assert(!moved());
	buf_done(&b);
}
END_TEST

START_TEST(answers_move_us_and_are_remembered)
{
	struct coordinate a, me;

	ck_assert(!swim_coord_of(o.s, span_str("a"), &a));
	ck_assert(!swim_coord_of(o.s, span_str("nobody"), &a));
	for (int i = 0; i < 40; i++)
		answer(&far, MONO_MS(50));
	ck_assert(swim_coord_of(o.s, span_str("a"), &a));
	ck_assert_double_eq_tol(a.vec[0], far.vec[0], 1e-7);
	ck_assert(swim_coord_of(o.s, span_str(SELF), &me));
	ck_assert_int_gt(coordinate_rtt(&me, &a).ns, 40000000);
	ck_assert_int_lt(coordinate_rtt(&me, &a).ns, 60000000);
}
END_TEST

/* Later than the probe's timeout others were asked: whose answer it is cannot be told any more. */
START_TEST(late_answers_do_not_count)
{
	struct coordinate a;

	answer(&far, MONO_MS(501));
	ck_assert(!moved());
	ck_assert(!swim_coord_of(o.s, span_str("a"), &a));
	ck_assert_int_eq(one_state(&o, "a"), NODE_ALIVE);
}
END_TEST

/* What a peer that tells no coordinate, or a broken one, sends: it stays a member. */
START_TEST(payloads_that_tell_nothing)
{
	struct coordinate huge = { .vec = { 1e200 }, .error = 1 }, a;
	struct buf b = BUF_INIT(4096);

	ack_with(pinged(), SPAN_NONE);
	ack_with(pinged(), span_str("\x02other"));
	ck_assert_uint_eq(one_stats(&o).bad_coord, 0);
	ack_with(pinged(), span_str("\x01junk"));
	serf_put_coord(&b, &huge);
	ack_with(pinged(), buf_span(&b));
	ck_assert_uint_eq(one_stats(&o).bad_coord, 2);
	ck_assert(!moved());
	ck_assert(!swim_coord_of(o.s, span_str("a"), &a));
	ck_assert_int_eq(one_state(&o, "a"), NODE_ALIVE);
	buf_done(&b);
}
END_TEST

START_TEST(who_is_forgotten_has_no_place)
{
	struct coordinate a;

	answer(&far, MONO_MS(5));
	(void)one_dead(&o, "a", 1, "x");
	ck_assert(swim_coord_of(o.s, span_str("a"), &a));	/* it may be back in a moment */
	(void)one_feed(&o, (struct swim_input){ .type = SWIM_IN_FORCE_LEAVE, .name = span_str("a"), .prune = true });
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_NONE);
	ck_assert(!swim_coord_of(o.s, span_str("a"), &a));
}
END_TEST

START_TEST(another_address_is_another_place)
{
	struct addr elsewhere = one_addr(77);
	struct coordinate a;

	answer(&far, MONO_MS(5));
	ck_assert(swim_coord_of(o.s, span_str("a"), &a));
	(void)one_dead(&o, "a", 1, "a");
	(void)one_alive_at(&o, "a", 2, &elsewhere, SPAN_NONE);
	ck_assert_int_eq(one_state(&o, "a"), NODE_ALIVE);
	ck_assert(!swim_coord_of(o.s, span_str("a"), &a));
}
END_TEST

START_TEST(without_coordinates)
{
	struct coordinate a;
	struct wire_ack ack;

	swim_free(o.s);
	o.opt.coordinates = false;
	one_start(&o);
	(void)one_alive(&o, "a", 1);
	answer(&far, MONO_MS(5));
	ck_assert(!moved());
	ck_assert(!swim_coord_of(o.s, span_str("a"), &a));
	ck_assert_int_eq(one_ping(&o, 5, SELF), TV_OK);
	ck_assert_int_eq(wire_get_ack(one_said(&o, WIRE_ACK, NULL), &o.arena, &ack), TV_OK);
	ck_assert_uint_eq(ack.payload.len, 0);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("place");
	TCase *t = tcase_create("place");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, acks_to_pings_carry_our_place);
	tcase_add_test(t, acks_over_streams_and_for_others_do_not);
	tcase_add_test(t, answers_move_us_and_are_remembered);
	tcase_add_test(t, late_answers_do_not_count);
	tcase_add_test(t, payloads_that_tell_nothing);
	tcase_add_test(t, who_is_forgotten_has_no_place);
	tcase_add_test(t, another_address_is_another_place);
	tcase_add_test(t, without_coordinates);
	suite_add_tcase(suite, t);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
