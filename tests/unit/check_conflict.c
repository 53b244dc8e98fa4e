/* Another node goes by our name: the vote, and what forged messages cannot bring about. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

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

/* Members n2 .. nN at 10.0.0.2 .. N; then quiet. */
static void
start_pool(unsigned n)
{
	char name[16];

	one_start(&o);
	for (unsigned i = 2; i <= n; i++) {
		struct addr at = one_addr(i);

		snprintf(name, sizeof(name), "n%u", i);
		ck_assert_int_eq(one_alive_at(&o, name, 1, &at, SPAN_NONE), TV_OK);
	}
	one_wait(&o, MONO_S(2));
}

/* Our name from 10.0.0.99; true when a vote begins. */
static bool
claim(void)
{
	struct addr rival = one_addr(99);
	uint64_t before = one_stats(&o).queries_asked;

	ck_assert_int_eq(one_alive_at(&o, SELF, 7, &rival, SPAN_NONE), TV_OK);
	ck_assert(one_noticed(&o, SWIM_NOTICE_SELF_CONFLICT));
	return one_stats(&o).queries_asked > before;
}

/* The question as it is gossiped. */
static bool
find_question(const struct one *one, void *arg)
{
	struct span said = one_said_serf(one, SERF_QUERY, NULL);

	return said.len > 0 &&
	    serf_get_query(span_of(said.p + 1, said.len - 1), (struct arena *)&one->arena, arg) == TV_OK;
}

static struct serf_query
question(void)
{
	struct serf_query q;

	ck_assert(one_wait_for(&o, MONO_S(1), find_question, &q));
	ck_assert(span_eqs(q.name, "_serf_conflict") && span_eqs(q.payload, SELF) && q.flags == 0);
	return q;
}

/* n<voter> says that our name lives at 10.0.0.last; 0: that it knows no such name. */
static void
vote(const struct serf_query *q, const char *voter, unsigned last)
{
	struct buf b = BUF_INIT(4096), payload = BUF_INIT(4096);
	struct addr at = one_addr(last);
	struct serf_member m = { .name = span_str(SELF), .addr = span_of(at.ip, 4), .port = at.port,
		.status = MEMBER_ALIVE };

	serf_put_conflict(&payload, last > 0 ? &m : NULL);
	serf_put_query_response(&b, &(struct serf_query_response){ .ltime = q->ltime, .id = q->id,
	    .from = span_str(voter), .payload = buf_span(&payload) });
	ck_assert_int_eq(one_serf(&o, &b), TV_OK);
	buf_done(&payload);
}

static bool
is_decided(const struct one *one, void *arg)
{
	(void)arg;
	return one_noticed(one, SWIM_NOTICE_NAME_KEPT) || one_noticed(one, SWIM_NOTICE_NAME_LOST) ||
	    one_noticed(one, SWIM_NOTICE_NAME_OPEN);
}

static void
decide(enum swim_notice_type verdict)
{
	struct addr us = one_addr(1), rival = one_addr(99);

	ck_assert(is_decided(&o, NULL) || one_wait_for(&o, MONO_S(10), is_decided, NULL));
	ck_assert(one_noticed(&o, verdict));
	ck_assert(o.out->conflict_lost == (verdict == SWIM_NOTICE_NAME_LOST));
	for (size_t i = 0; i < o.out->notice_count; i++)
		if (o.out->notices[i].type == verdict) {	/* S128: both addresses */
			ck_assert(addr_eq(&o.out->notices[i].addr, &us));
			ck_assert(addr_eq(&o.out->notices[i].other_addr, &rival));
		}
}

/* -- votes ------------------------------------------------------------------------------- */

/* Each letter is a member's vote, from n2 on: u us, t them, n no such name, - silent. */
static const struct { const char *votes; enum swim_notice_type verdict; } rows[] = {
	{ "uuu", SWIM_NOTICE_NAME_KEPT },
	{ "uut", SWIM_NOTICE_NAME_KEPT },
	{ "utt", SWIM_NOTICE_NAME_LOST },
	{ "ttt", SWIM_NOTICE_NAME_LOST },
	{ "t", SWIM_NOTICE_NAME_LOST },
	{ "u", SWIM_NOTICE_NAME_KEPT },
	{ "ut", SWIM_NOTICE_NAME_OPEN },	/* Serf would have both go */
	{ "---", SWIM_NOTICE_NAME_OPEN },	/* Serf would go */
	{ "", SWIM_NOTICE_NAME_OPEN },
	{ "t---", SWIM_NOTICE_NAME_OPEN },	/* one voice of four is no vote */
	{ "tt--", SWIM_NOTICE_NAME_LOST },
	{ "u---", SWIM_NOTICE_NAME_KEPT },
	{ "nnn", SWIM_NOTICE_NAME_OPEN },	/* nobody knows us yet: no reason to go */
	{ "nnt", SWIM_NOTICE_NAME_LOST },
	{ "nnu", SWIM_NOTICE_NAME_KEPT },
};

START_TEST(the_vote)
{
	struct serf_query q;
	char name[16];

	start_pool((unsigned)strlen(rows[_i].votes) + 1);
	ck_assert(claim());
	if (rows[_i].votes[0] != '\0')
		q = question();
	for (unsigned i = 0; rows[_i].votes[i] != '\0'; i++) {
		ck_assert(!is_decided(&o, NULL));
		snprintf(name, sizeof(name), "n%u", i + 2);
		if (rows[_i].votes[i] != '-')
			vote(&q, name, rows[_i].votes[i] == 'u' ? 1 : rows[_i].votes[i] == 't' ? 99 : 0);
	}
	decide(rows[_i].verdict);
	ck_assert_uint_eq(one_stats(&o).queries_open, 0);
}
END_TEST

START_TEST(other_forms_of_our_address_are_ours)
{
	static const uint8_t mapped[16] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1 };
	struct serf_member m = { .name = span_str(SELF), .addr = span_of(mapped, 16), .port = 7946 };
	struct buf b = BUF_INIT(4096), payload = BUF_INIT(4096);
	struct serf_query q;

	start_pool(2);
	ck_assert(claim());
	q = question();
	serf_put_conflict(&payload, &m);
	serf_put_query_response(&b, &(struct serf_query_response){ .ltime = q.ltime, .id = q.id,
	    .from = span_str("n2"), .payload = buf_span(&payload) });
	ck_assert_int_eq(one_serf(&o, &b), TV_OK);
	decide(SWIM_NOTICE_NAME_KEPT);
	buf_done(&payload);
}
END_TEST

/* S128: the first owner hears of the second one by its question, and tells both addresses. */
START_TEST(the_owner_hears_of_the_question)
{
	struct addr us = one_addr(1), rival = one_addr(99);
	struct serf_query q = { .ltime = 1, .id = 1, .addr = span_of(rival.ip, 4), .port = rival.port,
		.source_node = span_str(SELF), .timeout_ns = MONO_S(1).ns, .name = span_str("_serf_conflict"),
		.payload = span_str(SELF) };
	struct buf b = BUF_INIT(4096);

	start_pool(3);
	serf_put_query(&b, &q);
	ck_assert_int_eq(one_serf(&o, &b), TV_OK);
	ck_assert_uint_eq(o.out->send_count, 0);
	ck_assert_uint_eq(o.out->notice_count, 1);
	ck_assert_int_eq(o.out->notices[0].type, SWIM_NOTICE_SELF_CONFLICT);
	ck_assert(addr_eq(&o.out->notices[0].addr, &us) && addr_eq(&o.out->notices[0].other_addr, &rival));
	ck_assert_uint_eq(one_stats(&o).queries_asked, 0);
}
END_TEST

/* -- forgers -------------------------------------------------------------------------------- */

START_TEST(strangers_and_echoes_have_no_vote)
{
	struct serf_query q, wrong;
	char name[16];

	start_pool(5);
	ck_assert(claim());
	q = wrong = question();
	for (unsigned i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "stranger%u", i);
		vote(&q, name, 99);
		vote(&q, "n2", 99);		/* one member, one vote */
		vote(&q, SELF, 99);
		wrong.id++;
		vote(&wrong, "n3", 99);
	}
	vote(&q, "n3", 1);
	vote(&q, "n4", 1);
	vote(&q, "n5", 1);
	decide(SWIM_NOTICE_NAME_KEPT);
}
END_TEST

START_TEST(one_vote_at_a_time_and_not_often)
{
	unsigned votes = 0;

	start_pool(4);
	for (unsigned i = 0; i < 600; i++) {		/* for a minute */
		votes += claim();
		one_wait(&o, MONO_MS(100));
		ck_assert(!o.out->conflict_lost);
	}
	ck_assert_uint_ge(votes, 2);		/* it is asked again */
	ck_assert_uint_le(votes, 3);
}
END_TEST

START_TEST(votes_after_the_end_do_not_count)
{
	struct serf_query q;

	start_pool(4);
	ck_assert(claim());
	q = question();
	decide(SWIM_NOTICE_NAME_OPEN);
	vote(&q, "n2", 99);
	vote(&q, "n3", 99);
	vote(&q, "n4", 99);
	ck_assert(!is_decided(&o, NULL) && !o.out->conflict_lost);
	ck_assert(!one_wait_for(&o, MONO_S(10), is_decided, NULL));
}
END_TEST

START_TEST(who_leaves_does_not_vote)
{
	start_pool(3);
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_LEAVE }), TV_OK);
	ck_assert(!claim());
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("conflict");
	TCase *t = tcase_create("votes"), *f = tcase_create("forgers");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_checked_fixture(f, setup, teardown);
	tcase_add_loop_test(t, the_vote, 0, sizeof(rows) / sizeof(rows[0]));
	tcase_add_test(t, other_forms_of_our_address_are_ours);
	tcase_add_test(t, the_owner_hears_of_the_question);
	tcase_add_test(f, strangers_and_echoes_have_no_vote);
	tcase_add_test(f, one_vote_at_a_time_and_not_often);
	tcase_add_test(f, votes_after_the_end_do_not_count);
	tcase_add_test(f, who_leaves_does_not_vote);
	suite_add_tcase(s, t);
	suite_add_tcase(s, f);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
