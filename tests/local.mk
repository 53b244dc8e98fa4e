# tests
include tests/bench/http.mk
include tests/lint/lint.mk
include tests/route.mk
include tests/fuzz/fuzz.mk
include tests/link.mk
include tests/gossip.mk

# Runtime: clock, log, configuration, keys, walls, life cycle.
if HAVE_CHECK
rt_checks = tests/unit/check_duration tests/unit/check_log tests/unit/check_ucl tests/unit/check_conf
check_PROGRAMS += $(rt_checks)
TESTS += $(rt_checks)
tests_unit_check_duration_SOURCES = tests/unit/check_duration.c
tests_unit_check_duration_LDADD = $(UNIT_LIBS)
tests_unit_check_log_SOURCES = tests/unit/check_log.c
tests_unit_check_log_LDADD = common/libtvrt.a $(UNIT_LIBS)
tests_unit_check_ucl_SOURCES = tests/unit/check_ucl.c
tests_unit_check_ucl_LDADD = $(UNIT_LIBS)
tests_unit_check_conf_SOURCES = tests/unit/check_conf.c tests/unit/scratch.c tests/unit/scratch.h
tests_unit_check_conf_LDADD = common/libtvrt.a $(UNIT_LIBS)
endif
include tests/rpcd.mk
include tests/gossipwire.mk
