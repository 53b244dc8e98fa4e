# tests
include tests/fuzz/fuzz.mk
include tests/link.mk
include tests/gossip.mk

# Runtime: clock, log, configuration, keys, walls, life cycle.
if HAVE_CHECK
check_PROGRAMS += tests/unit/check_duration tests/unit/check_log
TESTS += tests/unit/check_duration tests/unit/check_log
tests_unit_check_duration_SOURCES = tests/unit/check_duration.c
tests_unit_check_duration_LDADD = $(UNIT_LIBS)
tests_unit_check_log_SOURCES = tests/unit/check_log.c
tests_unit_check_log_LDADD = common/libtvrt.a $(UNIT_LIBS)
endif
include tests/rpcd.mk
include tests/gossipwire.mk
