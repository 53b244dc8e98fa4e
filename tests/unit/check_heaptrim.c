/* When memory goes back to the system: once, in the first quiet spell after work. */
#include "common/base/clock.h"
#include "common/proc/heaptrim.h"
#include "tests/unit/chan_world.h"

START_TEST(rule)
{
	static const struct { int cpu_ms; bool due; } looks[] = {
		{ 50, true },		/* quiet after the start */
		{ 100, false },		/* quiet still */
		{ 5000, false },	/* busy */
		{ 9000, false },
		{ 9199, true },		/* quiet again: below 2 % of 10 s */
		{ 9200, false },
		{ 9400, false },	/* 2 %: work */
		{ 9401, true },
	};
	struct heaptrim h = { .period = MONO_S(10), .worked = true };

	for (size_t i = 0; i < sizeof(looks) / sizeof(looks[0]); i++)
		ck_assert_msg(heaptrim_due(&h, MONO_MS(looks[i].cpu_ms)) == looks[i].due, "look %zu", i);
}
END_TEST

START_TEST(runs)
{
	struct ev_loop *loop = world_loop();
	struct heaptrim h;

	heaptrim_start(&h, loop, MONO_MS(1));
	UNTIL(loop, h.cpu.ns > 0 && mono_before(h.cpu, clock_cpu()));
	heaptrim_stop(&h);
	ck_assert_int_eq(ev_is_active(&h.timer), 0);
	ev_loop_destroy(loop);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("heaptrim");
	TCase *t = tcase_create("heaptrim");

	tcase_add_test(t, rule);
	tcase_add_test(t, runs);
	suite_add_tcase(s, t);
	return world_main(s);
}
