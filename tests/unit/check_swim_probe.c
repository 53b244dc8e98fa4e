/* Failure detection and Lifeguard, through the contract of the gossip core. */
#include "config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/gossip_one.h"

static struct one o;

static void
setup(void)
{
	one_init(&o);
	one_start(&o);
}

static void
teardown(void)
{
	one_done(&o);
}

/* Another start with changed options. */
static void
restart(void)
{
	swim_free(o.s);
	one_start(&o);
}

/* -- probes -------------------------------------------------------------------------------------------- */

START_TEST(pings_are_answered)
{
	struct addr to, from = one_addr(200);
	struct wire_ack ack;

	ck_assert_int_eq(one_ping(&o, 77, SELF), TV_OK);
	ck_assert_int_eq(wire_get_ack(one_said(&o, WIRE_ACK, &to), &o.arena, &ack), TV_OK);
	ck_assert_uint_eq(ack.seq, 77);
	ck_assert(addr_eq(&to, &from));
	ck_assert_int_eq(one_ping(&o, 78, ""), TV_OK);
	ck_assert_ptr_nonnull(one_said(&o, WIRE_ACK, NULL).p);
	ck_assert_int_eq(one_ping(&o, 79, "other"), TV_OK);
	ck_assert_ptr_null(one_said(&o, WIRE_ACK, NULL).p);
}
END_TEST

START_TEST(pings_say_where_the_answer_goes)
{
	struct addr to, want = one_addr(33);
	struct buf b = BUF_INIT(4096);

	wire_put_ping(&b, &(struct wire_ping){ .seq = 1, .node = span_str(SELF), .source_addr = span_of(want.ip, 4),
	    .source_port = want.port, .source_node = span_str("c") });
	ck_assert_int_eq(one_message(&o, WIRE_PING, span_of(b.data + 1, b.len - 1)), TV_OK);
	ck_assert_ptr_nonnull(one_said(&o, WIRE_ACK, &to).p);
	ck_assert(addr_eq(&to, &want));
	buf_done(&b);
}
END_TEST

START_TEST(stream_pings)
{
	struct buf b = BUF_INIT(4096);
	struct stream_message m = { .type = WIRE_PING };

	wire_put_ping(&b, &(struct wire_ping){ .seq = 4, .node = span_str(SELF) });
	m.body = span_of(b.data + 1, b.len - 1);
	(void)one_feed(&o, (struct swim_input){ .type = SWIM_IN_REQUEST, .message = &m });
	ck_assert_uint_gt(o.out->answer.len, 0);
	ck_assert_uint_eq(o.out->answer.p[0], WIRE_ACK);
	buf_reset(&b);
	wire_put_ping(&b, &(struct wire_ping){ .seq = 4, .node = span_str("other") });
	m.body = span_of(b.data + 1, b.len - 1);
	(void)one_feed(&o, (struct swim_input){ .type = SWIM_IN_REQUEST, .message = &m });
	ck_assert_uint_eq(o.out->answer.len, 0);
	buf_done(&b);
}
END_TEST

static bool
says_ping(const struct one *one, void *arg)
{
	(void)arg;
	return one_said(one, WIRE_PING, NULL).p != NULL;
}

static bool
says_nack(const struct one *one, void *arg)
{
	(void)arg;
	return one_said(one, WIRE_NACK, NULL).p != NULL;
}

static uint32_t
probe_seq(void)
{
	struct wire_ping m;

	ck_assert(one_wait_for(&o, MONO_S(2), says_ping, NULL));
	ck_assert_int_eq(wire_get_ping(one_said(&o, WIRE_PING, NULL), &o.arena, &m), TV_OK);
	return m.seq;
}

static void
ask_relay(uint32_t seq, bool nack)
{
	struct addr target = one_addr(50);
	struct buf b = BUF_INIT(4096);

	wire_put_indirect(&b, &(struct wire_indirect){ .seq = seq, .target = span_of(target.ip, 4), .port = 7946,
	    .node = span_str("t"), .nack = nack });
	ck_assert_int_eq(one_message(&o, WIRE_INDIRECT_PING, span_of(b.data + 1, b.len - 1)), TV_OK);
	buf_done(&b);
}

START_TEST(probes_for_others)
{
	struct addr to, target = one_addr(50), asker = one_addr(200);
	struct wire_ping ping;
	struct wire_ack ack;
	struct wire_nack nack;
	struct mono began = o.now;

	ask_relay(900, true);
	ck_assert_int_eq(wire_get_ping(one_said(&o, WIRE_PING, &to), &o.arena, &ping), TV_OK);
	ck_assert(addr_eq(&to, &target));
	ck_assert_uint_ne(ping.seq, 900);
	ck_assert(span_eqs(ping.node, "t"));
	ck_assert(one_wait_for(&o, MONO_S(1), says_nack, NULL));
	ck_assert_int_eq(mono_ms(mono_sub(o.now, began)), 400);	/* before the asker gives up */
	ck_assert_int_eq(wire_get_nack(one_said(&o, WIRE_NACK, &to), &o.arena, &nack), TV_OK);
	ck_assert_uint_eq(nack.seq, 900);
	ck_assert(addr_eq(&to, &asker));
	(void)one_ack(&o, ping.seq);				/* late, still of use */
	ck_assert_int_eq(wire_get_ack(one_said(&o, WIRE_ACK, &to), &o.arena, &ack), TV_OK);
	ck_assert_uint_eq(ack.seq, 900);
	ck_assert(addr_eq(&to, &asker));
	(void)one_ack(&o, ping.seq);				/* only once */
	ck_assert_ptr_null(one_said(&o, WIRE_ACK, NULL).p);
}
END_TEST

START_TEST(probes_for_others_are_limited)
{
	for (uint32_t i = 0; i < 10; i++)
		ask_relay(i, false);
	ck_assert_uint_eq(one_stats(&o).over_relays, 6);
	one_wait(&o, MONO_S(2));
	ask_relay(99, false);
	ck_assert_uint_eq(one_stats(&o).over_relays, 6);
}
END_TEST

START_TEST(an_answered_probe_ends_well)
{
	(void)one_alive(&o, "a", 1);
	(void)one_suspect(&o, SELF, 1, "a");			/* health 1 */
	ck_assert_uint_eq(one_stats(&o).health, 1);
	(void)one_ack(&o, probe_seq());
	ck_assert_uint_eq(one_stats(&o).health, 0);
	one_wait(&o, MONO_MS(900));
	ck_assert_int_eq(one_state(&o, "a"), NODE_ALIVE);
}
END_TEST

START_TEST(an_unanswered_probe_suspects)
{
	struct mono began;

	(void)one_alive(&o, "a", 1);
	(void)probe_seq();
	began = o.now;
	one_wait(&o, MONO_MS(500));
	ck_assert_uint_eq(o.out->stream_count, 1);		/* nobody to ask, but a stream */
	ck_assert_int_eq(o.out->streams[0].kind, SWIM_STREAM_PING);
	ck_assert_int_eq(one_state(&o, "a"), NODE_ALIVE);
	one_wait(&o, mono_sub(mono_add(began, MONO_S(1)), o.now));
	ck_assert_int_eq(one_state(&o, "a"), NODE_SUSPECT);
	ck_assert(one_spreads(&o, WIRE_SUSPECT, "a"));
	ck_assert_uint_eq(one_stats(&o).health, 1);
	one_wait(&o, MONO_S(4));				/* two members: no confirmation possible */
	ck_assert_int_eq(one_state(&o, "a"), NODE_DEAD);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_FAILED);
}
END_TEST

START_TEST(a_stream_answer_saves)
{
	struct buf b = BUF_INIT(4096);
	struct stream_message m = { .type = WIRE_ACK };
	uint32_t seq;

	(void)one_alive(&o, "a", 1);
	seq = probe_seq();
	one_wait(&o, MONO_MS(500));
	wire_put_ack(&b, &(struct wire_ack){ .seq = seq });
	m.body = span_of(b.data + 1, b.len - 1);
	(void)one_feed(&o, (struct swim_input){ .type = SWIM_IN_ANSWER, .stream = o.out->streams[0].id,
		.message = &m });
	one_wait(&o, MONO_MS(500));
	ck_assert_int_eq(one_state(&o, "a"), NODE_ALIVE);
	ck_assert(one_noticed(&o, SWIM_NOTICE_STREAM_ONLY));
	buf_done(&b);
}
END_TEST

START_TEST(missing_nacks_are_our_fault)
{
	struct { unsigned nacks, health; } rows[] = { { 3, 0 }, { 1, 2 }, { 0, 3 } };

	for (size_t i = 0; i < 3; i++) {
		restart();
		for (const char *name = "abcd"; *name != '\0'; name++)
			(void)one_alive(&o, (char[2]){ *name, '\0' }, 1);
		uint32_t seq = probe_seq();
		one_wait(&o, MONO_MS(500));
		ck_assert_ptr_nonnull(one_said(&o, WIRE_INDIRECT_PING, NULL).p);
		for (unsigned k = 0; k < rows[i].nacks; k++)
			(void)one_nack(&o, seq);
		one_wait(&o, MONO_MS(500));
		ck_assert_uint_eq(one_stats(&o).health, rows[i].health);
		ck_assert_uint_eq(one_stats(&o).probes_failed, 1);
	}
}
END_TEST

START_TEST(poor_health_waits_longer)
{
	struct mono began;

	(void)one_alive(&o, "a", 1);
	(void)one_suspect(&o, SELF, 1, "a");
	(void)one_suspect(&o, SELF, 2, "a");
	ck_assert_uint_eq(one_stats(&o).health, 2);
	(void)probe_seq();
	began = o.now;
	one_wait(&o, MONO_MS(2900));
	ck_assert_int_eq(one_state(&o, "a"), NODE_ALIVE);
	one_wait(&o, mono_sub(mono_add(began, MONO_S(3)), o.now));
	ck_assert_int_eq(one_state(&o, "a"), NODE_SUSPECT);
}
END_TEST

/* What a simulation leaves out to measure Lifeguard; nothing else may. */
START_TEST(lifeguard_can_be_left_out_for_measuring)
{
	one_done(&o);
	one_init(&o);
	o.opt.without = SWIM_PLAIN;
	one_start(&o);
	(void)one_alive(&o, "a", 1);
	(void)one_suspect(&o, SELF, 1, "a");	/* a refutation would lower our health */
	ck_assert_uint_eq(one_stats(&o).health, 0);
	for (char name[2] = "b"; name[0] <= 'f'; name[0]++)
		(void)one_alive(&o, name, 1);
	(void)one_suspect(&o, "a", 1, "b");	/* plain: 4 probe intervals, however few confirm it */
	one_wait(&o, MONO_MS(3900));
	ck_assert_int_eq(one_state(&o, "a"), NODE_SUSPECT);
	one_wait(&o, MONO_MS(200));
	ck_assert_int_eq(one_state(&o, "a"), NODE_DEAD);
}
END_TEST

/* Every ping is answered, which is no word on suspicions that others spread. */
static void
wait_answering(struct mono span)
{
	struct mono until = mono_add(o.now, span);
	struct wire_ping m;

	while (one_wait_for(&o, mono_sub(until, o.now), says_ping, NULL)) {
		ck_assert_int_eq(wire_get_ping(one_said(&o, WIRE_PING, NULL), &o.arena, &m), TV_OK);
		(void)one_ack(&o, m.seq);
	}
}

START_TEST(independent_accusers_hurry_a_death)
{
	static const struct { const char *accusers[3]; int64_t ms; } rows[] = {
		{ { "b" }, 24000 }, { { "b", "b", "b" }, 24000 }, { { "b", "c" }, 11381 }, { { "b", "c", "d" }, 4000 },
		{ { "b", "nobody", "a" }, 24000 },	/* strangers and the accused do not count */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		restart();
		for (const char *name = "abcd"; *name != '\0'; name++)
			(void)one_alive(&o, (char[2]){ *name, '\0' }, 1);
		for (int k = 0; k < 3 && rows[i].accusers[k] != NULL; k++)
			(void)one_suspect(&o, "a", 1, rows[i].accusers[k]);
		wait_answering(MONO_MS(rows[i].ms - 1));
		ck_assert_int_eq(one_state(&o, "a"), NODE_SUSPECT);
		wait_answering(MONO_MS(1));
		ck_assert_int_eq(one_state(&o, "a"), NODE_DEAD);
	}
}
END_TEST

START_TEST(a_suspect_hears_of_it_with_the_ping)
{
	const struct swim_send *send;

	(void)one_alive(&o, "a", 1);
	(void)one_suspect(&o, "a", 1, "b");
	ck_assert(one_wait_for(&o, MONO_S(2), says_ping, NULL));
	for (send = o.out->sends; send->parts[0].p[0] != WIRE_PING; send++)
		;
	ck_assert_uint_eq(send->part_count, 2);
	ck_assert_uint_eq(send->parts[1].p[0], WIRE_SUSPECT);
	ck_assert(send->crc);
}
END_TEST

/* S141: after a pause of minutes nobody is declared dead at once. */
START_TEST(a_stopped_process_accuses_nobody)
{
	for (const char *name = "abcd"; *name != '\0'; name++)
		(void)one_alive(&o, (char[2]){ *name, '\0' }, 1);
	(void)one_suspect(&o, "a", 1, "b");
	(void)probe_seq();
	o.now = mono_add(o.now, MONO_S(300));
	(void)one_feed(&o, (struct swim_input){ .type = SWIM_IN_TICK });
	ck_assert(one_noticed(&o, SWIM_NOTICE_STALL));
	ck_assert_uint_eq(one_stats(&o).health, SWIM_HEALTH_MAX - 1);
	ck_assert_int_eq(one_state(&o, "a"), NODE_SUSPECT);
	ck_assert_uint_eq(one_stats(&o).failed, 0);
	(void)one_alive(&o, "a", 2);				/* there is still time to object */
	ck_assert_int_eq(one_state(&o, "a"), NODE_ALIVE);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("swim-probe");
	TCase *t = tcase_create("probe");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, pings_are_answered);
	tcase_add_test(t, pings_say_where_the_answer_goes);
	tcase_add_test(t, stream_pings);
	tcase_add_test(t, probes_for_others);
	tcase_add_test(t, probes_for_others_are_limited);
	tcase_add_test(t, an_answered_probe_ends_well);
	tcase_add_test(t, an_unanswered_probe_suspects);
	tcase_add_test(t, a_stream_answer_saves);
	tcase_add_test(t, missing_nacks_are_our_fault);
	tcase_add_test(t, poor_health_waits_longer);
	tcase_add_test(t, lifeguard_can_be_left_out_for_measuring);
	tcase_add_test(t, independent_accusers_hurry_a_death);
	tcase_add_test(t, a_suspect_hears_of_it_with_the_ping);
	tcase_add_test(t, a_stopped_process_accuses_nobody);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
