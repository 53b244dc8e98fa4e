/* Histograms of durations: what lands where, and what comes back from the text. */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/histogram.h"
#include "common/base/rng.h"

static struct histogram
of(const int64_t *ns, unsigned count)
{
	struct histogram h = { .count = 0 };

	for (unsigned i = 0; i < count; i++)
		histogram_add(&h, (struct mono){ ns[i] });
	return h;
}

START_TEST(ends_belong_to_their_bucket)
{
	for (unsigned d = 2; d <= 31; d++) {
		int64_t end = (int64_t)1000 << d, ns[] = { end - 1, end, end + 1 };
		struct histogram h = of(ns, 3);

		ck_assert_uint_eq(histogram_up_to(&h, d), 2);
		ck_assert_uint_eq(histogram_up_to(&h, d + 1), 3);
		ck_assert_uint_eq(d == 2 ? 0 : histogram_up_to(&h, d - 1), 0);
	}
}
END_TEST

START_TEST(extremes)
{
	const int64_t ns[] = { -5, 0, INT64_MAX / 4 };
	struct histogram h = of(ns, 3), none = { .count = 0 };

	ck_assert_int_eq(h.min_ns, 0);
	ck_assert_int_eq(h.max_ns, INT64_MAX / 4);
	ck_assert_uint_eq(histogram_up_to(&h, 2), 2);
	ck_assert_uint_eq(histogram_up_to(&h, 32), 2);		/* the last bucket has no end */
	ck_assert_int_eq(histogram_quantile(&h, 1).ns, INT64_MAX / 4);
	ck_assert_int_eq(histogram_quantile(&none, 0.99).ns, 0);
}
END_TEST

static int
by_value(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* No quantile is below the value at its place, nor above by more than a bucket is wide: a quarter. */
START_TEST(quantiles)
{
	enum { N = 2000 };
	int64_t ns[N];
	struct rng rng;

	rng_seed(&rng, 7);
	for (unsigned i = 0; i < N; i++)
		ns[i] = (int64_t)(rng_u64(&rng) >> (24 + rng_u64(&rng) % 24));
	struct histogram h = of(ns, N);
	qsort(ns, N, sizeof(ns[0]), by_value);
	for (unsigned i = 1; i <= 100; i++) {
		int64_t at = ns[N * i / 100 - 1], got = histogram_quantile(&h, i / 100.0).ns;

		ck_assert_msg(got >= at && got <= at + at / 4 + 1000, "%u: %" PRId64 " for %" PRId64, i, got, at);
	}
	ck_assert_int_eq(histogram_quantile(&h, 1).ns, ns[N - 1]);
}
END_TEST

static char raw[4096], others[256];

static void
take(void *ctx, const char *name, const char *value)
{
	(void)ctx;
	if (strcmp(name, "sync_histogram") == 0)
		snprintf(raw, sizeof(raw), "%s", value);
	else
		snprintf(others + strlen(others), sizeof(others) - strlen(others), "%s=%s ", name, value);
}

START_TEST(text)
{
	const int64_t ns[] = { 900, 2500, 1000000, 1000001, 5000000000 };
	struct histogram h = of(ns, 5), back, full = { .count = 0 };

	ck_assert_uint_eq(histogram_info(&h, "sync", take, NULL), 4);
	ck_assert_str_eq(others, "sync_max_us=5000000 sync_p50_us=1024 sync_p99_us=5000000 ");
	ck_assert(histogram_read(span_str(raw), &back));
	ck_assert_mem_eq(&h, &back, sizeof(h));
	/* As long as one can be. */
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		full.count += full.buckets[i] = UINT64_MAX / HISTOGRAM_BUCKETS;
	full.sum_ns = full.min_ns = full.max_ns = INT64_MIN;
	full.squares = -1.2345678901234567e-300;
	histogram_info(&full, "sync", take, NULL);
	ck_assert(histogram_read(span_str(raw), &back));
	ck_assert_mem_eq(&full, &back, sizeof(full));
	static const char *const bad[] = { "", "1", "1 2 3 4", "1 2 3 4 5", "1 2 3 4 5 1:1x", "1 2 3 4 5 128:1", "2 2 3 4 5 1:1",
		"1 2 3 4 5 1:1 2", "x" };
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(!histogram_read(span_str(bad[i]), &back), "%s", bad[i]);
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = { ends_belong_to_their_bucket, extremes, quantiles, text };
	Suite *s = suite_create("histogram");
	TCase *t = tcase_create("histogram");
	SRunner *r;
	int failed;

	for (unsigned i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(t, tests[i]);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
