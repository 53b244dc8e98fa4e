/* Serf's statuses of members in the gossip core: intents, failures, leaving, and what is remembered. */
#include "config.h"

#include <stdio.h>

#include "tests/unit/swim_kit.h"

/* -- Serf's statuses ----------------------------------------------------------------------------- */

enum act { A_ALIVE, A_DEAD, A_LEFT, A_JOIN, A_LEAVE, A_PRUNE, A_END };

static void
act(enum act what, unsigned step)
{
	uint64_t ltime = 10 + step;
	uint32_t incarnation = 1 + step;

	switch (what) {
	case A_ALIVE:
		(void)one_alive(&o, "a", incarnation);
		break;
	case A_DEAD:
		(void)one_dead(&o, "a", incarnation, "x");
		break;
	case A_LEFT:
		(void)one_dead(&o, "a", incarnation, "a");
		break;
	case A_JOIN:
		(void)one_join_intent(&o, "a", ltime);
		break;
	default:
		(void)one_leave_intent(&o, "a", ltime, what == A_PRUNE);
		break;
	}
}

static const struct {
	const char *what;
	enum act acts[5];
	enum member_status status;
	int event;			/* of the last act; -1: none */
} statuses[] = {
	{ "join",			{ A_ALIVE, A_END }, MEMBER_ALIVE, GOSSIP_EV_JOIN },
	{ "fail",			{ A_ALIVE, A_DEAD, A_END }, MEMBER_FAILED, GOSSIP_EV_FAILED },
	{ "left without intent",	{ A_ALIVE, A_LEFT, A_END }, MEMBER_FAILED, GOSSIP_EV_FAILED },
	{ "intent only",		{ A_ALIVE, A_LEAVE, A_END }, MEMBER_LEAVING, GOSSIP_EV_UPDATE },
	{ "intent, then dead",		{ A_ALIVE, A_LEAVE, A_DEAD, A_END }, MEMBER_LEFT, GOSSIP_EV_LEAVE },
	{ "intent, then left",		{ A_ALIVE, A_LEAVE, A_LEFT, A_END }, MEMBER_LEFT, GOSSIP_EV_LEAVE },
	{ "dead, then intent",		{ A_ALIVE, A_DEAD, A_LEAVE, A_END }, MEMBER_LEFT, GOSSIP_EV_LEAVE },
	{ "second intent of a left one", { A_ALIVE, A_DEAD, A_LEAVE, A_LEAVE, A_END }, MEMBER_LEFT, -1 },
	{ "intent taken back",		{ A_ALIVE, A_LEAVE, A_JOIN, A_END }, MEMBER_ALIVE, GOSSIP_EV_UPDATE },
	{ "intent before the member",	{ A_LEAVE, A_ALIVE, A_END }, MEMBER_LEAVING, GOSSIP_EV_JOIN },
	{ "join intent before it",	{ A_JOIN, A_ALIVE, A_END }, MEMBER_ALIVE, GOSSIP_EV_JOIN },
	{ "both before it",		{ A_JOIN, A_LEAVE, A_ALIVE, A_END }, MEMBER_LEAVING, GOSSIP_EV_JOIN },
	{ "back from failed",		{ A_ALIVE, A_DEAD, A_ALIVE, A_END }, MEMBER_ALIVE, GOSSIP_EV_JOIN },
	{ "back from left",		{ A_ALIVE, A_LEAVE, A_LEFT, A_ALIVE, A_END }, MEMBER_ALIVE, GOSSIP_EV_JOIN },
	{ "prune a failed one",		{ A_ALIVE, A_DEAD, A_PRUNE, A_END }, MEMBER_NONE, GOSSIP_EV_REAP },
	{ "prune a left one",		{ A_ALIVE, A_DEAD, A_LEAVE, A_PRUNE, A_END }, MEMBER_NONE, GOSSIP_EV_REAP },
	{ "prune a live one: not yet",	{ A_ALIVE, A_PRUNE, A_END }, MEMBER_LEAVING, GOSSIP_EV_UPDATE },
};

START_TEST(status_rules)
{
	for (unsigned i = 0; statuses[_i].acts[i] != A_END; i++)
		act(statuses[_i].acts[i], i);
	ck_assert_msg(one_status(&o, "a") == statuses[_i].status, "%s: %s", statuses[_i].what,
	    member_status_name(one_status(&o, "a")));
	ck_assert_msg(one_event(&o) == statuses[_i].event, "%s: event %d", statuses[_i].what, one_event(&o));
}
END_TEST

START_TEST(old_intents_change_nothing)
{
	(void)one_alive(&o, "a", 1);
	(void)one_join_intent(&o, "a", 10);
	(void)one_leave_intent(&o, "a", 10, false);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_ALIVE);
	(void)one_leave_intent(&o, "a", 11, false);
	(void)one_join_intent(&o, "a", 11);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_LEAVING);
	ck_assert_uint_eq(one_stats(&o).clock, 12);		/* witnessed all the same */
}
END_TEST

START_TEST(intents_spread_once)
{
	without_probes();
	(void)one_alive(&o, "a", 1);
	(void)one_alive(&o, "b", 1);
	one_wait(&o, MONO_S(5));
	(void)one_leave_intent(&o, "a", 10, false);
	ck_assert(one_spreads_intent(&o, SERF_LEAVE, "a"));
	one_wait(&o, MONO_S(10));
	(void)one_leave_intent(&o, "a", 10, false);
	ck_assert(!one_spreads_intent(&o, SERF_LEAVE, "a"));
	(void)one_join_intent(&o, "unknown", 12);
	ck_assert(one_spreads_intent(&o, SERF_JOIN, "unknown"));
}
END_TEST

START_TEST(we_do_not_leave_because_others_say_so)
{
	(void)one_alive(&o, "a", 1);
	(void)one_leave_intent(&o, SELF, 40, false);
	ck_assert_int_eq(one_status(&o, SELF), MEMBER_ALIVE);
	ck_assert(one_noticed(&o, SWIM_NOTICE_LEAVE_REFUTED));
	ck_assert(one_spreads_intent(&o, SERF_JOIN, SELF));
	ck_assert(!one_spreads_intent(&o, SERF_LEAVE, SELF));
	ck_assert_uint_gt(one_stats(&o).clock, 41);
}
END_TEST

/* A time that nobody could ever top would settle a member's fate for good. */
START_TEST(intents_at_the_end_of_time)
{
	(void)one_alive(&o, "a", 1);
	(void)one_leave_intent(&o, SELF, UINT64_MAX, false);
	(void)one_leave_intent(&o, "a", UINT64_MAX - 1, false);
	(void)one_join_intent(&o, "a", UINT64_MAX - 1);
	(void)one_join_intent(&o, "unknown", UINT64_MAX);
	ck_assert_int_eq(one_status(&o, SELF), MEMBER_ALIVE);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_ALIVE);
	ck_assert_uint_lt(one_stats(&o).clock, 10);
	ck_assert_uint_eq(one_stats(&o).over_ltimes, 4);
	ck_assert(!one_spreads_intent(&o, SERF_LEAVE, "a"));
	(void)one_leave_intent(&o, "a", 10, false);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_LEAVING);
}
END_TEST

START_TEST(a_pruned_member_that_speaks_up_stays)
{
	without_probes();
	(void)one_alive(&o, "a", 1);
	(void)one_leave_intent(&o, "a", 10, true);
	one_wait(&o, MONO_S(2));
	(void)one_join_intent(&o, "a", 12);
	one_wait(&o, MONO_S(6));
	ck_assert_int_ne(one_status(&o, "a"), MEMBER_NONE);
	(void)one_leave_intent(&o, "a", 20, true);
	one_wait(&o, MONO_S(7));
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_NONE);
}
END_TEST

/* Copies of a prune arrive after the member is gone: when it comes back, it is not taken for leaving. */
START_TEST(a_pruned_member_returns)
{
	without_probes();
	(void)one_alive(&o, "a", 1);
	(void)one_dead(&o, "a", 1, "b");
	(void)one_leave_intent(&o, "a", 10, true);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_NONE);
	(void)one_leave_intent(&o, "a", 10, true);
	(void)one_alive(&o, "a", 2);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_ALIVE);
	(void)one_leave_intent(&o, "a", 10, true);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_ALIVE);
	(void)one_join_intent(&o, "a", 11);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_ALIVE);
}
END_TEST

START_TEST(intent_memory_is_limited)
{
	char name[16];

	for (int i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "u%d", i);
		(void)one_join_intent(&o, name, 5);
	}
	ck_assert_uint_eq(one_stats(&o).over_intents, 20);
	one_wait(&o, MONO_S(400));			/* they are forgotten, and there is room again */
	(void)one_join_intent(&o, "late", 6);
	ck_assert_uint_eq(one_stats(&o).over_intents, 20);
}
END_TEST

START_TEST(members_are_reaped)
{
	o.opt.timing.reconnect_timeout = MONO_S(60);
	o.opt.timing.tombstone_timeout = MONO_S(120);
	restart();
	(void)one_alive(&o, "f", 1);
	(void)one_dead(&o, "f", 1, "x");
	(void)one_alive(&o, "l", 1);
	(void)one_leave_intent(&o, "l", 5, false);
	(void)one_dead(&o, "l", 1, "l");
	one_wait(&o, MONO_S(55));
	ck_assert_int_eq(one_status(&o, "f"), MEMBER_FAILED);
	one_wait(&o, MONO_S(25));
	ck_assert_int_eq(one_status(&o, "f"), MEMBER_NONE);
	ck_assert_int_eq(one_status(&o, "l"), MEMBER_LEFT);
	one_wait(&o, MONO_S(60));
	ck_assert_int_eq(one_status(&o, "l"), MEMBER_NONE);
	ck_assert_uint_eq(one_stats(&o).known, 1);	/* and SWIM has forgotten both */
}
END_TEST

static struct swim_restore
remembered(const char *name, enum member_status status, struct mono age)
{
	return (struct swim_restore){ .name = span_str(name), .meta = span_str("role"), .addr = one_addr('a'),
		.status = status, .age = age, .status_ltime = 7, .vsn = { 1, 5, 2, 2, 5, 5 } };
}

static enum tv_err
restore(struct swim_restore r)
{
	return one_feed(&o, (struct swim_input){ .type = SWIM_IN_RESTORE, .restore = &r });
}

START_TEST(members_from_before_a_restart)
{
	o.opt.timing.reconnect_timeout = MONO_S(60);
	restart();
	ck_assert_int_eq(restore(remembered("a", MEMBER_FAILED, MONO_ZERO)), TV_OK);
	ck_assert_int_eq(restore(remembered("f", MEMBER_FAILED, MONO_S(50))), TV_OK);
	ck_assert_int_eq(restore(remembered("l", MEMBER_LEFT, MONO_S(50))), TV_OK);
	ck_assert_int_eq(restore(remembered("a", MEMBER_FAILED, MONO_ZERO)), TV_EEXIST);
	ck_assert_int_eq(restore(remembered(SELF, MEMBER_FAILED, MONO_ZERO)), TV_EEXIST);
	ck_assert_int_eq(restore(remembered("old", MEMBER_FAILED, MONO_S(61))), TV_ENOENT);	/* its time is over */
	ck_assert_int_eq(one_status(&o, "old"), MEMBER_NONE);
	ck_assert_int_eq(restore(remembered("x", MEMBER_ALIVE, MONO_ZERO)), TV_EINVAL);
	ck_assert_int_eq(restore(remembered("bad\n", MEMBER_FAILED, MONO_ZERO)), TV_EINVAL);
	ck_assert_int_eq(one_event(&o), -1);
	ck_assert_int_eq(one_state(&o, "a"), NODE_STATES);	/* not probed */
	(void)one_alive(&o, "a", 1);
	ck_assert_int_eq(one_event(&o), GOSSIP_EV_JOIN);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_ALIVE);
	(void)one_leave_intent(&o, "f", 7, false);		/* not newer than what was remembered */
	ck_assert_int_eq(one_status(&o, "f"), MEMBER_FAILED);
	one_wait(&o, MONO_S(30));				/* its 60 s began before the restart */
	ck_assert_int_eq(one_status(&o, "f"), MEMBER_NONE);
	ck_assert_int_eq(one_status(&o, "l"), MEMBER_LEFT);
}
END_TEST

static bool
dials_join(const struct one *one, void *arg)
{
	struct addr *to = arg;

	for (size_t i = 0; i < one->out->stream_count; i++) {
		if (one->out->streams[i].kind == SWIM_STREAM_PUSHPULL) {
			*to = one->out->streams[i].to;
			return true;
		}
	}
	return false;
}

START_TEST(failed_members_are_tried_again)
{
	struct addr to, want = one_addr('a');

	(void)one_alive(&o, "a", 1);
	(void)one_dead(&o, "a", 1, "x");
	ck_assert(one_wait_for(&o, MONO_S(31), dials_join, &to));
	ck_assert(addr_eq(&to, &want));
	(void)one_feed(&o, (struct swim_input){ .type = SWIM_IN_FAILED, .stream = o.out->streams[0].id,
		.error = TV_ETIMEOUT });
	ck_assert(one_wait_for(&o, MONO_S(31), dials_join, &to));
}
END_TEST

/* -- leaving ------------------------------------------------------------------------------------------------- */

static bool
has_left(const struct one *one, void *arg)
{
	(void)arg;
	return one->out->left;
}

START_TEST(leave_says_intent_then_death)
{
	without_probes();
	(void)one_alive(&o, "a", 1);
	one_wait(&o, MONO_S(3));
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_LEAVE }), TV_OK);
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_LEAVE }), TV_EEXIST);
	ck_assert_int_eq(one_status(&o, SELF), MEMBER_LEAVING);
	ck_assert(one_spreads_intent(&o, SERF_LEAVE, SELF));
	ck_assert_int_eq(one_state(&o, SELF), NODE_ALIVE);
	ck_assert(one_spreads(&o, WIRE_DEAD, SELF) || one_spreads(&o, WIRE_DEAD, SELF));
	ck_assert_int_eq(one_state(&o, SELF), NODE_LEFT);
	ck_assert_int_eq(one_ping(&o, 5, SELF), TV_OK);		/* still answers */
	ck_assert_ptr_nonnull(one_said(&o, WIRE_ACK, NULL).p);
	ck_assert(one_wait_for(&o, MONO_S(3), has_left, NULL));
	ck_assert_int_eq(one_status(&o, SELF), MEMBER_LEFT);
}
END_TEST

START_TEST(leave_alone_is_quick)
{
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_LEAVE }), TV_OK);
	ck_assert(o.out->left);
}
END_TEST

START_TEST(leave_does_not_wait_for_ever)
{
	(void)one_alive(&o, "a", 1);
	o.opt.timing.gossip_interval = MONO_S(1000);		/* nothing ever leaves the queue */
	restart();
	(void)one_alive(&o, "a", 1);
	(void)one_feed(&o, (struct swim_input){ .type = SWIM_IN_LEAVE });
	ck_assert(one_wait_for(&o, MONO_S(17), has_left, NULL));
}
END_TEST

START_TEST(force_leave)
{
	struct swim_input in = { .type = SWIM_IN_FORCE_LEAVE };

	(void)one_alive(&o, "a", 1);
	(void)one_alive(&o, "b", 1);
	in.name = span_str("nobody");
	ck_assert_int_eq(one_feed(&o, in), TV_ENOENT);
	in.name = span_str(SELF);
	ck_assert_int_eq(one_feed(&o, in), TV_EINVAL);
	(void)one_dead(&o, "a", 1, "x");
	in.name = span_str("a");
	ck_assert_int_eq(one_feed(&o, in), TV_OK);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_LEFT);
	ck_assert(one_spreads_intent(&o, SERF_LEAVE, "a"));
	in.prune = true;
	ck_assert_int_eq(one_feed(&o, in), TV_OK);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_NONE);
}
END_TEST

static TCase *
serf_case(void)
{
	TCase *t = tcase_create("serf");

	tcase_add_loop_test(t, status_rules, 0, sizeof(statuses) / sizeof(statuses[0]));
	tcase_add_test(t, old_intents_change_nothing);
	tcase_add_test(t, intents_spread_once);
	tcase_add_test(t, we_do_not_leave_because_others_say_so);
	tcase_add_test(t, intents_at_the_end_of_time);
	tcase_add_test(t, a_pruned_member_that_speaks_up_stays);
	tcase_add_test(t, a_pruned_member_returns);
	tcase_add_test(t, intent_memory_is_limited);
	tcase_add_test(t, members_are_reaped);
	tcase_add_test(t, members_from_before_a_restart);
	tcase_add_test(t, failed_members_are_tried_again);
	tcase_add_test(t, leave_says_intent_then_death);
	tcase_add_test(t, leave_alone_is_quick);
	tcase_add_test(t, leave_does_not_wait_for_ever);
	tcase_add_test(t, force_leave);
	return t;
}

int
main(void)
{
	TCase *const cases[] = { serf_case() };

	return swim_kit_main("swim_status", cases, sizeof(cases) / sizeof(cases[0]));
}
