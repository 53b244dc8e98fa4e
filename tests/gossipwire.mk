# Gossip wire: vectors of real peers, layers, malformed input.
EXTRA_DIST += tests/data/serf-vectors.json
if HAVE_CHECK
check_PROGRAMS += tests/unit/check_gossip_wire
TESTS += tests/unit/check_gossip_wire
tests_unit_check_gossip_wire_SOURCES = tests/unit/check_gossip_wire.c \
	tests/unit/gossip_describe.c tests/unit/gossip_describe.h
tests_unit_check_gossip_wire_LDADD = $(GOSSIPCORE_LIBS) $(CHECK_LIBS) $(JANSSON_LIBS)

check_PROGRAMS += tests/unit/check_lzw tests/unit/check_seal
TESTS += tests/unit/check_lzw tests/unit/check_seal
tests_unit_check_lzw_SOURCES = tests/unit/check_lzw.c
tests_unit_check_lzw_LDADD = $(GOSSIPCORE_LIBS) $(CHECK_LIBS)
tests_unit_check_seal_SOURCES = tests/unit/check_seal.c
tests_unit_check_seal_LDADD = $(GOSSIPCORE_LIBS) $(CHECK_LIBS)

check_PROGRAMS += tests/unit/check_packet tests/unit/check_stream
TESTS += tests/unit/check_packet tests/unit/check_stream
tests_unit_check_packet_SOURCES = tests/unit/check_packet.c
tests_unit_check_packet_LDADD = $(GOSSIPCORE_LIBS) $(CHECK_LIBS)
tests_unit_check_stream_SOURCES = tests/unit/check_stream.c
tests_unit_check_stream_LDADD = $(GOSSIPCORE_LIBS) $(CHECK_LIBS)
endif
