# Raft: the core under a simulator, by seeds and by scripts.
SIM_RAFT_SOURCES = \
	tests/sim/raft_world.c tests/sim/raft_world.h tests/sim/raft_net.c tests/sim/raft_disk.c tests/sim/raft_snap.c \
	tests/sim/raft_links.c tests/sim/raft_back.c tests/sim/raft_check.c tests/sim/raft_chaos.c tests/sim/raft_plan.c tests/sim/raft_peace.c \
	tests/sim/raft_clients.c tests/sim/raft_state.c $(LINEAR_SOURCES)

SIM_RAFT_RUN = tests/sim/raft_run.c tests/sim/raft_run.h tests/sim/raft_elections.c
check_PROGRAMS += tests/sim/sim_raft tests/sim/trace_raft tests/sim/soak
TESTS += tests/sim/sim_raft tests/sim/trace_raft
tests_sim_sim_raft_SOURCES = tests/sim/sim_raft.c $(SIM_RAFT_RUN) $(SIM_RAFT_SOURCES)
tests_sim_soak_SOURCES = tests/sim/soak.c $(SIM_RAFT_RUN) $(SIM_RAFT_SOURCES)
tests_sim_soak_LDADD = raftd/libraftcore.a common/libtvrt.a common/libtvcore.a
tests_sim_sim_raft_LDADD = raftd/libraftcore.a common/libtvcore.a
tests_sim_trace_raft_SOURCES = tests/sim/trace_raft.c $(SIM_RAFT_SOURCES)
tests_sim_trace_raft_LDADD = raftd/libraftcore.a common/libtvcore.a
EXTRA_DIST += tests/data/raft

# Histories of operations: are they linearizable?
LINEAR_SOURCES = tests/sim/linear.c tests/sim/linear_search.c tests/sim/linear.h tests/sim/linear_int.h
check_PROGRAMS += tests/sim/check_history
tests_sim_check_history_SOURCES = tests/sim/check_history.c $(LINEAR_SOURCES)
tests_sim_check_history_LDADD = common/libtvcore.a

if HAVE_CHECK
check_PROGRAMS += tests/unit/check_linear
TESTS += tests/unit/check_linear
tests_unit_check_linear_SOURCES = tests/unit/check_linear.c $(LINEAR_SOURCES)
tests_unit_check_linear_LDADD = common/libtvcore.a $(UNIT_LIBS)
raft_checks = tests/unit/check_logidx tests/unit/check_raft_wire tests/unit/check_raft_core tests/unit/check_raft_snapshot \
	tests/unit/check_raft_back
check_PROGRAMS += $(raft_checks)
TESTS += $(raft_checks)
tests_unit_check_logidx_SOURCES = tests/unit/check_logidx.c
tests_unit_check_logidx_LDADD = raftd/libraftcore.a $(UNIT_LIBS)
tests_unit_check_raft_wire_SOURCES = tests/unit/check_raft_wire.c
tests_unit_check_raft_wire_LDADD = raftd/libraftcore.a $(UNIT_LIBS)
tests_unit_check_raft_core_SOURCES = tests/unit/check_raft_core.c tests/unit/raft_kit.h
tests_unit_check_raft_core_LDADD = raftd/libraftcore.a $(UNIT_LIBS)
tests_unit_check_raft_back_SOURCES = tests/unit/check_raft_back.c tests/unit/raft_kit.h
tests_unit_check_raft_back_LDADD = raftd/libraftcore.a $(UNIT_LIBS)
tests_unit_check_raft_snapshot_SOURCES = tests/unit/check_raft_snapshot.c tests/unit/raft_kit.h
tests_unit_check_raft_snapshot_LDADD = raftd/libraftcore.a $(UNIT_LIBS)
endif

FUZZ_REPLAYS += tests/fuzz/replay_raftmsg
tests_fuzz_replay_raftmsg_SOURCES = tests/fuzz/fuzz_raftmsg.c tests/fuzz/replay.c
tests_fuzz_replay_raftmsg_LDADD = raftd/libraftcore.a common/libtvcore.a
