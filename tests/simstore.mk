# The real stores on a file system in memory that loses its power.
MEMFS_SOURCES = tests/sim/memfs.c tests/sim/memfs_calls.c tests/sim/memfs.h tests/sim/memfs_int.h

check_PROGRAMS += tests/sim/sim_store
TESTS += tests/sim/sim_store
tests_sim_sim_store_SOURCES = tests/sim/sim_store.c tests/sim/store_run.c tests/sim/store_run.h \
	tests/sim/store_log_run.c tests/sim/store_fsm_run.c tests/sim/fsm_batch.h tests/sim/sim_ops.c tests/sim/sim_ops.h $(MEMFS_SOURCES)
tests_sim_sim_store_LDADD = raftd/libfsm.a raftd/libraftstore.a raftd/libraftcore.a $(STORE_LIBS)

# Whole servers: the real core over the real stores.
check_PROGRAMS += tests/sim/sim_server
TESTS += tests/sim/sim_server
tests_sim_sim_server_SOURCES = tests/sim/sim_server.c tests/sim/raft_real.c tests/sim/raft_real.h tests/sim/raft_real_shell.c \
	tests/sim/sim_ops.c tests/sim/sim_ops.h raftd/snapshot/snapshot_recv.c raftd/snapshot/install_meta.c $(SIM_RAFT_SOURCES) $(MEMFS_SOURCES)
tests_sim_sim_server_LDADD = raftd/libfsm.a raftd/libraftstore.a raftd/libraftcore.a $(STORE_LIBS)
