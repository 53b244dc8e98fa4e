/* The checker of histories: right ones pass, each kind of wrong one is refused, and it agrees with trying all orders. */
#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "tests/sim/linear.h"

#define OPS 8
#define STEPS 3
#define KEYS 3

struct small {			/* an operation of a small history */
	struct lin_op op;
	struct lin_step steps[STEPS];
	size_t count;
};

/* -- histories as text: "START END OUTCOME STEP..." with keys a to c and values 0 (absent) to 9 */

static void
read_small(const char *text, struct small *out)
{
	char line[128], *save = NULL, *word;
	const char *end, *outcome;

	memset(out, 0, sizeof(*out));
	ck_assert_uint_lt(strlen(text), sizeof(line));
	strcpy(line, text);
	out->op.start = atoll(strtok_r(line, " ", &save));
	end = strtok_r(NULL, " ", &save);
	out->op.end = atoll(end);
	outcome = strtok_r(NULL, " ", &save);
	out->op.outcome = outcome[0] == 'o' ? LIN_OK : outcome[0] == 'f' ? LIN_FALSE : outcome[0] == 'n' ? LIN_NONE
	    : LIN_UNKNOWN;
	while ((word = strtok_r(NULL, " ", &save)) != NULL) {
		struct lin_step *s = &out->steps[out->count++];

		s->kind = word[0] == 'r' ? LIN_READ : word[0] == 'c' ? LIN_CHECK : LIN_WRITE;
		s->key = (uint32_t)(word[2] - 'a');
		s->value = (uint64_t)(word[4] - '0');
	}
}

static enum lin_verdict
verdict(const struct small *ops, size_t count, struct lin_report *report)
{
	struct linear *l = linear_new();
	enum lin_verdict v;

	for (size_t i = 0; i < count; i++) {
		struct lin_op op = ops[i].op;

		op.tag = (uint32_t)i;
		linear_add(l, &op, ops[i].steps, ops[i].count);
	}
	v = linear_check(l, 0, report);
	linear_free(l);
	return v;
}

static enum lin_verdict
judge(const char *const *lines, uint32_t *tag)
{
	struct small ops[32];
	struct lin_report report = { 0 };
	enum lin_verdict v;
	size_t n = 0;

	for (; lines[n] != NULL; n++)
		read_small(lines[n], &ops[n]);
	v = verdict(ops, n, &report);
	if (tag != NULL)
		*tag = report.tag;
	return v;
}

#define GOOD(...) ck_assert_int_eq(judge((const char *const[]){ __VA_ARGS__, NULL }, NULL), LIN_YES)
#define BAD(...) ck_assert_int_eq(judge((const char *const[]){ __VA_ARGS__, NULL }, NULL), LIN_NO)

START_TEST(right_ones)
{
	GOOD("0 1 ok r:a=0");
	GOOD("0 1 ok w:a=1", "2 3 ok r:a=1", "4 5 ok w:a=0", "6 7 ok r:a=0");
	/* Overlapping operations may take effect in either order. */
	GOOD("0 9 ok w:a=1", "0 9 ok w:a=2", "10 11 ok r:a=1");
	GOOD("0 9 ok w:a=1", "0 9 ok w:a=2", "10 11 ok r:a=2");
	GOOD("0 5 ok w:a=1", "1 2 ok r:a=0", "3 4 ok r:a=1");
	/* The end of one and the start of the next at the same instant: they overlap. */
	GOOD("0 5 ok w:a=1", "5 6 ok r:a=0");
	GOOD("0 1 ok w:a=1", "2 3 ok c:a=1 w:a=2", "4 5 false c:a=1 w:a=3", "6 7 ok r:a=2");
	GOOD("0 1 ok w:a=1 w:b=2", "2 3 ok r:a=1 r:b=2");
}
END_TEST

START_TEST(stale_read)
{
	BAD("0 1 ok w:a=1", "2 3 ok r:a=0");
	BAD("0 1 ok w:a=1", "2 3 ok w:a=2", "4 5 ok r:a=1");
	/* One has read it, then another that asked later reads the older one. */
	BAD("0 9 ok w:a=1", "1 2 ok r:a=1", "3 4 ok r:a=0");
	BAD("0 9 ok w:a=1", "0 9 ok w:a=2", "10 11 ok r:a=1", "12 13 ok r:a=2");
}
END_TEST

START_TEST(lost_update)
{
	BAD("0 1 ok w:a=1", "2 9 ok c:a=1 w:a=2", "2 9 ok c:a=1 w:a=3");
	BAD("0 1 ok w:a=1", "2 9 ok w:a=2", "3 4 ok r:a=2", "10 11 ok r:a=1");
	BAD("0 1 ok w:a=1", "2 3 ok w:a=0", "4 5 ok r:a=1");
}
END_TEST

START_TEST(double_effect)
{
	/* 1 is written once and overwritten; it may not come again. */
	BAD("0 9 ok w:a=1", "0 1 ok r:a=1", "2 3 ok w:a=2", "4 5 ok r:a=2", "6 7 ok r:a=1");
	BAD("0 - unknown w:a=1", "1 2 ok r:a=1", "3 4 ok w:a=2", "5 6 ok r:a=2", "7 8 ok r:a=1");
	/* A delete of unknown outcome takes effect once. */
	BAD("0 1 ok w:a=1", "2 - unknown w:a=0", "3 4 ok r:a=0", "5 6 ok w:a=2", "7 8 ok r:a=0");
}
END_TEST

START_TEST(read_of_what_failed)
{
	BAD("0 1 none w:a=1", "2 3 ok r:a=1");
	BAD("0 1 ok w:a=1", "2 3 false c:a=7 w:a=2", "4 5 ok r:a=2");
	BAD("0 1 ok r:a=4");
}
END_TEST

START_TEST(read_from_the_future)
{
	uint32_t tag = 9;
	const char *const lines[] = { "5 6 ok w:a=1", "0 4 ok r:a=1", NULL };

	ck_assert_int_eq(judge(lines, &tag), LIN_NO);
	ck_assert_uint_eq(tag, 1);
	BAD("5 - unknown w:a=1", "0 4 ok r:a=1");
}
END_TEST

START_TEST(comparisons)
{
	/* It held, but was refused; it did not, but was done. */
	BAD("0 1 ok w:a=1", "2 3 false c:a=1 w:a=2");
	BAD("0 1 ok w:a=1", "2 3 ok c:a=2 w:a=3");
	/* Create-if-absent, twice. */
	BAD("0 9 ok c:a=0 w:a=1", "0 9 ok c:a=0 w:a=2");
	GOOD("0 9 ok c:a=0 w:a=1", "0 9 false c:a=0 w:a=2");
	/* Only the unknown write explains why it was refused. */
	GOOD("0 1 ok w:a=1", "2 - unknown w:a=5", "3 4 false c:a=1 w:a=2");
	BAD("0 1 ok w:a=1", "5 - unknown w:a=5", "3 4 false c:a=1 w:a=2");
}
END_TEST

START_TEST(unknown_outcomes)
{
	GOOD("0 - unknown w:a=1", "1 2 ok r:a=0", "3 4 ok r:a=1");
	GOOD("0 - unknown w:a=1", "1 2 ok r:a=0", "3 4 ok r:a=0");
	/* Once seen it has happened. */
	BAD("0 - unknown w:a=1", "1 2 ok r:a=1", "3 4 ok r:a=0");
	/* Long after. */
	GOOD("0 - unknown w:a=1", "1 2 ok w:a=2", "3 4 ok r:a=2", "100 101 ok r:a=1");
	/* An unknown one is proved by another unknown one that is seen. */
	BAD("0 - unknown w:a=1", "1 - unknown c:a=1 w:a=2", "2 3 ok r:a=2", "4 5 ok r:a=1");
	GOOD("0 1 ok w:a=1", "2 - unknown w:a=0", "3 4 ok r:a=1", "5 6 ok r:a=0");
	/* It happened long before somebody's comparison fails by it, for the other key that it wrote was written since. */
	GOOD("0 1 ok w:a=1", "2 - unknown c:a=1 w:a=2 w:b=2", "3 4 ok w:b=3", "5 6 false c:a=1 w:a=4", "7 8 ok r:b=3");
}
END_TEST

START_TEST(time_travel_between_keys)
{
	/* Each key alone is right; together the reader saw the second write and not the first. */
	BAD("0 1 ok w:a=1", "2 3 ok w:b=2", "4 5 ok r:a=0 r:b=2");
	BAD("0 9 ok w:a=1", "0 9 ok w:b=2", "1 8 ok r:a=1 r:b=0", "1 8 ok r:a=0 r:b=2");
	GOOD("0 9 ok w:a=1", "0 9 ok w:b=2", "1 8 ok r:a=1 r:b=0", "1 8 ok r:a=1 r:b=2");
	/* A write of two keys is seen half. */
	BAD("0 9 ok w:a=1 w:b=1", "1 8 ok r:a=1 r:b=0");
	/* Through a third key that joins the two pairs. */
	BAD("0 99 ok w:a=1", "0 99 ok w:b=1", "0 99 ok w:c=1", "0 99 ok r:a=1 r:b=0", "0 99 ok r:b=1 r:c=0",
	    "0 99 ok r:c=1 r:a=0");
}
END_TEST

/* -- against trying all orders */

struct brute {
	const struct small *ops;
	size_t count;
	bool done[OPS];
	uint64_t value[KEYS];
};

static bool
holds(const struct brute *b, const struct small *s)
{
	bool differs = false;

	for (size_t i = 0; i < s->count; i++) {
		bool same = b->value[s->steps[i].key] == s->steps[i].value;

		if (s->op.outcome == LIN_FALSE)
			differs |= s->steps[i].kind == LIN_CHECK && !same;
		else if (s->steps[i].kind != LIN_WRITE && !same)
			return false;
	}
	return s->op.outcome != LIN_FALSE || differs;
}

/* May operation k be next?  Not if another that is still to come ended before it began. */
static bool
next_in_time(const struct brute *b, size_t k)
{
	for (size_t i = 0; i < b->count; i++)
		if (!b->done[i] && b->ops[i].op.outcome != LIN_UNKNOWN && b->ops[i].op.end < b->ops[k].op.start)
			return false;
	return true;
}

static bool
all_orders(struct brute *b)
{
	bool left = false;

	for (size_t i = 0; i < b->count; i++)
		left |= !b->done[i] && b->ops[i].op.outcome != LIN_UNKNOWN;
	if (!left)
		return true;
	for (size_t k = 0; k < b->count; k++) {
		struct brute deeper = *b;

		if (b->done[k] || !next_in_time(b, k) || !holds(b, &b->ops[k]))
			continue;
		deeper.done[k] = true;
		for (size_t i = 0; i < b->ops[k].count && b->ops[k].op.outcome != LIN_FALSE; i++)
			if (b->ops[k].steps[i].kind == LIN_WRITE)
				deeper.value[b->ops[k].steps[i].key] = b->ops[k].steps[i].value;
		if (all_orders(&deeper))
			return true;
	}
	return false;
}

static struct small
random_op(struct rng *r, bool unique, uint64_t *next)
{
	struct small s = { .op.start = (int64_t)rng_below(r, 20) };
	unsigned kind = (unsigned)rng_below(r, 8);
	uint32_t key = (uint32_t)rng_below(r, KEYS);
	uint64_t written = unique ? ++*next : rng_below(r, 4), seen = unique ? rng_below(r, *next + 1) : rng_below(r, 4);

	s.op.end = s.op.start + (int64_t)rng_below(r, 8);
	if (kind < 3) {
		s.steps[s.count++] = (struct lin_step){ LIN_READ, key, seen };
		if (kind == 0)
			s.steps[s.count++] = (struct lin_step){ LIN_READ, (key + 1) % KEYS, rng_below(r, 4) };
	} else {
		if (kind > 5)
			s.steps[s.count++] = (struct lin_step){ LIN_CHECK, key, seen };
		s.steps[s.count++] = (struct lin_step){ LIN_WRITE, key, rng_below(r, 6) == 0 ? LIN_ABSENT : written };
		if (rng_below(r, 4) == 0)	/* two keys at once */
			s.steps[s.count++] = (struct lin_step){ LIN_WRITE, (key + 1) % KEYS, unique ? ++*next : rng_below(r, 4) };
		if (kind > 6 && rng_below(r, 3) == 0)
			s.op.outcome = LIN_FALSE;
		else if (rng_below(r, 4) == 0)
			s.op.outcome = LIN_UNKNOWN;
	}
	return s;
}

START_TEST(agrees_with_all_orders)
{
	unsigned good = 0, bad = 0;
	struct rng r;

	rng_seed(&r, 11);
	for (int run = 0; run < 60000; run++) {
		struct small ops[OPS];
		struct brute b = { .ops = ops };
		uint64_t next = 0;
		bool unique = run % 2 == 0;

		b.count = 2 + rng_below(&r, OPS - 1);
		for (size_t i = 0; i < b.count; i++)
			ops[i] = random_op(&r, unique, &next);
		if (all_orders(&b)) {
			ck_assert_msg(verdict(ops, b.count, NULL) == LIN_YES, "run %d: refused", run);
			good++;
		} else {
			ck_assert_msg(verdict(ops, b.count, NULL) == LIN_NO, "run %d: accepted", run);
			bad++;
		}
	}
	ck_assert_uint_gt(good, 2000);
	ck_assert_uint_gt(bad, 2000);
}
END_TEST

/* -- large ones: many clients at once, lists over all keys, unknown outcomes */

#define BIG_KEYS 6
#define BIG_CLIENTS 24

struct big {
	struct linear *l;
	struct rng r;
	uint64_t value[BIG_KEYS], next;
	int64_t now;
};

/* What the store would do at that instant; a client's request and answer lie around it. */
static void
big_op(struct big *b, bool wrong)
{
	struct lin_op op = { .start = b->now - (int64_t)rng_below(&b->r, 1000 * BIG_CLIENTS),
		.end = b->now + (int64_t)rng_below(&b->r, 1000 * BIG_CLIENTS) };
	struct lin_step steps[BIG_KEYS];
	uint32_t key = (uint32_t)rng_below(&b->r, BIG_KEYS);
	size_t count = 0;

	b->now += 1000;
	if (rng_below(&b->r, 2) == 0) {
		for (uint32_t k = 0; k < BIG_KEYS; k++)
			steps[count++] = (struct lin_step){ LIN_READ, k, b->value[k] };
		if (wrong)
			steps[key].value = 1;
	} else {
		uint64_t seen = rng_below(&b->r, 2) == 0 ? b->value[key] : b->next, put = ++b->next;

		if (rng_below(&b->r, 2) == 0)
			steps[count++] = (struct lin_step){ LIN_CHECK, key, seen };
		else
			seen = b->value[key];
		steps[count++] = (struct lin_step){ LIN_WRITE, key, put };
		op.outcome = seen != b->value[key] ? LIN_FALSE : LIN_OK;
		if (op.outcome == LIN_OK && rng_below(&b->r, 20) != 0)
			b->value[key] = put;
		else if (op.outcome == LIN_OK)
			op.outcome = LIN_UNKNOWN;	/* it did not happen */
		if (op.outcome == LIN_OK && rng_below(&b->r, 20) == 0)
			op.outcome = LIN_UNKNOWN;	/* it did */
	}
	linear_add(b->l, &op, steps, count);
}

static enum lin_verdict
big_history(uint64_t seed, int ops, int wrong_at)
{
	struct big b = { .l = linear_new() };
	enum lin_verdict v;

	rng_seed(&b.r, seed);
	for (int i = 0; i < ops; i++)
		big_op(&b, i == wrong_at);
	v = linear_check(b.l, 0, NULL);
	linear_free(b.l);
	return v;
}

START_TEST(many_clients_and_lists)
{
	for (uint64_t seed = 1; seed <= 10; seed++)
		ck_assert_int_eq(big_history(seed, 5000, -1), LIN_YES);
	/* Somewhere a list shows a value that was overwritten long before. */
	for (uint64_t seed = 1; seed <= 3; seed++) {
		int wrong = 0;

		for (int at = 4000; at < 4040; at++)
			wrong += big_history(seed, 5000, at) == LIN_NO;
		ck_assert_int_gt(wrong, 10);
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("linear");
	TCase *t = tcase_create("histories");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 120);
	tcase_add_test(t, right_ones);
	tcase_add_test(t, stale_read);
	tcase_add_test(t, lost_update);
	tcase_add_test(t, double_effect);
	tcase_add_test(t, read_of_what_failed);
	tcase_add_test(t, read_from_the_future);
	tcase_add_test(t, comparisons);
	tcase_add_test(t, unknown_outcomes);
	tcase_add_test(t, time_travel_between_keys);
	tcase_add_test(t, agrees_with_all_orders);
	tcase_add_test(t, many_clients_and_lists);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
