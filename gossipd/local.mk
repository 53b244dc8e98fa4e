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
GOSSIPCORE_LIBS = gossipd/libgossipcore.a common/libtvcore.a $(SODIUM_LIBS) $(NETTLE_LIBS) $(ZLIB_LIBS)
