/* May a server go on alone?  What a recovery is refused for, and what it says may be lost (S68). */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raftd/members/rules/recover_plan.h"

static struct raft_config config;
static struct recover_input in;
static struct recover_plan plan;

/* Five voters, we are n1 with entries up to 100 of term 7; nobody else answers. */
static void
setup(void)
{
	memset(&config, 0, sizeof(config));
	config.count = 5;
	for (unsigned i = 0; i < 5; i++) {
		config.servers[i] = (struct raft_server_conf){ .id = i + 1, .voter = true };
		snprintf(config.servers[i].name, sizeof(config.servers[i].name), "n%u", i + 1);
	}
	in = (struct recover_input){ .config = &config, .self = 1, .member = true,
		.log = { .last_index = 100, .last_term = 7, .commit = 98, .leader_last = 100 } };
	for (unsigned i = 1; i < 5; i++)
		in.servers[in.count++] = (struct recover_server){ .id = i + 1 };
}

static void
answers(raft_id id, uint64_t last, uint64_t term, uint64_t commit, uint64_t leader_last)
{
	struct recover_server *s = &in.servers[id - 2];

	s->answered = true;
	s->log = (struct msg_log_state){ last, term, commit, leader_last };
}

static void
refused(const char *text)
{
	recover_plan(&in, &plan);
	ck_assert(!plan.allowed);
	ck_assert_msg(strstr(plan.refused, text) != NULL, "%s", plan.refused);
}

static void
allowed(void)
{
	recover_plan(&in, &plan);
	ck_assert_msg(plan.allowed && plan.refused[0] == '\0', "%s", plan.refused);
	ck_assert_uint_eq(plan.best, 1);
}

START_TEST(alone)
{
	allowed();
	ck_assert_uint_eq(plan.voters, 5);
	ck_assert_uint_eq(plan.answering, 1);
	ck_assert_uint_eq(plan.leader_last, 100);
	ck_assert_uint_eq(plan.may_be_lost, 0);
	answers(2, 90, 7, 90, 95);
	allowed();
	ck_assert_uint_eq(plan.answering, 2);
}
END_TEST

START_TEST(not_while_there_is_a_leader)
{
	in.leader = 3;
	refused("the cluster has a leader, n3: nothing is lost");
	in.leader = in.self;
	in.leads = true;
	refused("this server leads the cluster");
	in.leads = false;
	in.leader = 77;
	refused("does not know by name");
}
END_TEST

START_TEST(not_with_a_majority)
{
	answers(2, 90, 7, 90, 95);
	answers(3, 90, 7, 90, 95);
	refused("3 of 5 voters answer, which is a majority");
	/* learners are no voters */
	config.servers[2].voter = false;	/* of four voters, two answer */
	allowed();
	ck_assert_uint_eq(plan.voters, 4);
	ck_assert_uint_eq(plan.answering, 2);
	/* and a learner may go on when it has what there is */
	config.servers[0].voter = false;
	allowed();
	ck_assert_uint_eq(plan.voters, 3);
	ck_assert_uint_eq(plan.answering, 1);
}
END_TEST

START_TEST(the_longest_log_goes_on)
{
	answers(2, 101, 7, 90, 95);
	refused("n2 has the longer log: up to index 101 of term 7, this server up to index 100 of term 7; recover there");
	ck_assert_uint_eq(plan.best, 2);
	answers(2, 100, 7, 100, 100);
	allowed();				/* equal: ours will do */
	answers(2, 60, 8, 60, 60);
	refused("n2 has the longer log: up to index 60 of term 8");
	answers(2, 2000, 6, 60, 60);		/* longer, but of an older term */
	allowed();
}
END_TEST

START_TEST(what_may_be_lost)
{
	in.log.leader_last = 130;
	allowed();
	ck_assert_uint_eq(plan.may_be_lost, 30);
	answers(4, 80, 7, 80, 150);
	allowed();
	ck_assert_uint_eq(plan.leader_last, 150);
	ck_assert_uint_eq(plan.may_be_lost, 50);
	in.log.leader_last = 0;			/* not heard since the start: what is committed there was */
	in.servers[2].answered = false;
	allowed();
	ck_assert_uint_eq(plan.leader_last, 98);
	ck_assert_uint_eq(plan.may_be_lost, 0);
}
END_TEST

START_TEST(nothing_to_recover)
{
	in.member = false;
	refused("belongs to no cluster");
	in.member = true;
	in.self = 99;
	refused("was removed from the cluster");
}
END_TEST

START_TEST(not_without_a_state)
{
	in.stateless = true;
	refused("the state of this server is lost");
	answers(2, 120, 7, 120, 120);		/* that is no better advice */
	refused("the state of this server is lost");
	in.leader = 3;
	refused("the cluster has a leader");
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("recovery");
	TCase *t = tcase_create("all");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_test(t, alone);
	tcase_add_test(t, not_while_there_is_a_leader);
	tcase_add_test(t, not_with_a_majority);
	tcase_add_test(t, the_longest_log_goes_on);
	tcase_add_test(t, what_may_be_lost);
	tcase_add_test(t, nothing_to_recover);
	tcase_add_test(t, not_without_a_state);
	suite_add_tcase(s, t);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
