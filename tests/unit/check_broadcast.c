/* The transmit-limited queue: what leaves first, how often, and who is told. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "gossipd/core/swim/broadcast.h"

static struct bqueue q;
static struct intern *store;
static struct arena arena;
static struct bfill fill;

static void
setup(void)
{
	static const uint8_t key[INTERN_KEY_BYTES];

	store = intern_new(key);
	bqueue_init(&q, 100, store);
	arena = ARENA_INIT(1 << 20);
}

static void
teardown(void)
{
	bqueue_done(&q);
	intern_free(store);	/* asserts that all bytes were given back */
	arena_done(&arena);
}

static void
put(const char *text)
{
	ck_assert_int_eq(bqueue_put(&q, SPAN_NONE, span_str(text), NULL, 0), TV_OK);
}

/* What one packet with that room takes, joined by commas. */
static const char *
take(size_t room, size_t per_message, unsigned limit)
{
	static char text[4096];
	size_t at = 0;

	arena_reset(&arena);
	bfill_init(&fill, &arena, room);
	bqueue_fill(&q, &fill, per_message, limit);
	text[0] = '\0';
	for (unsigned i = 0; i < fill.count; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%.*s", i > 0 ? "," : "", (int)fill.parts[i].len,
		    (const char *)fill.parts[i].p);
	return text;
}

START_TEST(longest_first_newest_among_equals)
{
	put("a1");
	put("bbbb1");
	put("a2");
	put("bbbb2");
	ck_assert_str_eq(take(1000, 2, 9), "bbbb2,bbbb1,a2,a1");
}
END_TEST

START_TEST(least_sent_first)
{
	put("loooooong");
	ck_assert_str_eq(take(1000, 2, 9), "loooooong");
	put("new");
	ck_assert_str_eq(take(1000, 2, 9), "new,loooooong");
	/* Both were sent once more: 1 and 2 times. */
	ck_assert_str_eq(take(5, 2, 9), "new");
	ck_assert_str_eq(take(11, 2, 9), "loooooong");
}
END_TEST

START_TEST(what_does_not_fit_waits)
{
	put("12345678");
	put("123");
	ck_assert_str_eq(take(9, 2, 9), "123");		/* 8 + 2 > 9 */
	ck_assert_uint_eq(fill.room, 4);
	ck_assert_str_eq(take(10, 2, 9), "12345678");
	ck_assert_str_eq(take(2, 2, 9), "");
	ck_assert_str_eq(take(0, 2, 9), "");
	ck_assert_uint_eq(q.count, 2);
}
END_TEST

START_TEST(a_message_leaves_after_limit_picks)
{
	put("x");
	for (int i = 0; i < 4; i++)
		ck_assert_str_eq(take(100, 2, 4), "x");
	ck_assert_str_eq(take(100, 2, 4), "");
	ck_assert_uint_eq(q.count, 0);
	ck_assert_uint_eq(q.bytes, 0);
}
END_TEST

START_TEST(one_packet_takes_a_message_once)
{
	put("x");
	ck_assert_str_eq(take(1000, 2, 9), "x");
	ck_assert_uint_eq(q.count, 1);
}
END_TEST

START_TEST(a_named_message_replaces_its_predecessor)
{
	struct bcast *owner = NULL;

	ck_assert_int_eq(bqueue_put(&q, SPAN_NONE, span_str("old"), &owner, 1), TV_OK);
	ck_assert_ptr_nonnull(owner);
	ck_assert_int_eq(bqueue_put(&q, SPAN_NONE, span_str("new"), &owner, 2), TV_OK);
	ck_assert_uint_eq(q.released, 1);		/* whoever waited for the old one is told */
	ck_assert_str_eq(take(100, 2, 1), "new");
	ck_assert_ptr_null(owner);
	ck_assert_uint_eq(q.released, 3);
}
END_TEST

/* Of those sent equally often, the one that waited longest goes first. */
START_TEST(sent_ones_take_turns)
{
	put("a");
	put("b");
	put("c");
	ck_assert_str_eq(take(3, 2, 9), "c");
	ck_assert_str_eq(take(6, 2, 9), "b,a");
	ck_assert_str_eq(take(3, 2, 9), "c");
	put("d");
	ck_assert_str_eq(take(6, 2, 9), "d,a");
}
END_TEST

START_TEST(a_disowned_message_still_goes_out)
{
	struct bcast *owner = NULL;

	ck_assert_int_eq(bqueue_put(&q, SPAN_NONE, span_str("x"), &owner, 0), TV_OK);
	bqueue_disown(owner);
	owner = NULL;
	ck_assert_str_eq(take(100, 2, 1), "x");
	ck_assert_ptr_null(owner);
}
END_TEST

START_TEST(a_full_queue_drops_the_most_sent)
{
	q.count_max = 3;
	put("aaa");
	(void)take(100, 2, 9);
	(void)take(100, 2, 9);
	put("b");
	put("c");
	put("d");
	ck_assert_uint_eq(q.count, 3);
	ck_assert_uint_eq(q.dropped, 1);
	ck_assert_str_eq(take(100, 2, 9), "d,c,b");
}
END_TEST

START_TEST(prefix_and_size)
{
	static uint8_t big[UINT16_MAX + 1];

	ck_assert_int_eq(bqueue_put(&q, span_str(">"), span_str("x"), NULL, 0), TV_OK);
	ck_assert_str_eq(take(100, 2, 1), ">x");
	ck_assert_int_eq(bqueue_put(&q, SPAN_NONE, span_of(big, sizeof(big)), NULL, 0), TV_ELIMIT);
}
END_TEST

START_TEST(a_packet_has_at_most_255_parts)
{
	q.count_max = 1000;
	for (int i = 0; i < 300; i++)
		put("x");
	(void)take(100000, 2, 9);
	ck_assert_uint_eq(fill.count, BCAST_PARTS_MAX);
	(void)take(100000, 2, 9);
	ck_assert_uint_eq(fill.count, BCAST_PARTS_MAX);		/* 45 fresh ones, then sent ones again */
}
END_TEST

/* The queue keeps its order under random use. */
START_TEST(order_holds_under_random_use)
{
	struct rng rng;

	rng_seed(&rng, (uint64_t)_i);
	q.count_max = 50;
	for (int step = 0; step < 2000; step++) {
		char text[64];
		size_t len = 1 + rng_below(&rng, sizeof(text) - 2), last = SIZE_MAX;

		memset(text, 'a', len);
		text[len] = '\0';
		put(text);
		if (rng_below(&rng, 3) != 0)
			continue;
		(void)take(rng_below(&rng, 400), 2, 1);
		for (unsigned i = 0; i < fill.count; i++) {	/* all unsent: lengths fall */
			ck_assert_uint_le(fill.parts[i].len, last);
			last = fill.parts[i].len;
		}
		ck_assert_uint_le(q.count, 50);
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("broadcast");
	TCase *t = tcase_create("queue");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, longest_first_newest_among_equals);
	tcase_add_test(t, least_sent_first);
	tcase_add_test(t, what_does_not_fit_waits);
	tcase_add_test(t, a_message_leaves_after_limit_picks);
	tcase_add_test(t, one_packet_takes_a_message_once);
	tcase_add_test(t, a_named_message_replaces_its_predecessor);
	tcase_add_test(t, sent_ones_take_turns);
	tcase_add_test(t, a_disowned_message_still_goes_out);
	tcase_add_test(t, a_full_queue_drops_the_most_sent);
	tcase_add_test(t, prefix_and_size);
	tcase_add_test(t, a_packet_has_at_most_255_parts);
	tcase_add_loop_test(t, order_holds_under_random_use, 0, 5);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
