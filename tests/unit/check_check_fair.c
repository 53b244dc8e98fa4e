/* What checks share fairly: places (fair.h), and what is known of names (names.h). */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "rpcd/check/fair.h"
#include "rpcd/check/names.h"

#define ITEMS 400

static const struct fair_conf conf = { .places = 10, .class = {
	[FAIR_QUICK] = { 10, 5 }, [FAIR_NEW] = { 4, 2 }, [FAIR_SLOW] = { 2, 1 } } };
static const struct mono t0 = { 1000000000 };

static struct fair *f;
static struct fair_item items[ITEMS];
static unsigned used;

static void
setup(void)
{
	used = 0;
	for (unsigned i = 0; i < ITEMS; i++)
		items[i] = (struct fair_item){ .owner = NULL };
	ck_assert_ptr_nonnull(f = fair_new(&conf));
}

static void
teardown(void)
{
	fair_free(f);
}

static struct fair_item *
add(const char *owner, enum fair_class class)
{
	struct fair_item *it = &items[used++];

	ck_assert_int_eq(fair_add(f, it, span_str(owner), class, t0), TV_OK);
	return it;
}

static unsigned
place_all(void)
{
	unsigned n = 0;

	while (fair_next(f, t0) != NULL)
		n++;
	return n;
}

START_TEST(limits)
{
	for (unsigned i = 0; i < 20; i++)
		add("one", FAIR_SLOW);
	ck_assert_uint_eq(place_all(), 1);		/* of one owner */
	for (unsigned i = 0; i < 20; i++)
		add("two", FAIR_SLOW);
	for (unsigned i = 0; i < 20; i++)
		add("three", FAIR_SLOW);
	ck_assert_uint_eq(place_all(), 1);		/* of the class */
	for (unsigned i = 0; i < 20; i++)
		add("one", FAIR_NEW);
	ck_assert_uint_eq(place_all(), 2);
	for (unsigned i = 0; i < 20; i++)
		add("two", FAIR_NEW);
	ck_assert_uint_eq(place_all(), 2);
	/* However many of these wait: others find places. */
	for (unsigned i = 0; i < 20; i++)
		add("one", FAIR_QUICK);
	ck_assert_uint_eq(place_all(), 4);		/* all that there are */
	ck_assert_uint_eq(fair_placed(f), 10);
	ck_assert_uint_eq(fair_waiting(f), 110);
}
END_TEST

START_TEST(owners_take_turns)
{
	struct fair_item *victim, *it;
	unsigned before = 0;

	for (unsigned i = 0; i < 100; i++)
		add("flood", FAIR_NEW);
	ck_assert_uint_eq(place_all(), 2);
	victim = add("victim", FAIR_NEW);
	ck_assert_ptr_eq(fair_next(f, t0), victim);	/* another owner's place is free */
	fair_remove(f, victim);
	for (unsigned i = 0; i < 3; i++)
		add("other", FAIR_NEW);
	ck_assert_uint_eq(place_all(), 2);
	ck_assert_int_eq(fair_add(f, victim, span_str("victim"), FAIR_NEW, t0), TV_OK);
	ck_assert_ptr_null(fair_next(f, t0));
	/* Places come free: the victim's turn is soon, behind one of each. */
	for (unsigned i = 0; i < used; i++)
		if (items[i].placed && &items[i] != victim) {
			fair_remove(f, &items[i]);
			it = fair_next(f, t0);
			ck_assert_ptr_nonnull(it);
			if (it == victim)
				break;
			before++;
		}
	ck_assert(victim->placed);
	ck_assert_uint_le(before, 2);
}
END_TEST

START_TEST(classes_take_turns)
{
	unsigned placed[FAIR_CLASSES] = { 0 };
	struct fair_item *it;
	char owner[16];

	for (unsigned i = 0; i < 100; i++) {
		snprintf(owner, sizeof(owner), "o%u", i);
		add(owner, FAIR_QUICK);
		add(owner, FAIR_SLOW);
		add(owner, FAIR_NEW);
	}
	while ((it = fair_next(f, t0)) != NULL)
		placed[it->class]++;
	ck_assert_uint_eq(placed[FAIR_SLOW], 2);
	ck_assert_uint_ge(placed[FAIR_NEW], 3);
	ck_assert_uint_ge(placed[FAIR_QUICK], 4);
}
END_TEST

START_TEST(items_leave)
{
	struct fair_item *a = add("a", FAIR_NEW), *b = add("a", FAIR_NEW), *c = add("b", FAIR_NEW);
	struct span most;

	ck_assert(fair_owner_waits(f, span_str("a")) && !fair_owner_waits(f, span_str("c")));
	ck_assert_ptr_eq(fair_first(f), a);
	ck_assert_ptr_eq(fair_behind(a), b);
	fair_remove(f, a);
	fair_remove(f, a);
	ck_assert_ptr_eq(fair_first(f), b);
	ck_assert_ptr_eq(fair_next(f, t0), b);
	ck_assert(b->placed && !fair_owner_waits(f, span_str("a")));
	ck_assert_uint_eq(fair_greatest(f, &most), 1);
	ck_assert(span_eqs(most, "a"));
	fair_remove(f, b);
	ck_assert_ptr_eq(fair_next(f, t0), c);
	fair_remove(f, c);
	ck_assert_uint_eq(fair_placed(f) + fair_waiting(f), 0);
	ck_assert_uint_eq(fair_greatest(f, &most), 0);
}
END_TEST

START_TEST(limits_change)
{
	struct fair_conf less = { .places = 0 };

	for (unsigned i = 0; i < 10; i++)
		add("a", FAIR_QUICK);
	ck_assert_uint_eq(place_all(), 5);
	fair_limits(f, &less);				/* one of each at least */
	ck_assert_uint_eq(place_all(), 0);
	for (unsigned i = 0; i < 5; i++)
		fair_remove(f, &items[i]);
	ck_assert_uint_eq(place_all(), 1);
	fair_limits(f, &conf);
	ck_assert_uint_eq(place_all(), 4);
}
END_TEST

/* Nothing is lost, no limit is passed, and nothing waits for a place that it may have. */
START_TEST(any_order)
{
	char owner[4] = "x";

	srand((unsigned)_i);
	for (unsigned step = 0; step < 20000; step++) {
		struct fair_item *it = &items[rand() % ITEMS];
		unsigned placed = 0, waiting = 0, of[FAIR_CLASSES] = { 0 };

		owner[0] = (char)('a' + rand() % 6);
		if (it->owner == NULL)
			ck_assert_int_eq(fair_add(f, it, span_str(owner), (enum fair_class)(rand() % FAIR_CLASSES), t0), TV_OK);
		else if (rand() % 2 == 0)
			fair_remove(f, it);
		place_all();
		if (step % 100 != 0)
			continue;
		for (unsigned i = 0; i < ITEMS; i++) {
			placed += items[i].placed;
			waiting += items[i].owner != NULL && !items[i].placed;
			of[items[i].class] += items[i].placed;
		}
		ck_assert_uint_eq(placed, fair_placed(f));
		ck_assert_uint_eq(waiting, fair_waiting(f));
		ck_assert_uint_le(placed, conf.places);
		for (int c = 0; c < FAIR_CLASSES; c++)
			ck_assert_uint_le(of[c], conf.class[c].places);
	}
	for (unsigned i = 0; i < ITEMS; i++)
		fair_remove(f, &items[i]);
	ck_assert_uint_eq(fair_placed(f) + fair_waiting(f), 0);
}
END_TEST

/* -- names -- */

static struct name n;
static struct mono now;

static struct name_answer
answer(enum name_outcome outcome, uint8_t last)
{
	struct name_answer a = { .outcome = outcome };

	if (outcome == NAME_FOUND) {
		a.found.n = 1;
		a.found.v[0].v4 = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = last };
	} else {
		snprintf(a.why, sizeof(a.why), "why %u", last);
	}
	return a;
}

static void
learn(enum name_outcome outcome, uint8_t last, struct mono took)
{
	struct name_answer a = answer(outcome, last);
	struct mono begun = now;

	now = mono_add(now, took);
	name_learn(&n, &a, begun, now);
}

/* What serves now: the last number of the address; minus that of the reason; 0: nothing. */
static int
serves(void)
{
	const struct addresses *found;
	const char *why;

	if (!name_serves(&n, now, &found, &why))
		return 0;
	return found != NULL ? (int)found->v[0].v4.sin_addr.s_addr : -atoi(why + 4);
}

static void
passes(struct mono t)
{
	now = mono_add(now, t);
}

static void
setup_name(void)
{
	n = (struct name){ .known = false };
	now = t0;
}

START_TEST(good_answers)
{
	ck_assert_int_eq(serves(), 0);
	ck_assert_int_eq(name_class(&n), FAIR_NEW);
	learn(NAME_FOUND, 1, MONO_MS(5));
	ck_assert(name_fresh(&n, now) && serves() == 1 && name_class(&n) == FAIR_QUICK);
	passes(NAME_FRESH);
	ck_assert(!name_fresh(&n, now) && serves() == 1);
	passes(MONO_S(280));
	ck_assert(!name_forgettable(&n, now) && serves() == 1);
	passes(MONO_S(20));
	ck_assert(name_forgettable(&n, now) && serves() == 0);
	learn(NAME_FOUND, 2, MONO_S(3));
	ck_assert(serves() == 2 && name_class(&n) == FAIR_SLOW);
}
END_TEST

START_TEST(names_that_are_not_there)
{
	learn(NAME_FOUND, 1, MONO_MS(5));
	learn(NAME_NOT_THERE, 2, MONO_MS(5));
	ck_assert(name_fresh(&n, now) && serves() == -2 && name_class(&n) == FAIR_QUICK);	/* the old one is gone */
	passes(NAME_ABSENT);
	ck_assert(!name_fresh(&n, now) && serves() == 0);
	learn(NAME_NO_ANSWER, 3, MONO_MS(5));
	ck_assert(serves() == -3);
}
END_TEST

START_TEST(old_answers_serve)
{
	learn(NAME_FOUND, 1, MONO_MS(5));
	passes(NAME_FRESH);
	learn(NAME_NO_ANSWER, 2, MONO_S(10));
	ck_assert(serves() == 1 && name_class(&n) == FAIR_SLOW);
	for (int64_t s = 20; s < 290; s += 10) {
		passes(MONO_S(5));
		learn(NAME_NO_ANSWER, 2, MONO_S(5));
		ck_assert_int_eq(serves(), 1);
	}
	passes(MONO_S(20));
	ck_assert_int_eq(serves(), -2);
	learn(NAME_FOUND, 4, MONO_MS(5));
	ck_assert_int_eq(serves(), 4);
}
END_TEST

START_TEST(silence_is_asked_less_and_less)
{
	static const int pauses[] = { 10, 20, 40, 60, 60 };

	for (unsigned i = 0; i < 5; i++) {
		learn(NAME_NO_ANSWER, 1, MONO_S(10));
		passes(mono_sub(MONO_S(pauses[i]), MONO_MS(1)));
		ck_assert(name_fresh(&n, now) && serves() == -1);
		passes(MONO_MS(1));
		ck_assert(!name_fresh(&n, now) && serves() == -1);	/* while it is asked for again */
	}
	passes(NAME_PAUSE_MAX);
	ck_assert_int_eq(serves(), 0);
	learn(NAME_NO_ANSWER, 2, MONO_MS(5));			/* a failure, told at once */
	passes(NAME_ABSENT);
	ck_assert(!name_fresh(&n, now) && serves() == 0);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("check_fair");
	TCase *t = tcase_create("fair"), *names = tcase_create("names");
	SRunner *sr = srunner_create(s);

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, limits);
	tcase_add_test(t, owners_take_turns);
	tcase_add_test(t, classes_take_turns);
	tcase_add_test(t, items_leave);
	tcase_add_test(t, limits_change);
	tcase_add_loop_test(t, any_order, 0, 20);
	suite_add_tcase(s, t);
	tcase_add_checked_fixture(names, setup_name, NULL);
	tcase_add_test(names, good_answers);
	tcase_add_test(names, names_that_are_not_there);
	tcase_add_test(names, old_answers_serve);
	tcase_add_test(names, silence_is_asked_less_and_less);
	suite_add_tcase(s, names);
	srunner_run_all(sr, CK_ENV);
	int bad = srunner_ntests_failed(sr);
	srunner_free(sr);
	return bad == 0 ? 0 : 1;
}
