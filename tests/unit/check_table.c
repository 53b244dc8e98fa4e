/* Records, their hash table and order, and the shared identities. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gossipd/core/swim/table.h"

#define NAMES 3000

static const uint8_t key[INTERN_KEY_BYTES] = { 1, 2, 3 };
static const uint8_t vsn[NODE_VSN_BYTES] = { 1, 5, 2, 2, 5, 5 };

static struct addr
addr_of(unsigned i)
{
	return (struct addr){ .ip = { 10, 0, (uint8_t)(i >> 8), (uint8_t)i }, .len = 4, .port = 7946 };
}

static struct span
name_of(unsigned i)
{
	static char text[16];

	snprintf(text, sizeof(text), "node-%u", i);
	return span_str(text);
}

static struct node *
add(struct table *t, unsigned i)
{
	struct addr a = addr_of(i);
	struct node *n;

	ck_assert_int_eq(table_add(t, name_of(i), span_str("tags"), &a, vsn, &n), TV_OK);
	return n;
}

/* Each record stands where it says, and the members that SWIM knows come first. */
static void
check_places(const struct table *t, uint32_t listed)
{
	ck_assert_uint_eq(t->order_count, listed);
	for (uint32_t i = 0; i < t->all_count; i++)
		ck_assert_uint_eq(t->all[i]->at, i);
}

/* Random additions and removals against an array that knows the truth. */
START_TEST(find_after_any_history)
{
	static struct node *truth[NAMES];
	static bool listed[NAMES];
	struct table t;
	struct rng rng;
	uint32_t count = 0;

	rng_seed(&rng, (uint64_t)_i);
	ck_assert_int_eq(table_init(&t, NULL, key, NAMES), TV_OK);
	memset(truth, 0, sizeof(truth));
	memset(listed, 0, sizeof(listed));
	for (int step = 0; step < 20000; step++) {
		unsigned i = (unsigned)rng_below(&rng, NAMES);

		ck_assert_ptr_eq(table_find(&t, name_of(i)), truth[i]);
		if (truth[i] == NULL) {
			truth[i] = add(&t, i);
			if (rng_below(&rng, 4) > 0)
				table_list(&t, truth[i], &rng);
			listed[i] = node_listed(&t, truth[i]);
			count += listed[i];
		} else if (rng_below(&rng, 8) > 0) {
			table_remove(&t, truth[i]);
			truth[i] = NULL;
			count -= listed[i];
			listed[i] = false;
		} else if (listed[i]) {
			table_unlist(&t, truth[i]);
			listed[i] = false;
			count--;
		}
	}
	table_shuffle(&t, &rng);
	check_places(&t, count);
	for (unsigned i = 0; i < NAMES; i++) {
		ck_assert_ptr_eq(table_find(&t, name_of(i)), truth[i]);
		if (truth[i] != NULL)
			ck_assert_int_eq(node_listed(&t, truth[i]), listed[i]);
	}
	table_done(&t);
}
END_TEST

START_TEST(full_table_refuses)
{
	struct addr a = addr_of(1);
	struct table t;
	struct node *n;

	ck_assert_int_eq(table_init(&t, NULL, key, 2), TV_OK);
	add(&t, 1);
	add(&t, 2);
	ck_assert_int_eq(table_add(&t, name_of(3), SPAN_NONE, &a, NULL, &n), TV_ELIMIT);
	table_remove(&t, table_find(&t, name_of(1)));
	add(&t, 3);
	table_done(&t);
}
END_TEST

START_TEST(tables_share_what_is_equal)
{
	struct intern *store = intern_new(key);
	struct addr a = addr_of(7), b = addr_of(8);
	struct node *n, *m;
	struct table t, u;

	ck_assert_int_eq(table_init(&t, store, key, 10), TV_OK);
	ck_assert_int_eq(table_init(&u, store, key, 10), TV_OK);
	n = add(&t, 7);
	m = add(&u, 7);
	ck_assert_ptr_eq(n->ident, m->ident);
	ck_assert_int_eq(table_set(&u, m, span_str("other"), &a, vsn), TV_OK);
	ck_assert_ptr_ne(n->ident, m->ident);
	ck_assert(span_eqs(node_meta(n), "tags") && span_eqs(node_meta(m), "other"));
	ck_assert(span_eq(node_name(m), name_of(7)));
	ck_assert_int_eq(table_set(&u, m, span_str("tags"), &b, vsn), TV_OK);
	ck_assert_ptr_ne(n->ident, m->ident);
	ck_assert_int_eq(table_set(&u, m, span_str("tags"), &a, vsn), TV_OK);
	ck_assert_ptr_eq(n->ident, m->ident);
	table_done(&t);
	ck_assert(span_eq(node_name(m), name_of(7)));
	table_done(&u);
	intern_free(store);	/* asserts that nothing is left */
}
END_TEST

START_TEST(one_copy_of_equal_bytes)
{
	struct intern *t = intern_new(key);
	const void *kept[500];
	char text[32];

	for (unsigned i = 0; i < 500; i++) {
		snprintf(text, sizeof(text), "text %u", i);
		kept[i] = intern_get(t, SPAN_NONE, span_str(text));
	}
	for (unsigned i = 0; i < 500; i++) {
		snprintf(text, sizeof(text), " %u", i);
		ck_assert_ptr_eq(intern_get(t, span_str("text"), span_str(text)), kept[i]);
		intern_put(t, kept[i]);
		ck_assert_int_eq(memcmp(kept[i], "text", 4), 0);
		intern_put(t, kept[i]);
	}
	intern_put(t, NULL);
	intern_free(t);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("table");
	TCase *tc = tcase_create("table");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(tc, find_after_any_history, 0, 8);
	tcase_add_test(tc, full_table_refuses);
	tcase_add_test(tc, tables_share_what_is_equal);
	tcase_add_test(tc, one_copy_of_equal_bytes);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed > 0;
}
