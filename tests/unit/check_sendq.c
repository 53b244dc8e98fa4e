/* Messages to one peer: in order, a bounded amount at a time, and never more than a bounded number kept. */
#include <check.h>
#include <stdlib.h>

#include "raftd/peers/sendq.h"

static struct raft_send
message(uint64_t first)
{
	return (struct raft_send){ .msg.type = RAFT_MSG_APPEND, .first = first };
}

static bool
put(struct sendq *q, uint64_t first, size_t pending)
{
	struct raft_send s = message(first);

	return sendq_put(q, &s, pending);
}

START_TEST(little_goes_at_once)
{
	struct sendq q = { 0 };

	for (uint64_t i = 1; i <= 100; i++) {
		ck_assert(put(&q, i, 1000));
		sendq_sent(&q, 1000);
	}
	ck_assert(!sendq_waiting(&q, 0));
	sendq_clear(&q);
}
END_TEST

/* What is read back for a peer that was away: a piece in each turn, in the order in which the core sent it. */
START_TEST(much_goes_in_turns)
{
	const size_t size = SENDQ_BYTES / 4;
	struct raft_send s;
	struct sendq q = { 0 };
	uint64_t next = 1;

	for (uint64_t i = 1; i <= 64; i++) {
		if (!put(&q, i, 0))
			continue;
		ck_assert_uint_eq(i, next++);
		sendq_sent(&q, size);
	}
	ck_assert_uint_eq(next, 5);
	while (sendq_waiting(&q, 0)) {
		unsigned n = 0;

		ck_assert(!sendq_next(&q, 0, &s));	/* not before the next turn */
		sendq_turn(&q);
		while (sendq_next(&q, 0, &s)) {
			ck_assert_uint_eq(s.first, next++);
			sendq_sent(&q, size);
			n++;
		}
		ck_assert_uint_eq(n, 4);
	}
	ck_assert_uint_eq(next, 65);
	sendq_turn(&q);
	ck_assert(put(&q, 65, 0));
	sendq_clear(&q);
}
END_TEST

START_TEST(nothing_overtakes)
{
	struct raft_send s;
	struct sendq q = { 0 };

	ck_assert(!put(&q, 1, SENDQ_PENDING + 1));	/* it does not read */
	ck_assert(!sendq_waiting(&q, SENDQ_PENDING + 1));
	ck_assert(!sendq_next(&q, SENDQ_PENDING + 1, &s));
	ck_assert(!put(&q, 2, 0));
	ck_assert(sendq_waiting(&q, SENDQ_PENDING));
	ck_assert(sendq_next(&q, SENDQ_PENDING, &s) && s.first == 1);
	ck_assert(sendq_next(&q, 0, &s) && s.first == 2);
	ck_assert(put(&q, 3, 0));
	sendq_clear(&q);
}
END_TEST

START_TEST(what_waits_is_bounded)
{
	struct raft_send s;
	struct sendq q = { 0 };
	uint64_t n = 0;

	for (uint64_t i = 1; i <= 2 * SENDQ_MAX; i++)
		ck_assert(!put(&q, i, SENDQ_PENDING + 1));
	while (sendq_next(&q, 0, &s))
		ck_assert_uint_eq(s.first, ++n);
	ck_assert_uint_eq(n, SENDQ_MAX);
	ck_assert(!put(&q, 1, SENDQ_PENDING + 1));
	sendq_clear(&q);			/* the link went */
	ck_assert(!sendq_waiting(&q, 0) && !sendq_next(&q, 0, &s));
	ck_assert(put(&q, 1, 0));
	sendq_clear(&q);
}
END_TEST

static struct raft_send
entries(uint64_t first)
{
	return (struct raft_send){ .msg = { .type = RAFT_MSG_APPEND, .entry_count = 10, .log_index = first - 1,
	    .log_term = 2 }, .first = first };
}

/* Entries that are still being read keep their place; what brings none goes on meanwhile. */
START_TEST(held_until_it_was_read)
{
	struct raft_send first = entries(100), next = entries(110), beat = entries(120), s;
	struct raft_send reply = { .msg.type = RAFT_MSG_VOTE_REPLY };
	struct sendq q = { 0 };

	beat.msg.entry_count = 0;
	beat.msg.seq = 7;
	ck_assert(!sendq_overtakes(&q, &beat, 0, &s));		/* none is held */
	ck_assert(sendq_put(&q, &first, 0));
	sendq_hold(&q, &first);
	ck_assert(!sendq_overtakes(&q, &next, 0, &s));
	ck_assert(!sendq_put(&q, &next, 0));
	ck_assert(!sendq_waiting(&q, 0));

	/* A follower has no entry 119 yet, but every log agrees with index 0. */
	ck_assert(sendq_overtakes(&q, &beat, 0, &s));
	ck_assert(s.msg.seq == 7 && s.msg.entry_count == 0 && s.msg.log_index == 0 && s.msg.log_term == 0);
	ck_assert(sendq_overtakes(&q, &first, 0, &s) && s.msg.entry_count == 0);	/* a probe that is repeated */
	ck_assert(sendq_overtakes(&q, &reply, 0, &s) && s.msg.type == RAFT_MSG_VOTE_REPLY);
	ck_assert(!sendq_overtakes(&q, &reply, SENDQ_PENDING + 1, &s));

	ck_assert(sendq_next(&q, 0, &s) && s.first == 100 && s.msg.entry_count == 10);
	ck_assert(sendq_waiting(&q, 0));
	ck_assert(sendq_next(&q, 0, &s) && s.first == 110);
	ck_assert(!sendq_next(&q, 0, &s));
	sendq_hold(&q, &first);
	sendq_unhold(&q);
	ck_assert(!sendq_next(&q, 0, &s));
	sendq_hold(&q, &first);
	sendq_clear(&q);
	ck_assert(!sendq_next(&q, 0, &s));
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("sendq");
	TCase *t = tcase_create("all");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_test(t, little_goes_at_once);
	tcase_add_test(t, much_goes_in_turns);
	tcase_add_test(t, nothing_overtakes);
	tcase_add_test(t, what_waits_is_bounded);
	tcase_add_test(t, held_until_it_was_read);
	suite_add_tcase(s, t);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
