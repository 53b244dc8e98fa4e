/* The hash map: growth, removal on the way, equal hashes, keys that differ by case. */
#include <check.h>
#include <limits.h>
#include <stdlib.h>
#include <time.h>

#include "common/base/fnv.h"
#include "common/base/map.h"

#define MANY 100000u

struct item {
	unsigned number;
	bool seen;
	struct map_node node;
};

static const uint8_t key[MAP_KEY_BYTES] = { 1, 2, 3 };

static uint64_t
hash_of(unsigned number)
{
	return map_hash(key, span_of(&number, sizeof(number)));
}

static struct item *
find(const struct map *m, unsigned number)
{
	struct item *i;

	MAP_FOREACH_HASH(i, m, hash_of(number), node)
		if (i->number == number)
			return i;
	return NULL;
}

static struct item *
items_new(unsigned count)
{
	struct item *items = calloc(count, sizeof(*items));

	ck_assert_ptr_nonnull(items);
	for (unsigned i = 0; i < count; i++)
		items[i].number = i;
	return items;
}

/* Each entry that is in is met once, and no other. */
static void
check_walk(const struct map *m, struct item *items, unsigned count, unsigned in)
{
	struct map_node *tmp;
	struct item *i;
	unsigned met = 0;

	for (unsigned k = 0; k < count; k++)
		items[k].seen = false;
	MAP_FOREACH(i, m, node, tmp) {
		ck_assert(!i->seen);
		i->seen = true;
		met++;
	}
	ck_assert_uint_eq(met, in);
	ck_assert_uint_eq(m->count, in);
}

START_TEST(empty)
{
	struct map m = { .count = 0 };
	struct item one = { .number = 7 };

	ck_assert_ptr_null(map_first(&m));
	ck_assert_ptr_null(map_find(&m, 0));
	ck_assert_uint_eq(map_bytes(&m), 0);
	map_add(&m, &one.node, hash_of(7));
	ck_assert_ptr_eq(find(&m, 7), &one);
	ck_assert_ptr_null(find(&m, 8));
	ck_assert_ptr_eq(map_first(&m), &one.node);
	ck_assert_ptr_null(map_next(&m, &one.node));
	map_remove(&m, &one.node);
	ck_assert_ptr_null(map_first(&m));
	ck_assert_uint_eq(map_bytes(&m), 0);
	map_done(&m);
	map_done(&m);
}
END_TEST

/* At each size, and so at each step of each growth, all that are in are found, and walked once. */
START_TEST(grows)
{
	struct map m = { .count = 0 };
	struct item *items = items_new(MANY);

	for (unsigned i = 0; i < MANY; i++) {
		map_add(&m, &items[i].node, hash_of(i));
		ck_assert_ptr_eq(find(&m, i), &items[i]);
		ck_assert_ptr_eq(find(&m, i / 2), &items[i / 2]);
		ck_assert_ptr_null(find(&m, MANY + i));
		if (i < 600 || i % 9973 == 0)
			check_walk(&m, items, i + 1, i + 1);
	}
	check_walk(&m, items, MANY, MANY);
	ck_assert_uint_ge(map_bytes(&m), MANY * sizeof(void *));
	ck_assert_uint_le(map_bytes(&m), 3 * MANY * sizeof(void *));
	for (unsigned i = 0; i < MANY; i++) {
		map_remove(&m, &items[i].node);
		ck_assert_ptr_null(find(&m, i));
		if (i % 997 == 0 && i + 1 < MANY)
			ck_assert_ptr_eq(find(&m, i + 1), &items[i + 1]);
	}
	ck_assert_ptr_null(map_first(&m));
	ck_assert_uint_eq(map_bytes(&m), 0);		/* a burst does not stay allocated */
	free(items);
}
END_TEST

/* Removed and added at random, also while it grows: as a plain array of marks says. */
START_TEST(churn)
{
	struct map m = { .count = 0 };
	struct item *items = items_new(2000);
	bool in[2000] = { false };
	unsigned count = 0;

	srand(1);
	for (unsigned step = 0; step < 200000; step++) {
		unsigned i = (unsigned)rand() % 2000;

		if (in[i] && (step / 20000 % 2 == 1 || rand() % 4 == 0)) {
			map_remove(&m, &items[i].node);
			in[i] = false;
			count--;
		} else if (!in[i]) {
			map_add(&m, &items[i].node, hash_of(i));
			in[i] = true;
			count++;
		}
		ck_assert_ptr_eq(find(&m, i), in[i] ? &items[i] : NULL);
		if (step % 1009 == 0)
			check_walk(&m, items, 2000, count);
	}
	map_done(&m);
	free(items);
}
END_TEST

/* The current entry may go, and be freed, while all are walked: at every stage of a growth. */
START_TEST(removal_on_the_way)
{
	for (unsigned count = 0; count < 300; count++) {
		struct map m = { .count = 0 };
		struct map_node *tmp;
		struct item *i;
		unsigned met = 0;

		for (unsigned k = 0; k < count; k++) {
			i = items_new(1);
			i->number = k;
			map_add(&m, &i->node, hash_of(k));
		}
		MAP_FOREACH(i, &m, node, tmp) {
			met++;
			if (i->number % 3 == 0) {
				map_remove(&m, &i->node);
				free(i);
			}
		}
		ck_assert_uint_eq(met, count);
		ck_assert_uint_eq(m.count, count - (count + 2) / 3);
		MAP_FOREACH(i, &m, node, tmp) {
			ck_assert_uint_ne(i->number % 3, 0);
			map_remove(&m, &i->node);
			free(i);
		}
		ck_assert_uint_eq(m.count, 0);
		map_done(&m);
	}
}
END_TEST

/* Freed without being removed, and the buckets after them: how a map ends. */
START_TEST(entries_freed_before_buckets)
{
	struct map m = { .count = 0 };
	struct map_node *tmp;
	struct item *i;

	for (unsigned k = 0; k < 5000; k++) {
		i = items_new(1);
		i->number = k;
		map_add(&m, &i->node, hash_of(k));
	}
	MAP_FOREACH(i, &m, node, tmp)
		free(i);
	map_done(&m);
	ck_assert_ptr_null(map_first(&m));
}
END_TEST

/* All have one hash, or share a bucket whatever the size: each is found, and those with one hash stay the newest first. */
START_TEST(collisions)
{
	struct map m = { .count = 0 };
	struct item *items = items_new(1000), *i;
	unsigned expected = 499;

	for (unsigned k = 0; k < 500; k++)
		map_add(&m, &items[k].node, 42);
	for (unsigned k = 500; k < 1000; k++)
		map_add(&m, &items[k].node, 42 + ((uint64_t)k << 40));
	MAP_FOREACH_HASH(i, &m, 42, node)
		ck_assert_uint_eq(i->number, expected--);
	ck_assert_uint_eq(expected, UINT_MAX);
	MAP_FOREACH_HASH(i, &m, 42 + (UINT64_C(777) << 40), node)
		ck_assert_uint_eq(i->number, 777);
	check_walk(&m, items, 1000, 1000);
	for (unsigned k = 0; k < 1000; k += 2)
		map_remove(&m, &items[k].node);
	check_walk(&m, items, 1000, 500);
	ck_assert_ptr_null(map_find(&m, 42 + (UINT64_C(500) << 40)));
	ck_assert_ptr_eq(map_find(&m, 42 + (UINT64_C(501) << 40)), &items[501].node);
	map_done(&m);
	free(items);
}
END_TEST

struct named {
	const char *name;
	struct map_node node;
};

/* Spellings share a hash; which of them are the same is for the caller to say. */
START_TEST(case_of_keys)
{
	struct map m = { .count = 0 };
	struct named names[] = { { .name = "node-A" }, { .name = "NODE-a" }, { .name = "node-a" }, { .name = "other" } }, *n;
	unsigned alike = 0;

	for (size_t i = 0; i < 4; i++)
		map_add(&m, &names[i].node, fnv1a_nocase(FNV1A_START, span_str(names[i].name)));
	MAP_FOREACH_HASH(n, &m, fnv1a_nocase(FNV1A_START, span_str("NoDe-A")), node)
		if (span_eq_nocase(span_str(n->name), span_str("node-a")))
			alike++;
	ck_assert_uint_eq(alike, 3);
	MAP_FOREACH_HASH(n, &m, fnv1a_nocase(FNV1A_START, span_str("node-A")), node)
		if (span_eqs(span_str(n->name), "NODE-a"))
			break;
	ck_assert_ptr_eq(n, &names[1]);
	map_done(&m);
}
END_TEST

/* The published values (draft-eastlake-fnv). */
START_TEST(fnv)
{
	ck_assert_uint_eq(fnv1a(FNV1A_START, span_str("")), 0xcbf29ce484222325u);
	ck_assert_uint_eq(fnv1a(FNV1A_START, span_str("a")), 0xaf63dc4c8601ec8cu);
	ck_assert_uint_eq(fnv1a(FNV1A_START, span_str("foobar")), 0x85944171f73967e8u);
	ck_assert_uint_eq(fnv1a(fnv1a(FNV1A_START, span_str("foo")), span_str("bar")), 0x85944171f73967e8u);
	ck_assert_uint_eq(fnv1a_nocase(FNV1A_START, span_str("FooBar")), 0x85944171f73967e8u);
}
END_TEST

/* No call stalls: the longest of a million takes a few ms at most, where emptying all buckets at once takes a hundred. */
START_TEST(growth_is_no_stall)
{
	struct map m = { .count = 0 };
	unsigned count = 1u << 20;
	struct item *items = items_new(count);
	double longest = 0;

	for (unsigned i = 0; i < count; i++) {
		struct timespec a, b;
		uint64_t hash = hash_of(i);

		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
		map_add(&m, &items[i].node, hash);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
		double took = (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6;
		longest = took > longest ? took : longest;
	}
	ck_assert_msg(longest < 20, "%.2f ms", longest);
	map_done(&m);
	free(items);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("map");
	TCase *t = tcase_create("map");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, empty);
	tcase_add_test(t, grows);
	tcase_add_test(t, churn);
	tcase_add_test(t, removal_on_the_way);
	tcase_add_test(t, entries_freed_before_buckets);
	tcase_add_test(t, collisions);
	tcase_add_test(t, case_of_keys);
	tcase_add_test(t, fnv);
	tcase_add_test(t, growth_is_no_stall);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
