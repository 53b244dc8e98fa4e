/* What goes around gossip and is mended by full exchanges. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/record/mpack.h"
#include "tests/unit/gossip_one.h"

static struct one o;

static void
setup(void)
{
	one_init(&o);
	o.opt.members_max = 1000;
	one_start(&o);
}

static void
teardown(void)
{
	one_done(&o);
}

/* Members m1..m<count>, alive, and Serf's view of `shown` with that time, as left or not. */
static struct buf
state_of(unsigned count, struct stream_message *m, const char *shown, uint64_t ltime, bool left)
{
	struct buf b = BUF_INIT(1 << 20);
	size_t nodes;
	char name[16];

	for (unsigned i = 1; i <= count; i++) {
		struct addr a = one_addr(i % 200 + 2);

		snprintf(name, sizeof(name), "m%u", i);
		wire_put_node(&b, &(struct wire_node){ .name = span_str(name), .addr = span_of(a.ip, a.len), .port = a.port,
			.incarnation = 1, .state = WIRE_STATE_ALIVE, .vsn = span_of(one_vsn, sizeof(one_vsn)) });
	}
	nodes = b.len;
	serf_state_begin(&b, 1, 0);
	serf_state_left(&b, 1, left);
	if (left)
		mpw_raw(&b, span_str(shown));
	serf_state_statuses(&b, 1, shown != NULL);
	if (shown != NULL)
		serf_state_status(&b, span_str(shown), ltime);
	*m = (struct stream_message){ .type = WIRE_PUSH_PULL, .header = { .nodes = count } };
	m->nodes = span_of(b.data, nodes);
	m->user_state = span_of(b.data + nodes, b.len - nodes);
	return b;
}

/* Joins through m1, which answers with so many members. */
static void
join(unsigned count)
{
	struct addr addr = one_addr(3);
	struct stream_message m;
	struct buf b = state_of(count, &m, NULL, 0, false);

	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_JOIN, .addrs = &addr, .addr_count = 1 }),
	    TV_OK);
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_ANSWER, .stream = o.out->streams[0].id,
		.message = &m }), TV_OK);
	buf_done(&b);
}

static bool
exchanges(const struct one *one, void *arg)
{
	(void)arg;
	for (size_t i = 0; i < one->out->stream_count; i++)
		if (one->out->streams[i].kind == SWIM_STREAM_PUSHPULL)
			return true;
	return false;
}

START_TEST(newcomers_among_newcomers_exchange_early)
{
	join(400);		/* then exchanges are 150 s apart */
	(void)one_alive(&o, "x", 1);
	ck_assert(one_wait_for(&o, MONO_S(16), exchanges, NULL));
	ck_assert(!one_wait_for(&o, MONO_S(16), exchanges, NULL));	/* nothing more was learned */
	(void)one_alive(&o, "y", 1);
	ck_assert(one_wait_for(&o, MONO_S(16), exchanges, NULL));
}
END_TEST

/* Invented members must not make us exchange for ever: a few, and not later than a minute after the join. */
START_TEST(early_exchanges_are_few)
{
	unsigned early = 0;

	join(400);
	for (unsigned i = 0; i < 40; i++) {
		char name[16];

		snprintf(name, sizeof(name), "x%u", i);
		(void)one_alive(&o, name, 1);
		early += one_wait_for(&o, MONO_S(2), exchanges, NULL);
	}
	ck_assert_uint_ge(early, 2);
	ck_assert_uint_le(early, 5);
}
END_TEST

START_TEST(a_stable_pool_is_not_asked_twice)
{
	join(400);

	ck_assert_uint_eq(one_stats(&o).members, 401);
	/* The first regular one may be due at any time of the first interval; this seed's is later. */
	ck_assert(!one_wait_for(&o, MONO_S(4), exchanges, NULL));
}
END_TEST

/* The time of the prune of `a` that the last feed tells directly; 0: none. */
static uint64_t
told_prune(const struct addr *to)
{
	for (size_t i = 0; i < o.out->send_count; i++) {
		const struct swim_send *send = &o.out->sends[i];
		struct serf_leave m;

		for (unsigned k = 0; k < send->part_count; k++) {
			struct span p = send->parts[k];

			if (p.len < 3 || p.p[0] != WIRE_USER || p.p[1] != SERF_LEAVE || !addr_eq(&send->to, to))
				continue;
			if (serf_get_leave(span_of(p.p + 2, p.len - 2), &o.arena, &m) == TV_OK && m.prune &&
			    span_eqs(m.node, "a"))
				return m.ltime;
		}
	}
	return 0;
}

/* The time of our own join, once it is sent with a packet of this feed. */
static bool
join_said(const struct one *now, void *arg)
{
	uint64_t *ltime = arg;

	for (size_t i = 0; i < now->out->send_count; i++) {
		const struct swim_send *send = &now->out->sends[i];
		struct serf_join m;

		for (unsigned k = 0; k < send->part_count; k++) {
			struct span p = send->parts[k];

			if (p.len >= 3 && p.p[0] == WIRE_USER && p.p[1] == SERF_JOIN &&
			    serf_get_join(span_of(p.p + 2, p.len - 2), &o.arena, &m) == TV_OK && span_eqs(m.node, SELF))
				*ltime = m.ltime;
		}
	}
	return *ltime != 0;
}

/*
 * Whoever returns after a leave: an exchange between a Serf agent that sees it back and one that does not yet makes that leave one
 * later, and a join of the same time would leave it shown as leaving.
 */
START_TEST(our_join_is_later_than_a_leave_told_by_an_exchange)
{
	uint64_t joined = 0;

	(void)one_alive(&o, "a", 1);
	ck_assert_int_eq(one_leave_intent(&o, SELF, 7, false), TV_OK);
	ck_assert(one_wait_for(&o, MONO_S(5), join_said, &joined));
	ck_assert_uint_gt(joined, 7 + 1);
}
END_TEST

/* Ends our next exchange with an answer that shows `a` with that time. */
static struct addr
exchange_showing(const char *shown, uint64_t ltime, bool left)
{
	struct stream_message m;
	struct buf b = state_of(0, &m, shown, ltime, left);
	struct addr to;

	ck_assert(one_wait_for(&o, MONO_S(61), exchanges, NULL));
	for (size_t i = 0; i < o.out->stream_count; i++) {
		if (o.out->streams[i].kind != SWIM_STREAM_PUSHPULL)
			continue;
		to = o.out->streams[i].to;
		(void)one_feed(&o, (struct swim_input){ .type = SWIM_IN_ANSWER, .stream = o.out->streams[i].id,
			.message = &m });
		buf_done(&b);
		return to;
	}
	ck_abort_msg("no exchange");
}

START_TEST(a_missed_prune_is_told_again)
{
	struct addr to;

	(void)one_alive(&o, "a", 1);
	(void)one_alive(&o, "b", 1);
	(void)one_dead(&o, "a", 1, "b");
	ck_assert_int_eq(one_leave_intent(&o, "a", 9, true), TV_OK);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_NONE);
	to = exchange_showing("a", 4, false);
	ck_assert_uint_eq(told_prune(&to), 9);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_NONE);
}
END_TEST

/*
 * The deployed protocol moves the time of a left member with each full state, so the prune itself may come too late for
 * good: then it is said anew, as often as that happens.
 */
START_TEST(a_prune_that_was_overtaken_is_said_anew)
{
	struct addr to;

	(void)one_alive(&o, "a", 1);
	(void)one_alive(&o, "b", 1);
	(void)one_dead(&o, "a", 1, "b");
	(void)one_leave_intent(&o, "a", 9, true);
	to = exchange_showing("a", 9, true);
	ck_assert_uint_eq(told_prune(&to), 10);
	to = exchange_showing("a", 12, true);
	ck_assert_uint_eq(told_prune(&to), 13);
	/* Passed on by whoever heard it, it is a prune still: the next one that missed it is told as well. */
	ck_assert_int_eq(one_leave_intent(&o, "a", 20, true), TV_OK);
	to = exchange_showing("a", 20, true);
	ck_assert_uint_eq(told_prune(&to), 21);
	/* A time that would use up everybody's clock is not believed. */
	to = exchange_showing("a", UINT64_MAX - 1, true);
	ck_assert_uint_eq(told_prune(&to), 0);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_NONE);
	(void)one_alive(&o, "a", 2);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_ALIVE);
}
END_TEST

START_TEST(who_came_back_after_a_prune_stays)
{
	struct addr to;

	(void)one_alive(&o, "a", 1);
	(void)one_alive(&o, "b", 1);
	(void)one_dead(&o, "a", 1, "b");
	(void)one_leave_intent(&o, "a", 9, true);
	to = exchange_showing("a", 10, false);		/* it has joined again since */
	ck_assert_uint_eq(told_prune(&to), 0);
	(void)one_alive(&o, "a", 3);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_ALIVE);
}
END_TEST

static bool
forgets_a(const struct one *one, void *arg)
{
	(void)arg;
	return one_status(one, "a") == MEMBER_NONE;
}

/*
 * A copy of the prune that comes after the return: ignored by whoever pruned the earlier life; whoever had missed the
 * prune takes the member for leaving, until its word of the new life comes.  It is not forgotten then.
 */
START_TEST(late_prune_of_an_earlier_life)
{
	(void)one_alive(&o, "b", 1);
	(void)one_alive(&o, "a", 1);
	(void)one_dead(&o, "a", 1, "b");
	(void)one_leave_intent(&o, "a", 9, true);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_NONE);
	(void)one_alive(&o, "a", 2);
	(void)one_leave_intent(&o, "a", 9, true);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_ALIVE);
	(void)one_leave_intent(&o, "a", 10, true);	/* as told again by a third member */
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_LEAVING);
	(void)one_join_intent(&o, "a", 11);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_ALIVE);
	ck_assert(!one_wait_for(&o, MONO_S(30), forgets_a, NULL));
}
END_TEST

/* The time of a leave that is under way does not grow with each exchange: it would catch up with the next join. */
START_TEST(one_that_leaves_comes_back_with_the_next_time)
{
	struct stream_message m;
	struct buf b;

	(void)one_alive(&o, "a", 1);
	(void)one_alive(&o, "b", 1);
	(void)one_leave_intent(&o, "a", 7, false);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_LEAVING);
	b = state_of(0, &m, "a", 7, true);
	(void)one_feed(&o, (struct swim_input){ .type = SWIM_IN_REQUEST, .message = &m, .from = one_addr(3) });
	buf_done(&b);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_LEAVING);
	(void)one_join_intent(&o, "a", 8);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_ALIVE);
}
END_TEST

/* A Serf agent that leaves answers an exchange with the time of its leave: the leave itself is heard all the same. */
START_TEST(leave_whose_time_an_exchange_gave)
{
	struct stream_message m;
	struct buf b;

	(void)one_alive(&o, "a", 1);
	(void)one_alive(&o, "b", 1);
	(void)one_join_intent(&o, "a", 6);
	b = state_of(0, &m, "a", 7, false);
	(void)one_feed(&o, (struct swim_input){ .type = SWIM_IN_REQUEST, .message = &m, .from = one_addr(3) });
	buf_done(&b);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_ALIVE);
	(void)one_leave_intent(&o, "a", 7, true);	/* a prune is another's word, and has a time of its own */
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_ALIVE);
	(void)one_leave_intent(&o, "a", 7, false);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_LEAVING);
	(void)one_dead(&o, "a", 1, "a");
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_LEFT);
}
END_TEST

/* The same when its death was heard first; and a time that came with a join intent is that of a join. */
START_TEST(leave_whose_time_an_exchange_gave_heard_late)
{
	struct stream_message m;
	struct buf b;

	(void)one_alive(&o, "a", 1);
	(void)one_alive(&o, "b", 1);
	b = state_of(0, &m, "a", 7, false);
	(void)one_feed(&o, (struct swim_input){ .type = SWIM_IN_REQUEST, .message = &m, .from = one_addr(3) });
	buf_done(&b);
	(void)one_dead(&o, "a", 1, "a");
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_FAILED);
	(void)one_leave_intent(&o, "a", 7, false);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_LEFT);
	(void)one_join_intent(&o, "b", 8);
	(void)one_leave_intent(&o, "b", 8, false);
	ck_assert_int_eq(one_status(&o, "b"), MEMBER_ALIVE);
}
END_TEST

/* What no packet holds would stay in the queue for ever. */
START_TEST(padded_intents_are_heard_and_not_queued)
{
	static const uint8_t padding[1400];
	struct serf_leave leave = { .ltime = 7, .node = span_str("a") };
	struct serf_join join = { .ltime = 8, .node = span_str("a") };
	struct buf b = BUF_INIT(4096);

	(void)one_alive(&o, "a", 1);
	serf_put_leave(&b, &leave);
	buf_put(&b, padding, sizeof(padding));
	ck_assert_int_eq(one_serf(&o, &b), TV_OK);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_LEAVING);
	b = BUF_INIT(4096);
	serf_put_join(&b, &join);
	buf_put(&b, padding, sizeof(padding));
	ck_assert_int_eq(one_serf(&o, &b), TV_OK);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_ALIVE);
	ck_assert_uint_eq(one_stats(&o).intent_queue, 0);
	ck_assert_uint_eq(one_stats(&o).over_packet, 2);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("swim_news");
	TCase *t = tcase_create("exchanges");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, newcomers_among_newcomers_exchange_early);
	tcase_add_test(t, early_exchanges_are_few);
	tcase_add_test(t, a_stable_pool_is_not_asked_twice);
	tcase_add_test(t, a_missed_prune_is_told_again);
	tcase_add_test(t, a_prune_that_was_overtaken_is_said_anew);
	tcase_add_test(t, who_came_back_after_a_prune_stays);
	tcase_add_test(t, late_prune_of_an_earlier_life);
	tcase_add_test(t, one_that_leaves_comes_back_with_the_next_time);
	tcase_add_test(t, leave_whose_time_an_exchange_gave);
	tcase_add_test(t, leave_whose_time_an_exchange_gave_heard_late);
	tcase_add_test(t, padded_intents_are_heard_and_not_queued);
	tcase_add_test(t, our_join_is_later_than_a_leave_told_by_an_exchange);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
