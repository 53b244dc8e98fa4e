# Load generator of tests/bench/figures.
noinst_PROGRAMS += tests/bench/bench_http
tests_bench_bench_http_SOURCES = tests/bench/bench_http.c
tests_bench_bench_http_LDADD = common/libtvrt.a common/libtvcore.a $(EV_LIBS)
EXTRA_DIST += tests/bench/figures
