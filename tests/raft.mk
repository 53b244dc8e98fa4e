# Raft: the core under a simulator, by seeds and by scripts.
SIM_RAFT_SOURCES = \
	tests/sim/raft_world.c tests/sim/raft_world.h tests/sim/raft_net.c tests/sim/raft_disk.c tests/sim/raft_snap.c \
	tests/sim/raft_check.c tests/sim/raft_chaos.c

check_PROGRAMS += tests/sim/sim_raft tests/sim/trace_raft
TESTS += tests/sim/sim_raft tests/sim/trace_raft
tests_sim_sim_raft_SOURCES = tests/sim/sim_raft.c $(SIM_RAFT_SOURCES)
tests_sim_sim_raft_LDADD = raftd/libraftcore.a common/libtvcore.a
tests_sim_trace_raft_SOURCES = tests/sim/trace_raft.c $(SIM_RAFT_SOURCES)
tests_sim_trace_raft_LDADD = raftd/libraftcore.a common/libtvcore.a
EXTRA_DIST += tests/data/raft
