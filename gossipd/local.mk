# gossipd
# libgossipcore.a is pure: it and libtvcore.a link into their tests without libev.
noinst_LIBRARIES += gossipd/libgossipcore.a
gossipd_libgossipcore_a_CFLAGS = $(AM_CFLAGS) $(NETTLE_CFLAGS)

# The wire: codecs, envelopes, streams.
gossipd_libgossipcore_a_SOURCES = \
	gossipd/core/fields.h gossipd/core/wire.h gossipd/core/serfwire.h \
	gossipd/core/lzw.h gossipd/core/seal.h \
	gossipd/core/packet.h gossipd/core/stream.h

# What a program needs besides the library itself.
GOSSIPCORE_LIBS = gossipd/libgossipcore.a common/libtvcore.a $(SODIUM_LIBS) $(NETTLE_LIBS) $(ZLIB_LIBS)
