# The stores: the Raft log and the state machine.
if HAVE_CHECK
FSM_LIBS = raftd/libfsm.a raftd/libraftstore.a $(STORE_LIBS) $(CHECK_LIBS)
FSM_KIT = tests/unit/fsm_kit.c tests/unit/fsm_kit.h
FSM_TESTS = tests/unit/check_fsm_kv tests/unit/check_fsm_session tests/unit/check_fsm_catalog tests/unit/check_fsm_watch \
	tests/unit/check_fsm_snapshot tests/unit/check_fsm_crash tests/unit/check_store_log tests/unit/check_fsm_coordinate \
	tests/unit/check_fsm_autopilot tests/unit/check_restore tests/unit/check_fsm_flush tests/unit/check_fsm_compact \
	tests/unit/check_fsm_tables tests/unit/check_fsm_group tests/unit/check_fsm_threads tests/unit/check_fsm_txn \
	tests/unit/check_fsm_query tests/unit/check_fsm_acl tests/unit/check_fsm_acl_repl tests/unit/check_fsm_acl_auth tests/unit/check_jwt tests/unit/check_jwks tests/unit/check_fsm_may tests/unit/check_fsm_address tests/unit/check_rights_race
check_PROGRAMS += $(FSM_TESTS)
TESTS += $(FSM_TESTS)
tests_unit_check_fsm_kv_SOURCES = tests/unit/check_fsm_kv.c $(FSM_KIT)
tests_unit_check_fsm_kv_LDADD = $(FSM_LIBS)
tests_unit_check_fsm_session_SOURCES = tests/unit/check_fsm_session.c $(FSM_KIT)
tests_unit_check_fsm_session_LDADD = $(FSM_LIBS)
tests_unit_check_fsm_catalog_SOURCES = tests/unit/check_fsm_catalog.c $(FSM_KIT)
tests_unit_check_fsm_catalog_LDADD = $(FSM_LIBS)
tests_unit_check_fsm_address_SOURCES = tests/unit/check_fsm_address.c tests/sim/fsm_batch.h $(FSM_KIT)
tests_unit_check_fsm_address_LDADD = $(FSM_LIBS)
tests_unit_check_fsm_watch_SOURCES = tests/unit/check_fsm_watch.c $(FSM_KIT)
tests_unit_check_fsm_watch_LDADD = $(FSM_LIBS)
tests_unit_check_fsm_snapshot_SOURCES = tests/unit/check_fsm_snapshot.c $(FSM_KIT)
tests_unit_check_fsm_snapshot_LDADD = $(FSM_LIBS)
tests_unit_check_fsm_crash_SOURCES = tests/unit/check_fsm_crash.c $(FSM_KIT)
tests_unit_check_fsm_crash_LDADD = $(FSM_LIBS)
tests_unit_check_fsm_coordinate_SOURCES = tests/unit/check_fsm_coordinate.c $(FSM_KIT)
tests_unit_check_fsm_coordinate_LDADD = $(FSM_LIBS)
tests_unit_check_fsm_autopilot_SOURCES = tests/unit/check_fsm_autopilot.c $(FSM_KIT)
tests_unit_check_fsm_autopilot_LDADD = $(FSM_LIBS)
tests_unit_check_fsm_flush_SOURCES = tests/unit/check_fsm_flush.c tests/sim/fsm_batch.h $(FSM_KIT)
tests_unit_check_fsm_flush_LDADD = $(FSM_LIBS)
tests_unit_check_fsm_compact_SOURCES = tests/unit/check_fsm_compact.c $(FSM_KIT)
tests_unit_check_fsm_compact_LDADD = $(FSM_LIBS)
tests_unit_check_fsm_group_SOURCES = tests/unit/check_fsm_group.c tests/sim/fsm_batch.h $(FSM_KIT)
tests_unit_check_fsm_group_LDADD = $(FSM_LIBS)
tests_unit_check_fsm_txn_SOURCES = tests/unit/check_fsm_txn.c $(FSM_KIT)
tests_unit_check_fsm_txn_LDADD = common/libtvjson.a $(FSM_LIBS) $(JANSSON_LIBS)
tests_unit_check_fsm_query_SOURCES = tests/unit/check_fsm_query.c $(FSM_KIT)
tests_unit_check_fsm_query_LDADD = common/libtvjson.a $(FSM_LIBS) $(JANSSON_LIBS)
tests_unit_check_fsm_acl_repl_SOURCES = tests/unit/check_fsm_acl_repl.c $(FSM_KIT)
tests_unit_check_fsm_acl_repl_LDADD = $(FSM_LIBS)
tests_unit_check_fsm_acl_SOURCES = tests/unit/check_fsm_acl.c $(FSM_KIT)
tests_unit_check_fsm_acl_LDADD = common/libtvjson.a $(FSM_LIBS) $(JANSSON_LIBS)
tests_unit_check_fsm_may_SOURCES = tests/unit/check_fsm_may.c $(FSM_KIT)
tests_unit_check_fsm_may_LDADD = common/libtvjson.a $(FSM_LIBS) $(JANSSON_LIBS)
tests_unit_check_rights_race_SOURCES = tests/unit/check_rights_race.c $(FSM_KIT)
tests_unit_check_rights_race_LDADD = $(FSM_LIBS)
tests_unit_check_fsm_acl_auth_SOURCES = tests/unit/check_fsm_acl_auth.c tests/unit/jwt_kit.h $(FSM_KIT)
tests_unit_check_fsm_acl_auth_CFLAGS = $(AM_CFLAGS) $(CRYPTO_CFLAGS)
tests_unit_check_fsm_acl_auth_LDADD = raftd/liblogin.a common/libtvjson.a $(FSM_LIBS) $(JANSSON_LIBS) $(CRYPTO_LIBS)
tests_unit_check_jwt_SOURCES = tests/unit/check_jwt.c tests/unit/jwt_kit.h
tests_unit_check_jwt_CFLAGS = $(AM_CFLAGS) $(CRYPTO_CFLAGS)
tests_unit_check_jwt_LDADD = $(LOGIN_LIBS) $(CHECK_LIBS)
tests_unit_check_jwks_SOURCES = tests/unit/check_jwks.c tests/unit/jwt_kit.h
tests_unit_check_jwks_CFLAGS = $(AM_CFLAGS) $(CRYPTO_CFLAGS)
tests_unit_check_jwks_LDADD = $(LOGIN_LIBS) $(CHECK_LIBS)
tests_unit_check_fsm_threads_SOURCES = tests/unit/check_fsm_threads.c tests/sim/fsm_batch.h $(FSM_KIT)
tests_unit_check_fsm_threads_LDADD = $(FSM_LIBS)
tests_unit_check_fsm_tables_SOURCES = tests/unit/check_fsm_tables.c $(FSM_KIT)
tests_unit_check_fsm_tables_LDADD = $(FSM_LIBS)
EXTRA_DIST += tests/data/state
tests_unit_check_restore_SOURCES = tests/unit/check_restore.c $(FSM_KIT)
tests_unit_check_restore_LDADD = $(FSM_LIBS)
tests_unit_check_store_log_SOURCES = tests/unit/check_store_log.c $(FSM_KIT)
tests_unit_check_store_log_LDADD = raftd/libfsm.a raftd/libraftstore.a raftd/libraftcore.a $(STORE_LIBS) $(CHECK_LIBS)
endif

# How fast the stores are by themselves.
noinst_PROGRAMS += tests/bench/bench_store
tests_bench_bench_store_SOURCES = tests/bench/bench_store.c
tests_bench_bench_store_LDADD = raftd/libfsm.a raftd/libraftstore.a raftd/libraftcore.a $(STORE_LIBS)

noinst_PROGRAMS += tests/bench/bench_acl_state
tests_bench_bench_acl_state_SOURCES = tests/bench/bench_acl_state.c
tests_bench_bench_acl_state_LDADD = raftd/libfsm.a raftd/libraftstore.a $(STORE_LIBS)

# Entries, arguments of operations, restored states.
FUZZ_REPLAYS += tests/fuzz/replay_state
tests_fuzz_replay_state_SOURCES = tests/fuzz/fuzz_state.c tests/fuzz/replay.c
tests_fuzz_replay_state_LDADD = raftd/libfsm.a raftd/libraftstore.a $(STORE_LIBS)

# Auth methods, bearer tokens, claims.
FUZZ_REPLAYS += tests/fuzz/replay_jwt
tests_fuzz_replay_jwt_SOURCES = tests/fuzz/fuzz_jwt.c tests/fuzz/replay.c
tests_fuzz_replay_jwt_CFLAGS = $(AM_CFLAGS) $(CRYPTO_CFLAGS)
tests_fuzz_replay_jwt_LDADD = $(LOGIN_LIBS)

# What issuers publish, and what the process that has read it says.
FUZZ_REPLAYS += tests/fuzz/replay_jwks
tests_fuzz_replay_jwks_SOURCES = tests/fuzz/fuzz_jwks.c tests/fuzz/replay.c
tests_fuzz_replay_jwks_CFLAGS = $(AM_CFLAGS) $(CRYPTO_CFLAGS)
tests_fuzz_replay_jwks_LDADD = $(LOGIN_LIBS)

# Transactions, from the body to the state.
FUZZ_REPLAYS += tests/fuzz/replay_txn
tests_fuzz_replay_txn_SOURCES = tests/fuzz/fuzz_txn.c tests/fuzz/replay.c
tests_fuzz_replay_txn_LDADD = common/libtvjson.a raftd/libfsm.a raftd/libraftstore.a $(STORE_LIBS) $(JANSSON_LIBS)

# Prepared queries, from the body to what they find.
FUZZ_REPLAYS += tests/fuzz/replay_query
tests_fuzz_replay_query_SOURCES = tests/fuzz/fuzz_query.c tests/fuzz/replay.c
tests_fuzz_replay_query_LDADD = common/libtvjson.a raftd/libfsm.a raftd/libraftstore.a $(STORE_LIBS) $(JANSSON_LIBS)

# Archives of /v1/snapshot.
FUZZ_REPLAYS += tests/fuzz/replay_archive
tests_fuzz_replay_archive_SOURCES = tests/fuzz/fuzz_archive.c tests/fuzz/replay.c
tests_fuzz_replay_archive_LDADD = raftd/libfsm.a raftd/libraftstore.a $(STORE_LIBS)

# Recovery of the Raft log; what is said about snapshots.
FUZZ_REPLAYS += tests/fuzz/replay_raftlog tests/fuzz/replay_snapmeta
tests_fuzz_replay_raftlog_SOURCES = tests/fuzz/fuzz_raftlog.c tests/fuzz/replay.c
tests_fuzz_replay_raftlog_LDADD = raftd/libraftstore.a raftd/libraftcore.a $(STORE_LIBS)
tests_fuzz_replay_snapmeta_SOURCES = tests/fuzz/fuzz_snapmeta.c ctl/snapfacts.c tests/fuzz/replay.c
tests_fuzz_replay_snapmeta_LDADD = raftd/libraftshell.a raftd/libfsm.a raftd/libraftstore.a raftd/libraftcore.a \
	$(STORE_LIBS) $(JANSSON_LIBS)
