# libtvcore.a is pure; libtvrt.a touches the system; libtvjson.a needs jansson.
noinst_LIBRARIES += common/libtvcore.a common/libtvrt.a common/libtvjson.a

common_libtvcore_a_SOURCES = \
	common/assert.c common/assert.h \
	common/err.c common/err.h \
	common/mono.h common/msg.h \
	common/rd.c common/rd.h common/buf.c common/buf.h \
	common/arena.c common/arena.h \
	common/mpack.c common/mpack.h common/frame.c common/frame.h common/silence.c common/silence.h \
	common/rng.c common/rng.h \
	common/regex.c common/redialect.c common/regex.h \
	common/ucl.c common/ucl.h

common_libtvrt_a_SOURCES = \
	common/clock.c common/clock.h \
	common/log.c common/log.h \
	common/conf.c common/conf_value.c common/conf.h common/conf_value.h \
	common/cluster_conf.c common/node_id.c common/cluster_conf.h \
	common/keys.c common/keygen.c common/keys.h \
	common/dirs.c common/dirs.h \
	common/sandbox.c common/sandbox_landlock.c common/sandbox_seccomp.c common/sandbox.h common/sandbox_parts.h \
	common/privdrop.c common/privdrop.h common/hold.c common/hold.h common/folders.c common/folders.h \
	common/await.c common/await.h \
	common/daemon.c common/daemon.h

common_libtvjson_a_SOURCES = common/schema_json.h

# Link line of a daemon: its own libraries first, then these.
RT_LIBS = common/libtvrt.a common/libtvcore.a $(EV_LIBS) $(SODIUM_LIBS) $(SECCOMP_LIBS) $(SYSTEMD_LIBS)

# Records: one description gives msgpack and JSON.
common_libtvcore_a_SOURCES += \
	common/duration.c common/duration.h \
	common/base64.c common/json_text.c \
	common/schema.c common/schema_out.c common/schema.h \
	common/records.c common/records.h \
	common/ops.c common/ops.h \
	common/coordinate.c common/coordinate.h
common_libtvjson_a_SOURCES += common/schema_json.c

# Channels: frames on sockets.
common_libtvrt_a_SOURCES += \
	common/greet.c common/greet.h common/chan.c common/chan.h common/chan_int.h common/chan_io.c common/chan_noise.c \
	common/logtap.c common/logtap.h common/monitor.c common/monitor.h \
	common/heaptrim.c common/heaptrim.h common/source.c common/source.h common/listener.c common/dial.c common/dial.h common/calls.c common/calls.h
common_libtvcore_a_SOURCES += common/noise.c common/noise.h common/strangers.c common/strangers.h common/member.c common/member.h

EXTRA_DIST += common/README.md
