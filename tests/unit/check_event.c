/* User events: fired, heard once, passed on once, told in full exchanges, and bounded. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "gossipd/core/serf/ring.h"
#include "tests/unit/gossip_one.h"

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

/* A pool of two, quiet. */
static void
start_with_peer(void)
{
	one_start(&o);
	ck_assert_int_eq(one_alive(&o, "node2", 1), TV_OK);
	one_wait(&o, MONO_S(2));
}

static enum tv_err
hear(uint64_t ltime, const char *name, struct span payload)
{
	struct buf b = BUF_INIT(1 << 20);

	serf_put_user_event(&b, &(struct serf_user_event){ .ltime = ltime, .name = span_str(name),
	    .payload = payload, .cc = true });
	return one_serf(&o, &b);
}

/* Whether the last output delivers exactly this one event. */
static bool
delivered(uint64_t ltime, const char *name, const char *payload)
{
	const struct swim_user_event *e = o.out->user_events;

	return o.out->user_event_count == 1 && e->ltime == ltime && span_eqs(e->name, name) &&
	    span_eqs(e->payload, payload);
}

static enum tv_err
fire(const char *name, struct span payload, bool coalesce)
{
	return one_feed(&o, (struct swim_input){ .type = SWIM_IN_FIRE, .name = span_str(name), .bytes = payload,
	    .coalesce = coalesce });
}

/* -- firing ------------------------------------------------------------------------- */

/* The bytes of Serf's own encoder: vector "serf_user_event". */
static const uint8_t deploy_vector[] =
    "\x03\x84\xa2" "CC\xc3\xa5LTime\x03\xa4Name\xa6" "deploy\xa7Payload\xa6v1.2.3";
static const uint8_t tick_vector[] =
    "\x03\x84\xa2" "CC\xc2\xa5LTime\xcd\x01\x2c\xa4Name\xa4tick\xa7Payload\xc0";

START_TEST(fired_as_serf_does)
{
	o.opt.clocks.event_clock = 2;
	start_with_peer();
	ck_assert_int_eq(fire("deploy", span_str("v1.2.3"), true), TV_OK);
	ck_assert(delivered(3, "deploy", "v1.2.3"));
	ck_assert(o.out->user_events[0].coalesce);
	ck_assert_uint_eq(one_stats(&o).event_clock, 4);
	ck_assert_uint_eq(one_count_spread(&o, span_of(deploy_vector, sizeof(deploy_vector) - 1)), 4);
	ck_assert_uint_eq(one_stats(&o).event_queue, 0);
	ck_assert_uint_eq(one_stats(&o).events_fired, 1);
}
END_TEST

START_TEST(fired_without_payload)
{
	o.opt.clocks.event_clock = 299;
	start_with_peer();
	ck_assert_int_eq(fire("tick", SPAN_NONE, false), TV_OK);
	ck_assert(delivered(300, "tick", ""));
	ck_assert_uint_eq(one_count_spread(&o, span_of(tick_vector, sizeof(tick_vector) - 1)), 4);
}
END_TEST

START_TEST(too_long_ones_are_refused)
{
	static uint8_t bytes[10000];

	start_with_peer();
	ck_assert_int_eq(fire("", span_str("x"), false), TV_EINVAL);
	ck_assert_int_eq(fire("e", span_of(bytes, 512), false), TV_ELIMIT);
	ck_assert_int_eq(fire("e", span_of(bytes, 482), false), TV_ELIMIT);	/* the message counts */
	ck_assert_int_eq(fire("e", span_of(bytes, 481), false), TV_OK);
	ck_assert_uint_eq(one_stats(&o).event_clock, 2);
	ck_assert_uint_eq(one_stats(&o).events_fired, 1);
}
END_TEST

START_TEST(the_limit_can_be_raised_to_that_of_the_receivers)
{
	static uint8_t bytes[10000];

	o.opt.event_bytes = SERF_EVENT_BYTES_MAX;
	start_with_peer();
	ck_assert_int_eq(fire("e", span_of(bytes, 9216), false), TV_ELIMIT);
	ck_assert_int_eq(fire("e", span_of(bytes, 9170), false), TV_OK);
	o.opt.event_bytes = SERF_EVENT_BYTES_MAX + 1;
	ck_assert_ptr_null(swim_new(&o.opt, o.now));
}
END_TEST

/* -- hearing -------------------------------------------------------------------------- */

START_TEST(heard_once_and_passed_on_once_unchanged)
{
	struct span vector = span_of(deploy_vector, sizeof(deploy_vector) - 1);

	start_with_peer();
	ck_assert_int_eq(one_message(&o, WIRE_USER, vector), TV_OK);
	ck_assert(delivered(3, "deploy", "v1.2.3"));
	ck_assert_uint_eq(one_stats(&o).event_clock, 4);
	ck_assert_uint_eq(one_count_spread(&o, vector), 4);
	ck_assert_int_eq(one_message(&o, WIRE_USER, vector), TV_OK);
	ck_assert_uint_eq(o.out->user_event_count, 0);
	ck_assert_uint_eq(one_count_spread(&o, vector), 0);
	ck_assert_uint_eq(one_stats(&o).events_heard, 1);
	ck_assert_uint_eq(one_stats(&o).events_doubled, 1);
}
END_TEST

START_TEST(different_ones_may_share_a_time)
{
	start_with_peer();
	ck_assert_int_eq(hear(7, "a", span_str("1")), TV_OK);
	ck_assert(delivered(7, "a", "1"));
	ck_assert_int_eq(hear(7, "a", span_str("2")), TV_OK);
	ck_assert(delivered(7, "a", "2"));
	ck_assert_int_eq(hear(7, "b", span_str("1")), TV_OK);
	ck_assert(delivered(7, "b", "1"));
	ck_assert_int_eq(hear(7, "a1", SPAN_NONE), TV_OK);	/* not a + 1 */
	ck_assert(delivered(7, "a1", ""));
	ck_assert_int_eq(hear(7, "a", span_str("1")), TV_OK);
	ck_assert_uint_eq(o.out->user_event_count, 0);
}
END_TEST

START_TEST(malformed_ones_are_not_passed_on)
{
	static const uint8_t bad[] = "\x03\x84\xa2" "CC\xc3\xa5LTime\xff\xa4Name\xa1x\xa7Payload\xc0";
	struct span message = span_of(bad, sizeof(bad) - 1);

	start_with_peer();
	ck_assert_int_lt(one_message(&o, WIRE_USER, message), 0);
	ck_assert_uint_eq(one_count_spread(&o, message), 0);
	ck_assert_uint_eq(one_stats(&o).bad_message, 1);
}
END_TEST

START_TEST(the_window_is_512_wide)
{
	start_with_peer();
	ck_assert_int_eq(hear(1000, "new", SPAN_NONE), TV_OK);		/* the clock is at 1001 */
	ck_assert_int_eq(hear(488, "old", SPAN_NONE), TV_OK);
	ck_assert_uint_eq(o.out->user_event_count, 0);
	ck_assert_uint_eq(one_stats(&o).events_old, 1);
	ck_assert_int_eq(hear(489, "just", SPAN_NONE), TV_OK);
	ck_assert(delivered(489, "just", ""));
	ck_assert_int_eq(hear(489, "just", SPAN_NONE), TV_OK);
	ck_assert_uint_eq(o.out->user_event_count, 0);
	/* 1001 takes the slot of 489, which is behind the window by then. */
	ck_assert_int_eq(hear(1001, "next", SPAN_NONE), TV_OK);
	ck_assert(delivered(1001, "next", ""));
	ck_assert_int_eq(hear(489, "just", SPAN_NONE), TV_OK);
	ck_assert_uint_eq(o.out->user_event_count, 0);
}
END_TEST

START_TEST(forged_times_use_up_no_clock)
{
	start_with_peer();
	ck_assert_int_eq(hear(UINT64_MAX, "e", SPAN_NONE), TV_OK);
	ck_assert_int_eq(hear(UINT64_MAX - 1, "e", SPAN_NONE), TV_OK);
	ck_assert_int_eq(hear((UINT64_C(1) << 62) + 1, "e", SPAN_NONE), TV_OK);
	ck_assert_uint_eq(o.out->user_event_count, 0);
	ck_assert_uint_eq(one_stats(&o).event_clock, 1);
	ck_assert_uint_eq(one_stats(&o).over_ltimes, 3);
	ck_assert_int_eq(fire("e", SPAN_NONE, false), TV_OK);
	ck_assert(delivered(1, "e", ""));
}
END_TEST

START_TEST(a_flood_is_bounded_and_repeats_nothing)
{
	static uint8_t payload[200];
	uint64_t delivered_in_all = 0;
	struct swim_stats stats;

	start_with_peer();
	for (unsigned round = 0; round < 2; round++)
		for (uint32_t i = 0; i < 40000; i++) {
			memcpy(payload, &i, sizeof(i));
			ck_assert_int_eq(hear(1 + i / 100, "flood", span_of(payload, sizeof(payload))), TV_OK);
			delivered_in_all += o.out->user_event_count;
		}
	stats = one_stats(&o);
	ck_assert_uint_eq(delivered_in_all, 40000);
	ck_assert_uint_le(stats.events_kept_bytes, 512 << 10);
	ck_assert_uint_gt(stats.events_cut, 0);
	ck_assert_uint_le(stats.event_queue, o.opt.queue_max);
	/* And afterwards the pool works as before. */
	ck_assert_int_eq(fire("after", SPAN_NONE, false), TV_OK);
	ck_assert(delivered(401, "after", ""));
}
END_TEST

START_TEST(longer_than_a_packet_waits_in_no_queue)
{
	static uint8_t bytes[9300];

	start_with_peer();
	ck_assert_int_eq(hear(1, "big", span_of(bytes, 8000)), TV_OK);
	ck_assert_uint_eq(o.out->user_event_count, 1);
	ck_assert_uint_eq(one_stats(&o).event_queue, 0);
	ck_assert_uint_eq(one_stats(&o).over_packet, 1);
	ck_assert_int_lt(hear(2, "big", span_of(bytes, 9200)), 0);	/* beyond what anybody may send */
}
END_TEST

/* -- full exchanges ---------------------------------------------------------------------- */

/* Serf's state with these events, all of one time unless it is 0. */
static struct buf
state_with(uint64_t clock, uint64_t ltime, const char *name)
{
	struct buf b = BUF_INIT(1 << 20);
	struct serf_event_item item = { span_str(name), span_str("p") };

	serf_state_begin(&b, clock, ltime > 0 ? 3 : 0);
	if (ltime > 0) {
		serf_state_nil(&b);
		serf_state_slot(&b, ltime, &item, 1);
		serf_state_nil(&b);
	}
	serf_state_left(&b, 1, 0);
	serf_state_statuses(&b, 1, 0);
	return b;
}

static void
exchange_with(uint64_t clock, uint64_t ltime, const char *name)
{
	struct buf b = state_with(clock, ltime, name);

	ck_assert_int_eq(one_exchange_state(&o, false, NULL, 0, buf_span(&b)), TV_OK);
	buf_done(&b);
}

START_TEST(exchanges_deliver_and_do_not_pass_on)
{
	start_with_peer();
	exchange_with(10, 9, "told");
	ck_assert(delivered(9, "told", "p"));
	ck_assert(!o.out->user_events[0].coalesce);
	ck_assert_uint_eq(one_stats(&o).event_clock, 10);
	ck_assert_uint_eq(one_stats(&o).event_queue, 0);
	exchange_with(10, 9, "told");
	ck_assert_uint_eq(o.out->user_event_count, 0);
	ck_assert_int_eq(hear(9, "told", span_str("p")), TV_OK);
	ck_assert_uint_eq(o.out->user_event_count, 0);
}
END_TEST

/* The events that our answer to an exchange tells, as text: "ltime:name,name;" for each slot. */
static void
told_events(char *text, size_t size)
{
	struct stream_limits limits = STREAM_LIMITS_DEFAULT;
	struct envelope plain = { .version = 1 };
	struct stream_reader reader;
	struct serf_state state;
	struct serf_slot slot;
	struct serf_event_item item;
	struct serf_list slots, items;
	size_t at = 0;

	exchange_with(1, 0, "");
	stream_reader_init(&reader, &plain, &limits, STREAM_ACCEPTED);
	ck_assert_int_eq(stream_feed(&reader, o.out->answer), TV_OK);
	struct span user = stream_message(&reader)->user_state;
	ck_assert_int_eq(serf_get_state(span_of(user.p + 1, user.len - 1), &o.arena, &state), TV_OK);
	slots = serf_list(state.events);
	text[0] = '\0';
	while (serf_slot_next(&slots, &o.arena, &slot) == TV_OK) {
		at += (size_t)snprintf(text + at, size - at, "%d:", (int)slot.ltime);
		items = serf_list(slot.items);
		while (serf_item_next(&items, &o.arena, &item) == TV_OK)
			at += (size_t)snprintf(text + at, size - at, "%.*s,", (int)item.name.len,
			    (const char *)item.name.p);
		at += (size_t)snprintf(text + at, size - at, ";");
	}
	ck_assert_uint_eq(slots.left, 0);
	stream_reader_done(&reader);
}

START_TEST(our_state_tells_what_we_heard)
{
	char text[256];

	start_with_peer();
	told_events(text, sizeof(text));
	ck_assert_str_eq(text, "");
	ck_assert_int_eq(hear(5, "c", SPAN_NONE), TV_OK);
	ck_assert_int_eq(hear(2, "a", span_str("1")), TV_OK);
	ck_assert_int_eq(hear(5, "d", SPAN_NONE), TV_OK);
	ck_assert_int_eq(fire("f", SPAN_NONE, false), TV_OK);
	told_events(text, sizeof(text));
	ck_assert_str_eq(text, "2:a,;5:c,d,;6:f,;");
	ck_assert_int_eq(hear(5 + RING_SLOTS, "e", SPAN_NONE), TV_OK);	/* what leaves the window is told no more */
	told_events(text, sizeof(text));
	ck_assert_str_eq(text, "6:f,;517:e,;");
}
END_TEST

/* -- joining and restarting ------------------------------------------------------------------ */

/* Joins 10.0.0.9, which answers with an event of time 9 and a clock of 10. */
static void
join(bool replay, bool quiet)
{
	struct addr to = one_addr(9);
	struct buf b = state_with(10, 9, "before");
	struct stream_message m = { .type = WIRE_PUSH_PULL, .header = { .join = true }, .user_state = buf_span(&b) };

	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_JOIN, .addrs = &to, .addr_count = 1,
	    .replay = replay, .quiet = quiet }), TV_OK);
	ck_assert_uint_eq(o.out->stream_count, 1);
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_ANSWER, .message = &m,
	    .stream = o.out->streams[0].id, .from = to }), TV_OK);
	buf_done(&b);
}

START_TEST(a_join_brings_no_old_events)
{
	one_start(&o);
	join(false, false);
	ck_assert_uint_eq(o.out->user_event_count, 0);
	ck_assert_int_eq(hear(9, "before", span_str("p")), TV_OK);	/* nor does gossip that comes behind */
	ck_assert_uint_eq(o.out->user_event_count, 0);
	ck_assert_int_eq(hear(10, "after", SPAN_NONE), TV_OK);
	ck_assert(delivered(10, "after", ""));
}
END_TEST

START_TEST(a_join_with_replay_does)
{
	one_start(&o);
	join(true, false);
	ck_assert(delivered(9, "before", "p"));
}
END_TEST

START_TEST(joining_again_loses_nothing)
{
	struct addr at = one_addr(9);

	one_start(&o);
	ck_assert_int_eq(one_alive_at(&o, "node9", 1, &at, SPAN_NONE), TV_OK);
	join(false, false);
	ck_assert(delivered(9, "before", "p"));
}
END_TEST

/* Two addresses of one pool: what is fired between their answers is for us. */
START_TEST(the_second_answer_of_a_join_loses_nothing)
{
	struct addr to[2] = { one_addr(9), one_addr(8) };
	struct wire_node n = { .name = span_str("node8"), .addr = span_of(to[1].ip, 4), .port = 7946, .incarnation = 1,
		.state = WIRE_STATE_ALIVE, .vsn = span_of(one_vsn, 6) };
	struct buf nodes = BUF_INIT(4096), first = state_with(10, 9, "before"), second = state_with(11, 10, "between");
	struct stream_message m = { .type = WIRE_PUSH_PULL, .header = { .join = true, .nodes = 1 } };
	uint64_t ids[2];

	wire_put_node(&nodes, &n);
	m.nodes = buf_span(&nodes);
	one_start(&o);
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_JOIN, .addrs = to, .addr_count = 2 }),
	    TV_OK);
	ck_assert_uint_eq(o.out->stream_count, 2);
	ids[0] = o.out->streams[0].id;
	ids[1] = o.out->streams[1].id;
	m.user_state = buf_span(&first);
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_ANSWER, .message = &m,
	    .stream = ids[0] }), TV_OK);
	ck_assert_uint_eq(o.out->user_event_count, 0);
	m.user_state = buf_span(&second);
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_ANSWER, .message = &m,
	    .stream = ids[1] }), TV_OK);
	ck_assert(delivered(10, "between", "p"));
	buf_done(&nodes);
	buf_done(&first);
	buf_done(&second);
}
END_TEST

/* S132 */
START_TEST(a_restart_repeats_nothing)
{
	o.opt.clocks.event_clock = 7;		/* from the snapshot: the newest event seen */
	start_with_peer();
	ck_assert_int_eq(hear(7, "seen", SPAN_NONE), TV_OK);
	ck_assert_uint_eq(o.out->user_event_count, 0);
	exchange_with(8, 6, "seen");
	ck_assert_uint_eq(o.out->user_event_count, 0);
	join(false, true);
	ck_assert_uint_eq(o.out->user_event_count, 0);
	ck_assert_int_eq(fire("mine", SPAN_NONE, false), TV_OK);
	ck_assert(delivered(10, "mine", ""));
}
END_TEST

/* -- the ring ---------------------------------------------------------------------------------- */

START_TEST(a_full_ring_raises_its_floor)
{
	struct ring r = { .count_max = 8 };

	for (uint64_t i = 0; i < 4; i++) {
		ck_assert_int_eq(ring_note(&r, 11, 10, i), RING_NEW);
		ck_assert_int_eq(ring_note(&r, 12, 11, i), RING_NEW);
	}
	ck_assert_int_eq(ring_note(&r, 12, 11, 3), RING_DUPLICATE);
	ck_assert_int_eq(ring_note(&r, 12, 11, 4), RING_NEW);
	ck_assert_uint_eq(r.count, 5);
	ck_assert_uint_eq(r.floor, 11);
	ck_assert_int_eq(ring_note(&r, 12, 10, 99), RING_OLD);
	/* One time alone can fill it; then that time is over. */
	for (uint64_t i = 5; i < 8; i++)
		ck_assert_int_eq(ring_note(&r, 12, 11, i), RING_NEW);
	ck_assert_int_eq(ring_note(&r, 12, 11, 8), RING_OLD);
	ck_assert_uint_eq(r.floor, 12);
	ck_assert_int_eq(ring_note(&r, 13, 12, 0), RING_NEW);
	ring_done(&r);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("event");
	TCase *t = tcase_create("events"), *ring = tcase_create("ring");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, fired_as_serf_does);
	tcase_add_test(t, fired_without_payload);
	tcase_add_test(t, too_long_ones_are_refused);
	tcase_add_test(t, the_limit_can_be_raised_to_that_of_the_receivers);
	tcase_add_test(t, heard_once_and_passed_on_once_unchanged);
	tcase_add_test(t, different_ones_may_share_a_time);
	tcase_add_test(t, malformed_ones_are_not_passed_on);
	tcase_add_test(t, the_window_is_512_wide);
	tcase_add_test(t, forged_times_use_up_no_clock);
	tcase_add_test(t, a_flood_is_bounded_and_repeats_nothing);
	tcase_add_test(t, longer_than_a_packet_waits_in_no_queue);
	tcase_add_test(t, exchanges_deliver_and_do_not_pass_on);
	tcase_add_test(t, our_state_tells_what_we_heard);
	tcase_add_test(t, a_join_brings_no_old_events);
	tcase_add_test(t, a_join_with_replay_does);
	tcase_add_test(t, joining_again_loses_nothing);
	tcase_add_test(t, the_second_answer_of_a_join_loses_nothing);
	tcase_add_test(t, a_restart_repeats_nothing);
	tcase_add_test(ring, a_full_ring_raises_its_floor);
	suite_add_tcase(s, t);
	suite_add_tcase(s, ring);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
