/* Writes and reads on their way: one answer each, and the right one. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/record/mpack.h"
#include "raftd/engine/pending_sends.h"
#include "raftd/engine/proposals.h"
#include "raftd/engine/reads.h"

/* The state machine's entry form; the real one is tested with it. */
void
fsm_entry_write_judged(struct buf *b, uint16_t op, struct span args, struct span premises)
{
	mpw_array(b, premises.len > 0 ? 3 : 2);
	mpw_uint(b, op);
	buf_putspan(b, args);
	buf_putspan(b, premises);
}

struct asker {
	struct proposal p;
	unsigned told;
	enum tv_err err;
};

static void
told(struct proposal *p, enum tv_err err, const struct fsm_result *result)
{
	struct asker *a = (struct asker *)p;

	(void)result;
	a->told++;
	a->err = err;
}

/* Queues n writes and lets the core take them at these indexes. */
static void
accept(struct proposals *q, struct asker *a, uint32_t n, uint64_t index, uint64_t term)
{
	struct raft_entry taken[16];
	uint32_t count;
	const struct raft_entry *next;

	for (uint32_t i = 0; i < n; i++) {
		a[i] = (struct asker){ .p.done = told };
		ck_assert_int_eq(proposals_add(q, &a[i].p, 4, span_str("\x01"), SPAN_NONE, MONO_MS(index + i)), TV_OK);
	}
	next = proposals_next(q, n, &count);
	ck_assert_uint_eq(count, n);
	for (uint32_t i = 0; i < n; i++) {
		ck_assert_uint_eq(next[i].size, 3);
		ck_assert_uint_eq(next[i].payload[1], 4);
		taken[i] = next[i];
		taken[i].index = index + i;
		taken[i].term = term;
	}
	ck_assert_int_eq(proposals_accepted(q, taken, n), TV_OK);
	ck_assert_uint_eq(proposals_queued(q), 0);
}

START_TEST(applied_ones_are_told)
{
	struct proposals *q = proposals_new(1u << 20);
	struct fsm_result ok = { .err = TV_OK };
	struct asker a[3];

	ck_assert_uint_eq(proposals_first(q), UINT64_MAX);
	accept(q, a, 3, 10, 2);
	ck_assert_uint_eq(proposals_first(q), 10);
	proposals_applied(q, 10, 2, &ok);
	proposals_applied(q, 11, 3, &ok);	/* another leader's entry stands there */
	ck_assert_int_eq(a[0].err, TV_OK);
	ck_assert_int_eq(a[1].err, TV_ENOTLEADER);
	ck_assert_uint_eq(a[2].told, 0);
	ck_assert_uint_eq(proposals_first(q), 12);
	proposals_applied(q, 12, 2, &ok);
	for (int i = 0; i < 3; i++)
		ck_assert_uint_eq(a[i].told, 1);
	proposals_free(q);
}
END_TEST

/* Each that somebody waits for counts once, when its entry is committed. */
START_TEST(commits_are_timed)
{
	struct proposals *q = proposals_new(1u << 20);
	struct fsm_result ok = { .err = TV_OK };
	struct histogram took = { .count = 0 };
	struct asker a[3];

	accept(q, a, 3, 10, 2);
	for (int i = 0; i < 3; i++)
		a[i].p.begun = MONO_MS(i);
	proposals_time(q, 9, MONO_MS(3), &took);
	ck_assert_uint_eq(took.count, 0);
	proposals_time(q, 11, MONO_MS(5), &took);
	ck_assert_uint_eq(took.count, 2);
	ck_assert_int_eq(took.sum_ns, MONO_MS(5 + 4).ns);
	proposals_applied(q, 10, 2, &ok);
	proposals_applied(q, 11, 2, &ok);
	proposals_time(q, 12, MONO_MS(102), &took);
	ck_assert_uint_eq(took.count, 3);
	ck_assert_int_eq(took.max_ns, MONO_MS(100).ns);
	proposals_free(q);
}
END_TEST

START_TEST(cut_ones_surely_did_not_happen)
{
	struct proposals *q = proposals_new(1u << 20);
	struct asker a[4];

	accept(q, a, 4, 5, 1);
	proposals_truncated(q, 7);
	ck_assert_uint_eq(a[1].told, 0);
	ck_assert_int_eq(a[2].err, TV_ENOTLEADER);
	ck_assert_int_eq(a[3].err, TV_ENOTLEADER);
	proposals_skipped(q, 5);		/* a snapshot jumped over it */
	ck_assert_int_eq(a[0].err, TV_EUNKNOWN);
	ck_assert_uint_eq(a[1].told, 0);
	proposals_expire(q, MONO_MS(1000));
	ck_assert_int_eq(a[1].err, TV_EUNKNOWN);
	proposals_free(q);
}
END_TEST

START_TEST(lost_leadership_brings_deadlines_forward)
{
	struct proposals *q = proposals_new(1u << 20);
	struct asker a[2];

	accept(q, a, 2, 100, 1);		/* deadlines 100 and 101 ms */
	proposals_expire(q, MONO_MS(50));
	ck_assert_uint_eq(a[0].told, 0);
	proposals_hurry(q, MONO_MS(20));
	proposals_expire(q, MONO_MS(21));
	ck_assert_int_eq(a[0].err, TV_EUNKNOWN);
	ck_assert_int_eq(a[1].err, TV_EUNKNOWN);
	proposals_free(q);
}
END_TEST

START_TEST(queue_is_bounded_and_can_be_refused)
{
	struct proposals *q = proposals_new(64);
	struct asker a[40];
	unsigned n;

	for (n = 0; n < 40; n++) {
		a[n] = (struct asker){ .p.done = told };
		if (proposals_add(q, &a[n].p, 4, span_str("\xa5hello"), SPAN_NONE, MONO_MS(1)) != TV_OK)
			break;
	}
	ck_assert_uint_eq(n, 8);
	proposals_refuse(q, TV_ENOTLEADER);
	for (unsigned i = 0; i < n; i++) {
		ck_assert_uint_eq(a[i].told, 1);
		ck_assert_int_eq(a[i].err, TV_ENOTLEADER);
	}
	ck_assert_int_eq(proposals_add(q, &a[0].p, 4, span_str("\xa5hello"), SPAN_NONE, MONO_MS(1)), TV_OK);
	proposals_free(q);
}
END_TEST

/* While the window is full nobody waits longer than for a quorum, and is told that nothing was done. */
START_TEST(queued_ones_end_in_time_too)
{
	struct proposals *q = proposals_new(1u << 20);
	struct asker a[3];
	uint32_t count;

	for (unsigned i = 0; i < 3; i++) {
		a[i] = (struct asker){ .p.done = told };
		ck_assert_int_eq(proposals_add(q, &a[i].p, 4, span_str("\x01"), SPAN_NONE, MONO_MS(100 + i)), TV_OK);
	}
	proposals_expire(q, MONO_MS(100));
	ck_assert_uint_eq(a[0].told, 0);
	proposals_expire(q, MONO_MS(102));
	ck_assert_int_eq(a[0].err, TV_EAGAIN);
	ck_assert_int_eq(a[1].err, TV_EAGAIN);
	ck_assert_uint_eq(a[2].told, 0);
	ck_assert_ptr_nonnull(proposals_next(q, 10, &count));
	ck_assert_uint_eq(count, 1);
	proposals_expire(q, MONO_MS(103));
	ck_assert_uint_eq(proposals_queued(q), 0);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(a[i].told, 1);
	proposals_free(q);
}
END_TEST

struct reader {
	struct read_wait w;
	unsigned told;
	enum tv_err err;
};

static void
read_told(struct read_wait *w, enum tv_err err)
{
	struct reader *r = (struct reader *)w;

	r->told++;
	r->err = err;
}

static void
ask(struct reads *r, struct reader *x)
{
	*x = (struct reader){ .w.done = read_told, .w.deadline = MONO_S(5) };
	reads_add(r, &x->w);
}

START_TEST(a_turn_is_one_round)
{
	struct reader x[3];
	struct reads r;

	reads_init(&r);
	ck_assert_uint_eq(reads_round(&r, MONO_MS(1)), 0);
	ask(&r, &x[0]);
	ask(&r, &x[1]);
	ck_assert_uint_eq(reads_round(&r, MONO_MS(1)), 1);
	ask(&r, &x[2]);				/* after the round began: the next one */
	reads_answer(&r, 1, true, 7);
	ck_assert(!reads_serve(&r, 6));
	ck_assert_uint_eq(x[0].told, 0);	/* the state lags */
	ck_assert(reads_serve(&r, 7));		/* one at a time: the loop has other things to do between them */
	ck_assert_uint_eq(x[0].told, 1);
	ck_assert_uint_eq(x[1].told, 0);
	ck_assert(reads_ready(&r, 7));
	ck_assert(reads_serve(&r, 7));
	ck_assert_uint_eq(x[1].told, 1);
	ck_assert(!reads_ready(&r, 7) && !reads_serve(&r, 7));
	ck_assert_uint_eq(x[2].told, 0);
	ck_assert_uint_eq(reads_round(&r, MONO_MS(2)), 2);
	reads_answer(&r, 1, true, 9);		/* late and doubled answers change nothing */
	ck_assert(!reads_serve(&r, 100));
	ck_assert_uint_eq(x[2].told, 0);
	reads_cancel(&x[2].w);
	reads_answer(&r, 2, true, 9);
	ck_assert(!reads_serve(&r, 100));
	ck_assert_uint_eq(x[2].told, 0);
}
END_TEST

START_TEST(refused_rounds_are_asked_again)
{
	struct reader x[2];
	struct reads r;

	reads_init(&r);
	ask(&r, &x[0]);
	(void)reads_round(&r, MONO_MS(1));
	reads_answer(&r, 1, false, 0);
	ck_assert_uint_eq(reads_round(&r, MONO_MS(2)), 0);	/* not in the same breath */
	reads_retry(&r, MONO_MS(3), MONO_S(1));
	ask(&r, &x[1]);
	ck_assert_uint_eq(reads_round(&r, MONO_MS(3)), 2);
	reads_retry(&r, MONO_S(2), MONO_S(1));			/* no answer for a second */
	ck_assert_uint_eq(reads_round(&r, MONO_S(2)), 3);
	reads_answer(&r, 3, true, 1);
	while (reads_serve(&r, 1))
		;
	ck_assert_int_eq(x[0].err, TV_OK);
	ck_assert_int_eq(x[1].err, TV_OK);
}
END_TEST

START_TEST(deadlines_tell_what_was_missing)
{
	struct reader x[2];
	struct reads r;

	reads_init(&r);
	ask(&r, &x[0]);
	(void)reads_round(&r, MONO_MS(1));
	reads_answer(&r, 1, true, 50);
	ask(&r, &x[1]);
	reads_expire(&r, MONO_S(5));
	ck_assert_uint_eq(x[0].told + x[1].told, 0);
	reads_expire(&r, MONO_S(6));
	ck_assert_int_eq(x[0].err, TV_ETIMEOUT);
	ck_assert_int_eq(x[1].err, TV_ENOLEADER);
}
END_TEST

static bool
key_is_a(struct read_wait *w, struct span *out)
{
	(void)w;
	*out = span_str("a");
	return true;
}

/* Of the entries up to 12 only the one at 11 touches "a". */
static bool
touches_a(void *ctx, uint64_t index, struct span key)
{
	++*(unsigned *)ctx;
	ck_assert(span_eqs(key, "a"));
	return index == 11;
}

/* While an entry takes long, whose key no entry before its index touches is answered. */
START_TEST(what_is_not_touched_goes_before)
{
	static const uint64_t index[] = { 10, 10, 11, 12 };
	struct reader x[4];
	unsigned asked = 0;
	struct reads r;

	reads_init(&r);
	for (unsigned i = 0; i < 4; i++) {
		ask(&r, &x[i]);
		x[i].w.key = i == 0 ? NULL : key_is_a;
		(void)reads_round(&r, MONO_MS(1));
		reads_answer(&r, i + 1, true, index[i]);
	}
	reads_serve_early(&r, 8, 9, touches_a, &asked);
	ck_assert_uint_eq(asked, 0);		/* not known to be committed here */
	for (int i = 0; i < 2; i++) {		/* the second time finds nothing new */
		reads_serve_early(&r, 8, 12, touches_a, &asked);
		ck_assert_uint_eq(asked, 2 + 3 + 3);
		ck_assert_uint_eq(x[0].told + x[2].told + x[3].told, 0);
		ck_assert_uint_eq(x[1].told, 1);
	}
	ck_assert(x[1].err == TV_OK && x[1].w.early);
	ck_assert_uint_eq(x[1].w.index, 8);
	for (unsigned i = 0; i < 4; i += i == 0 ? 2 : 1) {
		ck_assert(reads_serve(&r, 12));
		ck_assert(x[i].told == 1 && !x[i].w.early);
		ck_assert_uint_eq(x[i].w.index, index[i]);
	}
	ck_assert(!reads_serve(&r, 12));
}
END_TEST

START_TEST(held_messages_leave_in_order)
{
	struct pending_sends r = { 0 };
	struct raft_send s = { .first = 0 }, out;

	ck_assert(!pending_sends_take(&r, UINT64_MAX, &out));
	for (uint64_t i = 1; i <= 300; i++) {
		s.first = i;
		ck_assert(pending_sends_add(&r, i / 3, &s));
		if (i % 7 == 0)
			ck_assert(pending_sends_take(&r, i, &out));	/* moves the head around the ring */
	}
	for (uint64_t i = 300 / 7 + 1; i <= 300; i++) {
		ck_assert(!pending_sends_take(&r, i / 3 - 1, &out));	/* its batch is not durable yet */
		ck_assert(pending_sends_take(&r, i / 3, &out));
		ck_assert_uint_eq(out.first, i);
	}
	ck_assert(!pending_sends_take(&r, UINT64_MAX, &out));
	pending_sends_done(&r);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("proposals");
	TCase *t = tcase_create("all");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_test(t, applied_ones_are_told);
	tcase_add_test(t, commits_are_timed);
	tcase_add_test(t, cut_ones_surely_did_not_happen);
	tcase_add_test(t, lost_leadership_brings_deadlines_forward);
	tcase_add_test(t, queue_is_bounded_and_can_be_refused);
	tcase_add_test(t, queued_ones_end_in_time_too);
	tcase_add_test(t, a_turn_is_one_round);
	tcase_add_test(t, refused_rounds_are_asked_again);
	tcase_add_test(t, what_is_not_touched_goes_before);
	tcase_add_test(t, held_messages_leave_in_order);
	tcase_add_test(t, deadlines_tell_what_was_missing);
	suite_add_tcase(s, t);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
