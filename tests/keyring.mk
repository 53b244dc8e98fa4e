# tests: keys
if HAVE_CHECK
check_PROGRAMS += tests/unit/check_keyring tests/unit/check_linkkeys tests/unit/check_link_client tests/unit/check_peer_standing \
    tests/unit/check_raftd_client
TESTS += tests/unit/check_keyring tests/unit/check_linkkeys tests/unit/check_link_client tests/unit/check_peer_standing \
    tests/unit/check_raftd_client
tests_unit_check_raftd_client_SOURCES = tests/unit/check_raftd_client.c tests/unit/chan_world.h
tests_unit_check_raftd_client_LDADD = rpcd/librpcroute.a common/libtvrt.a $(UNIT_LIBS) $(EV_LIBS) $(SODIUM_LIBS)
tests_unit_check_keyring_SOURCES = tests/unit/check_keyring.c $(scratch)
tests_unit_check_keyring_LDADD = gossipd/libgossipshell.a common/libtvrt.a $(GOSSIPCORE_LIBS) $(CHECK_LIBS)
tests_unit_check_link_client_SOURCES = tests/unit/check_link_client.c
tests_unit_check_link_client_LDADD = rpcd/librpcroute.a common/libtvrt.a $(UNIT_LIBS) $(EV_LIBS) $(SODIUM_LIBS)
tests_unit_check_peer_standing_SOURCES = tests/unit/check_peer_standing.c
tests_unit_check_peer_standing_LDADD = rpcd/librpcroute.a common/libtvrt.a $(UNIT_LIBS) $(SODIUM_LIBS)
tests_unit_check_linkkeys_SOURCES = tests/unit/check_linkkeys.c
tests_unit_check_linkkeys_LDADD = rpcd/librpcroute.a common/libtvrt.a $(UNIT_LIBS) $(EV_LIBS) $(SODIUM_LIBS)
endif

# The files of the key ring.
FUZZ_REPLAYS += tests/fuzz/replay_keyring
tests_fuzz_replay_keyring_SOURCES = tests/fuzz/fuzz_keyring.c tests/fuzz/replay.c
tests_fuzz_replay_keyring_LDADD = gossipd/libgossipshell.a common/libtvrt.a $(GOSSIPCORE_LIBS)
