# gossipd
# libgossipcore.a is pure: it and libtvcore.a link into their tests without libev.
noinst_LIBRARIES += gossipd/libgossipcore.a
gossipd_libgossipcore_a_CFLAGS = $(AM_CFLAGS) $(NETTLE_CFLAGS)

# The wire: codecs, envelopes, streams.
gossipd_libgossipcore_a_SOURCES = \
	gossipd/core/fields.c gossipd/core/fields.h \
	gossipd/core/wire.c gossipd/core/wire.h \
	gossipd/core/serfwire.c gossipd/core/serfstate.c gossipd/core/serfwire.h \
	gossipd/core/lzw.c gossipd/core/lzw.h \
	gossipd/core/gcm.c gossipd/core/gcm.h gossipd/core/seal.c gossipd/core/seal.h \
	gossipd/core/packet.c gossipd/core/packet.h \
	gossipd/core/stream.c gossipd/core/stream.h

# What a program needs besides the library itself.
GOSSIPCORE_LIBS = gossipd/libgossipcore.a common/libtvcore.a $(SODIUM_LIBS) $(NETTLE_LIBS) $(ZLIB_LIBS) \
	$(PCRE2_LIBS) -lm

# The protocols: SWIM with Lifeguard, and Serf's layer.
gossipd_libgossipcore_a_SOURCES += \
	gossipd/core/swim.c gossipd/core/swim.h gossipd/core/state.h gossipd/core/out.c gossipd/core/preset.c \
	gossipd/core/table.c gossipd/core/table.h gossipd/core/intern.c gossipd/core/intern.h \
	gossipd/core/scale.c gossipd/core/scale.h \
	gossipd/core/member.c gossipd/core/suspect.c gossipd/core/accuse.c gossipd/core/probe.c gossipd/core/awareness.c \
	gossipd/core/coord.c gossipd/core/coord.h gossipd/core/place.c \
	gossipd/core/broadcast.c gossipd/core/broadcast.h gossipd/core/gossip.c \
	gossipd/core/pushpull.c \
	gossipd/core/serf.c gossipd/core/intent.c gossipd/core/intent.h gossipd/core/leave.c \
	gossipd/core/ring.c gossipd/core/ring.h gossipd/core/event.c gossipd/core/query.c gossipd/core/answer.c \
	gossipd/core/ask.c \
	gossipd/core/filter.c gossipd/core/conflict.c gossipd/core/moved.c

# The daemon: sockets, configuration and clients around the core.
noinst_LIBRARIES += gossipd/libgossipshell.a
gossipd_libgossipshell_a_SOURCES = \
	gossipd/opts.c gossipd/opts.h gossipd/tags.c gossipd/tags.h gossipd/net.c gossipd/net.h \
	gossipd/udp.c gossipd/udp.h gossipd/streams.c gossipd/streams.h gossipd/snapshot.c gossipd/snapshot_read.c \
	gossipd/snapshot.h \
	gossipd/keyring.c gossipd/keyring_file.c gossipd/keyring.h gossipd/keyring_int.h \
	gossipd/keyquery.c gossipd/keyquery.h gossipd/handlers_key.c \
	gossipd/say.c gossipd/say.h gossipd/pool.c gossipd/pool.h gossipd/join.c gossipd/join.h \
	gossipd/info.c gossipd/info.h gossipd/handlers.c gossipd/handlers.h gossipd/handlers_int.h gossipd/handlers_coord.c \
	gossipd/handlers_event.c gossipd/handlers_event.h \
	gossipd/engine.c gossipd/engine.h

sbin_PROGRAMS += gossipd/gossipd
gossipd_gossipd_SOURCES = gossipd/main.c
gossipd_gossipd_LDADD = gossipd/libgossipshell.a gossipd/libgossipcore.a $(RT_LIBS) $(NETTLE_LIBS) $(ZLIB_LIBS) \
	$(PCRE2_LIBS) -lm
EXTRA_DIST += gossipd/README.md
