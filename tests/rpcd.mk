# Records and operations.
if HAVE_CHECK
check_PROGRAMS += tests/unit/check_schema tests/unit/check_ops tests/unit/check_schema_json
TESTS += tests/unit/check_schema tests/unit/check_ops tests/unit/check_schema_json
tests_unit_check_schema_SOURCES = tests/unit/check_schema.c
tests_unit_check_schema_LDADD = $(UNIT_LIBS)
tests_unit_check_ops_SOURCES = tests/unit/check_ops.c
tests_unit_check_ops_LDADD = $(UNIT_LIBS)
tests_unit_check_schema_json_SOURCES = tests/unit/check_schema_json.c
tests_unit_check_schema_json_LDADD = common/libtvjson.a $(UNIT_LIBS) $(JANSSON_LIBS)
endif

# The HTTP API without sockets.
RPC_API_LIBS = rpcd/librpcapi.a rpcd/librpcaudit.a rpcd/librpcagent.a rpcd/librpcregistry.a rpcd/librpcdns.a rpcd/librpccache.a rpcd/librpccachetable.a rpcd/librpcacl.a rpcd/librpcfailover.a rpcd/librpcwan.a rpcd/librpcdefinition.a rpcd/librpceventwire.a common/libtvjson.a common/libtvrt.a common/libtvcore.a \
	$(PCRE2_LIBS) $(JANSSON_LIBS) $(SODIUM_LIBS) $(ZLIB_LIBS) $(EV_LIBS) -lm
if HAVE_CHECK
check_PROGRAMS += tests/unit/check_params tests/unit/check_api tests/unit/check_api_catalog tests/unit/check_api_operator tests/unit/check_api_txn tests/unit/check_api_prepared tests/unit/check_api_acl tests/unit/check_api_ui tests/unit/check_api_dns tests/unit/check_translate tests/unit/check_api_agent tests/unit/check_agent_checks
TESTS += tests/unit/check_params tests/unit/check_api tests/unit/check_api_catalog tests/unit/check_api_operator tests/unit/check_api_txn tests/unit/check_api_prepared tests/unit/check_api_acl tests/unit/check_api_ui tests/unit/check_api_dns tests/unit/check_translate tests/unit/check_api_agent tests/unit/check_agent_checks
tests_unit_check_agent_checks_SOURCES = tests/unit/check_agent_checks.c
tests_unit_check_agent_checks_LDADD = rpcd/librpcagent.a rpcd/librpcregistry.a rpcd/librpcevent.a common/libtvjson.a common/libtvrt.a $(UNIT_LIBS) $(EV_LIBS) \
	$(JANSSON_LIBS) $(SODIUM_LIBS)
check_PROGRAMS += tests/unit/check_tls_server
TESTS += tests/unit/check_tls_server
tests_unit_check_tls_server_SOURCES = tests/unit/check_tls_server.c
tests_unit_check_tls_server_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(OPENSSL_CFLAGS)
tests_unit_check_tls_server_LDADD = rpcd/librpctls.a rpcd/librpcconf.a $(TLS_LIBS) common/libtvrt.a $(UNIT_LIBS) $(EV_LIBS) $(SODIUM_LIBS)
FUZZ_REPLAYS += tests/fuzz/replay_tls
tests_fuzz_replay_tls_SOURCES = tests/fuzz/fuzz_tls.c tests/fuzz/replay.c
tests_fuzz_replay_tls_CFLAGS = $(AM_CFLAGS) $(OPENSSL_CFLAGS)
tests_fuzz_replay_tls_LDADD = rpcd/librpctls.a rpcd/librpcconf.a $(TLS_LIBS) $(RT_LIBS)
check_PROGRAMS += tests/unit/check_key_process
TESTS += tests/unit/check_key_process
tests_unit_check_key_process_SOURCES = tests/unit/check_key_process.c tests/unit/scratch.c tests/unit/scratch.h tests/unit/tls_kit.h
tests_unit_check_key_process_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(OPENSSL_CFLAGS)
tests_unit_check_key_process_LDADD = rpcd/librpckeys.a rpcd/librpckeypair.a rpcd/librpcconf.a $(RT_LIBS) $(UNIT_LIBS) $(OPENSSL_LIBS)
check_PROGRAMS += tests/unit/check_check_fair
TESTS += tests/unit/check_check_fair
tests_unit_check_check_fair_SOURCES = tests/unit/check_check_fair.c
tests_unit_check_check_fair_LDADD = rpcd/librpccheck.a common/libtvcore.a $(CHECK_LIBS) -lm

check_PROGRAMS += tests/unit/check_check
TESTS += tests/unit/check_check
tests_unit_check_check_SOURCES = tests/unit/check_check.c
tests_unit_check_check_LDADD = rpcd/librpccheck.a $(UNIT_LIBS)
check_PROGRAMS += tests/unit/check_dns
TESTS += tests/unit/check_dns
tests_unit_check_dns_SOURCES = tests/unit/check_dns.c
tests_unit_check_dns_LDADD = rpcd/librpcdns.a $(UNIT_LIBS)
check_PROGRAMS += tests/unit/check_dns_facts
TESTS += tests/unit/check_dns_facts
tests_unit_check_dns_facts_SOURCES = tests/unit/check_dns_facts.c
tests_unit_check_dns_facts_LDADD = rpcd/librpcdns.a $(UNIT_LIBS)
check_PROGRAMS += tests/unit/check_dns_room
TESTS += tests/unit/check_dns_room
tests_unit_check_dns_room_SOURCES = tests/unit/check_dns_room.c
tests_unit_check_dns_room_LDADD = rpcd/librpcdns.a $(UNIT_LIBS)
check_PROGRAMS += tests/unit/check_dns_rendered
TESTS += tests/unit/check_dns_rendered
tests_unit_check_dns_rendered_SOURCES = tests/unit/check_dns_rendered.c
tests_unit_check_dns_rendered_LDADD = rpcd/librpcdns.a $(UNIT_LIBS)
# Neither a loop nor the router is linked: the registry does without.
check_PROGRAMS += tests/unit/check_registry
TESTS += tests/unit/check_registry
tests_unit_check_registry_SOURCES = tests/unit/check_registry.c
tests_unit_check_registry_LDADD = rpcd/librpcagent.a rpcd/librpcregistry.a common/libtvjson.a common/libtvrt.a $(UNIT_LIBS) \
	$(JANSSON_LIBS)
check_PROGRAMS += tests/unit/check_definition
TESTS += tests/unit/check_definition
tests_unit_check_definition_SOURCES = tests/unit/check_definition.c
tests_unit_check_definition_LDADD = rpcd/librpcdefinition.a common/libtvjson.a $(UNIT_LIBS) $(JANSSON_LIBS)
tests_unit_check_params_SOURCES = tests/unit/check_params.c
tests_unit_check_params_LDADD = rpcd/librpcapi.a $(UNIT_LIBS) $(ZLIB_LIBS)
API_KIT = tests/unit/api_kit.h tests/unit/api_fakes.h
tests_unit_check_api_SOURCES = tests/unit/check_api.c $(API_KIT)
tests_unit_check_api_LDADD = $(RPC_API_LIBS) $(CHECK_LIBS)
tests_unit_check_api_catalog_SOURCES = tests/unit/check_api_catalog.c $(API_KIT)
tests_unit_check_api_catalog_LDADD = $(RPC_API_LIBS) $(CHECK_LIBS)
tests_unit_check_api_operator_SOURCES = tests/unit/check_api_operator.c $(API_KIT)
tests_unit_check_api_operator_LDADD = $(RPC_API_LIBS) $(CHECK_LIBS)
tests_unit_check_api_txn_SOURCES = tests/unit/check_api_txn.c $(API_KIT)
tests_unit_check_api_txn_LDADD = $(RPC_API_LIBS) $(CHECK_LIBS)
tests_unit_check_api_prepared_SOURCES = tests/unit/check_api_prepared.c $(API_KIT)
tests_unit_check_api_prepared_LDADD = $(RPC_API_LIBS) $(CHECK_LIBS)
tests_unit_check_api_acl_SOURCES = tests/unit/check_api_acl.c $(API_KIT)
tests_unit_check_api_acl_LDADD = $(RPC_API_LIBS) $(CHECK_LIBS)
tests_unit_check_api_ui_SOURCES = tests/unit/check_api_ui.c $(API_KIT)
tests_unit_check_api_ui_LDADD = $(RPC_API_LIBS) $(CHECK_LIBS)
tests_unit_check_api_dns_SOURCES = tests/unit/check_api_dns.c $(API_KIT)
tests_unit_check_api_dns_LDADD = $(RPC_API_LIBS) $(CHECK_LIBS)
tests_unit_check_translate_SOURCES = tests/unit/check_translate.c $(API_KIT)
tests_unit_check_translate_LDADD = $(RPC_API_LIBS) $(CHECK_LIBS)
tests_unit_check_api_agent_SOURCES = tests/unit/check_api_agent.c $(API_KIT)
tests_unit_check_api_agent_LDADD = $(RPC_API_LIBS) $(CHECK_LIBS)
endif

# Access control: the resolver against a fake router, and the endpoints with one.
if HAVE_CHECK
check_PROGRAMS += tests/unit/check_acl_resolver tests/unit/check_api_access
TESTS += tests/unit/check_acl_resolver tests/unit/check_api_access
tests_unit_check_acl_resolver_SOURCES = tests/unit/check_acl_resolver.c
tests_unit_check_acl_resolver_LDADD = rpcd/librpcacl.a common/libtvjson.a common/libtvrt.a $(UNIT_LIBS) $(JANSSON_LIBS) $(EV_LIBS) $(SODIUM_LIBS)
tests_unit_check_api_access_SOURCES = tests/unit/check_api_access.c $(API_KIT)
tests_unit_check_api_access_LDADD = $(RPC_API_LIBS) $(CHECK_LIBS)
endif
# The audit trail.
if HAVE_CHECK
check_PROGRAMS += tests/unit/check_audit tests/unit/check_api_audit
TESTS += tests/unit/check_audit tests/unit/check_api_audit
tests_unit_check_audit_SOURCES = tests/unit/check_audit.c tests/unit/scratch.c tests/unit/scratch.h
tests_unit_check_audit_LDADD = rpcd/librpcaudit.a common/libtvrt.a $(JANSSON_LIBS) $(EV_LIBS) $(UNIT_LIBS) -lpthread
tests_unit_check_api_audit_SOURCES = tests/unit/check_api_audit.c tests/unit/scratch.c tests/unit/scratch.h $(API_KIT)
tests_unit_check_api_audit_LDADD = $(RPC_API_LIBS) $(CHECK_LIBS)
endif
FUZZ_REPLAYS += tests/fuzz/replay_audit
tests_fuzz_replay_audit_SOURCES = tests/fuzz/fuzz_audit.c tests/fuzz/replay.c
tests_fuzz_replay_audit_LDADD = rpcd/librpcaudit.a common/libtvrt.a common/libtvcore.a $(JANSSON_LIBS) $(EV_LIBS)

FUZZ_REPLAYS += tests/fuzz/replay_http_path
tests_fuzz_replay_http_path_SOURCES = tests/fuzz/fuzz_http_path.c tests/unit/api_fakes.h tests/fuzz/replay.c
tests_fuzz_replay_http_path_LDADD = $(RPC_API_LIBS)

# Tables of all configuration files against manuals and samples.
if HAVE_CHECK
check_PROGRAMS += tests/unit/check_opts
TESTS += tests/unit/check_opts
tests_unit_check_opts_SOURCES = tests/unit/check_opts.c gossipd/opts.c raftd/opts.c
tests_unit_check_opts_LDADD = rpcd/librpcconf.a gossipd/libgossipcore.a common/libtvrt.a $(UNIT_LIBS) $(SODIUM_LIBS) $(UCL_LIBS)
endif

# The table of the cache: neither a loop nor the router is linked.
if HAVE_CHECK
check_PROGRAMS += tests/unit/check_cache
TESTS += tests/unit/check_cache
tests_unit_check_cache_SOURCES = tests/unit/check_cache.c
tests_unit_check_cache_LDADD = rpcd/librpccachetable.a $(UNIT_LIBS)
endif

# ?filter= expressions.
if HAVE_CHECK
check_PROGRAMS += tests/unit/check_filter
TESTS += tests/unit/check_filter
tests_unit_check_filter_SOURCES = tests/unit/check_filter.c
tests_unit_check_filter_LDADD = common/libtvcore.a $(PCRE2_LIBS) $(UNIT_LIBS)
endif

FUZZ_REPLAYS += tests/fuzz/replay_filter
tests_fuzz_replay_filter_SOURCES = tests/fuzz/fuzz_filter.c tests/fuzz/replay.c
tests_fuzz_replay_filter_LDADD = common/libtvcore.a $(PCRE2_LIBS)

# Network coordinates as values.
if HAVE_CHECK
check_PROGRAMS += tests/unit/check_coordinate
TESTS += tests/unit/check_coordinate
tests_unit_check_coordinate_SOURCES = tests/unit/check_coordinate.c
tests_unit_check_coordinate_LDADD = $(UNIT_LIBS) -lm
endif

# User events and queries.
if HAVE_CHECK
check_PROGRAMS += tests/unit/check_events
TESTS += tests/unit/check_events
tests_unit_check_events_SOURCES = tests/unit/check_events.c
tests_unit_check_events_LDADD = rpcd/librpcevent.a rpcd/librpceventwire.a common/libtvrt.a $(UNIT_LIBS) \
	$(EV_LIBS) $(SODIUM_LIBS) $(PCRE2_LIBS)
endif

FUZZ_REPLAYS += tests/fuzz/replay_event
tests_fuzz_replay_event_SOURCES = tests/fuzz/fuzz_event.c tests/fuzz/replay.c
tests_fuzz_replay_event_LDADD = rpcd/librpceventwire.a common/libtvcore.a $(SODIUM_LIBS)

# Live logs.
if HAVE_CHECK
check_PROGRAMS += tests/unit/check_log_streams
TESTS += tests/unit/check_log_streams
tests_unit_check_log_streams_SOURCES = tests/unit/check_log_streams.c tests/unit/chan_world.h rpcd/node/log_streams.c
tests_unit_check_log_streams_LDADD = common/libtvrt.a $(UNIT_LIBS) $(EV_LIBS) $(SODIUM_LIBS)
endif

# Heads and chunks of requests.
if HAVE_CHECK
check_PROGRAMS += tests/unit/check_http_scan
TESTS += tests/unit/check_http_scan
tests_unit_check_http_scan_SOURCES = tests/unit/check_http_scan.c
tests_unit_check_http_scan_LDADD = rpcd/librpchttp.a $(UNIT_LIBS)
endif

FUZZ_REPLAYS += tests/fuzz/replay_http_conn
tests_fuzz_replay_http_conn_SOURCES = tests/fuzz/fuzz_http_conn.c tests/fuzz/replay.c
tests_fuzz_replay_http_conn_LDADD = rpcd/librpchttp.a common/libtvcore.a

# HTTP/2 without sockets.
if HAVE_CHECK
check_PROGRAMS += tests/unit/check_h2
TESTS += tests/unit/check_h2
tests_unit_check_h2_SOURCES = tests/unit/check_h2.c tests/fault/alloc.c tests/fault/alloc.h
tests_unit_check_h2_LDFLAGS = $(AM_LDFLAGS) $(WRAP_ALLOC)
tests_unit_check_h2_CFLAGS = $(AM_CFLAGS) $(NGHTTP2_CFLAGS)
tests_unit_check_h2_LDADD = rpcd/librpchttp.a common/libtvcore.a $(UNIT_LIBS) $(NGHTTP2_LIBS)
endif

FUZZ_REPLAYS += tests/fuzz/replay_h2
tests_fuzz_replay_h2_SOURCES = tests/fuzz/fuzz_h2.c tests/fuzz/replay.c
tests_fuzz_replay_h2_LDADD = rpcd/librpchttp.a common/libtvcore.a $(NGHTTP2_LIBS)

FUZZ_REPLAYS += tests/fuzz/replay_http_json
tests_fuzz_replay_http_json_SOURCES = tests/fuzz/fuzz_http_json.c tests/fuzz/replay.c
tests_fuzz_replay_http_json_LDADD = common/libtvjson.a common/libtvcore.a $(JANSSON_LIBS)

# The head of an answer.
if HAVE_CHECK
check_PROGRAMS += tests/unit/check_response_head
TESTS += tests/unit/check_response_head
tests_unit_check_response_head_SOURCES = tests/unit/check_response_head.c rpcd/http/response_head.c
tests_unit_check_response_head_LDADD = $(UNIT_LIBS)
endif

# checks.json
FUZZ_REPLAYS += tests/fuzz/replay_checks
tests_fuzz_replay_checks_SOURCES = tests/fuzz/fuzz_checks.c tests/fuzz/replay.c
tests_fuzz_replay_checks_LDADD = rpcd/librpcagent.a rpcd/librpcregistry.a common/libtvjson.a common/libtvrt.a \
	common/libtvcore.a $(JANSSON_LIBS) $(SODIUM_LIBS)

# Frames of rpcd-keys, at both ends
FUZZ_REPLAYS += tests/fuzz/replay_keys
tests_fuzz_replay_keys_SOURCES = tests/fuzz/fuzz_keys.c tests/fuzz/replay.c
tests_fuzz_replay_keys_CFLAGS = $(AM_CFLAGS) $(OPENSSL_CFLAGS)
tests_fuzz_replay_keys_LDADD = rpcd/librpckeys.a rpcd/librpckeypair.a rpcd/librpcconf.a $(RT_LIBS) $(OPENSSL_LIBS)

# Messages of DNS
FUZZ_REPLAYS += tests/fuzz/replay_dns
tests_fuzz_replay_dns_SOURCES = tests/fuzz/fuzz_dns.c tests/fuzz/replay.c
tests_fuzz_replay_dns_LDADD = rpcd/librpcdns.a common/libtvcore.a

# Definitions of services
FUZZ_REPLAYS += tests/fuzz/replay_definition
tests_fuzz_replay_definition_SOURCES = tests/fuzz/fuzz_definition.c tests/fuzz/replay.c
tests_fuzz_replay_definition_LDADD = rpcd/librpcdefinition.a rpcd/librpcagent.a rpcd/librpcregistry.a common/libtvjson.a \
	common/libtvrt.a common/libtvcore.a $(JANSSON_LIBS) $(SODIUM_LIBS)

# Files of services.d
FUZZ_REPLAYS += tests/fuzz/replay_services
tests_fuzz_replay_services_SOURCES = tests/fuzz/fuzz_services.c tests/fuzz/replay.c
tests_fuzz_replay_services_LDADD = rpcd/librpcdefset.a rpcd/librpcdefinition.a rpcd/librpcagent.a rpcd/librpcregistry.a common/libtvjson.a \
	common/libtvrt.a common/libtvcore.a $(JANSSON_LIBS) $(SODIUM_LIBS)

# Limits that an operator sets: buckets, which are pure, and what they and the gates refuse.
check_PROGRAMS += tests/unit/check_buckets tests/unit/check_usage tests/unit/check_api_limits
TESTS += tests/unit/check_buckets tests/unit/check_usage tests/unit/check_api_limits
tests_unit_check_buckets_SOURCES = tests/unit/check_buckets.c
tests_unit_check_buckets_LDADD = rpcd/librpcapi.a $(UNIT_LIBS) $(ZLIB_LIBS)
tests_unit_check_usage_SOURCES = tests/unit/check_usage.c
tests_unit_check_usage_LDADD = rpcd/librpcapi.a $(UNIT_LIBS) $(ZLIB_LIBS)
tests_unit_check_api_limits_SOURCES = tests/unit/check_api_limits.c $(API_KIT)
tests_unit_check_api_limits_LDADD = $(RPC_API_LIBS) $(CHECK_LIBS)
