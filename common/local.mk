# libtvcore.a is pure; libtvrt.a touches the system; libtvjson.a needs jansson.
noinst_LIBRARIES += common/libtvcore.a common/libtvrt.a common/libtvjson.a

common_libtvcore_a_SOURCES = \
	common/base/assert.c common/base/assert.h \
	common/base/err.c common/base/err.h \
	common/base/mono.h common/net/msg.c common/net/msg.h \
	common/base/addr.c common/base/addr.h common/base/rd.c common/base/rd.h common/base/buf.c common/base/buf.h \
	common/base/deadlines.c common/base/deadlines.h common/base/map.c common/base/map_hash.c common/base/map.h common/base/fnv.h \
	common/base/join.c common/base/join.h \
	common/base/arena.c common/base/arena.h common/base/array.c common/base/array.h \
	common/record/mpack.c common/record/mpack.h common/net/frame.c common/net/frame.h common/net/silence.c common/net/silence.h \
	common/base/rng.c common/base/rng.h common/base/hex.h common/base/uuid.c common/base/uuid.h \
	common/base/figure.c common/base/figure.h common/base/histogram.c common/base/histogram.h \
	common/base/log_repeats.c common/base/log_repeats.h \
	common/text/regex.c common/text/redialect.c common/text/regex.h common/text/meta.c common/text/meta.h \
	common/text/interpolate.c common/text/interpolate.h \
	common/conf/ucl.c common/conf/ucl.h common/conf/target.c common/conf/target.h

common_libtvrt_a_SOURCES = \
	common/base/clock.c common/base/clock.h \
	common/base/descriptors.c common/base/descriptors.h common/base/log.c common/base/log.h common/base/log_out.c common/base/log_out.h common/proc/log_drain.c common/proc/log_drain.h \
	common/conf/conf.c common/conf/elsewhere.c common/conf/elsewhere.h common/conf/conf_value.c common/conf/conf.h common/conf/conf_value.h \
	common/conf/cluster_conf.c common/conf/node_id.c common/conf/cluster_conf.h \
	common/conf/keys.c common/conf/keygen.c common/conf/keys.h \
	common/base/dirs.c common/base/dirs.h common/base/file.c common/base/file.h \
	common/proc/sandbox.c common/proc/sandbox_landlock.c common/proc/sandbox_seccomp.c common/proc/sandbox_stale.c \
	common/proc/sandbox.h common/proc/sandbox_parts.h \
	common/proc/privdrop.c common/proc/privdrop.h common/proc/hold.c common/proc/hold.h common/proc/past.c common/proc/past.h common/proc/folders.c common/proc/folders.h common/proc/helper.c common/proc/helper.h common/proc/helper_monitor.c common/proc/helper_monitor.h common/proc/helper_main.c common/proc/helper_main.h \
	common/proc/await.c common/proc/await.h common/proc/thread.c common/proc/thread.h common/proc/jobs.c common/proc/jobs.h \
	common/proc/daemon.c common/proc/daemon.h

common_libtvjson_a_SOURCES = common/record/schema_json.h

# Link line of a daemon: its own libraries first, then these.
RT_LIBS = common/libtvrt.a common/libtvcore.a $(EV_LIBS) $(SODIUM_LIBS) $(SECCOMP_LIBS) $(SYSTEMD_LIBS)

# Records: one description gives msgpack and JSON.
common_libtvcore_a_SOURCES += \
	common/text/duration.c common/text/duration.h common/text/rfc3339.c common/text/rfc3339.h common/text/edits.c common/text/edits.h \
	common/text/hostport.c common/text/hostport.h \
	common/text/base64.c common/text/base64.h common/text/json_text.c common/text/json_text.h \
	common/record/schema.c common/record/schema_names.c common/record/schema_out.c common/record/schema.h \
	common/record/record.h common/record/records.c common/record/records.h common/record/messages.c common/record/messages.h \
	common/record/ops.c common/record/op_access.c common/record/op_access.h common/record/op_note.h common/record/ops.h common/record/txn.c common/record/txn.h \
	common/record/coordinate.c common/record/coordinate.h common/record/proxy_rules.c common/record/proxy_rules.h
common_libtvjson_a_SOURCES += common/record/schema_json.c common/record/txn_json.c

# Expressions over the fields of records.
common_libtvcore_a_SOURCES += \
	common/filter/lex.c common/filter/parse.c common/filter/bind.c common/filter/eval.c common/filter/tree.h common/filter/filter.h

# Access rules, and Consul's language for them and for definitions: what they mean together.
common_libtvcore_a_SOURCES += \
	common/conf/hcl.c common/conf/hcl_scan.c common/conf/hcl.h common/conf/hcl_int.h \
	common/conf/hcl_print.c common/acl/rules.c common/acl/translate.c common/acl/bindname.c common/acl/bindname.h common/acl/rules.h common/acl/set.c common/acl/set.h

# Channels: frames on sockets.
common_libtvrt_a_SOURCES += \
	common/net/greet.c common/net/greet.h common/net/version.h common/net/chan.c common/net/chan.h common/net/chan_int.h common/net/chan_io.c common/net/chan_noise.c \
	common/net/logtap.c common/net/logtap.h common/net/monitor.c common/net/monitor.h \
	common/proc/heaptrim.c common/proc/heaptrim.h common/proc/loop_turns.c common/proc/loop_turns.h common/net/source.c common/net/stream.c common/net/stream.h common/net/source.h common/net/listener.c common/net/dial.c common/net/dial.h common/net/calls.c common/net/calls.h \
	common/net/daemon_client.c common/net/daemon_client.h common/net/gossip_client.c common/net/gossip_client.h \
	common/net/server.c common/net/server.h common/net/strangers.c common/net/strangers.h \
	common/net/crowd_timer.c common/net/crowd_timer.h common/net/listener.h
common_libtvcore_a_SOURCES += common/net/noise.c common/net/noise.h common/net/crowd.c common/net/crowd.h common/record/member.c common/record/member.h common/record/member_table.c common/record/member_table.h

# TLS, for those programs that speak it: they link $(TLS_LIBS) before RT_LIBS.
noinst_LIBRARIES += common/libtvtls.a
common_libtvtls_a_SOURCES = common/net/tls.c common/net/tls.h common/net/tls_client.c common/net/tls_client.h
common_libtvtls_a_CFLAGS = $(AM_CFLAGS) $(OPENSSL_CFLAGS)
TLS_LIBS = common/libtvtls.a $(OPENSSL_LIBS)

EXTRA_DIST += common/README.md common/acl/README.md common/base/README.md common/conf/README.md common/filter/README.md \
	common/net/README.md common/proc/README.md common/record/README.md common/text/README.md
