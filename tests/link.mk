# Frames, Noise, channels, dialers, calls, members.
LINK_LIBS = common/libtvrt.a common/libtvcore.a $(EV_LIBS) $(SODIUM_LIBS)

if HAVE_CHECK
check_PROGRAMS += tests/unit/check_noise
TESTS += tests/unit/check_noise
tests_unit_check_noise_SOURCES = tests/unit/check_noise.c tests/unit/noise_vectors.h
tests_unit_check_noise_LDADD = $(UNIT_LIBS) $(SODIUM_LIBS)
endif
