# Gossip: the wire on one core, and a pool of ten thousand around one gossipd (tests/bench/pool).
noinst_PROGRAMS += tests/bench/bench_gossip
tests_bench_bench_gossip_SOURCES = tests/bench/bench_gossip.c tests/bench/faces.c tests/bench/faces.h
tests_bench_bench_gossip_LDADD = common/libtvrt.a $(GOSSIPCORE_LIBS)
noinst_PROGRAMS += tests/bench/bench_pool
tests_bench_bench_pool_SOURCES = tests/bench/bench_pool.c tests/bench/faces.c
tests_bench_bench_pool_LDADD = gossipd/libgossipshell.a common/libtvrt.a $(GOSSIPCORE_LIBS) $(EV_LIBS)
EXTRA_DIST += tests/bench/pool
