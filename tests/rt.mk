# Runtime: clock, log, configuration, keys, walls, life cycle.
if HAVE_CHECK
rt_checks = tests/unit/check_duration tests/unit/check_array tests/unit/check_figure tests/unit/check_histogram tests/unit/check_log tests/unit/check_log_unread tests/unit/check_ucl tests/unit/check_conf \
	tests/unit/check_cluster_conf tests/unit/check_target tests/unit/check_keys tests/unit/check_sandbox \
	tests/unit/check_daemon tests/unit/check_past tests/unit/check_interpolate tests/unit/check_acl_rules tests/unit/check_acl_set \
	tests/unit/check_map tests/unit/check_file tests/unit/check_addr tests/unit/check_join
check_PROGRAMS += $(rt_checks)
TESTS += $(rt_checks)
scratch = tests/unit/scratch.c tests/unit/scratch.h
tests_unit_check_duration_SOURCES = tests/unit/check_duration.c
tests_unit_check_duration_LDADD = $(UNIT_LIBS)
tests_unit_check_interpolate_SOURCES = tests/unit/check_interpolate.c
tests_unit_check_interpolate_LDADD = $(UNIT_LIBS) $(PCRE2_LIBS)
tests_unit_check_acl_rules_SOURCES = tests/unit/check_acl_rules.c
tests_unit_check_acl_rules_LDADD = $(UNIT_LIBS)
tests_unit_check_acl_set_SOURCES = tests/unit/check_acl_set.c
tests_unit_check_acl_set_LDADD = $(UNIT_LIBS)
tests_unit_check_map_SOURCES = tests/unit/check_map.c
tests_unit_check_map_LDADD = $(UNIT_LIBS) $(SODIUM_LIBS)
tests_unit_check_join_SOURCES = tests/unit/check_join.c
tests_unit_check_join_LDADD = $(UNIT_LIBS) $(SODIUM_LIBS)
tests_unit_check_array_SOURCES = tests/unit/check_array.c
tests_unit_check_array_LDADD = $(UNIT_LIBS)
tests_unit_check_figure_SOURCES = tests/unit/check_figure.c
tests_unit_check_figure_LDADD = $(UNIT_LIBS)
tests_unit_check_histogram_SOURCES = tests/unit/check_histogram.c
tests_unit_check_histogram_LDADD = $(UNIT_LIBS)
tests_unit_check_log_SOURCES = tests/unit/check_log.c
tests_unit_check_log_unread_SOURCES = tests/unit/check_log_unread.c
tests_unit_check_log_unread_LDADD = common/libtvrt.a $(UNIT_LIBS) -lpthread
tests_unit_check_log_LDADD = common/libtvrt.a $(UNIT_LIBS)
tests_unit_check_ucl_SOURCES = tests/unit/check_ucl.c
tests_unit_check_ucl_LDADD = $(UNIT_LIBS)
tests_unit_check_conf_SOURCES = tests/unit/check_conf.c $(scratch)
tests_unit_check_conf_LDADD = common/libtvrt.a $(UNIT_LIBS)
tests_unit_check_cluster_conf_SOURCES = tests/unit/check_cluster_conf.c $(scratch)
tests_unit_check_cluster_conf_LDADD = common/libtvrt.a $(UNIT_LIBS) $(SODIUM_LIBS)
tests_unit_check_target_SOURCES = tests/unit/check_target.c
tests_unit_check_target_LDADD = $(UNIT_LIBS)
tests_unit_check_keys_SOURCES = tests/unit/check_keys.c $(scratch)
tests_unit_check_keys_LDADD = common/libtvrt.a $(UNIT_LIBS) $(SODIUM_LIBS)
tests_unit_check_sandbox_SOURCES = tests/unit/check_sandbox.c $(scratch)
tests_unit_check_sandbox_LDADD = common/libtvrt.a $(UNIT_LIBS) $(SECCOMP_LIBS) $(SODIUM_LIBS) $(BDB_LIBS) $(EV_LIBS)
tests_unit_check_daemon_SOURCES = tests/unit/check_daemon.c $(scratch)
tests_unit_check_daemon_LDADD = $(RT_LIBS) $(CHECK_LIBS)
tests_unit_check_addr_SOURCES = tests/unit/check_addr.c
tests_unit_check_addr_LDADD = $(UNIT_LIBS)
tests_unit_check_file_SOURCES = tests/unit/check_file.c $(scratch)
tests_unit_check_file_LDADD = common/libtvrt.a $(UNIT_LIBS)
tests_unit_check_past_SOURCES = tests/unit/check_past.c $(scratch)
tests_unit_check_past_LDADD = common/libtvrt.a $(UNIT_LIBS) $(SODIUM_LIBS)
endif

# Sets of access rules against an evaluator in Python.
check_PROGRAMS += tests/unit/acl_eval
tests_unit_acl_eval_SOURCES = tests/unit/acl_eval.c
tests_unit_acl_eval_LDADD = common/libtvcore.a
dist_check_SCRIPTS += tests/unit/check_acl_model.py
TESTS += tests/unit/check_acl_model.py

FUZZ_REPLAYS += tests/fuzz/replay_acl
tests_fuzz_replay_acl_SOURCES = tests/fuzz/fuzz_acl.c tests/fuzz/replay.c
tests_fuzz_replay_acl_LDADD = common/libtvcore.a
