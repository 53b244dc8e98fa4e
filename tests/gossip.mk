# tests: gossip

# Client for the daemons' unix sockets, used by tests/system.
dist_check_SCRIPTS += tests/system/lib/tvframe.py
EXTRA_DIST += tests/system/lib/gossipkit.py tests/system/lib/serfwire.py tests/system/lib/tap.py tests/system/lib/flood.py
TESTS += tests/system/lib/tvframe.py

# Simulated pools: the real core in virtual time.
check_PROGRAMS += tests/sim/sim_gossip
TESTS += tests/sim/sim_gossip
tests_sim_sim_gossip_SOURCES = tests/sim/sim_gossip.c tests/sim/gossip_world.c tests/sim/gossip_world.h \
	tests/sim/sim_queue.c tests/sim/sim_queue.h
tests_sim_sim_gossip_LDADD = $(GOSSIPCORE_LIBS)

# The same for user events and queries.
check_PROGRAMS += tests/sim/sim_serf
TESTS += tests/sim/sim_serf
tests_sim_sim_serf_SOURCES = tests/sim/sim_serf.c tests/sim/gossip_world.c tests/sim/gossip_world.h \
	tests/sim/sim_queue.c tests/sim/sim_queue.h
tests_sim_sim_serf_LDADD = $(GOSSIPCORE_LIBS)

# The same for large pools; here in a short form.  tests/sim/scale-report makes the table and the plot of doc/gossip.md.
check_PROGRAMS += tests/sim/sim_scale
TESTS += tests/sim/sim_scale
tests_sim_sim_scale_SOURCES = tests/sim/sim_scale.c tests/sim/gossip_world.c tests/sim/gossip_world.h \
	tests/sim/sim_queue.c tests/sim/sim_queue.h
tests_sim_sim_scale_LDADD = $(GOSSIPCORE_LIBS)
EXTRA_DIST += tests/sim/scale-report doc/gossip.md doc/gossip-scale.txt doc/gossip-scale.svg

if HAVE_CHECK
check_PROGRAMS += tests/unit/check_lookup tests/unit/check_swim tests/unit/check_swim_status tests/unit/check_swim_exchange tests/unit/check_broadcast tests/unit/check_intent
TESTS += tests/unit/check_lookup tests/unit/check_swim tests/unit/check_swim_status tests/unit/check_swim_exchange tests/unit/check_broadcast tests/unit/check_intent
SWIM_KIT = tests/unit/swim_kit.h tests/unit/gossip_one.c tests/unit/gossip_one.h
tests_unit_check_swim_SOURCES = tests/unit/check_swim.c $(SWIM_KIT)
tests_unit_check_swim_LDADD = $(GOSSIPCORE_LIBS) $(CHECK_LIBS)
tests_unit_check_swim_status_SOURCES = tests/unit/check_swim_status.c $(SWIM_KIT)
tests_unit_check_swim_status_LDADD = $(GOSSIPCORE_LIBS) $(CHECK_LIBS)
tests_unit_check_swim_exchange_SOURCES = tests/unit/check_swim_exchange.c $(SWIM_KIT)
tests_unit_check_swim_exchange_LDADD = $(GOSSIPCORE_LIBS) $(CHECK_LIBS)
tests_unit_check_broadcast_SOURCES = tests/unit/check_broadcast.c
tests_unit_check_broadcast_LDADD = $(GOSSIPCORE_LIBS) $(CHECK_LIBS)
tests_unit_check_lookup_SOURCES = tests/unit/check_lookup.c
tests_unit_check_lookup_LDADD = gossipd/liblookup.a common/libtvrt.a common/libtvcore.a $(CHECK_LIBS) $(RESOLV_LIBS)
tests_unit_check_intent_SOURCES = tests/unit/check_intent.c
tests_unit_check_intent_LDADD = $(GOSSIPCORE_LIBS) $(CHECK_LIBS)
check_PROGRAMS += tests/unit/check_swim_news
TESTS += tests/unit/check_swim_news
tests_unit_check_swim_news_SOURCES = tests/unit/check_swim_news.c tests/unit/gossip_one.c tests/unit/gossip_one.h
tests_unit_check_swim_news_LDADD = $(GOSSIPCORE_LIBS) $(CHECK_LIBS)
check_PROGRAMS += tests/unit/check_table
TESTS += tests/unit/check_table
tests_unit_check_table_SOURCES = tests/unit/check_table.c
tests_unit_check_table_LDADD = $(GOSSIPCORE_LIBS) $(CHECK_LIBS)
check_PROGRAMS += tests/unit/check_event
TESTS += tests/unit/check_event
tests_unit_check_event_SOURCES = tests/unit/check_event.c tests/unit/gossip_one.c tests/unit/gossip_one.h
tests_unit_check_event_LDADD = $(GOSSIPCORE_LIBS) $(CHECK_LIBS)
check_PROGRAMS += tests/unit/check_swim_probe
TESTS += tests/unit/check_swim_probe
tests_unit_check_swim_probe_SOURCES = tests/unit/check_swim_probe.c tests/unit/gossip_one.c tests/unit/gossip_one.h
tests_unit_check_swim_probe_LDADD = $(GOSSIPCORE_LIBS) $(CHECK_LIBS)
check_PROGRAMS += tests/unit/check_query tests/unit/check_conflict tests/unit/check_twins tests/unit/check_conflict_pause
TESTS += tests/unit/check_query tests/unit/check_conflict tests/unit/check_twins tests/unit/check_conflict_pause
tests_unit_check_query_SOURCES = tests/unit/check_query.c tests/unit/gossip_one.c tests/unit/gossip_one.h
tests_unit_check_query_LDADD = $(GOSSIPCORE_LIBS) $(CHECK_LIBS)
tests_unit_check_conflict_SOURCES = tests/unit/check_conflict.c tests/unit/gossip_one.c tests/unit/gossip_one.h
tests_unit_check_conflict_LDADD = $(GOSSIPCORE_LIBS) $(CHECK_LIBS)
tests_unit_check_twins_SOURCES = tests/unit/check_twins.c tests/unit/gossip_one.c tests/unit/gossip_one.h
tests_unit_check_twins_LDADD = $(GOSSIPCORE_LIBS) $(CHECK_LIBS)
tests_unit_check_conflict_pause_SOURCES = tests/unit/check_conflict_pause.c tests/unit/scratch.c tests/unit/scratch.h
tests_unit_check_conflict_pause_LDADD = gossipd/libgossipshell.a common/libtvrt.a $(GOSSIPCORE_LIBS) $(CHECK_LIBS)
check_PROGRAMS += tests/unit/check_moved
TESTS += tests/unit/check_moved
tests_unit_check_moved_SOURCES = tests/unit/check_moved.c tests/unit/gossip_one.c tests/unit/gossip_one.h
tests_unit_check_moved_LDADD = $(GOSSIPCORE_LIBS) $(CHECK_LIBS)
check_PROGRAMS += tests/unit/check_swim_accuse
TESTS += tests/unit/check_swim_accuse
tests_unit_check_swim_accuse_SOURCES = tests/unit/check_swim_accuse.c tests/unit/gossip_one.c tests/unit/gossip_one.h
tests_unit_check_swim_accuse_LDADD = $(GOSSIPCORE_LIBS) $(CHECK_LIBS)
check_PROGRAMS += tests/unit/check_snapshot
TESTS += tests/unit/check_snapshot
tests_unit_check_snapshot_SOURCES = tests/unit/check_snapshot.c tests/unit/gossip_one.c tests/unit/gossip_one.h
tests_unit_check_snapshot_LDADD = gossipd/libgossipshell.a common/libtvrt.a $(GOSSIPCORE_LIBS) $(CHECK_LIBS)
check_PROGRAMS += tests/unit/check_log_notices
TESTS += tests/unit/check_log_notices
tests_unit_check_log_notices_SOURCES = tests/unit/check_log_notices.c
tests_unit_check_log_notices_LDADD = gossipd/libgossipshell.a common/libtvrt.a $(GOSSIPCORE_LIBS) $(CHECK_LIBS)
check_PROGRAMS += tests/unit/check_swim_fault
TESTS += tests/unit/check_swim_fault
tests_unit_check_swim_fault_SOURCES = tests/unit/check_swim_fault.c tests/unit/gossip_one.c tests/unit/gossip_one.h \
	tests/fault/alloc.c tests/fault/alloc.h
tests_unit_check_swim_fault_LDFLAGS = $(AM_LDFLAGS) $(WRAP_ALLOC)
tests_unit_check_swim_fault_LDADD = $(GOSSIPCORE_LIBS) $(CHECK_LIBS)
endif

FUZZ_REPLAYS += tests/fuzz/replay_gossip_core
tests_fuzz_replay_gossip_core_SOURCES = tests/fuzz/fuzz_gossip_core.c tests/fuzz/replay.c
tests_fuzz_replay_gossip_core_LDADD = $(GOSSIPCORE_LIBS)

# Coordinates.
if HAVE_CHECK
check_PROGRAMS += tests/unit/check_coord
TESTS += tests/unit/check_coord
tests_unit_check_coord_SOURCES = tests/unit/check_coord.c
tests_unit_check_coord_LDADD = $(GOSSIPCORE_LIBS) $(CHECK_LIBS) $(JANSSON_LIBS)
check_PROGRAMS += tests/unit/check_place
TESTS += tests/unit/check_place
tests_unit_check_place_SOURCES = tests/unit/check_place.c tests/unit/gossip_one.c tests/unit/gossip_one.h
tests_unit_check_place_LDADD = $(GOSSIPCORE_LIBS) $(CHECK_LIBS)
endif
