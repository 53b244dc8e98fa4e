/* The compact log index against a plain array. */
#include <check.h>
#include <stdlib.h>

#include "common/base/rng.h"
#include "raftd/core/logidx.h"

#define MODEL 5000

struct model {
	uint64_t first, last, base_term;
	uint64_t term[MODEL];
	uint32_t size[MODEL];
};

static void
compare(const struct logidx *x, const struct model *m)
{
	ck_assert_uint_eq(x->first, m->first);
	ck_assert_uint_eq(x->last, m->last);
	for (uint64_t i = 0; i <= m->last + 2; i++) {
		uint64_t term, want = 0;
		bool known = true;

		if (i >= m->first && i <= m->last)
			want = m->term[i];
		else if (i + 1 == m->first && i > 0)
			known = (want = m->base_term) != 0;
		else
			known = i == 0 && m->first == 1;
		ck_assert_int_eq(logidx_term(x, i, &term), known);
		ck_assert_uint_eq(term, want);
		if (i >= m->first && i <= m->last)
			ck_assert_uint_eq(logidx_size(x, i), m->size[i]);
	}
}

static uint64_t
slow_find_le(const struct model *m, uint64_t upto, uint64_t term)
{
	for (uint64_t i = upto < m->last ? upto : m->last; i >= m->first; i--)
		if (m->term[i] <= term)
			return i;
	return upto + 1 >= m->first && m->base_term != 0 && m->base_term <= term ? m->first - 1 : 0;
}

static uint32_t
slow_batch(const struct model *m, uint64_t from, uint32_t count, uint64_t bytes)
{
	uint64_t sum = 0;
	uint32_t n = 0;

	for (uint64_t i = from; i <= m->last && n < count; i++, n++) {
		sum += m->size[i];
		if (n > 0 && sum > bytes)
			break;
	}
	return n;
}

static void
step(struct rng *r, struct logidx *x, struct model *m)
{
	uint64_t what = rng_below(r, 10), n = 1 + rng_below(r, 30), last_term = logidx_last_term(x);

	if (what < 6 && m->last + n < MODEL) {
		ck_assert(logidx_reserve(x, n));
		last_term += rng_below(r, 3) == 0 || last_term == 0;
		for (uint64_t i = 0; i < n; i++) {
			m->last++;
			m->term[m->last] = last_term;
			m->size[m->last] = (uint32_t)rng_below(r, 100);
			logidx_append(x, last_term, m->size[m->last]);
		}
	} else if (what < 8 && m->last >= m->first) {
		uint64_t from = m->first + rng_below(r, m->last - m->first + 1);

		logidx_truncate(x, from);
		m->last = from - 1;
	} else if (m->last >= m->first) {
		uint64_t upto = m->first + rng_below(r, m->last - m->first + 1);

		logidx_compact(x, upto);
		m->base_term = m->term[upto];
		m->first = upto + 1;
	}
}

START_TEST(random_steps)
{
	static struct model m;
	struct logidx x;
	struct rng r;

	rng_seed(&r, (uint64_t)_i + 1);
	m = (struct model){ .first = 1 };
	logidx_init(&x);
	for (int i = 0; i < 150; i++) {
		uint64_t upto, term, from;

		step(&r, &x, &m);
		compare(&x, &m);
		upto = rng_below(&r, m.last + 3);
		term = rng_below(&r, 20);
		from = m.first + rng_below(&r, 10);
		if (upto > 0)
			ck_assert_uint_eq(logidx_find_le(&x, upto, term), slow_find_le(&m, upto, term));
		if (from <= m.last)
			ck_assert_uint_eq(logidx_batch(&x, from, 8, 200), slow_batch(&m, from, 8, 200));
	}
	logidx_done(&x);
}
END_TEST

START_TEST(reset_starts_elsewhere)
{
	struct logidx x;
	uint64_t term;

	logidx_init(&x);
	ck_assert(logidx_reserve(&x, 1));
	logidx_append(&x, 1, 10);
	logidx_reset(&x, 100, 7);
	ck_assert_uint_eq(x.first, 101);
	ck_assert_uint_eq(x.last, 100);
	ck_assert(logidx_term(&x, 100, &term) && term == 7);
	ck_assert(!logidx_term(&x, 99, &term));
	ck_assert(!logidx_term(&x, 0, &term));
	ck_assert_uint_eq(logidx_last_term(&x), 7);
	ck_assert_uint_eq(logidx_find_le(&x, 200, 7), 100);
	ck_assert_uint_eq(logidx_find_le(&x, 200, 6), 0);
	logidx_reset(&x, 100, 0);	/* the term there is not known */
	ck_assert(!logidx_term(&x, 100, &term));
	logidx_done(&x);
}
END_TEST

START_TEST(memory_follows_the_log)
{
	struct logidx x;

	logidx_init(&x);
	for (int i = 0; i < 100000; i++) {
		ck_assert(logidx_reserve(&x, 1));
		logidx_append(&x, 1, 200);
	}
	ck_assert_uint_le(x.size_cap * sizeof(x.sizes[0]), 1 << 19);
	ck_assert_uint_eq(x.run_count, 1);
	logidx_compact(&x, 99990);
	ck_assert_uint_le(x.size_cap, 1024);
	ck_assert_uint_eq(logidx_size(&x, 100000), 200);
	logidx_done(&x);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("logidx");
	TCase *t = tcase_create("logidx");
	SRunner *sr;
	int failed;

	tcase_add_loop_test(t, random_steps, 0, 20);
	tcase_add_test(t, reset_starts_elsewhere);
	tcase_add_test(t, memory_follows_the_log);
	suite_add_tcase(s, t);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? 0 : 1;
}
