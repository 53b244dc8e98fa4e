/* What is remembered of addresses: rests that grow and end, and inventions that are forgotten before servers. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "rpcd/route/peer_standing.h"

static struct standings *s;
static struct mono now;

static void
setup(void)
{
	s = standings_new(8);
	now = MONO_S(1000);
}

static void
teardown(void)
{
	standings_free(s);
}

static enum standing
of(const char *ip)
{
	return standing_of(s, ip, 8400, now);
}

static void
later(struct mono by)
{
	now = mono_add(now, by);
}

START_TEST(rests_grow)
{
	struct mono last = MONO_ZERO;

	ck_assert_int_eq(of("a"), STANDING_UNKNOWN);
	for (int i = 0; i < 20; i++) {
		struct mono began = now, rest;

		standing_failed(s, "a", 8400, now);
		ck_assert_int_eq(of("a"), STANDING_RESTING);
		while (of("a") == STANDING_RESTING)
			later(MONO_MS(100));
		ck_assert_int_eq(of("a"), STANDING_UNKNOWN);
		rest = mono_sub(now, began);
		ck_assert(i == 0 ? rest.ns >= MONO_S(1).ns : rest.ns >= last.ns);
		ck_assert_int_le(rest.ns, MONO_S(301).ns);
		last = rest;
	}
	ck_assert_int_ge(last.ns, MONO_S(299).ns);
	ck_assert_int_eq(standing_of(s, "a", 8401, now), STANDING_UNKNOWN);	/* another address */
}
END_TEST

START_TEST(who_proved_itself_rests_less)
{
	standing_failed(s, "a", 8400, now);
	standing_proved(s, "a", 8400, now);
	ck_assert_int_eq(of("a"), STANDING_PROVEN);
	ck_assert_int_eq(standing_failed_at(s, "a", 8400).ns, 0);
	for (int i = 0; i < 20; i++)
		standing_failed(s, "a", 8400, now);
	ck_assert_int_eq(standing_failed_at(s, "a", 8400).ns, now.ns);
	ck_assert_int_eq(of("a"), STANDING_TIRED);
	later(MONO_S(5));
	ck_assert_int_eq(of("a"), STANDING_PROVEN);
	ck_assert(standing_is_proven(s, "a", 8400));
}
END_TEST

START_TEST(inventions_are_forgotten_first)
{
	char ip[32];

	standing_proved(s, "a", 8400, now);
	standing_proved(s, "b", 8400, now);
	for (int i = 0; i < 1000; i++) {
		snprintf(ip, sizeof(ip), "x%d", i);
		standing_failed(s, ip, 8400, now);
		ck_assert_int_eq(of(ip), STANDING_RESTING);
		ck_assert_uint_le(standings_count(s), 8);
	}
	ck_assert_int_eq(of("a"), STANDING_PROVEN);
	ck_assert_int_eq(of("b"), STANDING_PROVEN);
	ck_assert_int_eq(of("x994"), STANDING_RESTING);
	ck_assert_int_eq(of("x993"), STANDING_UNKNOWN);
	for (int i = 0; i < 8; i++) {		/* and of those that proved themselves, the ones longest ago */
		snprintf(ip, sizeof(ip), "p%d", i);
		standing_proved(s, ip, 8400, now);
	}
	ck_assert_int_eq(of("a"), STANDING_UNKNOWN);
	ck_assert_int_eq(of("p0"), STANDING_PROVEN);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("standing");
	TCase *t = tcase_create("standing");
	SRunner *r;
	int bad;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, rests_grow);
	tcase_add_test(t, who_proved_itself_rests_less);
	tcase_add_test(t, inventions_are_forgotten_first);
	suite_add_tcase(suite, t);
	r = srunner_create(suite);
	srunner_run_all(r, CK_NORMAL);
	bad = srunner_ntests_failed(r);
	srunner_free(r);
	return bad > 0;
}
