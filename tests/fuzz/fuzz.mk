# Fuzz targets; see tests/fuzz/README.md.  Each is built with replay.c and replays its corpus in `make check`.
# --enable-fuzzers (clang) also links each against libFuzzer, as tests/fuzz/fuzz_X.
check_PROGRAMS += $(FUZZ_REPLAYS)
TESTS += $(FUZZ_REPLAYS)
EXTRA_DIST += tests/fuzz/README.md tests/fuzz/corpus

if FUZZERS
FUZZ_BINS = $(patsubst tests/fuzz/replay_%,tests/fuzz/fuzz_%,$(FUZZ_REPLAYS))
CLEANFILES += $(FUZZ_BINS)
noinst_DATA = $(FUZZ_BINS)
# The objects of replay_X without the one that has main.
tests/fuzz/fuzz_%: tests/fuzz/replay_%
	$(AM_V_CCLD)$(CC) $(AM_CFLAGS) $(CFLAGS) $(AM_LDFLAGS) $(LDFLAGS) -fsanitize=fuzzer -o $@ \
		$(filter-out %replay.$(OBJEXT),$(tests_fuzz_replay_$*_OBJECTS)) $(tests_fuzz_replay_$*_LDADD) $(LIBS)
endif

FUZZ_REPLAYS =
FUZZ_REPLAYS += tests/fuzz/replay_mpack
tests_fuzz_replay_mpack_SOURCES = tests/fuzz/fuzz_mpack.c tests/fuzz/replay.c
tests_fuzz_replay_mpack_LDADD = common/libtvcore.a

FUZZ_REPLAYS += tests/fuzz/replay_frame
tests_fuzz_replay_frame_SOURCES = tests/fuzz/fuzz_frame.c tests/fuzz/chan_feed.h tests/fuzz/replay.c
tests_fuzz_replay_frame_LDADD = $(LINK_LIBS)

FUZZ_REPLAYS += tests/fuzz/replay_stream
tests_fuzz_replay_stream_SOURCES = tests/fuzz/fuzz_stream.c tests/fuzz/replay.c
tests_fuzz_replay_stream_LDADD = $(LINK_LIBS)

FUZZ_REPLAYS += tests/fuzz/replay_crowd
tests_fuzz_replay_crowd_SOURCES = tests/fuzz/fuzz_crowd.c tests/fuzz/replay.c
tests_fuzz_replay_crowd_LDADD = common/libtvcore.a

FUZZ_REPLAYS += tests/fuzz/replay_noise
tests_fuzz_replay_noise_SOURCES = tests/fuzz/fuzz_noise.c tests/fuzz/chan_feed.h tests/fuzz/replay.c
tests_fuzz_replay_noise_LDADD = $(LINK_LIBS)

FUZZ_REPLAYS += tests/fuzz/replay_conf
tests_fuzz_replay_conf_SOURCES = tests/fuzz/fuzz_conf.c tests/fuzz/replay.c
tests_fuzz_replay_conf_LDADD = common/libtvrt.a common/libtvcore.a $(SODIUM_LIBS)

FUZZ_REPLAYS += tests/fuzz/replay_target
tests_fuzz_replay_target_SOURCES = tests/fuzz/fuzz_target.c tests/fuzz/replay.c
tests_fuzz_replay_target_LDADD = common/libtvcore.a

FUZZ_REPLAYS += tests/fuzz/replay_record
tests_fuzz_replay_record_SOURCES = tests/fuzz/fuzz_record.c tests/fuzz/replay.c
tests_fuzz_replay_record_LDADD = common/libtvcore.a
