# raftd: the pure parts of the shell (no libev in the link line), and raftd processes without gossip.
EXTRA_DIST += tests/system/lib/raftcluster.py tests/system/lib/faultcluster.py tests/system/lib/netns.py tests/system/lib/hub.py tests/system/lib/smalldisk.py tests/system/lib/inject.py
if HAVE_CHECK
check_PROGRAMS += tests/unit/check_entrycache tests/unit/check_claim tests/unit/check_policy tests/unit/check_bootstrap tests/unit/check_proposals \
	tests/unit/check_coord_batch tests/unit/check_server_health tests/unit/check_recover_plan tests/unit/check_snapshot_recv tests/unit/check_disk_mark
TESTS += tests/unit/check_entrycache tests/unit/check_claim tests/unit/check_policy tests/unit/check_bootstrap tests/unit/check_proposals \
	tests/unit/check_coord_batch tests/unit/check_server_health tests/unit/check_recover_plan tests/unit/check_snapshot_recv tests/unit/check_disk_mark
tests_unit_check_entrycache_SOURCES = tests/unit/check_entrycache.c
tests_unit_check_entrycache_LDADD = raftd/libraftshell.a $(UNIT_LIBS)
# The leader's passes over the catalog: a sample of seeds; 10,000 by hand, and rules broken on purpose (mutants_reconcile.py).
check_PROGRAMS += tests/sim/sim_reconcile
TESTS += tests/sim/sim_reconcile
tests_sim_sim_reconcile_SOURCES = tests/sim/sim_reconcile.c
tests_sim_sim_reconcile_LDADD = raftd/libraftshell.a common/libtvcore.a
EXTRA_DIST += tests/sim/mutants_reconcile.py
tests_unit_check_claim_SOURCES = tests/unit/check_claim.c
tests_unit_check_claim_LDADD = raftd/libraftshell.a raftd/libraftcore.a $(UNIT_LIBS)
tests_unit_check_policy_SOURCES = tests/unit/check_policy.c
tests_unit_check_policy_LDADD = raftd/libraftshell.a raftd/libraftcore.a $(UNIT_LIBS)
tests_unit_check_bootstrap_SOURCES = tests/unit/check_bootstrap.c
tests_unit_check_bootstrap_LDADD = raftd/libraftshell.a raftd/libraftcore.a $(UNIT_LIBS)
tests_unit_check_recover_plan_SOURCES = tests/unit/check_recover_plan.c
tests_unit_check_recover_plan_LDADD = raftd/libraftshell.a raftd/libraftcore.a $(UNIT_LIBS)
tests_unit_check_snapshot_recv_SOURCES = tests/unit/check_snapshot_recv.c tests/unit/scratch.c tests/unit/scratch.h raftd/snapshot/snapshot_recv.c
tests_unit_check_snapshot_recv_LDADD = raftd/libraftshell.a raftd/libfsm.a raftd/libraftstore.a raftd/libraftcore.a $(RT_LIBS) \
	$(UNIT_LIBS) $(PCRE2_LIBS) $(BDB_LIBS) $(ZLIB_LIBS) -lpthread -lm
tests_unit_check_disk_mark_SOURCES = tests/unit/check_disk_mark.c
tests_unit_check_disk_mark_LDADD = raftd/libraftshell.a raftd/libraftcore.a $(UNIT_LIBS)
tests_unit_check_server_health_SOURCES = tests/unit/check_server_health.c
tests_unit_check_server_health_LDADD = raftd/libraftshell.a $(UNIT_LIBS)
tests_unit_check_coord_batch_SOURCES = tests/unit/check_coord_batch.c
tests_unit_check_coord_batch_LDADD = raftd/libraftshell.a $(UNIT_LIBS) -lm
tests_unit_check_proposals_SOURCES = tests/unit/check_proposals.c
tests_unit_check_proposals_LDADD = raftd/libraftshell.a $(UNIT_LIBS)
# For tests/system/test_raftd.py: a log that a newer version wrote.
check_PROGRAMS += tests/system/newer_entry
tests_system_newer_entry_SOURCES = tests/system/newer_entry.c
tests_system_newer_entry_LDADD = raftd/libraftstore.a raftd/libraftcore.a $(STORE_LIBS)
check_PROGRAMS += tests/unit/check_member_entry
TESTS += tests/unit/check_member_entry
tests_unit_check_member_entry_SOURCES = tests/unit/check_member_entry.c raftd/leader/member_entry.c $(FSM_KIT)
tests_unit_check_member_entry_LDADD = $(FSM_LIBS)
check_PROGRAMS += tests/unit/check_unlink_async
TESTS += tests/unit/check_unlink_async
tests_unit_check_unlink_async_SOURCES = tests/unit/check_unlink_async.c
tests_unit_check_unlink_async_LDADD = raftd/libraftshell.a common/libtvrt.a $(UNIT_LIBS)
check_PROGRAMS += tests/unit/check_sendq
TESTS += tests/unit/check_sendq
tests_unit_check_sendq_SOURCES = tests/unit/check_sendq.c
tests_unit_check_sendq_LDADD = raftd/libraftshell.a $(UNIT_LIBS)
check_PROGRAMS += tests/unit/check_blocksums
TESTS += tests/unit/check_blocksums
tests_unit_check_blocksums_SOURCES = tests/unit/check_blocksums.c
tests_unit_check_blocksums_LDADD = raftd/libraftshell.a $(UNIT_LIBS) $(SODIUM_LIBS)
check_PROGRAMS += tests/unit/check_space
TESTS += tests/unit/check_space
tests_unit_check_space_SOURCES = tests/unit/check_space.c raftd/disk/space.c
tests_unit_check_space_LDADD = raftd/libraftshell.a $(RT_LIBS) $(UNIT_LIBS) $(EV_LIBS) -lpthread
check_PROGRAMS += tests/unit/check_handover_target tests/unit/check_silence
TESTS += tests/unit/check_handover_target tests/unit/check_silence
tests_unit_check_handover_target_SOURCES = tests/unit/check_handover_target.c
tests_unit_check_handover_target_LDADD = raftd/libraftshell.a raftd/libraftcore.a $(UNIT_LIBS)
tests_unit_check_silence_SOURCES = tests/unit/check_silence.c
tests_unit_check_silence_LDADD = $(UNIT_LIBS)
check_PROGRAMS += tests/unit/check_log_reader
TESTS += tests/unit/check_log_reader
tests_unit_check_log_reader_SOURCES = tests/unit/check_log_reader.c raftd/engine/log_reader.c
tests_unit_check_log_reader_LDADD = $(RT_LIBS) $(UNIT_LIBS) $(EV_LIBS) -lpthread
check_PROGRAMS += tests/unit/check_thread
TESTS += tests/unit/check_thread
tests_unit_check_thread_SOURCES = tests/unit/check_thread.c
tests_unit_check_thread_LDADD = common/libtvrt.a $(UNIT_LIBS) -lpthread
check_PROGRAMS += tests/unit/check_jobs
TESTS += tests/unit/check_jobs
tests_unit_check_jobs_SOURCES = tests/unit/check_jobs.c
tests_unit_check_jobs_LDADD = $(RT_LIBS) $(UNIT_LIBS) $(EV_LIBS) -lpthread
check_PROGRAMS += tests/unit/check_statethread
TESTS += tests/unit/check_statethread
tests_unit_check_statethread_SOURCES = tests/unit/check_statethread.c raftd/engine/statethread.c raftd/engine/lane.c
tests_unit_check_statethread_LDADD = common/libtvrt.a common/libtvcore.a $(UNIT_LIBS) $(EV_LIBS) -lpthread

check_PROGRAMS += tests/unit/check_snapshot_file
TESTS += tests/unit/check_snapshot_file
tests_unit_check_snapshot_file_SOURCES = tests/unit/check_snapshot_file.c tests/unit/scratch.c tests/unit/scratch.h raftd/snapshot/snapshot_file.c
tests_unit_check_snapshot_file_LDADD = raftd/libraftshell.a $(RT_LIBS) $(UNIT_LIBS) $(SODIUM_LIBS) $(EV_LIBS) -lpthread
check_PROGRAMS += tests/unit/check_logthread
TESTS += tests/unit/check_logthread
tests_unit_check_logthread_SOURCES = tests/unit/check_logthread.c raftd/engine/logthread.c
tests_unit_check_logthread_LDADD = common/libtvrt.a $(UNIT_LIBS) $(EV_LIBS) -lpthread
endif
