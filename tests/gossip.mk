# tests: gossip

# Client for the daemons' unix sockets, used by tests/system.
dist_check_SCRIPTS += tests/system/lib/tvframe.py
TESTS += tests/system/lib/tvframe.py

# Simulated pools: the real core in virtual time.
check_PROGRAMS += tests/sim/sim_gossip
TESTS += tests/sim/sim_gossip
tests_sim_sim_gossip_SOURCES = tests/sim/sim_gossip.c tests/sim/gossip_world.c tests/sim/gossip_world.h
tests_sim_sim_gossip_LDADD = $(GOSSIPCORE_LIBS)
