/* Crowds of connections: budgets of sources, who gives way, deadlines; 10,000 silent ones, and one that trickles. */
#include "common/base/clock.h"
#include "common/net/crowd_timer.h"
#include "common/net/source.h"
#include "tests/unit/chan_world.h"

#define MANY 10000

static uint64_t
hash_of(const void *bytes, size_t n)
{
	uint64_t v;

	ck_assert_uint_eq(n, sizeof(v));
	memcpy(&v, bytes, n);
	return v % 7;		/* many share one */
}

static struct crowd_conf
conf(unsigned max, unsigned source_max)
{
	return (struct crowd_conf){ .max = max, .source_max = source_max, .hash = hash_of };
}

static void
setup(struct crowd *c, struct crowd_conf conf)
{
	crowd_init(c, &conf);
}

START_TEST(ranks_give_way_in_order)
{
	struct crowd c;
	struct crowd_member m[6], late;

	setup(&c, conf(6, 0));
	for (unsigned i = 0; i < 6; i++) {
		ck_assert_ptr_null(crowd_gives_way(&c, 1));
		ck_assert(crowd_come(&c, &m[i], 1));
		ck_assert_ptr_null(m[i].source);
	}
	ck_assert(crowd_is_full(&c) && !crowd_is_busy(&c));
	crowd_rank(&c, &m[0], 1);
	crowd_rank(&c, &m[1], CROWD_STAYS);
	crowd_rank(&c, &m[2], 0);		/* to the end of its own */
	for (unsigned k = 0; k < 4; k++) {
		static const unsigned order[] = { 3, 4, 5, 2 };
		struct crowd_member *out = crowd_gives_way(&c, 1);

		ck_assert_ptr_eq(out, &m[order[k]]);
		ck_assert_ptr_eq(out, crowd_spare(&c));
		crowd_leave(&c, out);
		crowd_leave(&c, out);		/* again: nothing */
		c.conf.max--;
	}
	ck_assert_ptr_eq(crowd_gives_way(&c, 1), &m[0]);
	crowd_rank(&c, &m[0], CROWD_STAYS);
	ck_assert_ptr_null(crowd_gives_way(&c, 1));
	ck_assert(crowd_is_full(&c) && crowd_is_busy(&c));
	ck_assert(crowd_come(&c, &late, 1));	/* bounds are the owner's to look at */
	ck_assert_ptr_eq(crowd_gives_way(&c, 1), &late);
	ck_assert_uint_eq(c.count, 3);
	crowd_done(&c);
	ck_assert(c.count == 0 && !late.here);
	crowd_done(&(struct crowd){ .count = 0 });
}
END_TEST

static bool
is_odd(const struct crowd_member *m)
{
	return m->source->source % 2 != 0;
}

/* Those that stay are passed by, and no more than some are looked at. */
START_TEST(some_stay)
{
	struct crowd c;
	struct crowd_member m[CROWD_LOOKS_MAX + 4];
	const unsigned n = CROWD_LOOKS_MAX + 4;

	setup(&c, conf(n, 1));
	c.conf.stays = is_odd;
	for (unsigned i = 0; i < 4; i++)
		ck_assert(crowd_come(&c, &m[i], i + 1));
	ck_assert_ptr_eq(crowd_spare(&c), &m[1]);
	ck_assert(crowd_stream_begin(&c, &m[1]));
	ck_assert_ptr_eq(crowd_spare(&c), &m[3]);
	crowd_stream_end(&c, &m[1]);
	ck_assert_ptr_eq(crowd_spare(&c), &m[1]);
	crowd_leave(&c, &m[1]);
	crowd_leave(&c, &m[3]);
	for (unsigned i = 4; i < n; i++)
		ck_assert(crowd_come(&c, &m[i], 2 * i + 1));
	ck_assert(crowd_come(&c, &m[1], 2));
	ck_assert_ptr_null(crowd_spare(&c));		/* it is behind too many that stay */
	crowd_leave(&c, &m[0]);
	crowd_leave(&c, &m[2]);
	crowd_leave(&c, &m[4]);
	ck_assert_ptr_eq(crowd_spare(&c), &m[1]);
	crowd_done(&c);
}
END_TEST

/* Members and streams of a source have budgets, each its own; crowds share them. */
START_TEST(sources_have_budgets)
{
	struct map sources = { 0 };
	struct crowd a, b;
	struct crowd_member m[4];
	struct crowd_conf both = conf(10, 2);

	both.source_streams_max = 3;
	both.sources = &sources;
	setup(&a, both);
	setup(&b, both);
	ck_assert(crowd_admits(&a, 8) && crowd_come(&a, &m[0], 8));
	ck_assert(crowd_admits(&b, 8) && crowd_come(&b, &m[1], 8));
	ck_assert(!crowd_admits(&a, 8) && !crowd_admits(&b, 8));
	ck_assert(crowd_admits(&a, 1) && crowd_come(&a, &m[2], 1));	/* the same hash */
	ck_assert(m[0].source == m[1].source && m[0].source != m[2].source);
	m[0].source->held += 5;
	ck_assert_uint_eq(m[1].source->held, 5);
	for (unsigned i = 0; i < 3; i++)
		ck_assert(crowd_stream_begin(&a, &m[0]));
	ck_assert(!crowd_stream_begin(&b, &m[1]) && crowd_stream_begin(&a, &m[2]));
	ck_assert(a.streams == 4 && b.streams == 0 && m[0].source->streams == 3);
	crowd_stream_end(&a, &m[0]);
	ck_assert(crowd_stream_begin(&b, &m[1]));
	crowd_leave(&a, &m[0]);			/* with two of its streams */
	ck_assert(m[1].source->streams == 1 && m[1].source->members == 1 && a.streams == 1);
	ck_assert(crowd_admits(&a, 8));
	crowd_done(&a);
	ck_assert_uint_eq(sources.count, 1);
	crowd_done(&b);
	ck_assert_uint_eq(sources.count, 0);
	map_done(&sources);
}
END_TEST

/* The source that has most gives way, be it in connections or in streams; and a full one to itself. */
START_TEST(the_largest_gives_way)
{
	struct crowd c;
	struct crowd_member m[6];
	struct crowd_conf largest = conf(5, 3);

	largest.largest = true;
	setup(&c, largest);
	for (unsigned i = 0; i < 5; i++)
		ck_assert(crowd_come(&c, &m[i], i < 2 ? 10 : 20 + i / 4));	/* 10, 10, 20, 20, 21 */
	ck_assert_ptr_eq(crowd_gives_way(&c, 30), &m[0]);
	crowd_rank(&c, &m[0], 1);
	ck_assert_ptr_eq(crowd_gives_way(&c, 30), &m[1]);
	ck_assert(crowd_stream_begin(&c, &m[1]));
	ck_assert_ptr_eq(crowd_gives_way(&c, 30), &m[2]);
	for (unsigned i = 0; i < 3; i++)
		ck_assert(crowd_stream_begin(&c, &m[0]) && crowd_stream_begin(&c, &m[1]));
	ck_assert_ptr_eq(crowd_gives_way(&c, 30), &m[2]);	/* theirs are under way */
	crowd_leave(&c, &m[4]);
	ck_assert_ptr_null(crowd_gives_way(&c, 20));
	ck_assert(crowd_come(&c, &m[4], 20));
	c.conf.max = 10;
	ck_assert_ptr_eq(crowd_gives_way(&c, 20), &m[2]);	/* it has as many as it may */
	ck_assert_ptr_null(crowd_gives_way(&c, 10));
	crowd_done(&c);
}
END_TEST

START_TEST(deadlines_are_kept)
{
	struct crowd c;
	struct crowd_member m[3], *late;

	setup(&c, conf(3, 0));
	ck_assert(crowd_next_look(&c).ns == MONO_NEVER.ns && crowd_late(&c, MONO_S(1000)) == NULL);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert(crowd_come(&c, &m[i], 0));
		crowd_set_until(&c, &m[i], MONO_S(10 + i));
	}
	ck_assert_ptr_null(crowd_late(&c, MONO_MS(9999)));
	ck_assert_int_eq(crowd_next_look(&c).ns, MONO_S(10).ns);
	crowd_set_until(&c, &m[0], MONO_S(15));		/* put off */
	crowd_set_until(&c, &m[1], MONO_ZERO);		/* none any more */
	ck_assert_ptr_null(crowd_late(&c, MONO_MS(11500)));
	ck_assert_int_eq(crowd_next_look(&c).ns, MONO_S(12).ns);
	crowd_set_until(&c, &m[0], MONO_S(12));		/* brought forward */
	crowd_set_until(&c, &m[1], MONO_S(13));
	late = crowd_late(&c, MONO_S(12));
	ck_assert(late != NULL && late->until.ns == 0);
	ck_assert_ptr_eq(crowd_late(&c, MONO_S(12)), late == &m[0] ? &m[2] : &m[0]);
	ck_assert_ptr_null(crowd_late(&c, MONO_S(12)));
	crowd_leave(&c, &m[1]);
	ck_assert_int_eq(crowd_next_look(&c).ns, MONO_NEVER.ns);
	crowd_done(&c);
}
END_TEST

/* -- floods -- */

static struct crowd_member *
arrive(struct crowd *c, struct crowd_member *m, uint64_t source)
{
	struct crowd_member *out = crowd_gives_way(c, source);

	if (out != NULL)
		crowd_leave(c, out);
	ck_assert(crowd_come(c, m, source));
	return out;
}

/*
 * 10,000 connections that say nothing, from four addresses or from as many as they are: each newcomer that asks at once
 * has its place until it is answered, and the silent ones are gone in time.
 */
START_TEST(many_silent_ones)
{
	static struct crowd_member silent[MANY];
	struct crowd c;
	struct crowd_member honest, *m;
	struct crowd_conf some = conf(128, 64);
	unsigned left = 0;

	some.largest = (_i & 1) != 0;
	some.hash = keyed_hash;
	setup(&c, some);
	for (unsigned i = 0; i < MANY; i++) {
		struct mono now = MONO_MS(i);

		(void)arrive(&c, &silent[i], (_i & 2) != 0 ? i % 4 : i);
		crowd_set_until(&c, &silent[i], mono_add(now, MONO_S(2)));
		while ((m = crowd_late(&c, now)) != NULL)
			crowd_leave(&c, m);
		ck_assert(c.count <= 128 && c.own.count <= 128);
		if (i % 100 != 0)
			continue;
		(void)arrive(&c, &honest, UINT32_MAX);
		ck_assert(crowd_stream_begin(&c, &honest));	/* its request */
		for (unsigned k = 1; k < 100; k++)
			ck_assert_ptr_ne(crowd_gives_way(&c, k), &honest);
		crowd_stream_end(&c, &honest);
		crowd_leave(&c, &honest);
	}
	ck_assert_uint_eq(c.count, 128 - (c.count < 128));
	while ((m = crowd_late(&c, MONO_MS(MANY + 2000))) != NULL) {
		crowd_leave(&c, m);
		left++;
	}
	ck_assert(c.count == 0 && left > 100);
	crowd_done(&c);
}
END_TEST

/* A peer that sends a byte a second gets no further: neither its place in the queue nor its deadline moves. */
START_TEST(one_byte_a_second)
{
	struct crowd c;
	struct crowd_member slow[32], quick;

	setup(&c, conf(32, 0));
	for (unsigned i = 0; i < 32; i++) {
		(void)arrive(&c, &slow[i], i);
		crowd_set_until(&c, &slow[i], MONO_S(60));
	}
	for (unsigned second = 0; second < 20; second++) {
		ck_assert_ptr_eq(arrive(&c, &quick, 99), second == 0 ? &slow[0] : NULL);
		ck_assert(crowd_stream_begin(&c, &quick));
		ck_assert_ptr_eq(crowd_gives_way(&c, 98), &slow[1]);
		crowd_stream_end(&c, &quick);
		crowd_leave(&c, &quick);
		ck_assert_ptr_null(crowd_late(&c, MONO_S(second)));
	}
	for (unsigned i = 1; i < 32; i++)
		ck_assert_ptr_nonnull(crowd_late(&c, MONO_S(60)));
	crowd_done(&c);
}
END_TEST

/* What is one source: addresses of both families. */
START_TEST(which_are_one_source)
{
	static const struct { const char *a, *b; bool same; } v[] = {
		{ "10.0.0.1", "10.0.0.1", true }, { "10.0.0.1", "10.0.0.2", false },
		{ "10.0.0.1", "::ffff:10.0.0.1", true }, { "::ffff:10.0.0.1", "::ffff:10.0.0.2", false },
		{ "2001:db8:1:2::1", "2001:db8:1:2:ffff::2", true }, { "2001:db8:1:2::1", "2001:db8:1:3::1", false },
		{ "::1", "::2", true },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct crowd c;
		struct crowd_member a, b;

		setup(&c, conf(9, 9));
		ck_assert(crowd_come(&c, &a, source_of_text(v[i].a)) && crowd_come(&c, &b, source_of_text(v[i].b)));
		ck_assert_msg((a.source == b.source) == v[i].same, "%s %s", v[i].a, v[i].b);
		ck_assert_uint_eq(a.source->members, v[i].same ? 2 : 1);
		crowd_done(&c);
	}
}
END_TEST

/* -- on a loop -- */

static struct crowd crowd;
static struct crowd_member *order[8];
static unsigned count;

static void
on_late(struct crowd_member *m)
{
	order[count++] = m;
	crowd_leave(&crowd, m);
}

START_TEST(a_loop_calls)
{
	struct ev_loop *loop = world_loop();
	struct crowd_timer t = { 0 };
	struct crowd_member m[4];
	struct mono began = clock_mono();

	crowd_timer_stop(&t);			/* one that was not begun */
	setup(&crowd, conf(4, 0));
	crowd_timer_init(&t, loop, &crowd, on_late);
	for (unsigned i = 0; i < 4; i++)
		ck_assert(crowd_come(&crowd, &m[i], 0));
	crowd_timer_give(&t, &m[0], 0.10);
	crowd_timer_give(&t, &m[1], 0.03);
	crowd_timer_give(&t, &m[2], 0.02);
	crowd_timer_give(&t, &m[3], 1000.);
	crowd_timer_give(&t, &m[2], 0.06);	/* put off */
	UNTIL(loop, count == 1);
	ck_assert_int_ge(mono_sub(clock_mono(), began).ns, MONO_MS(30).ns);
	crowd_timer_give(&t, &m[0], -1);
	UNTIL(loop, count == 2);
	crowd_timer_give(&t, &m[3], 0.);
	UNTIL(loop, count == 3);
	ck_assert(order[0] == &m[1] && order[1] == &m[2] && order[2] == &m[3]);
	ck_assert(crowd.count == 1 && m[0].here);
	crowd_timer_stop(&t);
	crowd_done(&crowd);
	ev_loop_destroy(loop);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("crowd");
	TCase *t = tcase_create("crowd");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, ranks_give_way_in_order);
	tcase_add_test(t, some_stay);
	tcase_add_test(t, sources_have_budgets);
	tcase_add_test(t, the_largest_gives_way);
	tcase_add_test(t, deadlines_are_kept);
	tcase_add_loop_test(t, many_silent_ones, 0, 4);
	tcase_add_test(t, one_byte_a_second);
	tcase_add_test(t, which_are_one_source);
	tcase_add_test(t, a_loop_calls);
	suite_add_tcase(s, t);
	return world_main(s);
}
