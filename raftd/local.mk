# raftd

# The pure Raft core: links with libtvcore.a alone.
noinst_LIBRARIES += raftd/libraftcore.a
raftd_libraftcore_a_SOURCES = \
	raftd/core/raft.c raftd/core/raft.h raftd/core/raft_int.h \
	raftd/core/message.c raftd/core/status.c raftd/core/election.c raftd/core/replicate.c raftd/core/follow.c raftd/core/members.c \
	raftd/core/readindex.c raftd/core/snapshot.c raftd/core/config.c raftd/core/wire.c \
	raftd/core/logidx.c raftd/core/logidx.h

# What is stored: the Raft log, and the state machine's tables.
noinst_LIBRARIES += raftd/libraftstore.a
raftd_libraftstore_a_SOURCES = \
	raftd/store_log.c raftd/store_frame.c raftd/store_index.c raftd/store_replay.c raftd/store_mark.c raftd/store_spare.c raftd/store_env.c raftd/store_files.c \
	raftd/store_hooks.c raftd/store_sum.c raftd/store_sum.h raftd/store_behind.c raftd/store_behind.h raftd/store_pageq.c raftd/store_pageq.h \
	raftd/store.h raftd/store_int.h raftd/store_env.h

noinst_LIBRARIES += raftd/libfsm.a
raftd_libfsm_a_SOURCES = \
	raftd/fsm/fsm.c raftd/fsm/ops.c raftd/fsm/table.c raftd/fsm/key.c raftd/fsm/watch.c \
	raftd/fsm/kv.c raftd/fsm/reap.c raftd/fsm/session.c raftd/fsm/server.c \
	raftd/fsm/catalog.c raftd/fsm/register.c raftd/fsm/deregister.c raftd/fsm/catalog_read.c raftd/fsm/health.c raftd/fsm/node_checks.c raftd/fsm/node_checks.h \
	raftd/fsm/coordinate.c raftd/fsm/near.c raftd/fsm/autopilot.c \
	raftd/fsm/snapshot.c raftd/fsm/snapfile.c raftd/fsm/restore.c raftd/fsm/replace.c raftd/fsm/damage.c raftd/fsm/tidy.c raftd/fsm/flusher.c raftd/fsm/info.c \
	raftd/fsm/archive.c raftd/fsm/archive.h raftd/fsm/record.c raftd/fsm/stage.c raftd/fsm/stage_load.c \
	raftd/fsm/fsm.h raftd/fsm/fsm_int.h raftd/fsm/key.h raftd/fsm/catalog_key.h raftd/fsm/snapfile.h

EXTRA_DIST += raftd/fsm/README.md doc/storage.md

# Link line after raftd/libfsm.a: raftd/libraftstore.a, then STORE_LIBS.
# Link line after raftd/libraftstore.a (which needs raftd/libraftcore.a for configurations).
STORE_LIBS = common/libtvcore.a $(SODIUM_LIBS) $(BDB_LIBS) $(ZLIB_LIBS) -lpthread -lm

# The shell: pure parts apart, so that their tests link without libev.
noinst_LIBRARIES += raftd/libraftshell.a
raftd_libraftshell_a_SOURCES = \
	raftd/entrycache.c raftd/entrycache.h raftd/policy.c raftd/policy.h raftd/reads.c raftd/reads.h \
	raftd/ahead.c raftd/ahead.h \
	raftd/identity.c raftd/identity.h raftd/forming_pick.c raftd/proposals.c raftd/proposals.h \
	raftd/held.c raftd/held.h raftd/sendq.c raftd/sendq.h raftd/discard.c raftd/discard.h \
	raftd/recovery.c raftd/recovery.h raftd/ballast.c raftd/ballast.h raftd/space.c raftd/space.h \
	raftd/coordbatch.c raftd/coordbatch.h raftd/health.c raftd/health.h raftd/blocksums.c raftd/blocksums.h \
	raftd/successor.c raftd/successor.h raftd/installmeta.c raftd/installmeta.h

sbin_PROGRAMS += raftd/raftd
raftd_raftd_SOURCES = \
	raftd/main.c raftd/raftd.h raftd/opts.c raftd/opts.h \
	raftd/engine.c raftd/engine_start.c raftd/engine_apply.c raftd/engine_space.c raftd/engine_info.c \
	raftd/engine.h raftd/engine_int.h raftd/logthread.c raftd/logthread.h raftd/worker.c raftd/worker.h \
	raftd/diskspace.c raftd/diskspace.h raftd/looptime.c raftd/looptime.h \
	raftd/notices.c raftd/notices.h raftd/writes.c raftd/writes.h \
	raftd/links.c raftd/links.h raftd/sources.c raftd/sources.h raftd/gossip.c raftd/gossip.h \
	raftd/membership.c raftd/membership.h raftd/membership_int.h raftd/leave.c raftd/leave.h \
	raftd/forming.c raftd/forming.h raftd/handover.c raftd/handover.h \
	raftd/autopilot.c raftd/autopilot.h raftd/recover.c raftd/recover.h raftd/fence.c raftd/fence.h \
	raftd/leaderless.c raftd/leaderless.h raftd/unserved.c raftd/unserved.h \
	raftd/served.c raftd/served.h \
	raftd/saves.c raftd/saves.h raftd/restores.c raftd/restores.h raftd/upload.c raftd/upload.h \
	raftd/op_snapshot.c raftd/op_snapshot.h \
	raftd/snapshots.c raftd/snapshots.h raftd/snapshot_recv.c raftd/snapshot_recv.h \
	raftd/clients.c raftd/clients.h raftd/request.h raftd/op_read.c raftd/op_write.c raftd/op_tree.c raftd/op_leader.c \
	raftd/info.c raftd/info.h \
	raftd/leader.c raftd/leader.h raftd/leader_sessions.c raftd/leader_sessions.h \
	raftd/leader_coordinates.c raftd/leader_coordinates.h \
	raftd/leader_catalog.c raftd/leader_catalog.h raftd/register.c raftd/register.h
raftd_raftd_LDADD = raftd/libraftshell.a raftd/libfsm.a raftd/libraftstore.a raftd/libraftcore.a $(RT_LIBS) $(BDB_LIBS) $(ZLIB_LIBS) -lpthread -lm
EXTRA_DIST += raftd/README.md raftd/core/README.md
