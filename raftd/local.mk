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
	raftd/store/store_log.c raftd/store/store_frame.c raftd/store/store_index.c raftd/store/store_replay.c raftd/store/store_mark.c raftd/store/store_spare.c raftd/store/bdb/store_env.c raftd/store/bdb/store_files.c \
	raftd/store/bdb/store_hooks.c raftd/store/bdb/store_sum.c raftd/store/bdb/store_sum.h raftd/store/bdb/store_behind.c raftd/store/bdb/store_fetch.c raftd/store/bdb/store_fetch.h raftd/store/bdb/store_behind.h raftd/store/bdb/store_pageq.c raftd/store/bdb/store_pageq.h \
	raftd/store/store.h raftd/store/store_int.h raftd/store/bdb/store_env.h

noinst_LIBRARIES += raftd/libfsm.a
raftd_libfsm_a_SOURCES = \
	raftd/fsm/open.c raftd/fsm/entries.c raftd/fsm/reads.c raftd/fsm/apply.c raftd/fsm/ops.c raftd/fsm/group.c raftd/fsm/info.c \
	raftd/fsm/fsm.h raftd/fsm/state.h raftd/fsm/apply.h raftd/fsm/ops.h raftd/fsm/group.h \
	raftd/fsm/table/key.c raftd/fsm/table/table.c raftd/fsm/table/tables.c raftd/fsm/table/meta.c raftd/fsm/table/head.c raftd/fsm/table/record.c \
	raftd/fsm/table/key.h raftd/fsm/table/table.h raftd/fsm/table/tables.h raftd/fsm/table/meta.h raftd/fsm/table/head.h raftd/fsm/table/record.h \
	raftd/fsm/read/reader.c raftd/fsm/read/view.c raftd/fsm/read/watch.c raftd/fsm/read/touches.c raftd/fsm/read/read.h raftd/fsm/read/watch.h \
	raftd/fsm/page/files.c raftd/fsm/page/flusher.c raftd/fsm/page/compact.c raftd/fsm/page/damage.c raftd/fsm/page/warm.c raftd/fsm/page/page.h \
	raftd/fsm/kv/kv.c raftd/fsm/kv/tombstone.c raftd/fsm/kv/kv.h raftd/fsm/session/session.c raftd/fsm/session/session.h \
	raftd/fsm/txn/txn.c raftd/fsm/txn/txn_kv.c raftd/fsm/txn/txn_catalog.c raftd/fsm/txn/txn.h \
	raftd/fsm/query/query.c raftd/fsm/query/query_run.c raftd/fsm/query/query_render.c raftd/fsm/query/query.h raftd/fsm/query/query_render.h \
	raftd/fsm/operator/server.c raftd/fsm/operator/autopilot_config.c raftd/fsm/operator/operator.h \
	raftd/fsm/acl/acl.c raftd/fsm/acl/acl_parts.c raftd/fsm/acl/acl_named.c raftd/fsm/acl/acl_token.c raftd/fsm/acl/acl_policy.c raftd/fsm/acl/acl_role.c \
	raftd/fsm/acl/acl_resolve.c raftd/fsm/acl/acl_rights.c raftd/fsm/acl/acl_may.c raftd/fsm/acl/acl_judge.c raftd/fsm/acl/acl_premise.c raftd/fsm/acl/acl_method.c \
	raftd/fsm/acl/acl_binding.c raftd/fsm/acl/acl_login.c raftd/fsm/acl/acl_repl.c raftd/fsm/acl/acl.h raftd/fsm/acl/acl_int.h \
	raftd/fsm/catalog/catalog.c raftd/fsm/catalog/register.c raftd/fsm/catalog/deregister.c raftd/fsm/catalog/catalog_read.c raftd/fsm/catalog/health.c raftd/fsm/catalog/node_checks.c \
	raftd/fsm/catalog/address.c raftd/fsm/catalog/address_index.c raftd/fsm/catalog/coordinate.c raftd/fsm/catalog/sort_near.c \
	raftd/fsm/catalog/catalog.h raftd/fsm/catalog/node_checks.h raftd/fsm/catalog/address.h raftd/fsm/catalog/address_index.h raftd/fsm/catalog/sort_near.h \
	raftd/fsm/copy/snapshot.c raftd/fsm/copy/snapfile.c raftd/fsm/copy/restore.c raftd/fsm/copy/replace.c raftd/fsm/copy/archive.c raftd/fsm/copy/stage.c raftd/fsm/copy/stage_load.c \
	raftd/fsm/copy/copy.h raftd/fsm/copy/stage.h raftd/fsm/copy/archive.h raftd/fsm/copy/snapfile.h

EXTRA_DIST += raftd/fsm/README.md raftd/fsm/table/README.md raftd/fsm/read/README.md raftd/fsm/page/README.md raftd/fsm/acl/README.md \
	raftd/fsm/catalog/README.md raftd/fsm/copy/README.md raftd/login/README.md raftd/serve/README.md doc/storage.md

# Link line after raftd/libfsm.a: raftd/libraftstore.a, then STORE_LIBS.
# Link line after raftd/libraftstore.a (which needs raftd/libraftcore.a for configurations).
STORE_LIBS = common/libtvrt.a common/libtvcore.a $(SODIUM_LIBS) $(BDB_LIBS) $(ZLIB_LIBS) $(PCRE2_LIBS) -lpthread -lm

# Auth methods and their logins: pure, but for the clock of those who call it.
noinst_LIBRARIES += raftd/liblogin.a
raftd_liblogin_a_SOURCES = \
	raftd/login/method_config.c raftd/login/method_config.h raftd/login/jwt.c raftd/login/jwt.h raftd/login/claims.c raftd/login/claims.h \
	raftd/login/login.c raftd/login/login.h raftd/login/jwks.c raftd/login/jwks.h raftd/login/issuers.c raftd/login/issuers.h
raftd_liblogin_a_CFLAGS = $(AM_CFLAGS) $(CRYPTO_CFLAGS) $(JANSSON_CFLAGS)
LOGIN_LIBS = raftd/liblogin.a common/libtvjson.a common/libtvcore.a $(JANSSON_LIBS) $(CRYPTO_LIBS) $(SODIUM_LIBS) $(PCRE2_LIBS) -lm

# The shell: pure parts apart, so that their tests link without libev.
noinst_LIBRARIES += raftd/libraftshell.a
raftd_libraftshell_a_SOURCES = \
	raftd/engine/entrycache.c raftd/engine/entrycache.h raftd/members/rules/policy.c raftd/members/rules/policy.h raftd/engine/reads.c raftd/engine/reads.h \
	raftd/peers/identity.c raftd/peers/identity.h raftd/peers/clock_offset.c raftd/peers/clock_offset.h raftd/members/rules/bootstrap_pick.c raftd/members/rules/bootstrap_pick.h raftd/engine/proposals.c raftd/engine/proposals.h \
	raftd/engine/disk_mark.c raftd/engine/disk_mark.h raftd/engine/pending_sends.c raftd/engine/pending_sends.h raftd/engine/voter_with_space.c raftd/engine/voter_with_space.h raftd/peers/sendq.c raftd/peers/sendq.h raftd/disk/unlink_async.c raftd/disk/unlink_async.h \
	raftd/members/rules/recover_plan.c raftd/members/rules/recover_plan.h raftd/disk/reserve.c raftd/disk/reserve.h raftd/disk/threshold.c raftd/disk/threshold.h \
	raftd/leader/coord_batch.c raftd/leader/coord_batch.h raftd/leader/rules/reconcile.c raftd/leader/rules/reconcile.h raftd/leader/rules/claim.c raftd/leader/rules/claim.h raftd/members/rules/server_health.c raftd/members/rules/server_health.h raftd/snapshot/blocksums.c raftd/snapshot/blocksums.h \
	raftd/members/rules/handover_target.c raftd/members/rules/handover_target.h raftd/snapshot/install_meta.c raftd/snapshot/install_meta.h

sbin_PROGRAMS += raftd/raftd
raftd_raftd_SOURCES = \
	raftd/main.c raftd/opening.c raftd/opening.h raftd/raftd.h raftd/opts.c raftd/opts.h \
	raftd/engine/engine.c raftd/engine/engine_start.c raftd/engine/engine_apply.c raftd/engine/engine_space.c raftd/engine/engine_info.c \
	raftd/engine/engine.h raftd/engine/engine_int.h raftd/engine/logthread.c raftd/engine/logthread.h raftd/engine/log_reader.c raftd/engine/log_reader.h raftd/engine/engine_send.c raftd/engine/lane.c raftd/engine/lane.h raftd/engine/statethread.c raftd/engine/statethread.h \
	raftd/disk/space.c raftd/disk/space.h raftd/disk/unlink_job.c raftd/engine/loop_time.c raftd/engine/loop_time.h \
	raftd/engine/core_notices.c raftd/engine/propose.c raftd/engine/propose.h \
	raftd/peers/links.c raftd/peers/links_dial.c raftd/peers/links_accept.c raftd/peers/links_send.c raftd/peers/links.h raftd/peers/state_version.c raftd/peers/state_version.h \
	raftd/peers/links_int.h raftd/peers/server_addr.c raftd/peers/server_addr.h raftd/peers/gossip.c raftd/peers/gossip.h \
	raftd/members/membership.c raftd/members/membership.h raftd/members/membership_int.h raftd/members/leave.c raftd/members/leave.h \
	raftd/members/bootstrap.c raftd/members/bootstrap.h raftd/members/handover.c raftd/members/handover.h \
	raftd/members/autopilot.c raftd/members/autopilot.h raftd/members/recover.c raftd/members/recover.h raftd/peers/fence.c raftd/peers/fence.h \
	raftd/members/no_leader_log.c raftd/members/no_leader_log.h raftd/serve/rpcd_watch.c raftd/serve/rpcd_watch.h \
	raftd/members/rpcd_peers.c raftd/members/rpcd_peers.h \
	raftd/snapshot/export.c raftd/snapshot/export.h raftd/snapshot/import.c raftd/snapshot/import.h raftd/snapshot/import_leader.c raftd/snapshot/import_leader.h \
	raftd/snapshot/op_snapshot.c raftd/snapshot/op_snapshot.h \
	raftd/snapshot/snapshots.c raftd/snapshot/snapshots.h raftd/snapshot/snapshot_file.c raftd/snapshot/snapshot_file.h raftd/snapshot/snapshot_recv.c raftd/snapshot/snapshot_recv.h \
	raftd/serve/clients.c raftd/serve/clients.h raftd/serve/op.c raftd/serve/op.h raftd/request/request.c raftd/request/request.h raftd/serve/op_read.c raftd/serve/op_write.c raftd/serve/op_claim.c raftd/serve/op_tree.c raftd/serve/op_acl.c raftd/login/serve/op_login.c raftd/login/serve/op_login.h raftd/login/serve/op_method.c raftd/login/serve/key_fetch.c raftd/login/serve/key_fetch.h raftd/fetch/launch.h raftd/serve/op_judge.c raftd/serve/token_watch.c raftd/serve/token_watch.h raftd/serve/op_leader.c \
	raftd/serve/info.c raftd/serve/info.h \
	raftd/leader/leader.c raftd/leader/leader.h raftd/leader/leader_sessions.c raftd/leader/leader_sessions.h \
	raftd/leader/leader_coordinates.c raftd/leader/leader_coordinates.h \
	raftd/leader/first_token.c raftd/leader/first_token.h \
	raftd/leader/leader_catalog.c raftd/leader/leader_catalog.h raftd/leader/member_entry.c raftd/leader/member_entry.h raftd/leader/strays.c raftd/leader/strays.h raftd/leader/members_view.c raftd/leader/members_view.h raftd/leader/claims.c raftd/leader/claims.h raftd/leader/refusals.c raftd/leader/refusals.h
raftd_raftd_LDADD = raftd/libraftshell.a raftd/liblogin.a raftd/libfsm.a raftd/libraftstore.a raftd/libraftcore.a common/libtvjson.a $(RT_LIBS) $(BDB_LIBS) $(ZLIB_LIBS) $(PCRE2_LIBS) $(JANSSON_LIBS) $(CRYPTO_LIBS) -lpthread -lm

# raftd-fetch, the program of "raftd: fetch": it alone of raftd needs libcurl.
sbin_PROGRAMS += raftd/raftd-fetch
raftd_raftd_fetch_SOURCES = raftd/fetch/main.c raftd/fetch/get.c raftd/fetch/get.h raftd/fetch/launch.h
raftd_raftd_fetch_CFLAGS = $(AM_CFLAGS) $(CRYPTO_CFLAGS) $(JANSSON_CFLAGS)
raftd_raftd_fetch_LDADD = raftd/liblogin.a common/libtvjson.a $(RT_LIBS) $(JANSSON_LIBS) $(CURL_LIBS) $(CRYPTO_LIBS) $(PCRE2_LIBS) -lm
EXTRA_DIST += raftd/README.md raftd/core/README.md
