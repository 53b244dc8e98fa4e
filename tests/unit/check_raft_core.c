/*
 * The Raft core, one server at a time: exact outputs for exact inputs.  Snapshots are in check_raft_snapshot.c, whole clusters
 * in tests/sim.  S-numbers are those of the scenario list in doc/testing.md.
 */
#include "tests/unit/raft_kit.h"

/* -- start */

START_TEST(fresh_server_waits)
{
	start(&(struct raft_restore){ 0 });
	tick();
	tick_at_deadline();
	ck_assert(noted(RAFT_NOTICE_NO_PEERS, 0));
	ck_assert_uint_eq(c.out.send_count, 0);
	for (int i = 0; i < 10; i++) {
		tick_at_deadline();
		ck_assert(!noted(RAFT_NOTICE_NO_PEERS, 0));	/* said once */
	}
	ck_assert_uint_eq(status().term, 0);
	append(2, 3, 0, 0, 0, TERMS(1, 2));	/* a leader that knows us may send */
	ck_assert_uint_eq(c.out.append_count, 2);
	ck_assert_uint_eq(status().leader, 2);
	stop();
}
END_TEST

START_TEST(bootstrap_once)
{
	struct raft_config conf = config_of(3, 0);

	bootstrap(3, 0);
	ck_assert_int_eq(feed((struct raft_input){ .type = RAFT_IN_BOOTSTRAP, .config = &conf }), TV_ECONFLICT);
	ck_assert_uint_eq(raft_config(c.r)->index, 1);
	ck_assert_uint_eq(status().term, 1);
	stop();
}
END_TEST

/* Found by seed 37054: term and entry need not be one write; a crash between them must not leave a server of no use. */
START_TEST(bootstrap_torn_by_a_crash)
{
	struct raft_config conf = config_of(1, 0);

	start(&(struct raft_restore){ .term = 1 });
	ck_assert_int_eq(feed((struct raft_input){ .type = RAFT_IN_BOOTSTRAP, .config = &conf }), TV_OK);
	ck_assert_uint_eq(c.out.append_count, 1);
	ck_assert_uint_eq(c.out.append[0].term, 1);
	stop();
	/* One that has voted, or heard of anybody, is not fresh. */
	start(&(struct raft_restore){ .term = 1, .vote = 2 });
	ck_assert_int_eq(feed((struct raft_input){ .type = RAFT_IN_BOOTSTRAP, .config = &conf }), TV_ECONFLICT);
	stop();
	start(&(struct raft_restore){ .term = 2 });
	ck_assert_int_eq(feed((struct raft_input){ .type = RAFT_IN_BOOTSTRAP, .config = &conf }), TV_ECONFLICT);
	stop();
}
END_TEST

START_TEST(bootstrap_needs_a_voter)
{
	struct raft_config conf = config_of(0, 2);

	start(&(struct raft_restore){ 0 });
	ck_assert_int_eq(feed((struct raft_input){ .type = RAFT_IN_BOOTSTRAP, .config = &conf }), TV_EINVAL);
	ck_assert(!c.out.hard_changed);
	stop();
}
END_TEST

START_TEST(restore_refuses_gaps)
{
	struct raft_restore from = { .term = 5, .snapshot_index = 10, .snapshot_term = 3, .snapshot_config = config_of(1, 0) };
	struct raft_entry e = { .index = 12, .term = 4, .type = RAFT_ENTRY_OP };

	start(&from);
	ck_assert_int_eq(raft_restore_entry(c.r, &e), TV_ECORRUPT);	/* 11 is missing */
	e.index = 9;
	e.term = 3;
	ck_assert_int_eq(raft_restore_entry(c.r, &e), TV_OK);		/* earlier than the snapshot is fine */
	e.index = 11;
	ck_assert_int_eq(raft_restore_entry(c.r, &e), TV_ECORRUPT);
	e.index = 10;
	e.term = 4;
	ck_assert_int_eq(raft_restore_entry(c.r, &e), TV_ECORRUPT);	/* the snapshot says term 3 */
	e.term = 3;
	ck_assert_int_eq(raft_restore_entry(c.r, &e), TV_OK);
	e.index = 11;
	e.term = 6;
	ck_assert_int_eq(raft_restore_entry(c.r, &e), TV_ECORRUPT);	/* newer than the stored term */
	e.term = 5;
	ck_assert_int_eq(raft_restore_entry(c.r, &e), TV_OK);
	tick();
	ck_assert(!noted(RAFT_NOTICE_READ_ONLY_CORRUPT, 0));
	ck_assert_uint_eq(raft_term_at(c.r, 10), 3);
	ck_assert_uint_eq(raft_term_at(c.r, 11), 5);
	stop();
}
END_TEST

START_TEST(restore_sees_a_lost_log)
{
	struct raft_restore from = { .term = 5, .applied = 7, .snapshot_config = config_of(1, 0) };

	start(&from);
	tick();
	ck_assert(noted(RAFT_NOTICE_READ_ONLY_CORRUPT, 0));
	stop();
}
END_TEST

/* -- one server (S22) */

START_TEST(single_commits_when_durable)
{
	bootstrap(1, 0);
	tick_at_deadline();
	ck_assert_int_eq(status().role, RAFT_LEADER);
	ck_assert(c.out.hard_changed);
	ck_assert_uint_eq(c.out.vote, SELF);
	ck_assert_uint_eq(c.out.commit_index, 0);
	ck_assert_int_eq(feed((struct raft_input){ .type = RAFT_IN_READ, .ctx = 7 }), TV_OK);
	ck_assert_uint_eq(c.out.read_count, 0);		/* S25: not before its own term's entry is committed */
	persist(2, 2);
	ck_assert_uint_eq(c.out.commit_index, 2);
	ck_assert_uint_eq(c.out.read_count, 1);
	ck_assert(c.out.reads[0].ok);
	ck_assert_uint_eq(c.out.reads[0].index, 2);
	ck_assert_int_eq(propose(3, 10), TV_OK);
	ck_assert_uint_eq(c.out.append_count, 3);
	ck_assert_uint_eq(c.out.append[2].index, 5);
	ck_assert_uint_eq(c.out.append[2].term, 2);
	ck_assert_uint_eq(c.out.commit_index, 2);
	persist(4, 2);
	ck_assert_uint_eq(c.out.commit_index, 4);
	stop();
}
END_TEST

START_TEST(single_with_learner_sends_after_its_vote)
{
	elect(1, 1);
	ck_assert(sent(RAFT_MSG_APPEND, 2)->after_hard);
	persist(2, 2);
	ack(2, 2, 2, 1);
	ck_assert_int_eq(propose(1, 10), TV_OK);
	ck_assert(!sent(RAFT_MSG_APPEND, 2)->after_hard);	/* from now on in parallel with its own write */
	stop();
}
END_TEST

/* -- votes (S1, S11, S12) */

static void
ask_vote(raft_id from, uint64_t term, uint64_t index, uint64_t log_term, bool transfer)
{
	struct raft_msg m = { .type = RAFT_MSG_VOTE, .from = from, .to = SELF, .term = term, .log_index = index,
		.log_term = log_term, .transfer = transfer };

	feed_msg(&m);
}

START_TEST(one_vote_per_term)
{
	bootstrap(3, 0);
	ask_vote(2, 5, 1, 1, false);
	ck_assert(sent(RAFT_MSG_VOTE_REPLY, 2)->msg.granted);
	ck_assert(sent(RAFT_MSG_VOTE_REPLY, 2)->after_hard);
	ck_assert(c.out.hard_changed && c.out.vote == 2 && c.out.term == 5);
	ask_vote(3, 5, 9, 4, false);
	ck_assert(!sent(RAFT_MSG_VOTE_REPLY, 3)->msg.granted);
	ck_assert(!c.out.hard_changed);
	ask_vote(2, 5, 1, 1, false);		/* the reply was lost: the same vote again, still after the disk */
	ck_assert(sent(RAFT_MSG_VOTE_REPLY, 2)->msg.granted);
	ck_assert(sent(RAFT_MSG_VOTE_REPLY, 2)->after_hard);
	ask_vote(3, 4, 9, 4, false);		/* a past term learns ours */
	ck_assert(!sent(RAFT_MSG_VOTE_REPLY, 3)->msg.granted);
	ck_assert_uint_eq(sent(RAFT_MSG_VOTE_REPLY, 3)->msg.term, 5);
	stop();
}
END_TEST

START_TEST(vote_survives_restart)
{
	struct raft_restore from = { .term = 5, .vote = 2, .snapshot_config = config_of(3, 0) };

	start(&from);
	tick();
	ask_vote(3, 5, 9, 4, false);
	ck_assert(!sent(RAFT_MSG_VOTE_REPLY, 3)->msg.granted);
	ask_vote(2, 5, 9, 4, false);
	ck_assert(sent(RAFT_MSG_VOTE_REPLY, 2)->msg.granted);
	stop();
}
END_TEST

START_TEST(log_decides)
{
	bootstrap(3, 0);
	append(2, 3, 1, 1, 0, TERMS(2, 3, 3));		/* last is 4 of term 3 */
	c.now = mono_add(c.now, MONO_S(1));
	ask_vote(3, 9, 100, 2, false);
	ck_assert(!sent(RAFT_MSG_VOTE_REPLY, 3)->msg.granted);
	ask_vote(3, 10, 3, 3, false);
	ck_assert(!sent(RAFT_MSG_VOTE_REPLY, 3)->msg.granted);
	ask_vote(3, 11, 4, 3, false);
	ck_assert(sent(RAFT_MSG_VOTE_REPLY, 3)->msg.granted);
	stop();
}
END_TEST

START_TEST(live_leader_is_not_disturbed)
{
	struct raft_msg pre = { .type = RAFT_MSG_PRE_VOTE, .from = 3, .to = SELF, .term = 10, .log_index = 99, .log_term = 9 };

	bootstrap(3, 0);
	append(2, 3, 1, 1, 0, NULL);
	ask_vote(3, 99, 99, 9, false);
	ck_assert_uint_eq(c.out.send_count, 0);
	ck_assert_uint_eq(status().term, 3);
	feed_msg(&pre);
	ck_assert(!sent(RAFT_MSG_PRE_VOTE_REPLY, 3)->msg.granted);
	c.now = mono_add(c.now, T);
	feed_msg(&pre);
	ck_assert(sent(RAFT_MSG_PRE_VOTE_REPLY, 3)->msg.granted);
	ck_assert_uint_eq(status().term, 3);		/* a pre-vote changes nothing */
	append(2, 3, 1, 1, 0, NULL);
	ask_vote(3, 99, 99, 9, true);			/* asked for by the leader itself */
	ck_assert(sent(RAFT_MSG_VOTE_REPLY, 3)->msg.granted);
	stop();
}
END_TEST

START_TEST(refused_pre_vote_tells_the_term)
{
	bootstrap(3, 0);
	tick_at_deadline();
	ck_assert_ptr_nonnull(sent(RAFT_MSG_PRE_VOTE, 2));
	ck_assert_uint_eq(sent(RAFT_MSG_PRE_VOTE, 2)->msg.term, 2);
	ck_assert(!c.out.hard_changed);
	reply(RAFT_MSG_PRE_VOTE_REPLY, 2, 8, false);
	ck_assert_uint_eq(status().term, 8);
	ck_assert_int_eq(status().role, RAFT_FOLLOWER);
	stop();
}
END_TEST

START_TEST(timeouts_are_spread)
{
	int64_t least = INT64_MAX, most = 0;

	bootstrap(3, 0);
	for (int i = 0; i < 200; i++) {
		struct mono before = c.now;

		append(2, 3, 1, 1, 0, NULL);
		before = mono_sub(c.out.deadline, before);
		least = before.ns < least ? before.ns : least;
		most = before.ns > most ? before.ns : most;
	}
	ck_assert_int_ge(least, T.ns);
	ck_assert_int_lt(most, 2 * T.ns);
	ck_assert_int_gt(most - least, T.ns / 2);
	stop();
}
END_TEST

/* -- a leader whose process has ended */

static void
gone(raft_id id)
{
	feed((struct raft_input){ .type = RAFT_IN_GONE, .to = id });
}

static bool
grants_pre_vote(raft_id to, uint64_t term)
{
	const struct raft_msg pre = { .type = RAFT_MSG_PRE_VOTE, .from = to, .to = SELF, .term = term, .log_index = 99,
		.log_term = 9 };

	feed_msg(&pre);
	return sent(RAFT_MSG_PRE_VOTE_REPLY, to)->msg.granted;
}

START_TEST(dead_leader_is_replaced_at_once)
{
	struct mono died;

	bootstrap(3, 0);
	append(2, 3, 1, 1, 0, NULL);
	died = c.now;
	gone(2);
	ck_assert_int_lt(mono_sub(c.out.deadline, died).ns, MONO_MS(50).ns);
	ck_assert_uint_eq(status().leader, 2);		/* nothing is over yet: it may be heard again */
	ck_assert(grants_pre_vote(3, 10));
	tick_at_deadline();
	ck_assert(noted(RAFT_NOTICE_LEADER_GONE, 0));
	ck_assert_uint_eq(status().prompt_elections, 1);
	ck_assert_uint_eq(sent(RAFT_MSG_PRE_VOTE, 3)->msg.term, 4);
	ck_assert(!c.out.hard_changed);
	reply(RAFT_MSG_PRE_VOTE_REPLY, 3, 4, true);
	ck_assert_uint_eq(status().term, 4);
	reply(RAFT_MSG_VOTE_REPLY, 3, 4, true);
	ck_assert_int_eq(status().role, RAFT_LEADER);
	stop();
}
END_TEST

/* Refused by who hears the leader, or does not know yet: a few more attempts, and then the timer's pace. */
START_TEST(dead_leader_is_asked_about_again)
{
	bootstrap(3, 0);
	append(2, 3, 1, 1, 0, NULL);
	gone(2);
	for (int i = 0, within = 50; i < 5; i++, within *= 2) {
		ck_assert_int_lt(mono_sub(c.out.deadline, c.now).ns, MONO_MS(within).ns);
		tick_at_deadline();
		ck_assert_int_eq(status().role, RAFT_PRE_CANDIDATE);
		ck_assert(noted(RAFT_NOTICE_LEADER_GONE, 0) == (i == 0));
		reply(RAFT_MSG_PRE_VOTE_REPLY, 3, 3, false);	/* with the dead one that is a majority */
		ck_assert_int_eq(status().role, RAFT_FOLLOWER);
	}
	ck_assert_int_ge(mono_sub(c.out.deadline, c.now).ns, T.ns);
	ck_assert_uint_eq(status().term, 3);
	/* The vote of one that has come back counts: its silence is no refusal any more. */
	feed((struct raft_input){ .type = RAFT_IN_REACHABLE, .to = 2 });
	tick_at_deadline();
	reply(RAFT_MSG_PRE_VOTE_REPLY, 3, 3, false);
	ck_assert_int_eq(status().role, RAFT_PRE_CANDIDATE);
	reply(RAFT_MSG_PRE_VOTE_REPLY, 2, 4, true);
	ck_assert_int_eq(status().role, RAFT_CANDIDATE);
	stop();
}
END_TEST

/* On long links all stand before one hears of another: the best log goes on, and among equals the lowest number. */
START_TEST(candidates_for_a_dead_leader_give_way)
{
	const struct raft_msg equal = { .type = RAFT_MSG_PRE_VOTE, .from = 3, .to = SELF, .term = 4, .log_index = 1, .log_term = 1 };

	bootstrap(4, 0);
	append(2, 3, 1, 1, 0, NULL);
	gone(2);
	tick_at_deadline();
	feed_msg(&equal);
	ck_assert(sent(RAFT_MSG_PRE_VOTE_REPLY, 3)->msg.granted);
	ck_assert_int_eq(status().role, RAFT_PRE_CANDIDATE);
	ck_assert(grants_pre_vote(3, 4));
	ck_assert_int_eq(status().role, RAFT_FOLLOWER);
	ck_assert_int_ge(mono_sub(c.out.deadline, c.now).ns, MONO_MS(50).ns);
	ck_assert_int_lt(mono_sub(c.out.deadline, c.now).ns, MONO_MS(100).ns);
	stop();
}
END_TEST

START_TEST(wrong_evidence_is_forgotten)
{
	bootstrap(3, 0);
	append(2, 3, 1, 1, 0, NULL);
	gone(2);
	append(2, 3, 1, 1, 0, NULL);
	ck_assert_int_ge(mono_sub(c.out.deadline, c.now).ns, T.ns);
	ck_assert(!grants_pre_vote(3, 10));
	/* Also when it has stood already. */
	gone(2);
	tick_at_deadline();
	ck_assert_int_eq(status().role, RAFT_PRE_CANDIDATE);
	append(2, 3, 1, 1, 0, NULL);
	ck_assert_int_eq(status().role, RAFT_FOLLOWER);
	ck_assert_uint_eq(status().leader, 2);
	ck_assert_uint_eq(status().term, 3);
	ck_assert(!grants_pre_vote(3, 10));
	/* And when another one leads. */
	gone(2);
	append(3, 4, 1, 1, 0, NULL);
	ck_assert_uint_eq(status().leader, 3);
	ck_assert(!grants_pre_vote(2, 10));
	stop();
}
END_TEST

/* Nor does it matter to a leader, to a candidate, or for leases that there are none of. */
START_TEST(others_than_the_leader_may_die)
{
	struct mono due;

	bootstrap(3, 0);
	append(2, 3, 1, 1, 0, NULL);
	due = c.out.deadline;
	gone(3);
	gone(SELF);
	gone(0);
	gone(77);
	ck_assert_int_eq(c.out.deadline.ns, due.ns);
	ck_assert(!grants_pre_vote(3, 10));
	tick_at_deadline();
	due = c.out.deadline;
	gone(2);
	ck_assert_int_eq(c.out.deadline.ns, due.ns);
	ck_assert_int_eq(status().role, RAFT_PRE_CANDIDATE);
	stop();
	lead(3, 0);
	due = c.out.deadline;
	gone(2);
	gone(SELF);
	ck_assert_int_eq(c.out.deadline.ns, due.ns);
	ck_assert_int_eq(status().role, RAFT_LEADER);
	stop();
}
END_TEST

/* -- appends (S26 to S30) */

START_TEST(follower_acknowledges_what_is_durable)
{
	bootstrap(3, 0);
	append(2, 3, 1, 1, 0, TERMS(2, 3));
	ck_assert(sent(RAFT_MSG_APPEND_REPLY, 2)->after_append);
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND_REPLY, 2)->msg.match, 3);
	append(2, 3, 3, 3, 3, NULL);		/* a heartbeat is answered at once, with what is durable */
	ck_assert(!sent(RAFT_MSG_APPEND_REPLY, 2)->after_append);
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND_REPLY, 2)->msg.match, 1);
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND_REPLY, 2)->msg.log_index, 3);
	ck_assert_uint_eq(c.out.commit_index, 1);	/* S31: not beyond what is durable */
	persist(3, 3);
	ck_assert_uint_eq(c.out.commit_index, 3);
	append(2, 3, 3, 3, 3, NULL);
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND_REPLY, 2)->msg.match, 3);
	stop();
}
END_TEST

START_TEST(short_append_removes_nothing)
{
	bootstrap(3, 0);
	append(2, 3, 1, 1, 0, TERMS(3, 3, 3, 3));
	append(2, 3, 1, 1, 0, TERMS(3, 3));
	ck_assert_uint_eq(c.out.truncate_from, 0);
	ck_assert_uint_eq(c.out.append_count, 0);
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND_REPLY, 2)->msg.match, 3);
	append(2, 3, 0, 0, 0, NULL);
	ck_assert_uint_eq(status().last_index, 5);
	stop();
}
END_TEST

START_TEST(commit_only_what_is_vouched_for)
{
	bootstrap(3, 0);
	append(2, 2, 1, 1, 0, TERMS(2, 2, 2, 2));
	persist(5, 2);
	/* The new leader's log may differ from index 3 on, whatever it has committed. */
	append(3, 4, 1, 1, 9, TERMS(2));
	ck_assert_uint_eq(c.out.commit_index, 2);
	append(3, 4, 0, 0, 9, NULL);
	ck_assert_uint_eq(c.out.commit_index, 2);
	stop();
}
END_TEST

START_TEST(conflict_is_cut_once)
{
	bootstrap(3, 0);
	append(2, 2, 1, 1, 0, TERMS(2, 2, 2));
	append(3, 3, 2, 2, 0, TERMS(3));
	ck_assert_uint_eq(c.out.truncate_from, 3);
	ck_assert_uint_eq(c.out.append_count, 1);
	ck_assert_uint_eq(c.out.append[0].index, 3);
	ck_assert_uint_eq(status().last_index, 3);
	stop();
}
END_TEST

START_TEST(stale_completion_is_ignored)
{
	uint64_t first_epoch;

	bootstrap(3, 0);
	append(2, 2, 1, 1, 0, TERMS(2, 2, 2));
	first_epoch = c.out.write_epoch;
	append(3, 3, 1, 1, 0, TERMS(3));		/* cuts 2..4 */
	append(2, 4, 1, 1, 0, TERMS(2, 2, 2));		/* and they come back, in later writes */
	ck_assert_uint_gt(c.out.write_epoch, first_epoch);
	/* The first write completes only now: 4 of term 2 is our last entry again, but the disk is about to cut it. */
	feed((struct raft_input){ .type = RAFT_IN_PERSISTED, .index = 4, .term = 2, .ctx = first_epoch });
	ck_assert_uint_eq(status().persisted, 1);
	persist(4, 2);
	ck_assert_uint_eq(status().persisted, 4);
	stop();
}
END_TEST

START_TEST(committed_is_never_cut)
{
	bootstrap(3, 0);
	append(2, 2, 1, 1, 3, TERMS(2, 2, 2));
	persist(4, 2);
	append(3, 3, 2, 2, 0, TERMS(3));
	ck_assert(noted(RAFT_NOTICE_READ_ONLY_CORRUPT, 0));
	ck_assert_uint_eq(c.out.truncate_from, 0);
	ck_assert_uint_eq(c.out.send_count, 0);
	append(3, 3, 3, 3, 0, TERMS(3));		/* its entry 3 is another one */
	ck_assert(noted(RAFT_NOTICE_READ_ONLY_CORRUPT, 0));
	ck_assert_uint_eq(status().last_index, 4);
	stop();
}
END_TEST

START_TEST(hint_skips_terms)
{
	bootstrap(3, 0);
	append(2, 4, 1, 1, 0, TERMS(2, 2, 2, 4, 4, 4));	/* 2..4 of term 2, 5..7 of term 4 */
	append(3, 5, 20, 5, 0, NULL);
	ck_assert(!sent(RAFT_MSG_APPEND_REPLY, 3)->msg.granted);
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND_REPLY, 3)->msg.hint_index, 7);
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND_REPLY, 3)->msg.hint_term, 4);
	append(3, 5, 7, 3, 0, NULL);		/* all of term 4 is skipped */
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND_REPLY, 3)->msg.hint_index, 4);
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND_REPLY, 3)->msg.hint_term, 2);
	stop();
}
END_TEST

START_TEST(second_leader_is_a_violation)
{
	bootstrap(3, 0);
	append(2, 3, 1, 1, 0, NULL);
	append(3, 3, 1, 1, 0, TERMS(3));
	ck_assert(noted(RAFT_NOTICE_VIOLATION, RAFT_VIOLATION_SECOND_LEADER));
	ck_assert_uint_eq(c.out.append_count, 0);
	ck_assert_uint_eq(status().leader, 2);
	stop();
}
END_TEST

START_TEST(configuration_follows_the_log)
{
	struct raft_config two = config_of(2, 0);
	struct buf b = BUF_INIT(16384);
	struct raft_entry e = { .index = 2, .term = 2, .type = RAFT_ENTRY_CONFIG };
	struct raft_msg m = { .type = RAFT_MSG_APPEND, .from = 2, .to = SELF, .term = 2, .log_index = 1, .log_term = 1,
		.seq = 1, .entries = &e, .entry_count = 1 };

	bootstrap(3, 0);
	raft_config_write(&b, &two);
	e.size = (uint32_t)b.len;
	e.payload = b.data;
	feed_msg(&m);
	ck_assert_uint_eq(raft_config(c.r)->count, 2);
	ck_assert_uint_eq(raft_config(c.r)->index, 2);
	ck_assert_uint_eq(raft_config_committed(c.r)->count, 0);
	append(3, 3, 1, 1, 0, TERMS(3));		/* S27: cut; the one before holds again */
	ck_assert_uint_eq(raft_config(c.r)->count, 3);
	ck_assert_uint_eq(raft_config(c.r)->index, 1);
	e.size--;					/* a malformed one is refused whole */
	m.term = 4;
	m.from = 2;
	e.term = 4;
	feed_msg(&m);
	ck_assert(noted(RAFT_NOTICE_VIOLATION, RAFT_VIOLATION_ENTRIES));
	ck_assert_uint_eq(c.out.append_count, 0);
	buf_done(&b);
	stop();
}
END_TEST

/* -- leader */

START_TEST(own_entry_counts_when_durable)
{
	elect(3, 0);
	ck_assert_uint_eq(c.out.append_count, 1);
	ck_assert_int_eq(c.out.append[0].type, RAFT_ENTRY_NOOP);
	ack(2, 2, 2, 1);
	ck_assert_uint_eq(status().commit, 1 - 1);	/* one of three */
	persist(2, 2);
	ck_assert_uint_eq(c.out.commit_index, 2);
	stop();
}
END_TEST

static void
applied(uint64_t index)
{
	feed((struct raft_input){ .type = RAFT_IN_APPLIED, .index = index });
}

/* A leader is informed when the first entry of its term is applied; it is not enough that this entry is committed. */
START_TEST(informed_when_its_first_entry_is_applied)
{
	bootstrap(3, 0);
	append(2, 3, 1, 1, 1, TERMS(3, 3));
	persist(3, 3);
	append(2, 3, 3, 3, 3, NULL);
	ck_assert_uint_eq(c.out.commit_index, 3);
	applied(1);					/* 2 and 3 are committed, and wait */
	c.now = mono_add(c.now, mono_mul(T, 2));
	tick();
	reply(RAFT_MSG_PRE_VOTE_REPLY, 3, 4, true);
	reply(RAFT_MSG_VOTE_REPLY, 3, 4, true);
	ck_assert_int_eq(status().role, RAFT_LEADER);
	ck_assert_uint_eq(status().own_first, 4);
	ck_assert(!status().ready && !status().informed);
	ack(3, 4, 4, 1);
	persist(4, 4);
	ck_assert_uint_eq(c.out.commit_index, 4);
	ck_assert(status().ready && !status().informed);
	for (uint64_t i = 2; i <= 3; i++) {
		applied(i);
		ck_assert(!status().informed);
	}
	ck_assert_int_eq(propose(3, 10), TV_OK);	/* newer entries do not delay it */
	ack(3, 4, 7, 2);
	persist(7, 4);
	ck_assert_uint_eq(c.out.commit_index, 7);
	applied(4);
	ck_assert(status().informed);
	append(2, 5, 7, 4, 7, NULL);			/* and it ends with the leadership */
	ck_assert_int_eq(status().role, RAFT_FOLLOWER);
	ck_assert(!status().informed);
	ck_assert_uint_eq(status().own_first, 0);
	stop();
}
END_TEST

START_TEST(window_of_proposals)
{
	lead(3, 0);
	ck_assert_int_eq(propose(20, 1), TV_OK);
	ck_assert_int_eq(propose(1, 1), TV_EAGAIN);
	persist(22, 2);
	ack(2, 2, 22, 1);
	ck_assert_int_eq(propose(1, 5000), TV_OK);	/* anything fits into an empty window */
	ck_assert_int_eq(propose(1, 1), TV_EAGAIN);
	stop();
}
END_TEST

START_TEST(configurations_are_not_proposed)
{
	struct raft_entry e = { .type = RAFT_ENTRY_CONFIG };

	lead(3, 0);
	ck_assert_int_eq(feed((struct raft_input){ .type = RAFT_IN_PROPOSE, .entries = &e, .entry_count = 1 }), TV_EINVAL);
	ck_assert_uint_eq(c.out.append_count, 0);
	stop();
}
END_TEST

START_TEST(pipeline_and_its_window)
{
	unsigned appends = 0;

	lead(3, 0);
	for (int i = 0; i < 8; i++) {
		ck_assert_int_eq(propose(1, 10), TV_OK);
		appends += sent(RAFT_MSG_APPEND, 2) != NULL;
	}
	ck_assert_uint_eq(appends, 4);		/* inflight_max */
	ack(2, 2, 3, 1);
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND, 2)->first, 7);
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND, 2)->msg.entry_count, 4);	/* the rest in one */
	feed((struct raft_input){ .type = RAFT_IN_UNREACHABLE, .to = 2 });
	ck_assert_int_eq(propose(1, 10), TV_OK);
	ck_assert_ptr_null(sent(RAFT_MSG_APPEND, 2));
	feed((struct raft_input){ .type = RAFT_IN_REACHABLE, .to = 2 });
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND, 2)->first, 4);	/* from what is known to be there */
	stop();
}
END_TEST

START_TEST(acknowledged_beyond_the_log)
{
	lead(3, 0);
	ack(2, 2, 99, 1);
	ck_assert(noted(RAFT_NOTICE_VIOLATION, RAFT_VIOLATION_ANSWER));
	ck_assert_uint_eq(c.out.commit_index, 2);
	stop();
}
END_TEST

START_TEST(commit_rides_on_the_next_append)
{
	commit_delay = MONO_MS(2);
	lead(3, 0);
	ck_assert_int_eq(propose(1, 10), TV_OK);
	persist(3, 2);
	ack(2, 2, 3, 1);
	ck_assert_uint_eq(c.out.commit_index, 3);
	ck_assert_ptr_null(sent(RAFT_MSG_APPEND, 0));		/* not a word about it yet */
	ck_assert_int_eq(propose(1, 10), TV_OK);
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND, 2)->msg.commit, 3);
	persist(4, 2);
	ack(2, 2, 4, 1);
	tick_at_deadline();					/* nothing came that could have carried it */
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND, 2)->msg.commit, 4);
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND, 3)->msg.commit, 4);
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND, 3)->msg.entry_count, 0);
	tick();
	ck_assert_ptr_null(sent(RAFT_MSG_APPEND, 0));		/* said once */
	stop();
	commit_delay = MONO_ZERO;
}
END_TEST

/* A reader on a learner, which no round of appends goes to, must not wait for the delay. */
START_TEST(commit_is_told_before_a_read_index)
{
	struct raft_msg m = { .type = RAFT_MSG_READ_INDEX, .from = 4, .to = SELF, .term = 2, .seq = 7 };

	commit_delay = MONO_MS(2);
	lead(3, 1);
	ack(4, 2, 2, 1);
	ck_assert_int_eq(propose(1, 10), TV_OK);
	persist(3, 2);
	ack(2, 2, 3, 1);
	ck_assert_uint_eq(c.out.commit_index, 3);
	feed_msg(&m);
	ack(2, 2, 3, sent(RAFT_MSG_APPEND, 2)->msg.seq);
	ck_assert_uint_eq(sent(RAFT_MSG_READ_INDEX_REPLY, 4)->msg.match, 3);
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND, 4)->msg.commit, 3);
	ck_assert(sent(RAFT_MSG_APPEND, 4) < sent(RAFT_MSG_READ_INDEX_REPLY, 4));
	stop();
	commit_delay = MONO_ZERO;
}
END_TEST

START_TEST(configuration_is_told_at_once)
{
	commit_delay = MONO_MS(2);
	lead(3, 0);
	ck_assert_int_eq(change(RAFT_REMOVE, 3), TV_OK);
	persist(3, 2);
	ack(2, 2, 3, 1);
	ck_assert_uint_eq(c.out.commit_index, 3);
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND, 2)->msg.commit, 3);
	stop();
	commit_delay = MONO_ZERO;
}
END_TEST

START_TEST(reads_share_rounds)
{
	uint64_t round;

	lead(3, 0);
	feed((struct raft_input){ .type = RAFT_IN_READ, .ctx = 1 });
	ck_assert_uint_eq(c.out.read_count, 0);
	round = sent(RAFT_MSG_APPEND, 2)->msg.seq;
	ack(2, 2, 2, round - 1);			/* an answer from before the read says nothing */
	ck_assert_uint_eq(c.out.read_count, 0);
	feed((struct raft_input){ .type = RAFT_IN_READ, .ctx = 2 });
	feed((struct raft_input){ .type = RAFT_IN_READ, .ctx = 3 });
	ck_assert_ptr_null(sent(RAFT_MSG_APPEND, 0));	/* enough rounds are open: these wait for the next */
	ack(2, 2, 2, round);
	ck_assert_uint_eq(c.out.read_count, 1);
	ck_assert_uint_eq(c.out.reads[0].ctx, 1);
	round = sent(RAFT_MSG_APPEND, 2)->msg.seq;
	ack(2, 2, 2, round);
	ck_assert_uint_eq(c.out.read_count, 2);
	ck_assert(c.out.reads[1].ok);
	stop();
}
END_TEST

/* Two of three are a majority: the third is asked when the second stays silent, and first from then on. */
START_TEST(reads_ask_a_majority)
{
	uint64_t round;

	lead(3, 0);
	feed((struct raft_input){ .type = RAFT_IN_READ, .ctx = 1 });
	round = sent(RAFT_MSG_APPEND, 2)->msg.seq;
	ck_assert_ptr_null(sent(RAFT_MSG_APPEND, 3));
	tick_at_deadline();
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND, 3)->msg.seq, round);
	ck_assert_ptr_null(sent(RAFT_MSG_APPEND, 2));
	ack(3, 2, 2, round);
	ck_assert_uint_eq(c.out.read_count, 1);
	feed((struct raft_input){ .type = RAFT_IN_READ, .ctx = 2 });
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND, 3)->msg.seq, round + 1);
	ck_assert_ptr_null(sent(RAFT_MSG_APPEND, 2));
	stop();
	lead(5, 0);
	feed((struct raft_input){ .type = RAFT_IN_READ, .ctx = 1 });
	ck_assert_ptr_nonnull(sent(RAFT_MSG_APPEND, 2));
	ck_assert_ptr_nonnull(sent(RAFT_MSG_APPEND, 3));
	ck_assert_uint_eq(c.out.send_count, 2);
	stop();
}
END_TEST

/* Every round is seen through, also one that began behind another one which is late. */
START_TEST(late_rounds_ask_everybody)
{
	uint64_t round;

	lead(3, 0);
	feed((struct raft_input){ .type = RAFT_IN_READ, .ctx = 1 });
	tick_at_deadline();
	feed((struct raft_input){ .type = RAFT_IN_READ, .ctx = 2 });
	round = sent(RAFT_MSG_APPEND, 2)->msg.seq;
	ck_assert_ptr_null(sent(RAFT_MSG_APPEND, 3));
	ck_assert(mono_sub(c.out.deadline, c.now).ns < MONO_MS(10).ns);
	tick_at_deadline();
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND, 3)->msg.seq, round);
	ack(3, 2, 2, round);
	ck_assert_uint_eq(c.out.read_count, 2);
	ck_assert(mono_sub(c.out.deadline, c.now).ns > 0);	/* and nothing is due any more */
	stop();
}
END_TEST

/* A follower that asks has not voted for anybody else: with the leader that is a majority of three. */
START_TEST(a_question_confirms_itself)
{
	struct raft_msg m = { .type = RAFT_MSG_READ_INDEX, .from = 2, .to = SELF, .term = 2, .seq = 7 };
	uint64_t round;

	elect(3, 1);
	feed_msg(&m);
	ck_assert_ptr_null(sent(RAFT_MSG_READ_INDEX_REPLY, 2));	/* nothing of the own term is committed */
	stop();
	lead(3, 1);
	feed_msg(&m);
	ck_assert(sent(RAFT_MSG_READ_INDEX_REPLY, 2)->msg.granted);
	ck_assert_uint_eq(sent(RAFT_MSG_READ_INDEX_REPLY, 2)->msg.seq, 7);
	ck_assert_uint_eq(sent(RAFT_MSG_READ_INDEX_REPLY, 2)->msg.match, c.out.commit_index);
	ck_assert_ptr_null(sent(RAFT_MSG_APPEND, 3));
	m.from = 4;			/* a learner has no vote */
	feed_msg(&m);
	ck_assert_ptr_null(sent(RAFT_MSG_READ_INDEX_REPLY, 4));
	ack(2, 2, 2, sent(RAFT_MSG_APPEND, 2)->msg.seq);
	ck_assert(sent(RAFT_MSG_READ_INDEX_REPLY, 4)->msg.granted);
	m.from = 2;
	m.term = 1;			/* it may have voted since */
	feed_msg(&m);
	ck_assert(!sent(RAFT_MSG_READ_INDEX_REPLY, 2)->msg.granted);
	stop();
	lead(5, 0);			/* of five one is missing */
	m.term = 2;
	feed_msg(&m);
	ck_assert_ptr_null(sent(RAFT_MSG_READ_INDEX_REPLY, 2));
	round = sent(RAFT_MSG_APPEND, 3)->msg.seq;
	ack(3, 2, 2, round);
	ck_assert_ptr_null(sent(RAFT_MSG_READ_INDEX_REPLY, 2));
	ack(2, 2, 2, round);
	ck_assert(sent(RAFT_MSG_READ_INDEX_REPLY, 2)->msg.granted);
	stop();
}
END_TEST

START_TEST(reads_fail_with_the_leader)
{
	lead(3, 0);
	feed((struct raft_input){ .type = RAFT_IN_READ, .ctx = 1 });
	append(3, 9, 1, 1, 0, NULL);
	ck_assert_uint_eq(c.out.read_count, 1);
	ck_assert(!c.out.reads[0].ok);
	feed((struct raft_input){ .type = RAFT_IN_READ, .ctx = 2 });	/* now a follower: it asks */
	ck_assert_uint_eq(c.out.read_count, 0);
	ck_assert_ptr_nonnull(sent(RAFT_MSG_READ_INDEX, 3));
	feed((struct raft_input){ .type = RAFT_IN_READ, .ctx = 3 });
	c.now = mono_add(c.now, MONO_S(1));
	tick();						/* the leader is gone */
	ck_assert_uint_eq(c.out.read_count, 2);
	ck_assert(!c.out.reads[0].ok && !c.out.reads[1].ok);
	feed((struct raft_input){ .type = RAFT_IN_READ, .ctx = 4 });
	ck_assert_uint_eq(c.out.read_count, 1);
	ck_assert(!c.out.reads[0].ok);
	stop();
}
END_TEST

START_TEST(follower_reads)
{
	struct raft_msg m = { .type = RAFT_MSG_READ_INDEX_REPLY, .from = 2, .to = SELF, .term = 3, .granted = true, .match = 8 };

	bootstrap(3, 0);
	append(2, 3, 1, 1, 0, NULL);
	feed((struct raft_input){ .type = RAFT_IN_READ, .ctx = 1 });
	m.seq = sent(RAFT_MSG_READ_INDEX, 2)->msg.seq;
	m.from = 3;
	feed_msg(&m);			/* not the leader */
	ck_assert_uint_eq(c.out.read_count, 0);
	m.from = 2;
	m.seq++;
	feed_msg(&m);			/* never asked */
	ck_assert_uint_eq(c.out.read_count, 0);
	m.seq--;
	feed_msg(&m);
	ck_assert_uint_eq(c.out.read_count, 1);
	ck_assert(c.out.reads[0].ok);
	ck_assert_uint_eq(c.out.reads[0].index, 8);
	stop();
}
END_TEST

START_TEST(quorum_lost)
{
	lead(3, 0);
	for (int i = 0; i < 4; i++) {
		tick_at_deadline();
		ack(3, 2, 2, sent(RAFT_MSG_APPEND, 3)->msg.seq);
	}
	ck_assert_int_eq(status().role, RAFT_LEADER);	/* one of two others is enough */
	for (int i = 0; i < 6 && status().role == RAFT_LEADER; i++)
		tick_at_deadline();
	ck_assert(noted(RAFT_NOTICE_QUORUM_LOST, 0));
	ck_assert_int_eq(propose(1, 1), TV_ENOTLEADER);
	stop();
}
END_TEST

START_TEST(disk_stuck)
{
	lead(3, 0);
	feed((struct raft_input){ .type = RAFT_IN_DISK_STUCK });
	ck_assert_int_eq(status().role, RAFT_FOLLOWER);
	ck_assert_ptr_nonnull(sent(RAFT_MSG_TIMEOUT_NOW, 0));
	ck_assert_int_ge(mono_sub(c.out.deadline, c.now).ns, 3 * T.ns);	/* the others first */
	stop();
}
END_TEST

/* -- changes (S55, S56, S59) */

START_TEST(changes_wait_their_turn)
{
	elect(3, 0);
	ck_assert_int_eq(change(RAFT_ADD_LEARNER, 4), TV_EAGAIN);	/* nothing of its term is committed */
	persist(2, 2);
	ack(2, 2, 2, 1);
	ck_assert_int_eq(change(RAFT_ADD_LEARNER, 4), TV_OK);
	ck_assert(noted(RAFT_NOTICE_PEER_ADDED, 0));
	ck_assert_int_eq(c.out.append[0].type, RAFT_ENTRY_CONFIG);
	ck_assert_int_eq(change(RAFT_REMOVE, 2), TV_ECONFLICT);		/* the first is open */
	persist(3, 2);
	ack(2, 2, 3, 1);
	ck_assert_int_eq(change(RAFT_ADD_LEARNER, 4), TV_EEXIST);
	ck_assert_int_eq(change(RAFT_REMOVE, 9), TV_ENOENT);
	ck_assert_int_eq(change(RAFT_PROMOTE, 2), TV_EEXIST);
	ck_assert_int_eq(change(RAFT_PROMOTE, 4), TV_ECONFLICT);	/* never heard of it */
	stop();
}
END_TEST

START_TEST(promotion_when_caught_up)
{
	lead(1, 1);
	ck_assert_int_eq(change(RAFT_PROMOTE, 2), TV_ECONFLICT);
	ack(2, 2, 2, 1);
	ack(2, 2, 2, 1);
	ck_assert(noted(RAFT_NOTICE_CAUGHT_UP, 0));
	c.now = mono_add(c.now, MONO_S(1));
	ck_assert_int_eq(change(RAFT_PROMOTE, 2), TV_ECONFLICT);	/* silent since */
	ack(2, 2, 2, 1);
	ck_assert_int_eq(change(RAFT_PROMOTE, 2), TV_OK);
	persist(3, 2);
	ck_assert_uint_eq(c.out.commit_index, 2);	/* two voters already */
	ack(2, 2, 3, 1);
	ck_assert_uint_eq(c.out.commit_index, 3);
	ck_assert(noted(RAFT_NOTICE_PEER_PROMOTED, 0));
	stop();
}
END_TEST

START_TEST(last_voter_stays)
{
	lead(1, 1);
	ck_assert_int_eq(change(RAFT_REMOVE, SELF), TV_ECONFLICT);
	ck_assert_int_eq(change(RAFT_REMOVE, 2), TV_OK);
	persist(3, 2);
	ck_assert(noted(RAFT_NOTICE_PEER_REMOVED, 0));
	ck_assert_ptr_nonnull(sent(RAFT_MSG_APPEND, 2));	/* a last one, so that it learns of it */
	ck_assert_uint_eq(status().peer_count, 0);
	stop();
}
END_TEST

/* S68: the operator says that the majority is gone; the entry alone, in a term of its own, decides from now on. */
START_TEST(recover_goes_on_alone)
{
	struct raft_config alone = config_of(1, 0), of_another = config_of(1, 0), two = config_of(2, 0);

	bootstrap(5, 0);
	append(2, 3, 1, 1, 1, TERMS(3, 3));	/* 2 and 3 are not known to be committed */
	persist(3, 3);
	ck_assert_int_eq(feed((struct raft_input){ .type = RAFT_IN_RECOVER, .config = &two }), TV_EINVAL);
	of_another.servers[0].id = 2;
	ck_assert_int_eq(feed((struct raft_input){ .type = RAFT_IN_RECOVER, .config = &of_another }), TV_EINVAL);
	ck_assert(!c.out.hard_changed && c.out.append_count == 0);
	ck_assert_int_eq(feed((struct raft_input){ .type = RAFT_IN_RECOVER, .config = &alone }), TV_OK);
	/* term and entry belong to one output, which the shell makes durable in one step */
	ck_assert(c.out.hard_changed);
	ck_assert_uint_eq(c.out.term, 4);
	ck_assert_uint_eq(c.out.vote, 0);
	ck_assert_uint_eq(c.out.append_count, 1);
	ck_assert_uint_eq(c.out.append[0].index, 4);
	ck_assert_uint_eq(c.out.append[0].term, 4);
	ck_assert_int_eq(c.out.append[0].type, RAFT_ENTRY_CONFIG);
	ck_assert_uint_eq(c.out.send_count, 0);
	ck_assert_uint_eq(raft_config(c.r)->count, 1);
	persist(4, 4);
	tick();
	ck_assert_int_eq(status().role, RAFT_LEADER);
	ck_assert_uint_eq(status().term, 5);
	ck_assert_uint_eq(c.out.send_count, 0);
	persist(5, 5);
	ck_assert_uint_eq(c.out.commit_index, 5);	/* all of its log counts */
	ck_assert(status().ready);
	ck_assert_int_eq(feed((struct raft_input){ .type = RAFT_IN_RECOVER, .config = &alone }), TV_ECONFLICT);
	ck_assert_int_eq(change(RAFT_ADD_LEARNER, 7), TV_OK);
	stop();
}
END_TEST

START_TEST(recover_needs_something)
{
	struct raft_config alone = config_of(1, 0);

	struct raft_restore lost = { .term = 4, .snapshot_index = 10, .snapshot_term = 4, .applied = 10,
		.snapshot_config = config_of(3, 0), .stateless = true };

	start(&(struct raft_restore){ 0 });
	ck_assert_int_eq(feed((struct raft_input){ .type = RAFT_IN_RECOVER, .config = &alone }), TV_ECONFLICT);
	stop();
	start(&lost);				/* it could not lead afterwards, and nobody else could */
	ck_assert_int_eq(feed((struct raft_input){ .type = RAFT_IN_RECOVER, .config = &alone }), TV_ECONFLICT);
	ck_assert_uint_eq(c.out.append_count, 0);
	ck_assert(!c.out.hard_changed);
	stop();
}
END_TEST

static void
start_opening(unsigned voters, uint64_t last)
{
	struct raft_restore from = { .term = 4, .snapshot_index = 10, .snapshot_term = 4, .snapshot_config = config_of(voters, 0),
		.opening = true };

	start(&from);
	for (uint64_t i = 11; i <= last; i++)
		ck_assert_int_eq(raft_restore_entry(c.r, &(struct raft_entry){ .index = i, .term = 4,
		    .type = RAFT_ENTRY_OP, .size = 4 }), TV_OK);
	tick();
}

static void
state_open(uint64_t index, bool stateless)
{
	feed((struct raft_input){ .type = RAFT_IN_STATE_OPEN, .index = index, .ctx = stateless });
}

/* Everything but to lead, which is for those who could serve. */
START_TEST(opening_votes_and_stores)
{
	struct raft_msg ask = { .type = RAFT_MSG_VOTE, .from = 3, .to = SELF, .term = 5, .log_index = 13, .log_term = 4 };
	struct raft_msg now = { .type = RAFT_MSG_TIMEOUT_NOW, .from = 2, .to = SELF, .term = 6, .log_index = 14, .log_term = 6 };

	start_opening(3, 13);
	for (int i = 0; i < 5; i++) {
		tick_at_deadline();
		ck_assert_uint_eq(c.out.send_count, 0);
		ck_assert_int_eq(status().role, RAFT_FOLLOWER);
	}
	feed_msg(&ask);
	ck_assert(sent(RAFT_MSG_VOTE_REPLY, 3)->msg.granted);
	append(2, 6, 13, 4, 10, TERMS(6));
	ck_assert_uint_eq(c.out.append_count, 1);
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND_REPLY, 2)->msg.match, 14);
	ck_assert(sent(RAFT_MSG_APPEND_REPLY, 2)->after_append);
	ck_assert(sent(RAFT_MSG_APPEND_REPLY, 2)->msg.unready);
	persist(14, 6);
	append(2, 6, 14, 6, 11, NULL);
	ck_assert_uint_eq(c.out.commit_index, 11);
	feed_msg(&now);
	ck_assert_uint_eq(status().term, 6);
	ck_assert_uint_eq(c.out.send_count, 0);
	/* 12 was applied before the start, which the leader has not said again; it goes on from there */
	state_open(12, false);
	ck_assert_uint_eq(c.out.commit_index, 12);
	ck_assert_uint_eq(status().applied, 12);
	append(2, 6, 14, 6, 11, TERMS(6));
	ck_assert(!sent(RAFT_MSG_APPEND_REPLY, 2)->msg.unready);
	persist(15, 6);
	now.log_index = 15;
	feed_msg(&now);
	ck_assert_int_eq(status().role, RAFT_CANDIDATE);
	ck_assert(sent(RAFT_MSG_VOTE, 2) != NULL);
	stop();
}
END_TEST

/* Who needs nobody's vote waits for its state too, and then not a moment longer. */
START_TEST(opening_alone)
{
	struct raft_config alone = config_of(1, 0);

	start_opening(1, 13);
	tick_at_deadline();
	ck_assert_int_eq(status().role, RAFT_FOLLOWER);
	ck_assert_int_eq(feed((struct raft_input){ .type = RAFT_IN_RECOVER, .config = &alone }), TV_EAGAIN);
	ck_assert_uint_eq(c.out.append_count, 0);
	state_open(13, false);
	ck_assert_int_le(c.out.deadline.ns, c.now.ns);
	tick();
	ck_assert_int_eq(status().role, RAFT_LEADER);
	stop();
}
END_TEST

/* The state is damaged, or behind, or not this log's. */
START_TEST(opening_finds_another_state)
{
	start_opening(3, 13);
	append(2, 5, 13, 4, 12, NULL);
	state_open(10, false);
	ck_assert_uint_eq(status().applied, 10);
	ck_assert_uint_eq(c.out.commit_index, 12);
	stop();
	start_opening(3, 13);
	state_open(0, true);
	ck_assert_uint_eq(status().applied, 10);
	append(2, 5, 13, 4, 12, NULL);
	ck_assert(sent(RAFT_MSG_APPEND_REPLY, 2)->msg.stateless);
	tick_at_deadline();
	ck_assert_int_eq(status().role, RAFT_FOLLOWER);
	stop();
	start_opening(3, 13);
	state_open(14, false);
	ck_assert(noted(RAFT_NOTICE_READ_ONLY_CORRUPT, 0));
	stop();
}
END_TEST

/* S69: a server of the old generation takes no part any more, whatever its configuration says. */
START_TEST(retired_for_good)
{
	struct raft_msg ask = { .type = RAFT_MSG_PRE_VOTE, .from = 2, .to = SELF, .term = 9, .log_index = 99, .log_term = 8 };

	lead(3, 0);
	feed((struct raft_input){ .type = RAFT_IN_RETIRE });
	ck_assert_int_eq(status().role, RAFT_FOLLOWER);
	ck_assert_uint_eq(status().leader, 0);
	ck_assert_int_eq(propose(1, 10), TV_ENOTLEADER);
	for (int i = 0; i < 5; i++) {
		tick_at_deadline();
		ck_assert_uint_eq(c.out.send_count, 0);
		ck_assert_int_eq(status().role, RAFT_FOLLOWER);
	}
	feed_msg(&ask);
	ask.type = RAFT_MSG_VOTE;
	feed_msg(&ask);
	ck_assert_uint_eq(c.out.send_count, 0);
	append(2, 9, 2, 2, 2, TERMS(9));
	ck_assert_uint_eq(c.out.append_count, 0);
	ck_assert_uint_eq(status().term, 2);
	ck_assert_uint_eq(status().leader, 0);
	stop();
	/* one that needs nobody else does not elect itself either */
	lead(1, 0);
	feed((struct raft_input){ .type = RAFT_IN_RETIRE });
	tick_at_deadline();
	ck_assert_int_eq(status().role, RAFT_FOLLOWER);
	stop();
}
END_TEST

START_TEST(removal_arithmetic)
{
	struct raft_config five = config_of(5, 0), two = config_of(2, 0), one = config_of(1, 1);

	ck_assert(raft_removal_keeps_quorum(&five, 5, (raft_id[]){ 1, 2, 3 }, 3));
	ck_assert(!raft_removal_keeps_quorum(&five, 1, (raft_id[]){ 1, 2, 3 }, 3));
	ck_assert(raft_removal_keeps_quorum(&two, 2, (raft_id[]){ 1, 2 }, 2));
	ck_assert(!raft_removal_keeps_quorum(&two, 1, (raft_id[]){ 1 }, 1));
	ck_assert(!raft_removal_keeps_quorum(&one, 1, (raft_id[]){ 1, 2 }, 2));
}
END_TEST

/* -- transfer (S17, S18) */

START_TEST(transfer_stops_proposals)
{
	lead(3, 0);
	propose(1, 1);
	ck_assert_int_eq(feed((struct raft_input){ .type = RAFT_IN_TRANSFER, .to = 3 }), TV_OK);
	ck_assert_ptr_null(sent(RAFT_MSG_TIMEOUT_NOW, 3));	/* it lacks an entry */
	ck_assert_int_eq(propose(1, 1), TV_EAGAIN);
	ck_assert_int_eq(feed((struct raft_input){ .type = RAFT_IN_TRANSFER, .to = 2 }), TV_ECONFLICT);
	ack(3, 2, 3, 1);
	ck_assert_ptr_nonnull(sent(RAFT_MSG_TIMEOUT_NOW, 3));
	c.now = mono_add(c.now, T);
	ack(2, 2, 3, 1);
	tick();
	ck_assert(noted(RAFT_NOTICE_TRANSFER_FAILED, 0));
	ck_assert_int_eq(propose(1, 1), TV_OK);
	stop();
}
END_TEST

/* Whoever is still opening its state is the last choice, as newest as its log may be. */
START_TEST(transfer_to_who_has_its_state)
{
	struct raft_msg m = { .type = RAFT_MSG_APPEND_REPLY, .from = 2, .to = SELF, .term = 2, .granted = true, .unready = true };

	lead(3, 0);
	propose(1, 1);
	m.log_index = m.match = 3;
	feed_msg(&m);
	ack(3, 2, 2, 1);
	ck_assert(status().peers[0].unready && !status().peers[1].unready);
	ck_assert_int_eq(feed((struct raft_input){ .type = RAFT_IN_TRANSFER }), TV_OK);
	ck_assert_ptr_null(sent(RAFT_MSG_TIMEOUT_NOW, 2));
	ack(3, 2, 3, 1);
	ck_assert_ptr_nonnull(sent(RAFT_MSG_TIMEOUT_NOW, 3));
	stop();
}
END_TEST

START_TEST(timeout_now_is_obeyed_once)
{
	struct raft_msg m = { .type = RAFT_MSG_TIMEOUT_NOW, .from = 2, .to = SELF, .term = 3, .log_index = 1, .log_term = 1 };

	bootstrap(3, 0);
	append(2, 3, 1, 1, 0, NULL);
	m.from = 3;
	feed_msg(&m);
	ck_assert_uint_eq(c.out.send_count, 0);		/* not the leader */
	m.from = 2;
	m.log_index = 2;
	feed_msg(&m);
	ck_assert_uint_eq(c.out.send_count, 0);		/* meant for another log */
	m.log_index = 1;
	feed_msg(&m);
	ck_assert(sent(RAFT_MSG_VOTE, 2)->msg.transfer);	/* no pre-vote, and the lease does not count */
	ck_assert_uint_eq(status().term, 4);
	feed_msg(&m);
	ck_assert_uint_eq(status().term, 4);
	stop();
}
END_TEST
/* -- nonsense (S203) */

START_TEST(nonsense_changes_nothing)
{
	static const struct raft_msg bad[] = {
		{ .type = RAFT_MSG_APPEND, .from = 2, .to = 9, .term = 9 },
		{ .type = RAFT_MSG_APPEND, .from = SELF, .to = SELF, .term = 9 },
		{ .type = RAFT_MSG_APPEND, .from = 0, .to = SELF, .term = 9 },
		{ .type = (enum raft_msg_type)0, .from = 2, .to = SELF, .term = 9 },
		{ .type = (enum raft_msg_type)77, .from = 2, .to = SELF, .term = 9 },
		{ .type = RAFT_MSG_APPEND, .from = 2, .to = SELF, .term = 0 },
		{ .type = RAFT_MSG_VOTE, .from = 2, .to = SELF, .term = UINT64_MAX },
		{ .type = RAFT_MSG_VOTE, .from = 2, .to = SELF, .term = 9, .log_index = UINT64_MAX },
		{ .type = RAFT_MSG_APPEND, .from = 2, .to = SELF, .term = 9, .entry_count = 3 },
		{ .type = RAFT_MSG_APPEND, .from = 2, .to = SELF, .term = 9, .log_index = 3, .log_term = 10 },
		{ .type = RAFT_MSG_SNAPSHOT, .from = 2, .to = SELF, .term = 9, .log_index = 1, .log_term = 1, .total = 5 },
	};

	bootstrap(3, 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		feed_msg(&bad[i]);
		ck_assert(noted(RAFT_NOTICE_VIOLATION, 0));
		ck_assert_uint_eq(c.out.append_count, 0);
		ck_assert_uint_eq(c.out.truncate_from, 0);
		ck_assert_uint_eq(status().leader, 0);
		ck_assert_uint_eq(status().last_index, 1);
	}
	stop();
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = {
		fresh_server_waits, bootstrap_once, bootstrap_torn_by_a_crash, bootstrap_needs_a_voter,
		restore_refuses_gaps, restore_sees_a_lost_log, single_commits_when_durable,
		single_with_learner_sends_after_its_vote, one_vote_per_term, vote_survives_restart, log_decides,
		live_leader_is_not_disturbed, refused_pre_vote_tells_the_term, timeouts_are_spread,
		dead_leader_is_replaced_at_once, dead_leader_is_asked_about_again, candidates_for_a_dead_leader_give_way,
		wrong_evidence_is_forgotten, others_than_the_leader_may_die,
		follower_acknowledges_what_is_durable, short_append_removes_nothing,
		commit_only_what_is_vouched_for, conflict_is_cut_once, stale_completion_is_ignored,
		committed_is_never_cut, hint_skips_terms, second_leader_is_a_violation,
		configuration_follows_the_log, own_entry_counts_when_durable,
		informed_when_its_first_entry_is_applied, window_of_proposals,
		configurations_are_not_proposed, pipeline_and_its_window, acknowledged_beyond_the_log,
		commit_rides_on_the_next_append, commit_is_told_before_a_read_index, configuration_is_told_at_once,
		reads_share_rounds, reads_ask_a_majority, late_rounds_ask_everybody, a_question_confirms_itself, reads_fail_with_the_leader, follower_reads, quorum_lost, disk_stuck,
		changes_wait_their_turn, promotion_when_caught_up, last_voter_stays, removal_arithmetic,
		recover_goes_on_alone, recover_needs_something, opening_votes_and_stores, opening_alone,
		opening_finds_another_state, retired_for_good, transfer_stops_proposals, transfer_to_who_has_its_state,
		timeout_now_is_obeyed_once, nonsense_changes_nothing,
	};

	return raft_kit_main("raft_core", tests, sizeof(tests) / sizeof(tests[0]));
}
