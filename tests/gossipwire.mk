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

GOSSIP_WALK = tests/fuzz/gossip_walk.c tests/fuzz/gossip_walk.h tests/fuzz/replay.c
FUZZ_REPLAYS += tests/fuzz/replay_gossip_packet
tests_fuzz_replay_gossip_packet_SOURCES = tests/fuzz/fuzz_gossip_packet.c $(GOSSIP_WALK)
tests_fuzz_replay_gossip_packet_LDADD = $(GOSSIPCORE_LIBS)

FUZZ_REPLAYS += tests/fuzz/replay_gossip_stream
tests_fuzz_replay_gossip_stream_SOURCES = tests/fuzz/fuzz_gossip_stream.c $(GOSSIP_WALK)
tests_fuzz_replay_gossip_stream_LDADD = $(GOSSIPCORE_LIBS)

FUZZ_REPLAYS += tests/fuzz/replay_lzw
tests_fuzz_replay_lzw_SOURCES = tests/fuzz/fuzz_lzw.c tests/fuzz/replay.c
tests_fuzz_replay_lzw_LDADD = $(GOSSIPCORE_LIBS)
