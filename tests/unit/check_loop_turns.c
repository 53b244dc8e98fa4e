/* What counts as a turn of a loop, on both clocks. */
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/proc/loop_turns.h"
#include "tests/unit/chan_world.h"

struct turns {
	struct loop_turns t;
	unsigned told;
	struct mono longest;
};

static void
on_turn(void *ctx, struct mono wall)
{
	struct turns *all = ctx;

	all->told++;
	all->longest = mono_before(all->longest, wall) ? wall : all->longest;
}

/* Uses two milliseconds of the processor. */
static void
work(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct mono end = mono_add(clock_thread_cpu(), MONO_MS(2));

	(void)loop, (void)w, (void)revents;
	while (mono_before(clock_thread_cpu(), end))
		;
}

static void
rest(struct ev_loop *loop, ev_timer *w, int revents)
{
	const struct timespec ts = { .tv_nsec = 5000000 };

	(void)loop, (void)w, (void)revents;
	nanosleep(&ts, NULL);
}

static void
start(struct turns *all, struct ev_loop *loop)
{
	*all = (struct turns){ .t = { .on_turn = on_turn, .ctx = all } };
	loop_turns_start(&all->t, loop);
}

static void
once(struct ev_loop *loop, void (*fn)(struct ev_loop *loop, ev_timer *w, int revents), double after)
{
	ev_timer w;

	ev_timer_init(&w, fn, after, 0.);
	ev_timer_start(loop, &w);
	ev_run(loop, 0);		/* ends when the timer has run: what measures holds no loop */
}

START_TEST(work_and_rest)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct turns all;

	start(&all, loop);
	once(loop, rest, 0.001);
	once(loop, rest, 0.001);	/* the last turn of a run ends with the next one's first sleep */
	ck_assert_int_ge(all.t.wall.max_ns, MONO_MS(5).ns);
	ck_assert_int_eq(all.longest.ns, all.t.wall.max_ns);
	ck_assert_uint_eq(all.told, all.t.wall.count);
	once(loop, work, 0.001);
	once(loop, work, 0.001);
	ck_assert_int_ge(all.t.cpu.max_ns, MONO_MS(2).ns);
	ck_assert_uint_eq(all.t.cpu.count, all.t.wall.count);
	loop_turns_stop(&all.t);
	loop_turns_stop(&all.t);	/* nothing */
	ev_loop_destroy(loop);
}
END_TEST

START_TEST(waiting_is_no_turn)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct turns all;
	struct mono began, took;

	start(&all, loop);
	began = clock_mono();
	once(loop, rest, 0.2);
	once(loop, rest, 0.2);
	took = mono_sub(clock_mono(), began);
	/* A little less than it waited: a timer may be early by a millisecond. */
	ck_assert_int_le(all.t.wall.sum_ns, mono_sub(took, MONO_MS(390)).ns);
	loop_turns_stop(&all.t);
	ev_loop_destroy(loop);
}
END_TEST

struct names {
	char text[1000];
};

static void
name(void *ctx, const char *label, const char *value)
{
	struct names *n = ctx;

	ck_assert_uint_gt(strlen(value), 0);
	strncat(n->text, label, sizeof(n->text) - strlen(n->text) - 2);
	strcat(n->text, " ");
}

START_TEST(told)
{
	struct loop_turns t = { .loop = NULL };
	struct names n = { "" };

	ck_assert_uint_eq(loop_turns_info(&t, name, &n), 10);
	ck_assert_str_eq(n.text, "loop_turn_p999_us loop_turn_histogram loop_turn_max_us loop_turn_p50_us loop_turn_p99_us "
	    "loop_cpu_p999_us loop_cpu_histogram loop_cpu_max_us loop_cpu_p50_us loop_cpu_p99_us ");
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("loop_turns");
	TCase *t = tcase_create("loop_turns");

	tcase_add_test(t, work_and_rest);
	tcase_add_test(t, waiting_is_no_turn);
	tcase_add_test(t, told);
	suite_add_tcase(s, t);
	return world_main(s);
}
