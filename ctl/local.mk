# clusterctl: a command family per file.
bin_PROGRAMS += ctl/clusterctl
# All but what talks to rpcd: tests put something of theirs in its place.
noinst_LIBRARIES += ctl/libctl.a
ctl_libctl_a_SOURCES = \
	ctl/acl.c ctl/acl.h ctl/answer.c ctl/args.c ctl/certs.c ctl/certs.h ctl/child.c ctl/child.h ctl/client.h ctl/collisions.c \
	ctl/collisions.h ctl/ctl.h ctl/endpoint.c ctl/endpoint.h ctl/follow.c ctl/follow.h ctl/handler.c ctl/handler.h ctl/help.c \
	ctl/json_errors.c ctl/json_errors.h ctl/kv_entries.c ctl/kv_entries.h ctl/local_socket.c \
	ctl/local_socket.h ctl/lock_rules.c ctl/lock_rules.h ctl/ask.c ctl/out.c ctl/raftd_leave.c ctl/raftd_leave.h \
	ctl/resource.c ctl/resource.h ctl/run.c ctl/safe.c ctl/snapfacts.c ctl/snapfacts.h ctl/tarball.c \
	ctl/tarball.h ctl/token.c ctl/verbs.c \
	ctl/cmd/cmd_acl_explain.c ctl/cmd/cmd_acl_method.c ctl/cmd/cmd_acl_policy.c ctl/cmd/cmd_acl_token.c \
	ctl/cmd/cmd_autopilot.c ctl/cmd/cmd_catalog.c ctl/cmd/cmd_cluster.c ctl/cmd/cmd_debug.c \
	ctl/cmd/cmd_dev.c ctl/cmd/cmd_dns.c ctl/cmd/cmd_event.c ctl/cmd/cmd_health.c ctl/cmd/cmd_keyring.c \
	ctl/cmd/cmd_kv.c ctl/cmd/cmd_kv_move.c ctl/cmd/cmd_local.c ctl/cmd/cmd_lock.c ctl/cmd/cmd_maint.c \
	ctl/cmd/cmd_monitor.c ctl/cmd/cmd_prepared.c ctl/cmd/cmd_query.c ctl/cmd/cmd_raft.c \
	ctl/cmd/cmd_recover.c ctl/cmd/cmd_reload.c ctl/cmd/cmd_rtt.c ctl/cmd/cmd_services.c ctl/cmd/cmd_show.c ctl/cmd/cmd_top.c \
	ctl/cmd/cmd_snapshot.c ctl/cmd/cmd_status.c ctl/cmd/cmd_tls.c ctl/cmd/cmd_txn.c ctl/cmd/cmd_watch.c ctl/cmd/keyring.h \
	ctl/cmd/keyring_guide.c ctl/cmd/raft.h
ctl_clusterctl_SOURCES = ctl/main.c ctl/client.c ctl/client_set.c ctl/client_tls.c ctl/client_int.h
# Of libfsm.a only what reads archives, which needs no data base.
ctl_clusterctl_LDADD = ctl/libctl.a raftd/libfsm.a common/libtvjson.a common/libtvrt.a common/libtvcore.a $(CURL_LIBS) $(JANSSON_LIBS) $(SODIUM_LIBS) $(PCRE2_LIBS) $(OPENSSL_LIBS) $(ZLIB_LIBS) -lm
EXTRA_DIST += ctl/README.md
