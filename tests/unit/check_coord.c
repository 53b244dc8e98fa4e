/*
 * Network coordinates: the digits of real peers, and what must hold of any pool: nodes find
 * their places, liars and outliers move nobody far, and what went wrong heals.
 */
#include "config.h"

#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gossipd/core/coord/coord.h"

#define DIM COORDINATE_DIMENSIONS

static struct rng rng;

static void
setup(void)
{
	rng_seed(&rng, 7);
}

/* -- the digits of real peers ------------------------------------------------------------- */

static struct coordinate
coord_from(const json_t *j)
{
	struct coordinate c = { .error = json_number_value(json_object_get(j, "Error")),
		.adjustment = json_number_value(json_object_get(j, "Adjustment")),
		.height = json_number_value(json_object_get(j, "Height")) };

	for (size_t i = 0; i < DIM; i++)
		c.vec[i] = json_number_value(json_array_get(json_object_get(j, "Vec"), i));
	return c;
}

static json_t *
load_sequence(void)
{
	const char *path = TV_SRCDIR "/tests/data/serf-vectors.json";
	json_t *all, *v, *found = NULL;
	json_error_t error;
	size_t i;

	all = json_load_file(path, 0, &error);
	ck_assert_msg(all != NULL, "%s: %s", path, error.text);
	json_array_foreach(all, i, v)
		if (strcmp(json_string_value(json_object_get(v, "name")), "coordinate_update_sequence") == 0)
			found = json_incref(json_object_get(v, "decoded"));
	json_decref(all);
	ck_assert_ptr_nonnull(found);
	return found;
}

/* Bit for bit: two programs that differ in the last digit drift apart over thousands of steps. */
static void
assert_same(size_t step, const struct coordinate *got, const struct coordinate *want)
{
	for (int i = 0; i < DIM; i++)
		ck_assert_msg(got->vec[i] == want->vec[i], "step %zu: Vec[%d] is %.17g, not %.17g", step, i, got->vec[i],
		    want->vec[i]);
	ck_assert_msg(got->error == want->error, "step %zu: Error is %.17g", step, got->error);
	ck_assert_msg(got->adjustment == want->adjustment, "step %zu: Adjustment is %.17g", step, got->adjustment);
	ck_assert_msg(got->height == want->height, "step %zu: Height is %.17g", step, got->height);
}

START_TEST(the_same_digits_as_serf)
{
	json_t *sequence = load_sequence(), *steps = json_object_get(sequence, "steps"), *step;
	struct coord_peer peers[4];
	struct coord_state st;
	struct coordinate other;
	size_t i;

	coord_init(&st);
	for (i = 0; i < 4; i++)
		coord_peer_init(&peers[i]);
	st.own = coord_from(json_object_get(sequence, "start"));
	ck_assert_uint_eq(json_array_size(steps), 7);
	json_array_foreach(steps, i, step) {
		const char *node = json_string_value(json_object_get(step, "Node"));
		struct mono rtt = { json_integer_value(json_object_get(step, "RttNs")) };
		struct coordinate want = coord_from(json_object_get(step, "Result"));

		other = coord_from(json_object_get(step, "Other"));
		ck_assert_int_eq(coord_update(&st, &peers[node[1] - '0'], &other, rtt, &rng), TV_OK);
		assert_same(i + 1, &st.own, &want);
	}
	other = coord_from(json_object_get(json_array_get(steps, 1), "Other"));
	ck_assert_int_eq(coordinate_rtt(&st.own, &other).ns,
	    json_integer_value(json_object_get(sequence, "distance_ns_from_final_to_step2_peer")));
	json_decref(sequence);
}
END_TEST

/* -- single steps --------------------------------------------------------------------------- */

START_TEST(a_new_node_is_at_the_origin)
{
	struct coordinate got;
	struct coord_state st;
	struct coord_peer peer;

	coord_init(&st);
	coord_peer_init(&peer);
	ck_assert(coordinate_plausible(&st.own));
	ck_assert_double_eq(st.own.error, 1.5);
	ck_assert_double_eq(st.own.height, 1e-5);
	ck_assert_double_eq(st.own.adjustment, 0);
	coord_of_peer(&peer, &got);
	ck_assert_int_eq((coordinate_rtt(&st.own, &got).ns + 500) / 1000, 20);	/* the two heights */
}
END_TEST

START_TEST(a_negative_sum_leaves_the_adjustments_out)
{
	struct coordinate a = { .vec = { 0.001 }, .adjustment = -0.02, .height = 1e-5, .error = 1 };
	struct coordinate b = { .height = 1e-5, .error = 1 };

	ck_assert_int_eq(coordinate_rtt(&a, &b).ns, 1020000);
	a.adjustment = 0.02;
	ck_assert_int_eq(coordinate_rtt(&a, &b).ns, 21020000);
}
END_TEST

START_TEST(round_trips_out_of_range)
{
	const struct mono bad[] = { { -1 }, { COORD_RTT_MAX.ns + 1 }, MONO_S(3600), { INT64_MAX }, { INT64_MIN } };
	struct coordinate at = { .error = 1, .height = 1e-5, .vec = { 0.01 } };
	struct coord_state st, before;
	struct coord_peer peer, peer_before;

	coord_init(&st);
	coord_peer_init(&peer);
	before = st;
	peer_before = peer;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_int_eq(coord_update(&st, &peer, &at, bad[i], &rng), TV_EINVAL);
	ck_assert_mem_eq(&st, &before, sizeof(st));
	ck_assert_mem_eq(&peer, &peer_before, sizeof(peer));
	ck_assert_int_eq(coord_update(&st, &peer, &at, MONO_ZERO, &rng), TV_OK);
	ck_assert_int_eq(coord_update(&st, &peer, &at, COORD_RTT_MAX, &rng), TV_OK);
	ck_assert(coordinate_plausible(&st.own));
}
END_TEST

/* Each number of a coordinate in turn: what of it no honest node says. */
static double *
number(struct coordinate *c, int i)
{
	return i < DIM ? &c->vec[i] : i == DIM ? &c->error : i == DIM + 1 ? &c->adjustment : &c->height;
}

START_TEST(coordinates_that_no_honest_node_has)
{
	const double bad[] = { NAN, INFINITY, -INFINITY, 10.1, -10.1, 1e300, -1e300 };
	struct coord_state st, before;
	struct coord_peer peer, peer_before;

	coord_init(&st);
	coord_peer_init(&peer);
	before = st;
	peer_before = peer;
	for (int i = 0; i < DIM + 3; i++)
		for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
			struct coordinate at = { .error = 1, .height = 1e-5 };

			*number(&at, i) = bad[k];
			ck_assert(!coordinate_plausible(&at));
			ck_assert_int_eq(coord_update(&st, &peer, &at, MONO_MS(1), &rng), TV_EFORMAT);
		}
	/* The sum of two errors stands below a fraction line. */
	ck_assert_int_eq(coord_update(&st, &peer, &(struct coordinate){ .error = -1.5 }, MONO_MS(1), &rng), TV_EFORMAT);
	ck_assert_int_eq(coord_update(&st, &peer, &(struct coordinate){ .height = -1 }, MONO_MS(1), &rng), TV_EFORMAT);
	ck_assert_mem_eq(&st, &before, sizeof(st));
	ck_assert_mem_eq(&peer, &peer_before, sizeof(peer));
}
END_TEST

/* The median of three: an outlier moves us no further than the usual round trip does. */
START_TEST(single_outliers_do_not_count)
{
	struct coordinate at = { .error = 1, .height = 1e-5 };
	struct coord_state calm, hit;
	struct coord_peer calm_peer, hit_peer;
	struct rng other;

	rng_seed(&other, 7);
	coord_init(&calm);
	coord_init(&hit);
	coord_peer_init(&calm_peer);
	coord_peer_init(&hit_peer);
	for (int i = 0; i < 30; i++) {
		struct mono rtt = MONO_MS(10), spiked = i > 3 && i % 3 == 0 ? MONO_S(8) : rtt;

		ck_assert_int_eq(coord_update(&calm, &calm_peer, &at, rtt, &rng), TV_OK);
		ck_assert_int_eq(coord_update(&hit, &hit_peer, &at, spiked, &other), TV_OK);
	}
	ck_assert_mem_eq(&calm, &hit, sizeof(calm));
}
END_TEST

START_TEST(a_peer_is_remembered_as_it_said)
{
	struct coordinate at = { .vec = { 0.1, -0.2, 0.3, 0, 1e-7, 0, 0, 9.5 }, .error = 0.25, .adjustment = -0.001,
		.height = 3e-5 }, got;
	struct coord_state st;
	struct coord_peer peer;

	coord_init(&st);
	coord_peer_init(&peer);
	ck_assert_int_eq(coord_update(&st, &peer, &at, MONO_MS(1), &rng), TV_OK);
	coord_of_peer(&peer, &got);
	for (int i = 0; i < DIM + 3; i++)
		ck_assert_double_eq_tol(*number(&got, i), *number(&at, i), 1e-6);
	ck_assert(coordinate_plausible(&got));
}
END_TEST

/* Two nodes at one place: they part in some direction, and never by NaN. */
START_TEST(nodes_at_one_place_part)
{
	struct coord_state st;
	struct coord_peer peer;
	struct coordinate at;

	coord_init(&st);
	coord_peer_init(&peer);
	at = st.own;
	ck_assert_int_eq(coord_update(&st, &peer, &at, MONO_MS(40), &rng), TV_OK);
	ck_assert(coordinate_plausible(&st.own));
	ck_assert_int_gt(coordinate_rtt(&st.own, &at).ns, 1000000);
}
END_TEST

/* What can go wrong without a liar (a jump of the clock, memory): the next step starts over. */
START_TEST(what_is_broken_starts_over)
{
	const double broken[] = { NAN, INFINITY, -INFINITY, 4000 };
	struct coordinate at = { .error = 1, .height = 1e-5 };
	struct coord_state st;
	struct coord_peer peer;

	coord_init(&st);
	coord_peer_init(&peer);
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		st.own.vec[3] = broken[i];
		ck_assert_int_eq(coord_update(&st, &peer, &at, MONO_MS(1), &rng), TV_OK);
		ck_assert_uint_eq(st.resets, i + 1);
		ck_assert_double_eq(st.own.vec[3], 0);
		ck_assert_double_eq(st.own.error, 1.5);
		ck_assert(coordinate_plausible(&st.own));
	}
	ck_assert_int_eq(coord_update(&st, &peer, &at, MONO_MS(1), &rng), TV_OK);
	ck_assert_uint_eq(st.resets, sizeof(broken) / sizeof(broken[0]));
}
END_TEST

/* -- pools ----------------------------------------------------------------------------------- */

#define NODES_MAX 25

struct pool {
	unsigned count;
	struct coord_state node[NODES_MAX];
	struct coord_peer peer[NODES_MAX][NODES_MAX];	/* [of][about] */
	double truth[NODES_MAX][NODES_MAX];		/* round trips, seconds */
};

static void
pool_init(struct pool *p, unsigned count)
{
	*p = (struct pool){ .count = count };
	for (unsigned i = 0; i < count; i++) {
		coord_init(&p->node[i]);
		for (unsigned j = 0; j < count; j++)
			coord_peer_init(&p->peer[i][j]);
	}
}

/* Each round every node probes one random other; round trips vary by up to `noise` of themselves. */
static void
pool_run(struct pool *p, unsigned rounds, double noise)
{
	for (unsigned r = 0; r < rounds; r++)
		for (unsigned i = 0; i < p->count; i++) {
			unsigned j = (i + 1 + (unsigned)rng_below(&rng, p->count - 1)) % p->count;
			double rtt = p->truth[i][j] * (1 + noise * rng_unit(&rng));

			ck_assert_int_eq(coord_update(&p->node[i], &p->peer[i][j], &p->node[j].own,
			    (struct mono){ (int64_t)(rtt * 1e9) }, &rng), TV_OK);
			ck_assert(coordinate_plausible(&p->node[i].own));
		}
}

/* Mean and largest relative error of the estimates. */
static void
pool_error(const struct pool *p, double *mean, double *worst)
{
	double sum = 0;
	unsigned pairs = 0;

	*worst = 0;
	for (unsigned i = 0; i < p->count; i++)
		for (unsigned j = 0; j < p->count; j++) {
			double e, got = mono_seconds(coordinate_rtt(&p->node[i].own, &p->node[j].own));

			if (i == j)
				continue;
			e = fabs(got - p->truth[i][j]) / p->truth[i][j];
			sum += e;
			*worst = fmax(*worst, e);
			pairs++;
		}
	*mean = sum / pairs;
}

START_TEST(a_triangle_finds_its_shape)
{
	static struct pool p;
	double mean, worst;

	pool_init(&p, 3);
	p.truth[0][1] = p.truth[1][0] = 0.030;
	p.truth[1][2] = p.truth[2][1] = 0.040;
	p.truth[0][2] = p.truth[2][0] = 0.050;
	pool_run(&p, 500, 0);
	pool_error(&p, &mean, &worst);
	ck_assert_msg(worst < 0.05, "worst %.3f", worst);
}
END_TEST

START_TEST(a_line_and_a_grid_find_their_shapes)
{
	static struct pool p;
	double mean, worst;

	pool_init(&p, 10);
	for (int i = 0; i < 10; i++)
		for (int j = 0; j < 10; j++)
			p.truth[i][j] = 0.010 * abs(i - j);
	pool_run(&p, 2000, 0);
	pool_error(&p, &mean, &worst);
	ck_assert_msg(mean < 0.05, "line: mean %.3f", mean);

	pool_init(&p, 25);
	for (int i = 0; i < 25; i++)
		for (int j = 0; j < 25; j++)
			p.truth[i][j] = 0.010 * hypot(i / 5 - j / 5, i % 5 - j % 5);
	pool_run(&p, 2000, 0.1);
	pool_error(&p, &mean, &worst);
	ck_assert_msg(mean < 0.10, "grid: mean %.3f", mean);
}
END_TEST

/* Two datacenters: 1 ms inside, 100 ms between; what ?near= and the choice of a server stand on. */
START_TEST(near_is_nearer_than_far)
{
	static struct pool p;

	pool_init(&p, 20);
	for (unsigned i = 0; i < 20; i++)
		for (unsigned j = 0; j < 20; j++)
			p.truth[i][j] = i / 10 == j / 10 ? 0.001 : 0.100;
	pool_run(&p, 1000, 0.5);
	for (unsigned i = 0; i < 20; i++)
		for (unsigned j = 0; j < 20; j++)
			for (unsigned k = 0; k < 20 && i != j; k++)
				if (i / 10 == j / 10 && i / 10 != k / 10)
					ck_assert_int_lt(coordinate_rtt(&p.node[i].own, &p.node[j].own).ns,
					    coordinate_rtt(&p.node[i].own, &p.node[k].own).ns);
}
END_TEST

START_TEST(pools_do_not_drift)
{
	static struct pool p;
	double centre = 0;

	pool_init(&p, 5);
	for (unsigned i = 0; i < 5; i++)
		for (unsigned j = 0; j < 5; j++)
			p.truth[i][j] = 0.020;
	for (unsigned i = 0; i < 5; i++)
		p.node[i].own.vec[0] = 3;	/* all of them far out */
	pool_run(&p, 20000, 0.2);
	for (unsigned i = 0; i < 5; i++)
		centre += p.node[i].own.vec[0] / 5;
	ck_assert_msg(centre < 2.9, "centre still at %.3f s", centre);
}
END_TEST

/*
 * One of four peers says at each probe that it is somewhere else, as far out as is believed, and answers when it
 * likes.  We never leave the believable, and find home once it is gone.
 */
START_TEST(a_liar_moves_us_within_bounds_and_not_for_long)
{
	static struct pool p;
	struct coord_peer liar;
	double mean, worst;

	pool_init(&p, 4);
	coord_peer_init(&liar);
	for (unsigned i = 0; i < 4; i++)
		for (unsigned j = 0; j < 4; j++)
			p.truth[i][j] = 0.010;
	pool_run(&p, 300, 0.1);
	for (unsigned i = 0; i < 5000; i++) {
		struct coordinate at = { .error = rng_unit(&rng) * 1e-9, .adjustment = (rng_unit(&rng) - 0.5) * 20,
			.height = rng_unit(&rng) * 10 };

		for (int d = 0; d < DIM; d++)
			at.vec[d] = i % 3 == 0 ? p.node[0].own.vec[d] + 2e-6 : (rng_unit(&rng) - 0.5) * 20;
		ck_assert_int_eq(coord_update(&p.node[0], &liar, &at, (struct mono){ (int64_t)rng_below(&rng,
		    500000000) }, &rng), TV_OK);
		ck_assert(coordinate_plausible(&p.node[0].own));
		if (i % 50 == 0)
			pool_run(&p, 1, 0.1);
	}
	pool_run(&p, 3000, 0.1);
	pool_error(&p, &mean, &worst);
	ck_assert_msg(mean < 0.25, "mean error %.3f after the liar went", mean);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("coord");
	TCase *steps = tcase_create("steps"), *pools = tcase_create("pools");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(steps, setup, NULL);
	tcase_add_test(steps, the_same_digits_as_serf);
	tcase_add_test(steps, a_new_node_is_at_the_origin);
	tcase_add_test(steps, a_negative_sum_leaves_the_adjustments_out);
	tcase_add_test(steps, round_trips_out_of_range);
	tcase_add_test(steps, coordinates_that_no_honest_node_has);
	tcase_add_test(steps, single_outliers_do_not_count);
	tcase_add_test(steps, a_peer_is_remembered_as_it_said);
	tcase_add_test(steps, nodes_at_one_place_part);
	tcase_add_test(steps, what_is_broken_starts_over);
	suite_add_tcase(suite, steps);
	tcase_add_checked_fixture(pools, setup, NULL);
	tcase_add_test(pools, a_triangle_finds_its_shape);
	tcase_add_test(pools, a_line_and_a_grid_find_their_shapes);
	tcase_add_test(pools, near_is_nearer_than_far);
	tcase_add_test(pools, pools_do_not_drift);
	tcase_add_test(pools, a_liar_moves_us_within_bounds_and_not_for_long);
	suite_add_tcase(suite, pools);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
