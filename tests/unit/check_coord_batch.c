/* Coordinates waiting for the log: the newest of each node, in order, up to a limit. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/record/records.h"
#include "raftd/leader/coord_batch.h"

static struct coord_batch *b;

static void
setup(void)
{
	b = coord_batch_new();
	ck_assert_ptr_nonnull(b);
}

static void
teardown(void)
{
	coord_batch_free(b);
}

static enum tv_err
add(unsigned node, const char *segment, double x)
{
	struct coordinate c = { .vec = { x }, .height = 1e-5 };
	char name[16];

	snprintf(name, sizeof(name), "n%u", node);
	return coord_batch_add(b, span_str(name), span_str(segment), &c);
}

/* Takes a batch, and looks at one of its updates. */
static unsigned
take(unsigned look, const char *node, double x)
{
	struct buf out = BUF_INIT(1 << 20);
	struct arena a = ARENA_INIT(1 << 20);
	struct coordinate_batch batch = { 0 };
	unsigned n = coord_batch_take(b, &out);
	struct rd in = rd_span_over(buf_span(&out));

	ck_assert_int_eq(schema_unpack(&coordinate_batch_schema, &in, &a, &batch), TV_OK);
	ck_assert_uint_eq(batch.Updates.n, n);
	if (n > 0) {
		const struct node_coordinate *rec = &((const struct node_coordinate *)batch.Updates.v)[look];
		struct coordinate c;

		ck_assert(coordinate_of_rec(&rec->Coord, &c));
		ck_assert(span_eqs(rec->Node, node));
		ck_assert(c.vec[0] == x);
	}
	arena_done(&a);
	buf_done(&out);
	return n;
}

START_TEST(newest_counts)
{
	ck_assert_int_eq(add(1, "", 1), TV_OK);
	ck_assert_int_eq(add(2, "", 2), TV_OK);
	ck_assert_int_eq(add(1, "", 3), TV_OK);
	ck_assert_int_eq(add(1, "east", 4), TV_OK);
	ck_assert_uint_eq(coord_batch_count(b), 3);
	ck_assert_uint_eq(take(0, "n1", 3), 3);
	ck_assert_uint_eq(coord_batch_count(b), 0);
	ck_assert_uint_eq(take(0, "", 0), 0);
}
END_TEST

START_TEST(limits)
{
	unsigned most = COORD_BATCH_UPDATES * COORD_BATCH_BATCHES;

	for (unsigned i = 0; i < most; i++)
		ck_assert_int_eq(add(i, "", 1), TV_OK);
	ck_assert_int_eq(add(most, "", 1), TV_ELIMIT);
	ck_assert_int_eq(add(7, "", 2), TV_OK);			/* one that waits may still be renewed */
	ck_assert_uint_eq(take(7, "n7", 2), COORD_BATCH_UPDATES);
	ck_assert_int_eq(add(most, "", 1), TV_OK);
	for (unsigned i = 1; i < COORD_BATCH_BATCHES; i++) {
		char first[16];

		snprintf(first, sizeof(first), "n%u", i * COORD_BATCH_UPDATES);
		ck_assert_uint_eq(take(0, first, 1), COORD_BATCH_UPDATES);
	}
	ck_assert_uint_eq(take(0, "n640", 1), 1);
	ck_assert_int_eq(add(1, "", 1), TV_OK);
	coord_batch_clear(b);
	ck_assert_uint_eq(coord_batch_count(b), 0);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("coordbatch");
	TCase *t = tcase_create("coordbatch");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, newest_counts);
	tcase_add_test(t, limits);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
