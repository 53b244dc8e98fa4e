/* What one accuser is believed, through the contract of the gossip core. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/gossip_one.h"

#define MEMBERS 40
#define BURST (10 + (MEMBERS + 1) / 8)

static struct one o;
static char names[MEMBERS][8];

/* 40 members, m0..m39. */
static void
setup(void)
{
	one_init(&o);
	o.opt.members_max = 200;
	one_start(&o);
	for (unsigned i = 0; i < MEMBERS; i++) {
		struct addr a = one_addr(i + 2);

		snprintf(names[i], sizeof(names[i]), "m%u", i);
		(void)one_alive_at(&o, names[i], 1, &a, SPAN_NONE);
	}
}

static void
teardown(void)
{
	one_done(&o);
}

static bool
says_ping(const struct one *one, void *arg)
{
	(void)arg;
	return one_said(one, WIRE_PING, NULL).p != NULL;
}

/* Our own probes are answered meanwhile: only what others say is looked at here. */
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

static unsigned
in_state(enum node_state state)
{
	unsigned n = 0;

	for (unsigned i = 0; i < MEMBERS; i++)
		n += one_state(&o, names[i]) == state;
	return n;
}

static void
accuse_all(const char *by)
{
	for (unsigned i = 0; i < MEMBERS; i++)
		if (strcmp(names[i], by) != 0)
			(void)one_suspect(&o, names[i], one_incarnation(&o, names[i]), by);
}

static void
all_speak_up(void)
{
	for (unsigned i = 0; i < MEMBERS; i++) {
		struct addr a = one_addr(i + 2);

		if (one_state(&o, names[i]) != NODE_ALIVE)
			(void)one_alive_at(&o, names[i], one_incarnation(&o, names[i]) + 1, &a, SPAN_NONE);
	}
}

/* S124: of a storm only the credit is believed; what is refuted costs more than it brings. */
START_TEST(a_storm_is_not_believed)
{
	unsigned believed = 0;

	accuse_all("m0");
	ck_assert_uint_eq(in_state(NODE_SUSPECT), BURST);
	ck_assert_uint_eq(one_stats(&o).over_accusations, MEMBERS - 1 - BURST);
	ck_assert(one_noticed(&o, SWIM_NOTICE_NOT_BELIEVED));
	ck_assert(!one_spreads(&o, WIRE_SUSPECT, "m39"));
	all_speak_up();
	for (int second = 0; second < 60; second++) {		/* it goes on */
		wait_answering(MONO_S(1));
		accuse_all("m0");
		believed += in_state(NODE_SUSPECT);
		all_speak_up();
	}
	ck_assert_uint_le(believed, 2);
	wait_answering(MONO_S(90));				/* it hears again: forgiven after a while */
	(void)one_suspect(&o, "m1", one_incarnation(&o, "m1"), "m0");
	ck_assert_int_eq(one_state(&o, "m1"), NODE_SUSPECT);
}
END_TEST

/* Others are believed meanwhile, and so are two that are both out of credit. */
START_TEST(others_are_believed_all_the_same)
{
	accuse_all("m0");
	ck_assert_int_eq(one_state(&o, "m39"), NODE_ALIVE);
	(void)one_suspect(&o, "m39", 1, "m1");
	ck_assert_int_eq(one_state(&o, "m39"), NODE_SUSPECT);
	all_speak_up();
	accuse_all("m1");
	all_speak_up();
	wait_answering(MONO_S(11));				/* until what they said is forgotten */
	ck_assert_uint_eq(in_state(NODE_ALIVE), MEMBERS);
	(void)one_suspect(&o, "m30", one_incarnation(&o, "m30"), "m0");
	(void)one_suspect(&o, "m30", one_incarnation(&o, "m30"), "m0");
	ck_assert_int_eq(one_state(&o, "m30"), NODE_ALIVE);	/* one accuser is one, however often it says so */
	(void)one_suspect(&o, "m30", one_incarnation(&o, "m30"), "m1");
	ck_assert_int_eq(one_state(&o, "m30"), NODE_SUSPECT);
}
END_TEST

/* Half of the pool dies, and the few that report it do so as fast as their probes allow. */
START_TEST(mass_failure_is_believed)
{
	for (unsigned i = 10; i < MEMBERS; i++) {
		char by[8];

		snprintf(by, sizeof(by), "m%u", i % 2);
		if (i % 2 == 0)
			wait_answering(MONO_S(1));
		(void)one_suspect(&o, names[i], 1, by);
		ck_assert_int_eq(one_state(&o, names[i]), NODE_SUSPECT);
	}
	ck_assert_uint_eq(one_stats(&o).over_accusations, 0);
}
END_TEST

/* Deaths of members that nobody suspects, and leaves that were not announced. */
START_TEST(claimed_deaths)
{
	for (unsigned i = 1; i < MEMBERS; i++)
		(void)one_dead(&o, names[i], 1, "m0");
	ck_assert_uint_eq(in_state(NODE_DEAD), BURST);
	all_speak_up();
	for (unsigned i = 1; i < MEMBERS; i++)
		(void)one_dead(&o, names[i], one_incarnation(&o, names[i]), names[i]);
	ck_assert_uint_eq(in_state(NODE_LEFT), BURST);
	all_speak_up();
	for (unsigned i = 1; i < MEMBERS; i++) {		/* but all may leave that say so */
		(void)one_leave_intent(&o, names[i], 100 + i, false);
		(void)one_dead(&o, names[i], one_incarnation(&o, names[i]), names[i]);
	}
	ck_assert_uint_eq(in_state(NODE_LEFT), MEMBERS - 1);
}
END_TEST

START_TEST(strangers_share_one_credit)
{
	for (unsigned i = 0; i < MEMBERS; i++) {
		char by[16];

		snprintf(by, sizeof(by), "invented%u", i);
		(void)one_suspect(&o, names[i], 1, by);
	}
	ck_assert_uint_eq(in_state(NODE_SUSPECT), BURST);
}
END_TEST

/* A whole state may be told once per exchange interval and partner; what comes in between is not believed. */
START_TEST(exchanges_tell_one_state)
{
	struct wire_node nodes[MEMBERS];
	struct addr addrs[MEMBERS];

	for (unsigned i = 0; i < MEMBERS; i++) {
		addrs[i] = one_addr(i + 2);
		nodes[i] = (struct wire_node){ .name = span_str(names[i]), .addr = span_of(addrs[i].ip, 4),
			.port = 7946, .incarnation = 1, .state = WIRE_STATE_DEAD, .vsn = span_of(one_vsn, 6) };
	}
	ck_assert_int_eq(one_exchange(&o, false, nodes, MEMBERS), TV_OK);
	ck_assert_uint_eq(in_state(NODE_SUSPECT), MEMBERS);
	all_speak_up();
	for (unsigned i = 0; i < MEMBERS; i++)
		nodes[i].incarnation = 2;
	ck_assert_int_eq(one_exchange(&o, false, nodes, MEMBERS), TV_OK);
	ck_assert_uint_le(in_state(NODE_SUSPECT), 2);
	o.now = mono_add(o.now, MONO_S(30));
	(void)one_feed(&o, (struct swim_input){ .type = SWIM_IN_TICK });
	all_speak_up();
	for (unsigned i = 0; i < MEMBERS; i++)
		nodes[i].incarnation = one_incarnation(&o, names[i]);
	ck_assert_int_eq(one_exchange(&o, false, nodes, MEMBERS), TV_OK);
	ck_assert_uint_ge(in_state(NODE_SUSPECT), MEMBERS - 1);
}
END_TEST

/* Many accusers at once: the accounts that are kept are those in debt. */
START_TEST(accounts_in_debt_are_kept)
{
	accuse_all("m0");
	all_speak_up();
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 1; i < MEMBERS; i++) {
			(void)one_suspect(&o, names[(i + round) % MEMBERS], one_incarnation(&o,
			    names[(i + round) % MEMBERS]), names[i]);
			all_speak_up();
		}
	wait_answering(MONO_S(11));
	(void)one_suspect(&o, "m5", one_incarnation(&o, "m5"), "m0");
	ck_assert_int_eq(one_state(&o, "m5"), NODE_ALIVE);
}
END_TEST

/* Who says what of whom is told. */
START_TEST(notices_name_both)
{
	(void)one_suspect(&o, "m1", 1, "m2");
	ck_assert(one_noticed(&o, SWIM_NOTICE_ACCUSED));
	ck_assert(span_eqs(o.out->notices[0].name, "m1") && span_eqs(o.out->notices[0].other, "m2"));
	ck_assert_uint_eq(o.out->notices[0].number, 1);
	(void)one_suspect(&o, "m1", 1, "m3");
	ck_assert(one_noticed(&o, SWIM_NOTICE_CONFIRMED));
	ck_assert(span_eqs(o.out->notices[0].other, "m3") && o.out->notices[0].number == 1 &&
	    o.out->notices[0].number2 == 2);
	all_speak_up();
	ck_assert(one_noticed(&o, SWIM_NOTICE_SPOKE_UP));
	(void)one_dead(&o, "m1", 2, "m4");
	ck_assert(one_noticed(&o, SWIM_NOTICE_DECLARED));
	ck_assert(span_eqs(o.out->notices[0].name, "m1") && span_eqs(o.out->notices[0].other, "m4"));
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("swim-accuse");
	TCase *t = tcase_create("accuse");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_storm_is_not_believed);
	tcase_add_test(t, others_are_believed_all_the_same);
	tcase_add_test(t, mass_failure_is_believed);
	tcase_add_test(t, claimed_deaths);
	tcase_add_test(t, strangers_share_one_credit);
	tcase_add_test(t, exchanges_tell_one_state);
	tcase_add_test(t, accounts_in_debt_are_kept);
	tcase_add_test(t, notices_name_both);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
