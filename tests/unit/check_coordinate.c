/* Coordinates as values: what is plausible, and the estimate of a round trip. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "common/record/coordinate.h"
#include "common/record/records.h"

static struct coordinate
at(double x, double height, double adjustment)
{
	return (struct coordinate){ .vec = { x }, .error = 1.5, .height = height, .adjustment = adjustment };
}

/* Whole nanoseconds, cut off. */
static void
gives(const struct coordinate *a, const struct coordinate *b, int64_t ns)
{
	ck_assert_int_le(llabs(coordinate_rtt(a, b).ns - ns), 1);
}

START_TEST(estimates)
{
	struct coordinate a = at(0, 1e-5, 0), b = at(0.030, 1e-5, 0);

	gives(&a, &b, 30020000);
	gives(&b, &a, 30020000);
	gives(&a, &a, 20000);		/* both heights: two processes of one host */
	b.vec[1] = 0.040;
	gives(&a, &b, 50020000);
	a.adjustment = -0.005;
	b.adjustment = 0.001;
	gives(&a, &b, 46020000);
	a.adjustment = -0.052;						/* would be negative: not used */
	gives(&a, &b, 50020000);
}
END_TEST

START_TEST(plausible)
{
	struct coordinate good = at(-9.5, 0.5, -0.25), c;
	const double bad[] = { NAN, INFINITY, -INFINITY, 10.5, -10.5, 3600 };

	ck_assert(coordinate_plausible(&good));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		for (int d = 0; d < COORDINATE_DIMENSIONS; d++) {
			c = good;
			c.vec[d] = bad[i];
			ck_assert(!coordinate_plausible(&c));
		}
		c = good, c.error = bad[i];
		ck_assert(!coordinate_plausible(&c));
		c = good, c.adjustment = bad[i];
		ck_assert(!coordinate_plausible(&c));
		c = good, c.height = bad[i];
		ck_assert(!coordinate_plausible(&c));
	}
	c = good, c.height = -1e-9;
	ck_assert(!coordinate_plausible(&c));
	c = good, c.error = -1e-9;
	ck_assert(!coordinate_plausible(&c));
}
END_TEST

START_TEST(records)
{
	struct coordinate c = at(0.25, 0.5, -1), back;
	struct coordinate_rec rec;

	coordinate_to_rec(&c, &rec);
	ck_assert(coordinate_of_rec(&rec, &back));
	ck_assert(memcmp(&c, &back, sizeof(c)) == 0);
	rec.Vec.n = 7;
	ck_assert(!coordinate_of_rec(&rec, &back));
	rec.Vec = (struct f64_list){ 0 };
	ck_assert(!coordinate_of_rec(&rec, &back));
	coordinate_to_rec(&c, &rec);
	rec.Height = NAN;
	ck_assert(!coordinate_of_rec(&rec, &back));
}
END_TEST

START_TEST(entries)
{
	struct buf b = BUF_INIT(4096);
	struct coordinate c = at(0.25, 0.5, -1), back;
	struct span name;

	c.vec[7] = NAN;					/* carried as it is: who reads it judges */
	coordinate_pack(&b, span_str("n1"), &c);
	struct rd r = rd_span_over(buf_span(&b));
	ck_assert_int_eq(coordinate_unpack(&r, &name, &back), TV_OK);
	ck_assert_int_eq(rd_end(&r), TV_OK);
	ck_assert(span_eqs(name, "n1") && memcmp(&c, &back, sizeof(c)) == 0 && !coordinate_plausible(&back));
	for (size_t cut = 0; cut < b.len; cut++) {
		r = rd_over(b.data, cut);
		ck_assert_int_ne(coordinate_unpack(&r, &name, &back), TV_OK);
	}
	b.data[b.len - 8 * 9 - 1]--;			/* seven numbers */
	r = rd_span_over(buf_span(&b));
	ck_assert_int_eq(coordinate_unpack(&r, &name, &back), TV_EFORMAT);
	buf_done(&b);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("coordinate");
	TCase *t = tcase_create("coordinate");

	tcase_add_test(t, estimates);
	tcase_add_test(t, plausible);
	tcase_add_test(t, records);
	tcase_add_test(t, entries);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
