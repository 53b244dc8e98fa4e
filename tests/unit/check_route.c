/* The router: what goes to raftd and to the leader, what is held and tried again, and that a write whose outcome is unknown is never sent twice. */
#include "tests/unit/route_kit.h"

START_TEST(read_stays_here)
{
	start(true, 1000);
	ask(OP_KV_GET, "", 0);
	ck_assert_uint_eq(raftd.calls, 1);
	raftd_says(TV_OK);
	ck_assert_uint_eq(got.count, 1);
	ck_assert_int_eq(got.err, TV_OK);
	finish();
}
END_TEST

/* Many at once, ended in another order, again and again, short and long ones: each is asked and answered as its own. */
START_TEST(forwards_are_used_again)
{
	enum { COUNT = 90 };
	static const char filler[400] = { [0 ... 398] = 'x' };
	struct under_way {
		struct route_call *call;
		calls_done *done;
		void *ctx;
	} at[COUNT];
	struct buf b = BUF_INIT(1000);

	start(true, 60000);
	for (unsigned round = 0; round < 5; round++) {
		for (unsigned i = 0; i < COUNT; i++) {
			size_t len = i % 9 == 0 ? sizeof(filler) - 1 : i;
			uint8_t nil = 0xc0;
			struct op_request sent_on, q = { .op = OP_KV_GET, .mode = i % 2 != 0 ? OP_STALE : OP_DEFAULT,
				.token = span_of((const uint8_t *)filler, len > OP_NAME_BYTES_MAX ? OP_NAME_BYTES_MAX : len),
				.max_stale_ms = round * COUNT + i, .args = span_of(&nil, 1) };

			at[i].call = route_start(route, &q, on_done, NULL);
			ck_assert_ptr_nonnull(at[i].call);
			at[i].done = raftd.done;
			at[i].ctx = raftd.ctx;
			ck_assert_int_eq(op_request_read(span_of(raftd.body, raftd.body_len), &sent_on), TV_OK);
			ck_assert_uint_eq(sent_on.max_stale_ms, q.max_stale_ms);
			ck_assert_uint_eq(sent_on.mode, q.mode);
			ck_assert(span_eq(sent_on.token, q.token));
		}
		for (unsigned n = 0; n < COUNT; n++) {
			struct under_way *one = &at[(n * 7 + round) % COUNT];
			unsigned before = got.count, calls = raftd.calls;

			if (n % 5 == 0) {
				route_cancel(one->call);
				continue;
			}
			one->done(one->ctx, TV_OK, reply_bytes(&b, n % 5 == 1 ? TV_ENOTLEADER : TV_OK));
			if (n % 5 != 1) {
				ck_assert_uint_eq(got.count, before + 1);
				continue;
			}
			ck_assert_uint_eq(raftd.calls, calls);		/* it goes on to the leader */
			ck_assert_uint_eq(sent_count, 1);
			sent[0].done(sent[0].ctx, TV_OK, reply_bytes(&b, TV_OK));
			ck_assert_uint_eq(got.count, before + 1);
			sent_count = 0;
		}
	}
	ck_assert_int_eq(got.err, TV_OK);
	ck_assert_uint_eq(got.count, 5 * (COUNT - COUNT / 5));
	buf_done(&b);
	finish();
}
END_TEST

/* A long body that was packed here is the forward's; one that waits, or comes from a peer, is copied. */
START_TEST(long_bodies_arrive_whole)
{
	static uint8_t args[7003] = { 0xc5, 7000 >> 8, 7000 & 255, [3 ... 7002] = 'v' };
	struct op_request sent_on, q = { .op = OP_KV_GET, .mode = OP_STALE, .token = span_str("secret"),
	    .args = span_of(args, sizeof(args)) };
	struct route_stats stats;
	struct route_call *c;
	struct buf packed = BUF_INIT(1 << 20);
	enum tv_err err;

	start(true, 60000);
	for (unsigned i = 0; i < 6; i++) {
		args[5000]++;
		q.index = i % 3 == 1 ? 7 : 0;
		buf_reset(&packed);
		op_request_write(&packed, &q);
		c = i % 3 == 2 ? route_relay(route, ROUTE_PEER, buf_span(&packed), on_done, NULL, &err) :
		    route_start(route, &q, on_done, NULL);
		ck_assert_ptr_nonnull(c);
		ck_assert(span_eq(span_of(raftd.body, raftd.body_len), buf_span(&packed)));
		ck_assert_int_eq(op_request_read(span_of(raftd.body, raftd.body_len), &sent_on), TV_OK);
		ck_assert(span_eq(sent_on.args, q.args) && sent_on.index == q.index);
		route_stats(route, &stats);
		ck_assert_uint_eq(stats.bytes, packed.len);
		if (i < 3)
			route_cancel(c);
		else
			raftd_says(TV_OK);
		route_stats(route, &stats);
		ck_assert_uint_eq(stats.bytes, 0);
	}
	ck_assert_uint_eq(got.count, 3);
	buf_done(&packed);
	finish();
}
END_TEST

START_TEST(write_goes_to_the_leader)
{
	start(true, 1000);
	ask(OP_KV_APPLY, "dc1", 0);
	ck_assert_uint_eq(raftd.calls, 0);
	ck_assert_uint_eq(sent_count, 1);
	ck_assert_int_eq(sent[0].type, MSG_OP_FINAL);
	ck_assert_str_eq(sent[0].ip, "127.0.0.9");
	link_says(0, TV_OK);
	ck_assert_uint_eq(got.count, 1);
	local.role = RAFT_LEADER;
	got.count = 0;
	ask(OP_KV_APPLY, "", 0);
	ck_assert_uint_eq(raftd.calls, 1);
	raftd_says(TV_OK);
	finish();
}
END_TEST

/* Of its address only our raftd knows, which writes IPv6 in brackets. */
START_TEST(write_goes_to_a_leader_that_gossip_does_not_know)
{
	start(true, 1000);
	strcpy(local.leader_id, "unknown-id");
	strcpy(local.leader_addr, "[fd00::1]:8300");
	ask(OP_KV_APPLY, "dc1", 0);
	ck_assert_uint_eq(sent_count, 1);
	ck_assert_str_eq(sent[0].ip, "fd00::1");
	link_says(0, TV_OK);
	ck_assert_int_eq(got.err, TV_OK);
	finish();
}
END_TEST

START_TEST(not_leader_is_held_and_tried_again)
{
	start(true, 60000);
	ask(OP_KV_APPLY, "", 0);
	link_says(0, TV_ENOTLEADER);
	ck_assert_uint_eq(got.count, 0);
	local.role = RAFT_LEADER;		/* we were elected meanwhile */
	route_wake(route);
	ck_assert_uint_eq(raftd.calls, 1);
	raftd_says(TV_OK);
	ck_assert_int_eq(got.err, TV_OK);
	finish();
}
END_TEST

START_TEST(no_leader_fails_after_the_hold)
{
	start(true, 120);
	local.leader_id[0] = '\0';
	ask(OP_KV_APPLY, "", 0);
	ask(OP_KV_GET, "", 0);
	run_until(2);
	ck_assert_int_eq(got.err, TV_ENOLEADER);
	ck_assert_str_eq(got.text, "No cluster leader");
	ck_assert_uint_eq(raftd.calls + sent_count, 0);
	finish();
}
END_TEST

START_TEST(lost_answer_of_a_write_is_unknown_and_not_repeated)
{
	static const enum tv_err ways[] = { TV_ECLOSED, TV_ETIMEOUT, TV_ELIMIT };

	for (unsigned i = 0; i < 3; i++) {
		start(true, 1000);
		ask(OP_KV_APPLY, "", 0);
		link_breaks(0, ways[i]);
		ck_assert_uint_eq(got.count, 1);
		ck_assert_int_eq(got.err, TV_EUNKNOWN);
		route_wake(route);
		ck_assert_uint_eq(sent_count, 1);
		finish();
	}
}
END_TEST

static void
leader_is(const char *id)
{
	strcpy(local.leader_id, id);
	strcpy(local.leader_addr, strcmp(id, "leader-id") == 0 ? "" : "127.0.0.8:8300");
	route_wake(route);
}

/* Something must happen meanwhile, or the loop returns at once. */
static void
run_for(ev_tstamp seconds)
{
	ev_now_update(loop);
	for (ev_tstamp end = ev_now(loop) + seconds; ev_now(loop) < end; )
		ev_run(loop, EVRUN_ONCE);
}

static void
tick(struct ev_loop *l, ev_timer *w, int revents)
{
	(void)l, (void)w, (void)revents;
}

/* A frozen rpcd keeps its connections: that another one leads is the only news of it. */
START_TEST(leader_that_was_does_not_answer)
{
	start(true, 1000);
	ask(OP_KV_APPLY, "", 0);
	ask(OP_SESSION_RENEW, "", 0);
	ck_assert_uint_eq(sent_count, 2);
	ck_assert(sent[0].expected && sent[1].expected);
	leader_is("");					/* an election */
	leader_is("other-id");
	ask(OP_KV_APPLY, "", 0);
	ck_assert_str_eq(sent[2].ip, "127.0.0.8");
	ck_assert_uint_eq(sent_cancelled, 0);		/* the answers may be on their way */
	run_until(1);
	/* Of the write nobody knows, and it is not sent again. */
	ck_assert_int_eq(got.err, TV_EUNKNOWN);
	ck_assert_uint_eq(sent_cancelled, 2);
	ck_assert_uint_eq(sent_count, 4);		/* the renewal is safe to repeat */
	ck_assert_str_eq(sent[3].ip, "127.0.0.8");
	link_says(3, TV_OK);
	link_says(2, TV_OK);
	ck_assert_uint_eq(got.count, 3);
	ck_assert_int_eq(got.err, TV_OK);
	finish();
}
END_TEST

START_TEST(what_waits_for_the_link_goes_to_the_new_leader_at_once)
{
	start(true, 1000);
	ask(OP_KV_APPLY, "", 0);
	sent[0].waits = true;
	ask(OP_KV_APPLY, "", 0);
	leader_is("other-id");
	ck_assert_uint_eq(sent_cancelled, 1);
	ck_assert(!sent[0].busy && sent[1].busy);
	ck_assert_uint_eq(sent_count, 3);
	ck_assert_str_eq(sent[2].ip, "127.0.0.8");
	link_says(2, TV_OK);
	ck_assert_uint_eq(got.count, 1);
	ck_assert_int_eq(got.err, TV_OK);
	link_says(1, TV_OK);
	finish();
}
END_TEST

START_TEST(leader_that_was_answers_in_time)
{
	ev_timer beat;

	start(true, 1000);
	ev_timer_init(&beat, tick, 0.05, 0.05);
	ev_timer_start(loop, &beat);
	ask(OP_KV_APPLY, "", 0);
	leader_is("other-id");
	link_says(0, TV_OK);
	ck_assert_int_eq(got.err, TV_OK);
	memset(&got, 0, sizeof(got));
	ask(OP_KV_APPLY, "", 0);			/* of the new one */
	run_for(5.5);
	ck_assert_uint_eq(got.count, 0);
	ck_assert_uint_eq(sent_cancelled, 0);
	link_says(1, TV_OK);
	ev_timer_stop(loop, &beat);
	finish();
}
END_TEST

START_TEST(lost_answer_of_a_read_is_asked_again)
{
	start(true, 60000);
	ask(OP_KV_GET, "", 0);
	raftd.done(raftd.ctx, TV_ECLOSED, SPAN_NONE);
	ck_assert_uint_eq(got.count, 0);
	route_wake(route);
	ck_assert_uint_eq(raftd.calls, 2);
	raftd_says(TV_OK);
	ck_assert_int_eq(got.err, TV_OK);
	finish();
}
END_TEST

/* It was held at the beginning; the next trouble, much later, does not find its time used up. */
START_TEST(blocking_query_is_held_each_time)
{
	start(true, 0);
	local.leader_id[0] = '\0';
	ask(OP_KV_GET, "", 41);
	ck_assert_uint_eq(raftd.calls, 0);
	for (unsigned i = 1; i <= 3; i++) {
		strcpy(local.leader_id, "leader");
		route_wake(route);
		ck_assert_uint_eq(raftd.calls, i);
		local.leader_id[0] = '\0';
		raftd.done(raftd.ctx, TV_ECLOSED, SPAN_NONE);
		ev_run(loop, EVRUN_NOWAIT);
		ck_assert_uint_eq(got.count, 0);
	}
	run_until(1);				/* nobody leads, and it went nowhere: now its time is over */
	ck_assert_int_eq(got.err, TV_ENOLEADER);
	finish();
}
END_TEST

START_TEST(write_that_was_not_sent_is_tried_elsewhere)
{
	start(false, 60000);
	add_server("127.0.0.1");
	add_server("127.0.0.2");
	ask(OP_KV_APPLY, "", 0);
	ck_assert_int_eq(sent[0].type, MSG_OP);
	link_breaks(0, TV_EUNREACH);
	ck_assert_uint_eq(sent_count, 2);
	ck_assert_str_ne(sent[0].ip, sent[1].ip);
	link_says(1, TV_OK);
	ck_assert_int_eq(got.err, TV_OK);
	finish();
}
END_TEST

START_TEST(client_leaves_a_server_that_refuses)
{
	start(false, 60000);
	add_server("127.0.0.1");
	add_server("127.0.0.2");
	ask(OP_KV_APPLY, "", 0);
	link_says(0, TV_ENOTLEADER);		/* its raftd is away: nothing was done */
	route_wake(route);
	ck_assert_uint_eq(sent_count, 2);
	ck_assert_str_ne(sent[0].ip, sent[1].ip);
	link_says(1, TV_ENOTLEADER);
	route_wake(route);		/* all were tried: starts over */
	route_wake(route);
	ck_assert_uint_eq(sent_count, 3);
	link_says(2, TV_OK);
	ck_assert_int_eq(got.err, TV_OK);
	finish();
}
END_TEST

START_TEST(identical_blocking_queries_share_a_forward)
{
	struct route_call *calls[50];
	struct route_stats st;

	start(true, 1000);
	for (int i = 0; i < 50; i++)
		calls[i] = ask(OP_KV_GET, "", 41);
	ask(OP_KV_GET, "", 42);			/* another question */
	ck_assert_uint_eq(raftd.calls, 2);
	route_cancel(calls[7]);
	ck_assert_uint_eq(raftd.cancelled, 0);
	route_stats(route, &st);
	ck_assert_uint_eq(st.joined, 49);
	ck_assert_uint_eq(st.under_way, 50);
	finish();				/* answers the rest with TV_ECLOSED */
	ck_assert_uint_eq(got.count, 50);
	ck_assert_int_eq(got.err, TV_ECLOSED);
}
END_TEST

START_TEST(calls_of_a_forward_see_one_number)
{
	uint64_t first;

	start(true, 1000);
	for (int i = 0; i < 3; i++)
		ask(OP_KV_GET, "", 41);
	raftd_says(TV_OK);
	ck_assert_uint_eq(got.count, 3);
	ck_assert(!got.other_number);
	first = got.number;
	ck_assert_uint_ne(first, 0);
	ck_assert_uint_eq(route_reply_number(route), 0);
	got.count = 0;
	for (int i = 0; i < 2; i++)
		ask(OP_KV_GET, "", 41);
	raftd_says(TV_OK);
	ck_assert(!got.other_number);
	ck_assert_uint_gt(got.number, first);
	got.count = 0;
	ask(OP_KV_GET, "", 41);
	raftd_says(TV_OK);
	ck_assert_uint_eq(got.count, 1);
	ck_assert_uint_eq(got.number, 0);
	finish();
}
END_TEST

START_TEST(cancel_frees_the_watch)
{
	struct route_call *c;

	start(true, 1000);
	c = ask(OP_KV_GET, "", 41);
	route_cancel(c);
	ck_assert_uint_eq(raftd.cancelled, raftd.id);
	c = ask(OP_KV_APPLY, "", 0);
	route_cancel(c);
	ck_assert_uint_eq(sent_cancelled, 1);
	finish();
	ck_assert_uint_eq(got.count, 0);
}
END_TEST

START_TEST(own_raftd_away)
{
	start(true, 60000);
	local = (struct raftd_client_status){ .up = false };
	add_server("127.0.0.2");
	ask(OP_KV_GET, "", 0);
	ck_assert_int_eq(sent[0].type, MSG_OP_FINAL);
	link_says(0, TV_OK);
	got.count = 0;
	ask(OP_KV_APPLY, "", 0);
	ck_assert_int_eq(sent[1].type, MSG_OP);
	link_says(1, TV_OK);
	ck_assert_int_eq(got.err, TV_OK);
	finish();
}
END_TEST

START_TEST(too_many_requests_are_refused)
{
	static const uint8_t args[] = { 0x90 };
	struct op_request q = { .op = OP_KV_GET, .args = span_of(args, sizeof(args)) };

	start(true, 1000);
	for (int i = 0; i < 100; i++)
		ck_assert_ptr_nonnull(route_start(route, &q, on_done, NULL));
	ck_assert_ptr_null(route_start(route, &q, on_done, NULL));
	finish();
}
END_TEST

/* What a server has begun only that server can go on with. */
START_TEST(begun_work_goes_to_its_server)
{
	struct buf args = BUF_INIT(1000);
	struct snapshot_ask q = { .Server = span_str("leader-id"), .ID = span_str("x") };
	struct op_request ask = { .op = OP_SNAPSHOT_READ };

	start(true, 60000);
	local.role = RAFT_LEADER;			/* we lead now; it is the other's all the same */
	schema_pack(&snapshot_ask_schema, &q, &args);
	ask.args = buf_span(&args);
	ck_assert_ptr_nonnull(route_start(route, &ask, on_done, NULL));
	ck_assert_uint_eq(sent_count, 1);
	ck_assert_int_eq(sent[0].type, MSG_OP_FINAL);
	ck_assert_str_eq(sent[0].ip, "127.0.0.9");
	link_breaks(0, TV_EUNREACH);
	run_until(1);
	ck_assert_int_eq(got.err, TV_EUNREACH);		/* nobody else is asked */
	ck_assert_str_eq(got.text, "the server responsible cannot be reached");
	ck_assert_uint_eq(raftd.calls, 0);
	q.Server = span_str("own-id");
	buf_reset(&args);
	schema_pack(&snapshot_ask_schema, &q, &args);
	ask.args = buf_span(&args);
	ck_assert_ptr_nonnull(route_start(route, &ask, on_done, NULL));
	ck_assert_uint_eq(raftd.calls, 1);
	raftd_says(TV_OK);
	q.Server = span_str("nobody");
	buf_reset(&args);
	schema_pack(&snapshot_ask_schema, &q, &args);
	ask.args = buf_span(&args);
	ck_assert_ptr_nonnull(route_start(route, &ask, on_done, NULL));
	run_until(3);
	ck_assert_int_eq(got.err, TV_EUNREACH);
	/* At the beginning nobody is named: the leader, or when stale whoever is asked. */
	q.Server = SPAN_NONE;
	buf_reset(&args);
	schema_pack(&snapshot_ask_schema, &q, &args);
	ask = (struct op_request){ .op = OP_SNAPSHOT_SAVE, .args = buf_span(&args) };
	local.role = RAFT_FOLLOWER;
	ck_assert_ptr_nonnull(route_start(route, &ask, on_done, NULL));
	ck_assert_uint_eq(sent_count, 2);
	link_says(1, TV_OK);
	ask.mode = OP_STALE;
	ck_assert_ptr_nonnull(route_start(route, &ask, on_done, NULL));
	ck_assert_uint_eq(raftd.calls, 2);
	raftd_says(TV_OK);
	buf_done(&args);
	finish();
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("route");
	TCase *t = tcase_create("route");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 60);	/* a leader that was has seconds to answer */
	tcase_add_test(t, read_stays_here);
	tcase_add_test(t, forwards_are_used_again);
	tcase_add_test(t, long_bodies_arrive_whole);
	tcase_add_test(t, write_goes_to_the_leader);
	tcase_add_test(t, write_goes_to_a_leader_that_gossip_does_not_know);
	tcase_add_test(t, not_leader_is_held_and_tried_again);
	tcase_add_test(t, no_leader_fails_after_the_hold);
	tcase_add_test(t, lost_answer_of_a_write_is_unknown_and_not_repeated);
	tcase_add_test(t, leader_that_was_does_not_answer);
	tcase_add_test(t, what_waits_for_the_link_goes_to_the_new_leader_at_once);
	tcase_add_test(t, leader_that_was_answers_in_time);
	tcase_add_test(t, lost_answer_of_a_read_is_asked_again);
	tcase_add_test(t, blocking_query_is_held_each_time);
	tcase_add_test(t, write_that_was_not_sent_is_tried_elsewhere);
	tcase_add_test(t, client_leaves_a_server_that_refuses);
	tcase_add_test(t, identical_blocking_queries_share_a_forward);
	tcase_add_test(t, calls_of_a_forward_see_one_number);
	tcase_add_test(t, cancel_frees_the_watch);
	tcase_add_test(t, own_raftd_away);
	tcase_add_test(t, too_many_requests_are_refused);
	tcase_add_test(t, begun_work_goes_to_its_server);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
