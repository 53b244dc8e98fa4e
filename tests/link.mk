# Frames, Noise, channels, dialers, calls, members.
LINK_LIBS = common/libtvrt.a common/libtvcore.a $(EV_LIBS) $(SODIUM_LIBS)

if HAVE_CHECK
LINK_CHECKS = tests/unit/check_noise tests/unit/check_member tests/unit/check_chan
check_PROGRAMS += $(LINK_CHECKS)
TESTS += $(LINK_CHECKS)
tests_unit_check_noise_SOURCES = tests/unit/check_noise.c tests/unit/noise_vectors.h
tests_unit_check_noise_LDADD = $(UNIT_LIBS) $(SODIUM_LIBS)
tests_unit_check_member_SOURCES = tests/unit/check_member.c
tests_unit_check_member_LDADD = $(UNIT_LIBS)
tests_unit_check_chan_SOURCES = tests/unit/check_chan.c tests/unit/chan_world.h
tests_unit_check_chan_LDADD = $(LINK_LIBS) $(CHECK_LIBS)
endif
