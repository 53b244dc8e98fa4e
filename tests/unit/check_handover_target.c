/* Who takes over from a leader without an rpcd, or without room: whom it picks, and what it says when there is nobody. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "raftd/engine/voter_with_space.h"
#include "raftd/members/rules/handover_target.h"

static struct raft_status st;
static struct raft_config conf;
static struct handover_target s[3];

static void
setup(void)
{
	st = (struct raft_status){ .peer_count = 3 };
	conf = (struct raft_config){ .count = 3 };
	for (unsigned i = 0; i < 3; i++) {
		st.peers[i] = (struct raft_peer_status){ .id = i + 1, .match = 100, .voter = true };
		conf.servers[i].id = i + 1;
		snprintf(conf.servers[i].name, sizeof(conf.servers[i].name), "n%u", i + 1);
		s[i] = (struct handover_target){ i + 1, HANDOVER_TARGET_SERVED };
	}
}

START_TEST(newest_of_the_served)
{
	st.peers[1].match = 101;
	ck_assert_uint_eq(handover_target_pick(&st, s, 3)->id, 2);
	st.peers[2].match = 900;
	s[2].state = HANDOVER_TARGET_UNKNOWN;	/* newer, but who knows */
	ck_assert_uint_eq(handover_target_pick(&st, s, 3)->id, 2);
	s[1].state = HANDOVER_TARGET_SILENT;
	ck_assert_uint_eq(handover_target_pick(&st, s, 3)->id, 1);
}
END_TEST

START_TEST(who_cannot_tell_is_better_than_nobody)
{
	s[0].state = HANDOVER_TARGET_SILENT;
	s[1].state = HANDOVER_TARGET_UNKNOWN;
	s[2].state = HANDOVER_TARGET_DESERTED;
	ck_assert_uint_eq(handover_target_pick(&st, s, 3)->id, 2);
}
END_TEST

START_TEST(never_a_full_disk_or_a_closed_state)
{
	st.peers[0].match = 900;
	st.peers[0].full = true;
	ck_assert_uint_eq(handover_target_pick(&st, s, 2)->id, 2);
	st.peers[1].unready = true;
	ck_assert_ptr_null(handover_target_pick(&st, s, 2));
}
END_TEST

START_TEST(nobody_and_why)
{
	struct buf b = BUF_INIT(4096);

	s[0].state = HANDOVER_TARGET_SILENT;
	s[1].state = HANDOVER_TARGET_DESERTED;
	s[2].state = HANDOVER_TARGET_GONE;
	ck_assert_ptr_null(handover_target_pick(&st, s, 3));
	ck_assert_ptr_null(handover_target_pick(&st, s, 0));
	handover_target_reasons(&st, &conf, s, 3, &b);
	ck_assert_str_eq(buf_cstr(&b), "n1 (its rpcd does not answer), n2 (its rpcd does not run), "
	    "n3 (its raftd cannot be reached)");
	buf_reset(&b);
	st.peers[0].full = true;
	s[0].state = HANDOVER_TARGET_SERVED;
	handover_target_reasons(&st, &conf, s, 1, &b);
	ck_assert_str_eq(buf_cstr(&b), "n1 (its disk is full)");
	buf_reset(&b);
	st.peers[0] = (struct raft_peer_status){ .id = st.peers[0].id, .unready = true };
	handover_target_reasons(&st, &conf, s, 1, &b);
	ck_assert_str_eq(buf_cstr(&b), "n1 (it is opening its state)");
	buf_done(&b);
}
END_TEST

/* A full disk: not the first that has room, which may need a snapshot that we have no room for, and nobody twice. */
START_TEST(from_a_full_disk)
{
	struct tried_voters tries = { 0 };

	st.last_index = 100;
	for (unsigned i = 0; i < 3; i++)
		st.peers[i].active = true;
	st.peers[0].match = 60;
	st.peers[2].match = 99;
	ck_assert_uint_eq(voter_with_space(&st, &tries, 50), 2);
	st.peers[1].active = false;
	ck_assert_uint_eq(voter_with_space(&st, &tries, 50), 3);
	st.peers[1].active = true;
	for (unsigned i = 0; i < 2; i++)
		voter_tried(&tries, 2);
	ck_assert_uint_eq(voter_with_space(&st, &tries, 50), 3);
	voter_tried(&tries, 3);
	ck_assert_uint_eq(voter_with_space(&st, &tries, 50), 1);
	ck_assert_uint_eq(voter_with_space(&st, &tries, 39), 0);	/* too far behind */
	st.peers[0].full = true;
	ck_assert_uint_eq(voter_with_space(&st, &tries, 50), 0);
	tries.count = 0;
	st.peers[1].voter = false;
	ck_assert_uint_eq(voter_with_space(&st, &tries, 50), 3);
	ck_assert_uint_eq(tries.count, 0);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("successor");
	TCase *t = tcase_create("successor");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_test(t, newest_of_the_served);
	tcase_add_test(t, who_cannot_tell_is_better_than_nobody);
	tcase_add_test(t, never_a_full_disk_or_a_closed_state);
	tcase_add_test(t, nobody_and_why);
	tcase_add_test(t, from_a_full_disk);
	suite_add_tcase(suite, t);
	sr = srunner_create(suite);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
