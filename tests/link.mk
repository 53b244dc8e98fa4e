# Frames, Noise, channels, dialers, calls, members.
LINK_LIBS = common/libtvrt.a common/libtvcore.a $(EV_LIBS) $(SODIUM_LIBS)

# With tests/fault/alloc.c: our own objects allocate through it, so that the n-th allocation can fail.
WRAP_ALLOC = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup

if HAVE_CHECK
LINK_CHECKS = tests/unit/check_core tests/unit/check_msg tests/unit/check_mpack tests/unit/check_fault tests/unit/check_noise tests/unit/check_member tests/unit/check_chan tests/unit/check_helper tests/unit/check_link \
	tests/unit/check_listener tests/unit/check_net_stream tests/unit/check_tls tests/unit/check_strangers tests/unit/check_crowd tests/unit/check_dial tests/unit/check_calls tests/unit/check_heaptrim tests/unit/check_loop_turns tests/unit/check_gossip_client tests/unit/check_server
check_PROGRAMS += $(LINK_CHECKS)
TESTS += $(LINK_CHECKS)
tests_unit_check_noise_SOURCES = tests/unit/check_noise.c tests/unit/noise_vectors.h
tests_unit_check_noise_LDADD = $(UNIT_LIBS) $(SODIUM_LIBS)
tests_unit_check_member_SOURCES = tests/unit/check_member.c
tests_unit_check_member_LDADD = $(UNIT_LIBS)
tests_unit_check_chan_SOURCES = tests/unit/check_chan.c tests/unit/chan_world.h
tests_unit_check_chan_LDADD = $(LINK_LIBS) $(CHECK_LIBS)
tests_unit_check_helper_SOURCES = tests/unit/check_helper.c
tests_unit_check_helper_LDADD = $(LINK_LIBS) $(CHECK_LIBS)
tests_unit_check_link_SOURCES = tests/unit/check_link.c tests/unit/chan_world.h
tests_unit_check_link_LDADD = $(LINK_LIBS) $(CHECK_LIBS)
tests_unit_check_listener_SOURCES = tests/unit/check_listener.c tests/unit/chan_world.h
tests_unit_check_listener_LDADD = $(LINK_LIBS) $(CHECK_LIBS)
tests_unit_check_net_stream_SOURCES = tests/unit/check_net_stream.c tests/unit/chan_world.h
tests_unit_check_net_stream_LDADD = $(LINK_LIBS) $(CHECK_LIBS)
tests_unit_check_tls_SOURCES = tests/unit/check_tls.c tests/unit/tls_kit.h tests/unit/scratch.c tests/unit/scratch.h
tests_unit_check_tls_CFLAGS = $(AM_CFLAGS) $(OPENSSL_CFLAGS)
tests_unit_check_tls_LDADD = $(TLS_LIBS) common/libtvrt.a $(UNIT_LIBS) $(EV_LIBS) $(SODIUM_LIBS)
tests_unit_check_strangers_SOURCES = tests/unit/check_strangers.c
tests_unit_check_strangers_LDADD = common/libtvrt.a $(UNIT_LIBS) $(SODIUM_LIBS)
tests_unit_check_crowd_SOURCES = tests/unit/check_crowd.c tests/unit/chan_world.h
tests_unit_check_crowd_LDADD = $(LINK_LIBS) $(CHECK_LIBS)
tests_unit_check_dial_SOURCES = tests/unit/check_dial.c tests/unit/chan_world.h
tests_unit_check_dial_LDADD = $(LINK_LIBS) $(CHECK_LIBS)
tests_unit_check_calls_SOURCES = tests/unit/check_calls.c tests/unit/chan_world.h
tests_unit_check_calls_LDADD = $(LINK_LIBS) $(CHECK_LIBS)
tests_unit_check_core_SOURCES = tests/unit/check_core.c
tests_unit_check_core_LDADD = $(UNIT_LIBS)
tests_unit_check_msg_SOURCES = tests/unit/check_msg.c
tests_unit_check_msg_LDADD = $(UNIT_LIBS) -lm
tests_unit_check_mpack_SOURCES = tests/unit/check_mpack.c
tests_unit_check_mpack_LDADD = $(UNIT_LIBS) -lm
tests_unit_check_fault_SOURCES = tests/unit/check_fault.c tests/fault/alloc.c tests/fault/alloc.h
tests_unit_check_fault_LDFLAGS = $(AM_LDFLAGS) $(WRAP_ALLOC)
tests_unit_check_fault_LDADD = $(LINK_LIBS)
tests_unit_check_server_SOURCES = tests/unit/check_server.c tests/unit/chan_world.h
tests_unit_check_server_LDADD = $(LINK_LIBS) $(CHECK_LIBS)
tests_unit_check_gossip_client_SOURCES = tests/unit/check_gossip_client.c tests/unit/chan_world.h
tests_unit_check_gossip_client_LDADD = $(LINK_LIBS) $(CHECK_LIBS)
tests_unit_check_heaptrim_SOURCES = tests/unit/check_heaptrim.c tests/unit/chan_world.h
tests_unit_check_heaptrim_LDADD = $(LINK_LIBS) $(CHECK_LIBS)
tests_unit_check_loop_turns_SOURCES = tests/unit/check_loop_turns.c tests/unit/chan_world.h
tests_unit_check_loop_turns_LDADD = $(LINK_LIBS) $(CHECK_LIBS)
endif

# make tests/bench/bench_chan
EXTRA_PROGRAMS += tests/bench/bench_chan
CLEANFILES += tests/bench/bench_chan
tests_bench_bench_chan_SOURCES = tests/bench/bench_chan.c
tests_bench_bench_chan_LDADD = $(LINK_LIBS)
