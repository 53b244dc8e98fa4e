/* Equal questions that share one flight: joining, leaving in each order, the outcome, and what waiters do meanwhile. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/join.h"

#define COUNT 4

/* A question about a word, whatever its case says: the hash is of the lower case, the comparison too if so wanted. */
struct question {
	struct join_flight flight;
	const char *word;
};

struct caller {
	unsigned number;
	struct join_waiter waiter;
	void (*then)(struct caller *c);
};

static struct map open_ones;
static struct question *freed;
static unsigned begun, told[32], told_count;
static struct caller callers[COUNT + 1];

static uint64_t
hash_of(const char *word)
{
	uint64_t h = 7;

	for (; *word != '\0'; word++)
		h = h * 31 + (uint8_t)(*word | 0x20);
	return h;
}

static struct question *
find(const char *word)
{
	struct question *q;

	MAP_FOREACH_HASH(q, &open_ones, hash_of(word), flight.node)
		if (strcmp(q->word, word) == 0)
			break;
	return q;
}

static struct question *
ask(struct caller *c, const char *word)
{
	struct question *q = find(word);

	if (q == NULL) {
		begun++;
		q = calloc(1, sizeof(*q));
		q->word = word;
		join_open(&open_ones, &q->flight, hash_of(word));
	}
	join_wait(&q->flight, &c->waiter);
	return q;
}

/* Cancels a question that no one waits for. */
static void
leave(struct caller *c)
{
	struct question *q = JOIN_ENTRY(join_leave(&c->waiter), struct question, flight);

	if (q == NULL)
		return;
	join_close(&open_ones, &q->flight);
	free(freed);
	freed = q;
}

static void
end(struct question *q)
{
	struct caller *c;

	join_end(&open_ones, &q->flight);
	while ((c = JOIN_ENTRY(join_next(&q->flight), struct caller, waiter)) != NULL) {
		ck_assert_ptr_null(c->waiter.flight);
		told[told_count++] = c->number;
		if (c->then != NULL)
			c->then(c);
	}
	ck_assert_uint_eq(q->flight.waiting, 0);
	free(q);
}

static void
setup(void)
{
	memset(callers, 0, sizeof(callers));
	for (unsigned i = 0; i <= COUNT; i++)
		callers[i].number = i;
	begun = told_count = 0;
}

static void
teardown(void)
{
	ck_assert_uint_eq(open_ones.count, 0);
	map_done(&open_ones);
	free(freed);
	freed = NULL;
}

START_TEST(one_flight)
{
	struct question *q = ask(&callers[0], "a");

	for (unsigned i = 1; i < COUNT; i++)
		ck_assert_ptr_eq(ask(&callers[i], "a"), q);
	ck_assert_uint_eq(begun, 1);
	ck_assert_uint_eq(q->flight.waiting, COUNT);
	ck_assert_ptr_eq(JOIN_ENTRY(callers[2].waiter.flight, struct question, flight), q);
	end(q);
	ck_assert_uint_eq(told_count, COUNT);
	for (unsigned i = 0; i < COUNT; i++)
		ck_assert_uint_eq(told[i], COUNT - 1 - i);	/* newest first */
	ck_assert_ptr_null(find("a"));
	end(ask(&callers[0], "a"));			/* a flight of its own */
	ck_assert_uint_eq(begun, 2);
}
END_TEST

/* Words with the same hash, which differ by case. */
START_TEST(keys)
{
	struct question *small = ask(&callers[0], "abc"), *large = ask(&callers[1], "ABC"), *mixed = ask(&callers[2], "aBc");

	ck_assert_uint_eq(begun, 3);
	ck_assert_ptr_eq(ask(&callers[3], "ABC"), large);
	ck_assert_uint_eq(begun, 3);
	end(small);
	ck_assert_ptr_null(find("abc"));
	ck_assert_ptr_eq(find("ABC"), large);
	ck_assert_ptr_eq(find("aBc"), mixed);
	end(large);
	end(mixed);
	ck_assert_uint_eq(told_count, 4);
}
END_TEST

/* In each order; the last one, whichever it is, cancels, and none before. */
START_TEST(leaving)
{
	unsigned order[COUNT];

	for (unsigned n = 0; n < COUNT * COUNT * COUNT * COUNT; n++) {
		bool twice = false;

		for (unsigned i = 0, left = n; i < COUNT; i++, left /= COUNT) {
			order[i] = left % COUNT;
			for (unsigned j = 0; j < i; j++)
				twice = twice || order[i] == order[j];
		}
		if (twice)
			continue;
		struct question *q = NULL;
		for (unsigned i = 0; i < COUNT; i++)
			q = ask(&callers[i], "a");
		for (unsigned i = 0; i < COUNT; i++) {
			ck_assert_ptr_eq(find("a"), q);
			leave(&callers[order[i]]);
			ck_assert_ptr_null(callers[order[i]].waiter.flight);
			leave(&callers[order[i]]);	/* once more does nothing */
		}
		ck_assert_ptr_eq(freed, q);
		ck_assert_ptr_null(find("a"));
	}
	ck_assert_uint_eq(begun, 24);
	ck_assert_uint_eq(told_count, 0);
}
END_TEST

static void
leave_others(struct caller *c)
{
	(void)c;
	for (unsigned i = 1; i < COUNT; i += 2)
		leave(&callers[i]);
}

static void
leave_all(struct caller *c)
{
	(void)c;
	for (unsigned i = 0; i < COUNT; i++)
		leave(&callers[i]);
}

/* While the outcome is handed on: those that left have none, and the last one does not cancel what ends. */
START_TEST(leaving_at_the_end)
{
	struct question *q = NULL;

	for (unsigned i = 0; i < COUNT; i++)
		q = ask(&callers[i], "a");
	callers[COUNT - 1].then = leave_others;
	end(q);
	ck_assert_uint_eq(told_count, 3);
	ck_assert_uint_eq(told[1], 2);
	ck_assert_uint_eq(told[2], 0);
	told_count = 0;
	for (unsigned i = 0; i < COUNT; i++)
		q = ask(&callers[i], "a");
	callers[COUNT - 1].then = leave_all;
	end(q);
	ck_assert_uint_eq(told_count, 1);
	ck_assert_ptr_null(freed);
}
END_TEST

static struct question *again;

static void
ask_again(struct caller *c)
{
	c->then = NULL;
	again = ask(c, "a");
}

/* A waiter that asks again begins a flight, which another one joins, and neither is in what ends. */
START_TEST(asking_at_the_end)
{
	struct question *q = ask(&callers[0], "a");

	ask(&callers[1], "a");
	ask(&callers[2], "a");
	callers[0].then = callers[2].then = ask_again;
	end(q);
	ck_assert_uint_eq(told_count, 3);
	ck_assert_uint_eq(begun, 2);
	ck_assert_ptr_eq(find("a"), again);
	ck_assert_uint_eq(again->flight.waiting, 2);
	leave(&callers[0]);
	end(again);
	ck_assert_uint_eq(told_count, 4);
	ck_assert_uint_eq(told[3], 2);		/* 0 has left */
}
END_TEST

/* Closed, and not ended: no more join, those that wait go on, and the last one that leaves has it to free. */
START_TEST(closed)
{
	struct question *q = ask(&callers[0], "a");

	ask(&callers[1], "a");
	join_close(&open_ones, &q->flight);
	join_close(&open_ones, &q->flight);
	ck_assert_ptr_null(find("a"));
	leave(&callers[0]);
	ck_assert_ptr_null(freed);
	leave(&callers[1]);
	ck_assert_ptr_eq(freed, q);
}
END_TEST

/* Never open: only who holds it can wait for it. */
START_TEST(alone)
{
	struct question q = { .word = "a" };

	ck_assert_ptr_null(join_next(&q.flight));
	join_wait(&q.flight, &callers[0].waiter);
	ck_assert_ptr_null(find("a"));
	join_end(&open_ones, &q.flight);
	ck_assert_ptr_null(join_leave(&callers[0].waiter));
	ck_assert_ptr_null(JOIN_ENTRY(join_next(&q.flight), struct caller, waiter));
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("join");
	TCase *t = tcase_create("all");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, one_flight);
	tcase_add_test(t, keys);
	tcase_add_test(t, leaving);
	tcase_add_test(t, leaving_at_the_end);
	tcase_add_test(t, asking_at_the_end);
	tcase_add_test(t, closed);
	tcase_add_test(t, alone);
	suite_add_tcase(s, t);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
