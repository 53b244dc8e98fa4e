# gossipd
# libgossipcore.a is pure: it and libtvcore.a link into their tests without libev.
noinst_LIBRARIES += gossipd/libgossipcore.a
gossipd_libgossipcore_a_CFLAGS = $(AM_CFLAGS) $(NETTLE_CFLAGS)

# The wire: codecs, envelopes, streams.
gossipd_libgossipcore_a_SOURCES = \
	gossipd/core/wire/fields.c gossipd/core/wire/fields.h \
	gossipd/core/wire/wire.c gossipd/core/wire/wire.h \
	gossipd/core/wire/serfwire.c gossipd/core/wire/serfstate.c gossipd/core/wire/serfwire.h \
	gossipd/core/wire/lzw.c gossipd/core/wire/lzw.h \
	gossipd/core/wire/gcm.c gossipd/core/wire/gcm.h gossipd/core/wire/seal.c gossipd/core/wire/seal.h \
	gossipd/core/wire/packet.c gossipd/core/wire/packet.h \
	gossipd/core/wire/stream.c gossipd/core/wire/stream.h

# What a program needs besides the library itself.
GOSSIPCORE_LIBS = gossipd/libgossipcore.a common/libtvcore.a $(SODIUM_LIBS) $(NETTLE_LIBS) $(ZLIB_LIBS) \
	$(PCRE2_LIBS) -lm

# The protocols: SWIM with Lifeguard, and Serf's layer.
gossipd_libgossipcore_a_SOURCES += \
	gossipd/core/swim.c gossipd/core/base.c gossipd/core/swim.h gossipd/core/state.h gossipd/core/swim/out.c gossipd/core/swim/preset.c \
	gossipd/core/swim/table.c gossipd/core/swim/table.h gossipd/core/swim/twins.c gossipd/core/swim/twins.h \
	gossipd/core/swim/intern.c gossipd/core/swim/intern.h \
	gossipd/core/swim/scale.c gossipd/core/swim/scale.h \
	gossipd/core/swim/member.c gossipd/core/swim/suspect.c gossipd/core/swim/accuser_credit.c gossipd/core/swim/probe.c gossipd/core/swim/local_health.c \
	gossipd/core/coord/coord.c gossipd/core/coord/coord.h gossipd/core/swim/place.c \
	gossipd/core/swim/broadcast.c gossipd/core/swim/broadcast.h gossipd/core/swim/gossip.c \
	gossipd/core/swim/pushpull.c \
	gossipd/core/serf/serf.c gossipd/core/serf/intent.c gossipd/core/serf/intent.h gossipd/core/serf/leave.c \
	gossipd/core/serf/ring.c gossipd/core/serf/ring.h gossipd/core/serf/event.c gossipd/core/serf/query.c gossipd/core/serf/answer.c \
	gossipd/core/serf/ask.c \
	gossipd/core/serf/filter.c gossipd/core/serf/conflict.c gossipd/core/serf/moved.c

# The daemon: sockets, configuration and clients around the core.
noinst_LIBRARIES += gossipd/libgossipshell.a
gossipd_libgossipshell_a_SOURCES = \
	gossipd/opts.c gossipd/opts.h gossipd/tags.c gossipd/tags.h gossipd/net.c gossipd/net.h \
	gossipd/udp.c gossipd/udp.h gossipd/streams.c gossipd/streams.h gossipd/snapshot.c gossipd/snapshot_read.c \
	gossipd/snapshot.h \
	gossipd/keyring.c gossipd/keyring_file.c gossipd/keyring.h gossipd/keyring_int.h \
	gossipd/key_trouble.c gossipd/key_trouble.h \
	gossipd/conflict_pause.c gossipd/conflict_pause.h \
	gossipd/keyquery.c gossipd/keyquery.h gossipd/handlers_key.c \
	gossipd/log_notices.c gossipd/log_notices.h gossipd/pool.c gossipd/pool.h gossipd/join.c gossipd/join.h \
	gossipd/info.c gossipd/info.h gossipd/handlers.c gossipd/handlers.h gossipd/handlers_int.h gossipd/handlers_coord.c \
	gossipd/handlers_event.c gossipd/handlers_join.c gossipd/handlers_resolve.c \
	gossipd/engine.c gossipd/engine.h gossipd/resolver.c gossipd/resolver.h gossipd/retry.c gossipd/retry.h

sbin_PROGRAMS += gossipd/gossipd
gossipd_gossipd_SOURCES = gossipd/main.c
gossipd_gossipd_LDADD = gossipd/libgossipshell.a gossipd/libgossipcore.a $(RT_LIBS) $(NETTLE_LIBS) $(ZLIB_LIBS) \
	$(PCRE2_LIBS) -lm
EXTRA_DIST += gossipd/README.md

# gossipd-names, the program of "gossipd: names".
noinst_LIBRARIES += gossipd/liblookup.a
gossipd_liblookup_a_SOURCES = gossipd/names/lookup.c gossipd/names/lookup.h gossipd/names/launch.h
sbin_PROGRAMS += gossipd/gossipd-names
gossipd_gossipd_names_SOURCES = gossipd/names/main.c
gossipd_gossipd_names_LDADD = gossipd/liblookup.a $(RT_LIBS) $(RESOLV_LIBS)
