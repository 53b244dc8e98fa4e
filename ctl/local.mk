# clusterctl: a command family per file.
bin_PROGRAMS += ctl/clusterctl
# All but what talks to rpcd: tests put something of theirs in its place.
noinst_LIBRARIES += ctl/libctl.a
ctl_libctl_a_SOURCES = \
	ctl/verbs.c ctl/run.c ctl/help.c ctl/answer.c ctl/ctl.h ctl/out.c ctl/token.c ctl/safe.c ctl/client.h \
	ctl/cmd_cluster.c ctl/raftd_leave.c ctl/raftd_leave.h ctl/cmd_reload.c ctl/json_errors.c ctl/json_errors.h ctl/local_socket.c ctl/local_socket.h ctl/cmd_show.c ctl/cmd_status.c ctl/collisions.c ctl/collisions.h ctl/cmd_rtt.c ctl/cmd_kv.c ctl/cmd_kv_move.c ctl/kv_entries.c ctl/kv_entries.h ctl/cmd_txn.c ctl/cmd_event.c ctl/cmd_query.c ctl/cmd_prepared.c ctl/cmd_monitor.c \
	ctl/cmd_watch.c ctl/cmd_lock.c ctl/lock_rules.c ctl/lock_rules.h ctl/cmd_maint.c ctl/cmd_dns.c ctl/cmd_debug.c ctl/tarball.c ctl/tarball.h ctl/child.c ctl/child.h \
	ctl/follow.c ctl/follow.h ctl/handler.c ctl/handler.h \
	ctl/resource.c ctl/resource.h ctl/acl.c ctl/acl.h ctl/cmd_acl_token.c ctl/cmd_acl_policy.c ctl/cmd_acl_method.c ctl/cmd_acl_explain.c \
	ctl/cmd_catalog.c ctl/cmd_health.c ctl/cmd_services.c ctl/cmd_raft.c ctl/cmd_autopilot.c ctl/cmd_recover.c ctl/raft.h ctl/cmd_snapshot.c ctl/snapfacts.c ctl/snapfacts.h ctl/cmd_keyring.c ctl/keyring_guide.c ctl/keyring.h ctl/cmd_local.c ctl/cmd_dev.c
ctl_clusterctl_SOURCES = ctl/main.c ctl/client.c ctl/client_set.c ctl/client_int.h
# Of libfsm.a only what reads archives, which needs no data base.
ctl_clusterctl_LDADD = ctl/libctl.a raftd/libfsm.a common/libtvjson.a common/libtvrt.a common/libtvcore.a $(CURL_LIBS) $(JANSSON_LIBS) $(SODIUM_LIBS) $(PCRE2_LIBS) $(ZLIB_LIBS) -lm
EXTRA_DIST += ctl/README.md
