/* Lamport clocks, the memory for early intents, and the numbers that grow with the pool. */
#include "config.h"

#include <check.h>

#include "gossipd/core/serf/intent.h"
#include "gossipd/core/swim/scale.h"

START_TEST(clock_moves_above_what_it_sees)
{
	struct lamport c = { 1 };

	lamport_witness(&c, 0);
	ck_assert_uint_eq(c.time, 1);
	lamport_witness(&c, 1);
	ck_assert_uint_eq(c.time, 2);
	lamport_witness(&c, 41);
	ck_assert_uint_eq(c.time, 42);
	ck_assert_uint_eq(lamport_take(&c), 42);
	ck_assert_uint_eq(c.time, 43);
}
END_TEST

START_TEST(clock_survives_forged_times)
{
	struct lamport c = { 7 };

	lamport_witness(&c, UINT64_MAX);
	ck_assert_uint_eq(c.time, 7);
	lamport_witness(&c, UINT64_MAX - 1);
	ck_assert_uint_eq(c.time, UINT64_MAX);
	ck_assert_uint_eq(lamport_take(&c), UINT64_MAX);
	ck_assert_uint_eq(c.time, UINT64_MAX);
}
END_TEST

START_TEST(times_that_no_clock_shows)
{
	struct lamport young = { 7 }, old = { (UINT64_C(1) << 62) + 5 };

	ck_assert(lamport_plausible(&young, UINT64_C(1) << 62));
	ck_assert(!lamport_plausible(&young, (UINT64_C(1) << 62) + 1));
	ck_assert(!lamport_plausible(&young, UINT64_MAX));
	ck_assert(lamport_plausible(&old, old.time + (UINT64_C(1) << 32)));
	ck_assert(!lamport_plausible(&old, old.time + (UINT64_C(1) << 32) + 1));
	old.time = UINT64_MAX - 1;
	ck_assert(lamport_plausible(&old, UINT64_MAX - 1));
	ck_assert(!lamport_plausible(&old, UINT64_MAX));
}
END_TEST

START_TEST(newest_intent_of_a_name_counts)
{
	struct intents t = { .count_max = 10 };
	enum intent_kind kind;
	uint64_t ltime;

	ck_assert(intents_note(&t, 1, span_str("a"), INTENT_JOIN, 5, MONO_S(1)));
	ck_assert(!intents_note(&t, 1, span_str("a"), INTENT_LEAVE, 5, MONO_S(2)));
	ck_assert(!intents_note(&t, 1, span_str("a"), INTENT_LEAVE, 4, MONO_S(2)));
	ck_assert(intents_note(&t, 1, span_str("a"), INTENT_LEAVE, 6, MONO_S(2)));
	ck_assert(intents_note(&t, 1, span_str("b"), INTENT_JOIN, 1, MONO_S(2)));	/* same hash, other name */
	ck_assert_uint_eq(t.by_name.count, 2);
	ck_assert(intents_take(&t, 1, span_str("a"), &kind, &ltime));
	ck_assert_int_eq(kind, INTENT_LEAVE);
	ck_assert_uint_eq(ltime, 6);
	ck_assert(!intents_take(&t, 1, span_str("a"), &kind, &ltime));
	ck_assert_ptr_nonnull(intents_find(&t, 1, span_str("b")));
	intents_done(&t);
}
END_TEST

START_TEST(full_memory_refuses_and_counts)
{
	struct intents t = { .count_max = 2 };

	ck_assert(intents_note(&t, 1, span_str("a"), INTENT_JOIN, 1, MONO_ZERO));
	ck_assert(intents_note(&t, 2, span_str("b"), INTENT_JOIN, 1, MONO_ZERO));
	ck_assert(!intents_note(&t, 3, span_str("c"), INTENT_JOIN, 1, MONO_ZERO));
	ck_assert_uint_eq(t.refused, 1);
	ck_assert(intents_note(&t, 1, span_str("a"), INTENT_LEAVE, 2, MONO_ZERO));	/* known ones still learn */
	intents_done(&t);
}
END_TEST

START_TEST(old_intents_are_forgotten)
{
	struct intents t = { .count_max = 10 };

	ck_assert(intents_note(&t, 1, span_str("a"), INTENT_JOIN, 1, MONO_S(10)));
	ck_assert(intents_note(&t, 2, span_str("b"), INTENT_JOIN, 1, MONO_S(20)));
	ck_assert(intents_note(&t, 3, span_str("c"), INTENT_JOIN, 1, MONO_S(30)));
	intents_expire(&t, MONO_S(20), MONO_S(20));
	ck_assert_uint_eq(t.by_name.count, 2);
	ck_assert_ptr_null(intents_find(&t, 1, span_str("a")));
	intents_expire(&t, MONO_S(31), MONO_S(31));
	ck_assert_uint_eq(t.by_name.count, 0);
	intents_done(&t);
}
END_TEST

/* -- numbers of section 9.3 and 10 of the wire description, computed by the deployed code -- */

static const struct {
	unsigned mult;
	int64_t interval_ms;
	uint32_t known;
	int64_t min_ms;
} suspicion_minimums[] = {
	{ 4, 1000, 1, 4000 }, { 4, 1000, 10, 4000 }, { 4, 1000, 11, 4164 }, { 4, 1000, 20, 5204 },
	{ 4, 1000, 32, 6020 }, { 4, 1000, 100, 8000 }, { 4, 1000, 1000, 12000 },
	{ 6, 5000, 10, 30000 }, { 6, 5000, 11, 31230 }, { 6, 5000, 20, 39030 }, { 6, 5000, 32, 45150 },
	{ 6, 5000, 100, 60000 }, { 6, 5000, 1000, 90000 },
	{ 3, 1000, 10, 3000 }, { 3, 1000, 11, 3123 }, { 3, 1000, 20, 3903 }, { 3, 1000, 32, 4515 },
	{ 3, 1000, 100, 6000 }, { 3, 1000, 1000, 9000 },
};

START_TEST(suspicion_minimum)
{
	ck_assert_int_eq(scale_suspicion_min(suspicion_minimums[_i].mult, suspicion_minimums[_i].known,
	    MONO_MS(suspicion_minimums[_i].interval_ms)).ns, MONO_MS(suspicion_minimums[_i].min_ms).ns);
}
END_TEST

START_TEST(suspicion_falls_with_confirmations)
{
	struct mono min = MONO_S(4), max = MONO_S(24);

	ck_assert_int_eq(mono_ms(scale_suspicion(2, 0, min, max)), 24000);
	ck_assert_int_eq(mono_ms(scale_suspicion(2, 1, min, max)), 11381);
	ck_assert_int_eq(mono_ms(scale_suspicion(2, 2, min, max)), 4000);
	ck_assert_int_eq(mono_ms(scale_suspicion(0, 0, min, max)), 4000);
	/* k = 2 from four members on. */
	ck_assert_uint_eq(scale_confirmations(4, 3), 0);
	ck_assert_uint_eq(scale_confirmations(4, 4), 2);
	ck_assert_uint_eq(scale_confirmations(1, 100), 0);
	ck_assert_uint_eq(scale_confirmations(6, 5), 0);
	ck_assert_uint_eq(scale_confirmations(6, 6), 4);
}
END_TEST

START_TEST(retransmissions)
{
	static const struct { uint32_t known; unsigned sends; } rows[] = {
		{ 1, 4 }, { 9, 4 }, { 10, 8 }, { 99, 8 }, { 100, 12 }, { 999, 12 }, { 1000, 16 }, { 9999, 16 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ck_assert_uint_eq(scale_retransmits(4, rows[i].known), rows[i].sends);
	ck_assert_uint_eq(scale_retransmits(2, 5), 2);
	ck_assert_uint_eq(scale_retransmits(4, 0), 0);
}
END_TEST

START_TEST(reach)
{
	static const struct { uint32_t known; unsigned sends; } rows[] = {
		{ 0, 0 }, { 1, 4 }, { 2, 4 }, { 3, 8 }, { 4, 11 }, { 9, 12 }, { 10, 12 }, { 99, 14 }, { 100, 14 }, { 999, 16 },
		{ 1000, 16 }, { 9999, 19 }, { 10000, 20 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ck_assert_uint_eq(scale_reach(4, rows[i].known), rows[i].sends);
}
END_TEST

START_TEST(exchanges_become_rarer)
{
	static const struct { uint32_t known; int64_t times; } rows[] = {
		{ 1, 1 }, { 32, 1 }, { 33, 2 }, { 64, 2 }, { 65, 3 }, { 128, 3 }, { 129, 4 }, { 256, 4 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ck_assert_int_eq(scale_pushpull(MONO_S(30), rows[i].known).ns, MONO_S(30 * rows[i].times).ns);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("intent");
	TCase *t = tcase_create("intents"), *n = tcase_create("numbers");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_test(t, clock_moves_above_what_it_sees);
	tcase_add_test(t, clock_survives_forged_times);
	tcase_add_test(t, times_that_no_clock_shows);
	tcase_add_test(t, newest_intent_of_a_name_counts);
	tcase_add_test(t, full_memory_refuses_and_counts);
	tcase_add_test(t, old_intents_are_forgotten);
	tcase_add_loop_test(n, suspicion_minimum, 0, sizeof(suspicion_minimums) / sizeof(suspicion_minimums[0]));
	tcase_add_test(n, suspicion_falls_with_confirmations);
	tcase_add_test(n, retransmissions);
	tcase_add_test(n, reach);
	tcase_add_test(n, exchanges_become_rarer);
	suite_add_tcase(s, t);
	suite_add_tcase(s, n);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
