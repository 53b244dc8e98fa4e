/* Silence on a channel: what calls for a question, what ends patience, and what does not count. */
#include <check.h>
#include <stdlib.h>

#include "common/net/silence.h"

static const struct silence_conf conf = { { 2000000000 }, { 5000000000 }, { 3000000000 } };
static struct silence s;
static int64_t ms;			/* of the next look */

static void
setup(void)
{
	s = (struct silence){ 0 };
	ms = 1000000;
}

static enum silence_verdict
look(int64_t after_ms, uint64_t signs)
{
	ms += after_ms;
	return silence_look(&s, &conf, MONO_MS(ms), signs);
}

START_TEST(who_talks_is_never_asked)
{
	for (uint64_t i = 0; i < 100; i++)
		ck_assert_int_eq(look(1000, i), SILENCE_FINE);
	ck_assert_int_eq(silence_lasts(&s, MONO_MS(ms + 900)).ns, 0);
}
END_TEST

START_TEST(who_is_silent_is_asked_once_and_then_dead)
{
	ck_assert_int_eq(look(0, 7), SILENCE_FINE);
	ck_assert_int_eq(look(1000, 7), SILENCE_FINE);
	ck_assert_int_eq(silence_lasts(&s, MONO_MS(ms)).ns, 0);
	ck_assert_int_eq(look(1000, 7), SILENCE_ASK);
	ck_assert_int_eq(look(1000, 7), SILENCE_FINE);
	ck_assert_int_eq(look(1000, 7), SILENCE_FINE);
	ck_assert_int_eq(mono_ms(silence_lasts(&s, MONO_MS(ms))), 4000);
	ck_assert_int_eq(look(999, 7), SILENCE_FINE);
	ck_assert_int_eq(look(1, 7), SILENCE_DEAD);
	ck_assert_int_eq(look(1000, 7), SILENCE_DEAD);
	ck_assert_int_eq(look(1000, 8), SILENCE_FINE);		/* it was only slow */
	ck_assert_int_eq(silence_lasts(&s, MONO_MS(ms)).ns, 0);
	ck_assert_int_eq(look(1000, 8), SILENCE_FINE);
	ck_assert_int_eq(look(1000, 8), SILENCE_ASK);
}
END_TEST

START_TEST(any_sign_answers)
{
	look(0, 1);
	look(1000, 1);
	ck_assert_int_eq(look(1000, 1), SILENCE_ASK);
	ck_assert_int_eq(look(2900, 2), SILENCE_FINE);		/* late, and before patience ends */
	ck_assert_int_eq(look(2900, 2), SILENCE_ASK);
	ck_assert_int_eq(look(2900, 1), SILENCE_FINE);		/* any other number will do */
}
END_TEST

START_TEST(a_question_gets_its_time)
{
	look(0, 1);
	look(1900, 1);
	ck_assert_int_eq(look(2900, 1), SILENCE_ASK);		/* 4.8 s silent, but only now asked */
	ck_assert_int_eq(look(1000, 1), SILENCE_FINE);
	ck_assert_int_eq(look(1000, 1), SILENCE_FINE);
	ck_assert_int_eq(look(500, 1), SILENCE_DEAD);
}
END_TEST

/* SIGSTOP of ourselves, a suspended machine: the answer may be in the socket, unread. */
START_TEST(own_standstill_does_not_count)
{
	look(0, 1);
	look(1000, 1);
	ck_assert_int_eq(look(1000, 1), SILENCE_ASK);
	ck_assert_int_eq(look(60000, 1), SILENCE_FINE);
	ck_assert_int_eq(silence_lasts(&s, MONO_MS(ms)).ns, 0);
	look(1000, 1);
	ck_assert_int_eq(look(1000, 1), SILENCE_ASK);
	look(1000, 1);
	look(1000, 1);
	ck_assert_int_eq(look(1000, 1), SILENCE_DEAD);
	ck_assert_int_eq(look(60000, 1), SILENCE_FINE);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("silence");
	TCase *t = tcase_create("silence");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_test(t, who_talks_is_never_asked);
	tcase_add_test(t, who_is_silent_is_asked_once_and_then_dead);
	tcase_add_test(t, any_sign_answers);
	tcase_add_test(t, a_question_gets_its_time);
	tcase_add_test(t, own_standstill_does_not_count);
	suite_add_tcase(suite, t);
	sr = srunner_create(suite);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
