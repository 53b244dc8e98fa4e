# Load generators of tests/bench/compare and tests/bench/figures.
noinst_PROGRAMS += tests/bench/bench_http
tests_bench_bench_http_SOURCES = tests/bench/bench_http.c tests/bench/load.c tests/bench/load.h
tests_bench_bench_http_CFLAGS = $(AM_CFLAGS) $(OPENSSL_CFLAGS)
tests_bench_bench_http_LDADD = common/libtvrt.a common/libtvcore.a $(EV_LIBS) $(OPENSSL_LIBS)
noinst_PROGRAMS += tests/bench/bench_etcd
tests_bench_bench_etcd_SOURCES = tests/bench/bench_etcd.c tests/bench/load.c tests/bench/load.h
tests_bench_bench_etcd_CFLAGS = $(AM_CFLAGS) $(NGHTTP2_CFLAGS)
tests_bench_bench_etcd_LDADD = common/libtvrt.a common/libtvcore.a $(EV_LIBS) $(NGHTTP2_LIBS)
EXTRA_DIST += tests/bench/figures tests/bench/compare tests/bench/versions tests/bench/benchlib.py tests/bench/fig_catchup.py tests/bench/fig_idle.py \
	tests/bench/fig_leader.py tests/bench/fig_limits.py tests/bench/fig_loss.py tests/bench/fig_restart.py tests/bench/sealed.py tests/bench/services tests/bench/dns

# Many blocking queries: tests/bench/waits.
noinst_PROGRAMS += tests/bench/bench_wait
tests_bench_bench_wait_SOURCES = tests/bench/bench_wait.c
tests_bench_bench_wait_LDADD = common/libtvrt.a common/libtvcore.a $(EV_LIBS)
EXTRA_DIST += tests/bench/waits tests/bench/checks

# Handshakes of TLS: tests/bench/handshakes.
noinst_PROGRAMS += tests/bench/bench_tls
tests_bench_bench_tls_SOURCES = tests/bench/bench_tls.c
tests_bench_bench_tls_CFLAGS = $(AM_CFLAGS) $(OPENSSL_CFLAGS)
tests_bench_bench_tls_LDADD = common/libtvrt.a common/libtvcore.a $(OPENSSL_LIBS)
EXTRA_DIST += tests/bench/handshakes

# What limits and accounts add to a request.
noinst_PROGRAMS += tests/bench/bench_api
tests_bench_bench_api_SOURCES = tests/bench/bench_api.c tests/unit/api_fakes.h
tests_bench_bench_api_LDADD = $(RPC_API_LIBS) $(CHECK_LIBS)

# Access rules by themselves.
noinst_PROGRAMS += tests/bench/bench_acl
tests_bench_bench_acl_SOURCES = tests/bench/bench_acl.c
tests_bench_bench_acl_LDADD = common/libtvrt.a common/libtvcore.a
