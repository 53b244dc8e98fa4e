/* The Raft core when a disk is put back to an older state of itself (S61): the leader's side, and that of the server. */
#include "tests/unit/raft_kit.h"

static struct raft_peer_status
peer(raft_id id)
{
	struct raft_status st = status();

	for (unsigned i = 0; i < st.peer_count; i++)
		if (st.peers[i].id == id)
			return st.peers[i];
	ck_abort_msg("no such peer");
}

static void
refuse(raft_id from, uint64_t asked, uint64_t hint, uint64_t seq, bool says_so)
{
	struct raft_msg m = { .type = RAFT_MSG_APPEND_REPLY, .from = from, .to = SELF, .term = 2, .log_index = asked,
		.hint_index = hint, .hint_term = hint > 0 ? 1 : 0, .seq = seq, .went_back = says_so };

	feed_msg(&m);
}

/* The newest round that an append to this peer carries. */
static uint64_t
round_of(raft_id id)
{
	ck_assert_ptr_nonnull(sent(RAFT_MSG_APPEND, id));
	return sent(RAFT_MSG_APPEND, id)->msg.seq;
}

/* Leads 3, whose logs all end at 6; a round begins that is sent after their answers.  Returns it. */
static uint64_t
lead_six(unsigned voters, unsigned learners)
{
	lead(voters, learners);
	ck_assert_int_eq(propose(4, 10), TV_OK);
	persist(6, 2);
	for (raft_id id = 2; id <= voters + learners; id++)
		ack(id, 2, 6, 1);
	ck_assert_uint_eq(status().commit, 6);
	tick_at_deadline();
	return round_of(3);
}

START_TEST(first_refusal_is_noticed)
{
	uint64_t round = lead_six(3, 0);

	refuse(3, 6, 1, round, false);
	ck_assert(noted(RAFT_NOTICE_WENT_BACK, 6));
	ck_assert_uint_eq(peer(3).match, 0);
	ck_assert(peer(3).went_back && peer(3).lacking);
	ck_assert_uint_eq(status().commit, 6);		/* it cannot go back */
	ck_assert_uint_eq(status().disks_went_back, 1);
	/* And it gets what it lacks, and is told. */
	ck_assert_ptr_nonnull(sent(RAFT_MSG_APPEND, 3));
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND, 3)->msg.log_index, 1);
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND, 3)->msg.entry_count, 5);
	ck_assert(sent(RAFT_MSG_APPEND, 3)->msg.went_back);
	ck_assert(!peer(2).went_back);
	stop();
}
END_TEST

/* Entries are on their way when it goes back: the append that it refuses begins beyond what it had acknowledged. */
START_TEST(noticed_by_the_hint)
{
	uint64_t round;

	(void)lead_six(3, 0);
	ck_assert_int_eq(propose(1, 10), TV_OK);
	persist(7, 2);
	tick_at_deadline();
	round = round_of(3);
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND, 3)->msg.log_index, 7);
	refuse(3, 7, 1, round, false);
	ck_assert(noted(RAFT_NOTICE_WENT_BACK, 6));
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND, 3)->msg.log_index, 1);
	stop();
}
END_TEST

/* A lost append is refused, too, and says nothing of the disk. */
START_TEST(a_gap_is_no_sign)
{
	uint64_t round;

	(void)lead_six(3, 0);
	ck_assert_int_eq(propose(1, 10), TV_OK);
	tick_at_deadline();
	round = round_of(3);
	refuse(3, 7, 6, round, false);
	ck_assert(!noted(RAFT_NOTICE_WENT_BACK, 0));
	ck_assert_uint_eq(peer(3).match, 6);
	stop();
}
END_TEST

/* Answers to what was sent before the acknowledgement was here may come in any order, and more than once. */
START_TEST(late_refusals_are_no_sign)
{
	uint64_t round = lead_six(3, 0);

	refuse(3, 1, 0, 1, false);
	refuse(3, 2, 1, 1, false);
	refuse(3, 6, 1, 1, false);
	ck_assert(!noted(RAFT_NOTICE_WENT_BACK, 0));
	ck_assert_uint_eq(peer(3).match, 6);
	/* More is acknowledged in the newest round: from then on that one says nothing either. */
	ck_assert_int_eq(propose(1, 10), TV_OK);
	persist(7, 2);
	ack(3, 2, 7, round);
	refuse(3, 6, 1, round, false);
	ck_assert(!noted(RAFT_NOTICE_WENT_BACK, 0));
	stop();
}
END_TEST

/* Acknowledgements of before, on their way when it was found out. */
START_TEST(old_acknowledgements_are_void)
{
	uint64_t round = lead_six(3, 0);

	ck_assert_int_eq(propose(1, 10), TV_OK);
	persist(7, 2);
	refuse(3, 6, 1, round, false);
	ack(3, 2, 7, round);
	ck_assert_uint_eq(peer(3).match, 0);
	ck_assert_uint_eq(status().commit, 6);
	/* What it has now counts. */
	ack(3, 2, 7, round + 1);
	ck_assert_uint_eq(peer(3).match, 7);
	ck_assert_uint_eq(status().commit, 7);
	stop();
}
END_TEST

START_TEST(confirms_no_reads_while_it_lacks_entries)
{
	uint64_t round = lead_six(3, 0);

	refuse(3, 6, 1, round, false);
	ck_assert_int_eq(feed((struct raft_input){ .type = RAFT_IN_READ, .ctx = 9 }), TV_OK);
	tick_at_deadline();
	round = round_of(2);
	ack(3, 2, 1, round);
	ck_assert_uint_eq(c.out.read_count, 0);
	{
		struct raft_msg asks = { .type = RAFT_MSG_READ_INDEX, .from = 3, .to = SELF, .term = 2, .seq = 77 };

		feed_msg(&asks);
		ck_assert_ptr_null(sent(RAFT_MSG_READ_INDEX_REPLY, 3));
	}
	ack(2, 2, 6, round);
	ck_assert_uint_eq(c.out.read_count, 1);
	stop();
}
END_TEST

/* Caught up, it remains without trust until it was a learner once: the others can do without it. */
START_TEST(spared_voters_are_made_learners)
{
	uint64_t round = lead_six(3, 0);

	refuse(3, 6, 1, round, false);
	ack(2, 2, 6, round + 1);
	ack(3, 2, 6, round + 1);
	ck_assert(noted(RAFT_NOTICE_REGAINED, 6));
	ck_assert(peer(3).went_back && !peer(3).lacking);
	ck_assert_int_eq(change(RAFT_DEMOTE, SELF), TV_EINVAL);
	ck_assert_int_eq(change(RAFT_DEMOTE, 9), TV_ENOENT);
	ck_assert_int_eq(change(RAFT_DEMOTE, 3), TV_OK);
	persist(7, 2);
	ack(2, 2, 7, round + 1);
	ck_assert(noted(RAFT_NOTICE_PEER_DEMOTED, 0));
	ack(3, 2, 7, round + 1);
	ck_assert(!peer(3).went_back);
	ack(3, 2, 7, round + 1);
	ck_assert_int_eq(change(RAFT_DEMOTE, 3), TV_EEXIST);
	ck_assert_int_eq(change(RAFT_PROMOTE, 3), TV_OK);
	stop();
}
END_TEST

/* Without it there is no quorum: when it has everything again it counts. */
START_TEST(heals_in_place_when_it_is_needed)
{
	uint64_t round = lead_six(3, 0);

	c.now = mono_add(c.now, mono_mul(T, 2));	/* 2 is silent */
	refuse(3, 6, 1, round, false);
	ck_assert(peer(3).lacking);
	ack(3, 2, 5, round + 1);
	ck_assert(peer(3).lacking);
	ack(3, 2, 6, round + 1);
	ck_assert(!peer(3).went_back);
	stop();
}
END_TEST

/* It says so itself, as others told it, to a leader that never heard an acknowledgement of it. */
START_TEST(heeds_what_the_server_says)
{
	elect(3, 0);
	persist(2, 2);
	ack(2, 2, 2, 1);
	refuse(3, 1, 0, 1, true);
	ck_assert(noted(RAFT_NOTICE_WENT_BACK, 0));
	ck_assert(peer(3).lacking);
	stop();
}
END_TEST

/* A learner that went back is not made a voter before it has caught up. */
START_TEST(learner_is_not_promoted_meanwhile)
{
	uint64_t round = lead_six(2, 1);

	refuse(3, 6, 1, round, true);
	for (unsigned i = 0; i < 2; i++) {
		struct raft_msg m = { .type = RAFT_MSG_APPEND_REPLY, .from = 3, .to = SELF, .term = 2, .granted = true, .log_index = 6,
			.match = 6, .seq = round + 1, .went_back = true };

		feed_msg(&m);
	}
	ck_assert_int_eq(change(RAFT_PROMOTE, 3), TV_ECONFLICT);
	ack(3, 2, 6, round + 1);
	ck_assert(!peer(3).went_back);
	stop();
}
END_TEST

/* -- the server's side */

/* Follower in term 5 of a cluster of 3, with entries 1 to 3 of term 1. */
static void
follower(unsigned voters)
{
	struct raft_restore from = { .term = 5, .snapshot_config = config_of(voters, 0) };

	start(&from);
	for (uint64_t i = 1; i <= 3; i++) {
		struct raft_entry e = { .index = i, .term = 1, .type = RAFT_ENTRY_OP, .size = 1 };

		ck_assert_int_eq(raft_restore_entry(c.r, &e), TV_OK);
	}
}

static enum tv_err
went_back(uint64_t term, uint64_t index)
{
	return feed((struct raft_input){ .type = RAFT_IN_WENT_BACK, .term = term, .index = index });
}

static void
ask_vote(enum raft_msg_type type, raft_id from, uint64_t term, uint64_t last)
{
	struct raft_msg m = { .type = type, .from = from, .to = SELF, .term = term, .log_index = last, .log_term = last > 0 ? 4 : 0 };

	feed_msg(&m);
}

START_TEST(neither_votes_nor_stands)
{
	follower(3);
	ck_assert_int_eq(went_back(5, 9), TV_OK);
	ck_assert(noted(RAFT_NOTICE_WENT_BACK, 9));
	ck_assert(status().went_back);
	ck_assert_int_eq(went_back(5, 9), TV_EEXIST);
	ask_vote(RAFT_MSG_PRE_VOTE, 2, 6, 20);
	ck_assert(!sent(RAFT_MSG_PRE_VOTE_REPLY, 2)->msg.granted);
	ask_vote(RAFT_MSG_VOTE, 2, 6, 20);
	ck_assert(!sent(RAFT_MSG_VOTE_REPLY, 2)->msg.granted);
	for (int i = 0; i < 5; i++) {
		tick_at_deadline();
		ck_assert_int_eq(status().role, RAFT_FOLLOWER);
		ck_assert_uint_eq(c.out.send_count, 0);
		ck_assert(!noted(RAFT_NOTICE_NOT_VOTER, 0));
	}
	stop();
}
END_TEST

/* In which terms it voted, and for whom, is forgotten. */
START_TEST(no_second_vote_in_a_term_that_it_had)
{
	follower(3);
	ck_assert_int_eq(went_back(7, 9), TV_OK);
	ck_assert(c.out.hard_changed);
	ck_assert_uint_eq(c.out.term, 7);
	ck_assert_uint_eq(c.out.vote, SELF);
	stop();
	follower(3);
	ck_assert_int_eq(went_back(5, 9), TV_OK);
	ck_assert(c.out.hard_changed);
	ck_assert_uint_eq(c.out.term, 5);
	ck_assert_uint_eq(c.out.vote, SELF);
	stop();
}
END_TEST

/* With all that the leader had when it was first heard, durably, it is itself again; its vote of that term is the leader's. */
START_TEST(made_up_for_by_a_leader)
{
	struct raft_entry e[2] = { { .index = 4, .term = 4, .type = RAFT_ENTRY_OP, .size = 1 },
		{ .index = 5, .term = 6, .type = RAFT_ENTRY_OP, .size = 1 } };
	struct raft_msg m = { .type = RAFT_MSG_APPEND, .from = 2, .to = SELF, .term = 6, .log_index = 3, .log_term = 1, .commit = 3,
		.leader_last = 5, .seq = 1, .entries = e, .entry_count = 1 };

	follower(3);
	ck_assert_int_eq(went_back(5, 4), TV_OK);
	feed_msg(&m);
	ck_assert(sent(RAFT_MSG_APPEND_REPLY, 2)->msg.went_back);
	persist(4, 4);
	ck_assert(status().went_back);
	ck_assert_uint_eq(status().kept, 4);
	m.log_index = 4;
	m.log_term = 4;
	m.entries = e + 1;
	m.leader_last = 6;		/* more has come meanwhile, and is no matter */
	feed_msg(&m);
	ck_assert(status().went_back);	/* not durable yet */
	persist(5, 6);
	ck_assert(noted(RAFT_NOTICE_REGAINED, 5));
	ck_assert(!status().went_back);
	ck_assert(c.out.hard_changed);
	ck_assert_uint_eq(c.out.vote, 2);
	ck_assert_uint_eq(c.out.term, 6);
	/* What its leader said before it heard of that. */
	m.entry_count = 0;
	m.entries = NULL;
	m.log_index = 5;
	m.log_term = 6;
	m.went_back = true;
	feed_msg(&m);
	ck_assert(!status().went_back);
	ck_assert(!sent(RAFT_MSG_APPEND_REPLY, 2)->msg.went_back);
	stop();
}
END_TEST

/* What one leader had is no measure of what the next one has. */
START_TEST(each_leader_counts_anew)
{
	struct raft_entry e = { .index = 4, .term = 4, .type = RAFT_ENTRY_OP, .size = 1 };
	struct raft_msg m = { .type = RAFT_MSG_APPEND, .from = 2, .to = SELF, .term = 6, .log_index = 3, .log_term = 1,
		.leader_last = 4, .seq = 1, .entries = &e, .entry_count = 1 };

	follower(3);
	ck_assert_int_eq(went_back(5, 4), TV_OK);
	feed_msg(&m);
	m.from = 3;
	m.term = 7;
	m.entry_count = 0;
	m.entries = NULL;
	m.leader_last = 9;
	feed_msg(&m);
	ck_assert_uint_eq(status().kept, 3);
	persist(4, 4);
	ck_assert_uint_eq(status().kept, 3);		/* what the one before had said of 4 */
	m.log_index = 4;
	m.log_term = 4;
	feed_msg(&m);
	ck_assert_uint_eq(status().kept, 4);
	ck_assert(status().went_back);
	stop();
}
END_TEST

START_TEST(a_leader_says_so)
{
	struct raft_msg m = { .type = RAFT_MSG_APPEND, .from = 2, .to = SELF, .term = 6, .log_index = 3, .log_term = 1,
		.leader_last = 8, .seq = 1, .went_back = true };

	follower(3);
	feed_msg(&m);
	ck_assert(noted(RAFT_NOTICE_WENT_BACK, 0));
	ck_assert(status().went_back);
	feed_msg(&m);
	ck_assert(!noted(RAFT_NOTICE_WENT_BACK, 0));		/* once */
	stop();
}
END_TEST

START_TEST(the_only_voter_has_no_choice)
{
	follower(1);
	ck_assert_int_eq(went_back(5, 9), TV_ECONFLICT);
	ck_assert(!status().went_back);
	stop();
}
END_TEST

START_TEST(a_leader_that_went_back_steps_down)
{
	lead(3, 0);
	ck_assert_int_eq(went_back(2, 9), TV_OK);
	ck_assert_int_eq(status().role, RAFT_FOLLOWER);
	ck_assert_uint_eq(status().term, 2);
	stop();
}
END_TEST

/* The operator says that this disk is all there is. */
START_TEST(recovery_takes_it_as_it_is)
{
	struct raft_config alone = config_of(1, 0);

	follower(3);
	ck_assert_int_eq(went_back(5, 9), TV_OK);
	ck_assert_int_eq(feed((struct raft_input){ .type = RAFT_IN_RECOVER, .config = &alone }), TV_OK);
	ck_assert(!status().went_back);
	persist(4, 6);
	tick_at_deadline();
	ck_assert_int_eq(status().role, RAFT_LEADER);
	stop();
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = { first_refusal_is_noticed, noticed_by_the_hint, a_gap_is_no_sign, late_refusals_are_no_sign,
		old_acknowledgements_are_void, confirms_no_reads_while_it_lacks_entries, spared_voters_are_made_learners,
		heals_in_place_when_it_is_needed, heeds_what_the_server_says, learner_is_not_promoted_meanwhile,
		neither_votes_nor_stands, no_second_vote_in_a_term_that_it_had, made_up_for_by_a_leader, each_leader_counts_anew,
		a_leader_says_so, the_only_voter_has_no_choice, a_leader_that_went_back_steps_down, recovery_takes_it_as_it_is };

	return raft_kit_main("raft_back", tests, sizeof(tests) / sizeof(tests[0]));
}
