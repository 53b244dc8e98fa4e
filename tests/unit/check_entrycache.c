/* Recent entries: ring, payload blocks, eviction, and payloads that the log thread still reads. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "raftd/engine/entrycache.h"

static const struct raft_entry *
put(struct entrycache *c, uint64_t index, uint64_t term, uint32_t size, uint64_t seq)
{
	uint8_t *bytes = malloc(size + 1);
	struct raft_entry e = { .index = index, .term = term, .type = RAFT_ENTRY_OP, .size = size, .payload = bytes };
	const struct raft_entry *kept;

	memset(bytes, (int)(index & 0xff), size);
	kept = entrycache_append(c, &e, seq);
	free(bytes);
	return kept;
}

static bool
intact(const struct raft_entry *e)
{
	for (uint32_t i = 0; i < e->size; i++)
		if (e->payload[i] != (uint8_t)e->index)
			return false;
	return true;
}

START_TEST(keeps_what_it_is_given)
{
	struct entrycache *c = entrycache_new(1u << 20);

	ck_assert_ptr_null(entrycache_get(c, 1));
	for (uint64_t i = 7; i < 5007; i++)
		ck_assert_ptr_nonnull(put(c, i, 3, (uint32_t)(i % 90), 1));
	for (uint64_t i = 7; i < 5007; i++) {
		ck_assert_uint_eq(entrycache_get(c, i)->index, i);
		ck_assert(intact(entrycache_get(c, i)));
	}
	ck_assert_ptr_null(entrycache_get(c, 6));
	ck_assert_ptr_null(entrycache_get(c, 5007));
	entrycache_free(c);
}
END_TEST

START_TEST(cut_entries_go_and_others_take_their_place)
{
	struct entrycache *c = entrycache_new(1u << 20);

	for (uint64_t i = 1; i <= 10; i++)
		put(c, i, 1, 100, 1);
	entrycache_truncate(c, 4);
	ck_assert_ptr_null(entrycache_get(c, 4));
	ck_assert_uint_eq(entrycache_bytes(c), 300);
	put(c, 4, 2, 50, 2);
	ck_assert_uint_eq(entrycache_get(c, 4)->term, 2);
	ck_assert_uint_eq(entrycache_get(c, 3)->term, 1);
	entrycache_clear(c);
	ck_assert_uint_eq(entrycache_bytes(c), 0);
	ck_assert_ptr_nonnull(put(c, 900, 3, 1, 3));	/* any index after it is empty */
	entrycache_free(c);
}
END_TEST

START_TEST(evicts_only_what_it_may)
{
	struct entrycache *c = entrycache_new(10000);

	for (uint64_t i = 1; i <= 100; i++)
		put(c, i, 1, 1000, i);
	entrycache_evict(c, 50);
	ck_assert_ptr_null(entrycache_get(c, 50));
	ck_assert_ptr_nonnull(entrycache_get(c, 51));	/* not applied yet: stays whatever the size */
	entrycache_evict(c, 100);
	ck_assert_uint_le(entrycache_bytes(c), 10000);
	ck_assert_ptr_nonnull(entrycache_get(c, 100));
	entrycache_free(c);
}
END_TEST

/* The log thread reads payloads of a batch after the entries were cut: the bytes must stay until it is done. */
START_TEST(payloads_stay_until_written)
{
	struct entrycache *c = entrycache_new(1u << 20);
	const uint8_t *payload;
	size_t full;

	for (uint64_t i = 1; i <= 20; i++)
		put(c, i, 1, 100u << 10, 5);		/* blocks of their own */
	payload = entrycache_get(c, 20)->payload;
	full = entrycache_memory(c);
	entrycache_clear(c);
	ck_assert_uint_eq(entrycache_memory(c), full);
	ck_assert_uint_eq(payload[0], 20);
	ck_assert_uint_eq(payload[(100u << 10) - 1], 20);
	entrycache_written(c, 4);
	ck_assert_uint_eq(entrycache_memory(c), full);
	entrycache_written(c, 5);
	ck_assert_uint_lt(entrycache_memory(c), full / 10);
	entrycache_free(c);
}
END_TEST

START_TEST(survives_any_order)
{
	struct entrycache *c = entrycache_new(50000);
	struct rng r;
	uint64_t next = 1, first = 1, seq = 1;

	rng_seed(&r, 4711);
	for (int step = 0; step < 20000; step++) {
		uint64_t what = rng_below(&r, 10);

		if (what < 7) {
			ck_assert(intact(put(c, next++, 1, (uint32_t)rng_below(&r, 3000), seq)));
		} else if (what == 7 && next > first) {
			next = first + rng_below(&r, next - first);
			entrycache_truncate(c, next);
			if (next == first)
				next = first;
		} else if (what == 8) {
			entrycache_evict(c, next > 10 ? next - 10 : 0);
			while (first < next && entrycache_get(c, first) == NULL)
				first++;
		} else {
			entrycache_written(c, seq++);
		}
		if (next > first && entrycache_get(c, next - 1) != NULL)
			ck_assert(intact(entrycache_get(c, next - 1)));
	}
	entrycache_free(c);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("entrycache");
	TCase *t = tcase_create("all");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_test(t, keeps_what_it_is_given);
	tcase_add_test(t, cut_entries_go_and_others_take_their_place);
	tcase_add_test(t, evicts_only_what_it_may);
	tcase_add_test(t, payloads_stay_until_written);
	tcase_add_test(t, survives_any_order);
	suite_add_tcase(s, t);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
