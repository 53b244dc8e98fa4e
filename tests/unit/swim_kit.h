/* What tests of the rules of the gossip core share: one core, started anew for each test.  See gossip_one.h. */
#ifndef TV_TESTS_UNIT_SWIM_KIT_H
#define TV_TESTS_UNIT_SWIM_KIT_H

#include <check.h>

#include "tests/unit/gossip_one.h"

static struct one o;

static inline void
setup(void)
{
	one_init(&o);
	one_start(&o);
}

static inline void
teardown(void)
{
	one_done(&o);
}

/* Another start with changed options. */
static inline void
restart(void)
{
	swim_free(o.s);
	one_start(&o);
}

/* Nobody answers in most tests: then the others must not fail by themselves. */
static inline void
without_probes(void)
{
	o.opt.timing.probe_interval = MONO_S(1000000);
	restart();
}

/* The cases of a program, with that core. */
static inline int
swim_kit_main(const char *name, TCase *const *cases, size_t count)
{
	Suite *s = suite_create(name);
	SRunner *r = srunner_create(s);
	int failed;

	for (size_t i = 0; i < count; i++) {
		tcase_add_checked_fixture(cases[i], setup, teardown);
		tcase_set_timeout(cases[i], 60);
		suite_add_tcase(s, cases[i]);
	}
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}

#endif
