# rpcd: one library for each room, the lower ones below.  The link line of rpcd lists each of them once, the upper ones
# first, so that none can need one above it.
noinst_LIBRARIES += rpcd/librpcconf.a rpcd/librpcgossip.a rpcd/librpcwan.a rpcd/librpcroute.a
rpcd_librpcconf_a_SOURCES = rpcd/opts.c rpcd/opts_tls.c rpcd/opts.h
# The audit trail: lines, which are pure, and their way to the log or a file.
noinst_LIBRARIES += rpcd/librpcaudit.a
rpcd_librpcaudit_a_SOURCES = rpcd/audit/audit_line.c rpcd/audit/audit_line.h rpcd/audit/trail.c rpcd/audit/trail.h \
	rpcd/audit/denials.c rpcd/audit/denials.h
rpcd_librpcgossip_a_SOURCES = \
	rpcd/gossip/members.c rpcd/gossip/members.h rpcd/gossip/coord_query.c rpcd/gossip/coord_query.h \
	rpcd/gossip/keyring_query.c rpcd/gossip/keyring_query.h rpcd/gossip/twins.c rpcd/gossip/twins.h
rpcd_librpcwan_a_SOURCES = rpcd/wan/coords.c rpcd/wan/coords.h rpcd/wan/datacenters.c rpcd/wan/datacenters.h \
	rpcd/wan/translate.c rpcd/wan/translate.h
rpcd_librpcroute_a_SOURCES = \
	rpcd/route/raftd_client.c rpcd/route/raftd_client.h rpcd/route/peer_standing.c rpcd/route/peer_standing.h \
	rpcd/route/link_client.c rpcd/route/link_client.h rpcd/route/link_server.c rpcd/route/link_server.h \
	rpcd/route/route.c rpcd/route/route.h rpcd/route/route_int.h rpcd/route/dispatch.c rpcd/route/forward.c

# Several operations that make one, over the router's interface alone: the API is tested with it, and without the router.
noinst_LIBRARIES += rpcd/librpcfailover.a
rpcd_librpcfailover_a_SOURCES = rpcd/route/failover.c rpcd/route/failover.h

# Access control, of what rpcd decides itself.
noinst_LIBRARIES += rpcd/librpcacl.a
rpcd_librpcacl_a_SOURCES = \
	rpcd/acl/resolver.c rpcd/acl/resolver.h rpcd/acl/grants.c rpcd/acl/grants.h rpcd/acl/rights.c rpcd/acl/rights.h \
	rpcd/acl/tokens.c rpcd/acl/tokens.h rpcd/acl/guard.c rpcd/acl/guard.h

# Copies of the primary datacenter's tokens, policies and roles.
noinst_LIBRARIES += rpcd/librpcreplicate.a
rpcd_librpcreplicate_a_SOURCES = rpcd/replicate/replicate.c rpcd/replicate/replicate.h

# The agent's cache.  Its table is pure: tests link it with nothing else of rpcd.
noinst_LIBRARIES += rpcd/librpccachetable.a rpcd/librpccache.a
rpcd_librpccachetable_a_SOURCES = \
	rpcd/cache/cache_table.c rpcd/cache/cache_table.h rpcd/cache/cache_table_int.h rpcd/cache/cache_room.c
rpcd_librpccache_a_SOURCES = rpcd/cache/cache.c rpcd/cache/cache.h rpcd/cache/question.c

# The HTTP API without sockets: what unit tests link.
noinst_LIBRARIES += rpcd/librpcapi.a
rpcd_librpcapi_a_SOURCES = \
	rpcd/api/access.c rpcd/api/api.c rpcd/api/api.h rpcd/api/api_request.c rpcd/api/api_request.h rpcd/api/audit.c \
	rpcd/api/audit.h rpcd/api/browser_guard.c rpcd/api/buckets.c rpcd/api/buckets.h rpcd/api/gates.c \
	rpcd/api/limits.c rpcd/api/limits.h rpcd/api/usage.c rpcd/api/usage.h rpcd/api/accounts.c rpcd/api/accounts.h rpcd/api/cached.c rpcd/api/park.c rpcd/api/park.h rpcd/api/endpoint.c rpcd/api/endpoint.h \
	rpcd/api/filter.c rpcd/api/gzip.c rpcd/api/gzip.h rpcd/api/handler.c rpcd/api/local_read.c rpcd/api/not_served.c rpcd/api/params.c \
	rpcd/api/params.h rpcd/api/render.c rpcd/api/request_log.c rpcd/api/tenancy.c rpcd/api/translate.c
# Its families of paths.
rpcd_librpcapi_a_SOURCES += \
	rpcd/api/v1/acl.c rpcd/api/v1/acl.h rpcd/api/v1/acl_auth.c rpcd/api/v1/acl_policy.c rpcd/api/v1/acl_token.c \
	rpcd/api/v1/agent.c rpcd/api/v1/agent.h rpcd/api/v1/agent_checks.c rpcd/api/v1/agent_coord.c \
	rpcd/api/v1/agent_health.c rpcd/api/v1/agent_services.c rpcd/api/v1/agent_self.c \
	rpcd/api/v1/agent_token.c rpcd/api/v1/autopilot.c rpcd/api/v1/catalog.c rpcd/api/v1/config.c \
	rpcd/api/v1/coordinate.c rpcd/api/v1/dns.c rpcd/api/v1/event.c rpcd/api/v1/health.c rpcd/api/v1/host.c \
	rpcd/api/v1/host.h rpcd/api/v1/keyring.c rpcd/api/v1/kv.c rpcd/api/v1/members_json.c \
	rpcd/api/v1/members_json.h rpcd/api/v1/metrics.c rpcd/api/v1/monitor.c rpcd/api/v1/operator.c \
	rpcd/api/v1/prepared.c rpcd/api/v1/queries.c rpcd/api/v1/session.c rpcd/api/v1/snapshot.c rpcd/api/v1/status.c \
	rpcd/api/v1/top.c rpcd/api/v1/txn.c rpcd/api/v1/ui.c

# The server's side of TLS.  It is linked with $(TLS_LIBS).
noinst_LIBRARIES += rpcd/librpctls.a
rpcd_librpctls_a_SOURCES = \
	rpcd/tls/provider.c rpcd/tls/provider.h rpcd/tls/tickets.c rpcd/tls/tickets.h rpcd/tls/handshakes.c \
	rpcd/tls/handshakes.h rpcd/tls/identity.c rpcd/tls/peer_name.c rpcd/tls/tls_conn.c \
	rpcd/tls/tls_server.c rpcd/tls/tls_server.h rpcd/tls/tls_int.h rpcd/tls/tls_renewal.c rpcd/tls/tls_renewal.h
rpcd_librpctls_a_CFLAGS = $(AM_CFLAGS) $(OPENSSL_CFLAGS)
# In its place, for a program without OpenSSL.
noinst_LIBRARIES += rpcd/librpcnotls.a
rpcd_librpcnotls_a_SOURCES = rpcd/tls/no_tls.c rpcd/tls/tls_renewal.c rpcd/tls/tls_renewal.h

# HTTP.  http_scan.c, heads and chunks, is pure: tests and fuzzers link it with nothing else of rpcd.
noinst_LIBRARIES += rpcd/librpchttp.a
rpcd_librpchttp_a_SOURCES = \
	rpcd/http/http_scan.c rpcd/http/http_scan.h rpcd/http/http.c rpcd/http/http.h rpcd/http/http_int.h \
	rpcd/http/http_conns.c rpcd/http/http_wire.c rpcd/http/http_exchange.c rpcd/http/http_serve.c rpcd/http/http_send.c \
	rpcd/http/response_head.c \
	rpcd/http/response_head.h
# HTTP/2: the core, which needs no socket, its heads; and connections.
rpcd_librpchttp_a_SOURCES += rpcd/http/h2_head.c rpcd/http/h2_head.h rpcd/http/h2_session.c rpcd/http/h2_session.h \
	rpcd/http/h2_conns.c rpcd/http/h2_conns.h
rpcd_librpchttp_a_CFLAGS = $(AM_CFLAGS) $(NGHTTP2_CFLAGS)

# User events and queries of the pool.  event_wire.c is pure, and the API needs it.
noinst_LIBRARIES += rpcd/librpcevent.a
rpcd_librpcevent_a_SOURCES = \
	rpcd/event/waits.c rpcd/event/waits.h rpcd/event/events.c rpcd/event/events.h \
	rpcd/event/queries.c rpcd/event/queries.h rpcd/event/fire.c rpcd/event/fire.h
noinst_LIBRARIES += rpcd/librpceventwire.a
rpcd_librpceventwire_a_SOURCES = rpcd/event/event_wire.c rpcd/event/event_wire.h

# rpcd-check, the program of "rpcd: check": it alone of rpcd needs libcurl and libnghttp2.  librpccheck.a is pure.
noinst_LIBRARIES += rpcd/librpccheck.a
rpcd_librpccheck_a_SOURCES = \
	rpcd/check/schedule.c rpcd/check/schedule.h rpcd/check/verdict.c rpcd/check/verdict.h \
	rpcd/check/tail.c rpcd/check/tail.h rpcd/check/reason.c rpcd/check/reason.h rpcd/check/grpc.c rpcd/check/grpc.h \
	rpcd/check/docker_stream.c rpcd/check/docker_stream.h rpcd/check/fair.c rpcd/check/fair.h \
	rpcd/check/names.c rpcd/check/names.h rpcd/check/url.c rpcd/check/url.h
sbin_PROGRAMS += rpcd/rpcd-check
rpcd_rpcd_check_SOURCES = \
	rpcd/check/main.c rpcd/check/checks.c rpcd/check/checker.h rpcd/check/resolve.c rpcd/check/resolve.h \
	rpcd/check/dial.c rpcd/check/dial.h rpcd/check/credentials.c rpcd/check/credentials.h rpcd/check/key_mode.h rpcd/check/probe_tcp.c rpcd/check/probe_udp.c rpcd/check/probe_http.c \
	rpcd/check/probe_h2.c rpcd/check/probe_script.c rpcd/check/keeper.c rpcd/check/keeper.h rpcd/check/role.h \
	rpcd/check/curl_loop.c rpcd/check/curl_loop.h rpcd/check/probe_docker.c
rpcd_rpcd_check_CFLAGS = $(AM_CFLAGS) $(NGHTTP2_CFLAGS) $(OPENSSL_CFLAGS)
rpcd_rpcd_check_LDADD = rpcd/librpccheck.a common/libtvjson.a $(TLS_LIBS) $(RT_LIBS) $(JANSSON_LIBS) $(CURL_LIBS) $(NGHTTP2_LIBS) -lm

# rpcd-dns, the program of "rpcd: dns".  librpcdns.a is pure: packets, names, answers.
noinst_LIBRARIES += rpcd/librpcdns.a
rpcd_librpcdns_a_SOURCES = \
	rpcd/dns/dname.c rpcd/dns/dname.h rpcd/dns/query.c rpcd/dns/query.h rpcd/dns/zone.c rpcd/dns/zone.h \
	rpcd/dns/records.c rpcd/dns/records.h rpcd/dns/answer.c rpcd/dns/answer.h rpcd/dns/rate.c rpcd/dns/rate.h \
	rpcd/dns/message.c rpcd/dns/message.h rpcd/dns/rendered.c rpcd/dns/rendered.h rpcd/dns/explain.c rpcd/dns/explain.h \
	rpcd/dns/facts.c rpcd/dns/facts.h rpcd/dns/room.c rpcd/dns/room.h
sbin_PROGRAMS += rpcd/rpcd-dns
rpcd_rpcd_dns_SOURCES = \
	rpcd/dns/main.c rpcd/dns/setup.c rpcd/dns/asks.c rpcd/dns/udp.c rpcd/dns/tcp.c rpcd/dns/upstream.c \
	rpcd/dns/server.h rpcd/dns/launch.h
rpcd_rpcd_dns_LDADD = rpcd/librpcdns.a $(RT_LIBS)

# rpcd-keys, the program of "rpcd: keys", and rpcd's end of it.  Of OpenSSL the program links libcrypto, rpcd's end nothing.
noinst_LIBRARIES += rpcd/librpckeys.a rpcd/librpckeypair.a
rpcd_librpckeys_a_SOURCES = rpcd/keys/keys.c rpcd/keys/keys.h rpcd/keys/keys_check.c rpcd/keys/keys_check.h
rpcd_librpckeypair_a_SOURCES = rpcd/keys/holder.c rpcd/keys/holder.h rpcd/keys/pair.c rpcd/keys/pair.h \
	rpcd/keys/may_sign.c
rpcd_librpckeypair_a_CFLAGS = $(AM_CFLAGS) $(CRYPTO_CFLAGS)
sbin_PROGRAMS += rpcd/rpcd-keys
rpcd_rpcd_keys_SOURCES = rpcd/keys/main.c
rpcd_rpcd_keys_LDADD = rpcd/librpckeypair.a $(RT_LIBS) $(CRYPTO_LIBS)

# The table of what is registered on this node: pure; clock, catalog and file are handed in.
noinst_LIBRARIES += rpcd/librpcregistry.a
rpcd_librpcregistry_a_SOURCES = \
	rpcd/registry/registry.c rpcd/registry/registry_index.c rpcd/registry/registry_define.c \
	rpcd/registry/registry_sync.c rpcd/registry/registry_rights.c rpcd/registry/own_node.c \
	rpcd/registry/own_node.h rpcd/registry/registry_node.c rpcd/registry/registry.h rpcd/registry/registry_int.h
# What clients write of services and checks; pure, and the API needs it.
noinst_LIBRARIES += rpcd/librpcdefinition.a
rpcd_librpcdefinition_a_SOURCES = rpcd/registry/definition.c rpcd/registry/sidecar.c rpcd/registry/definition.h
# The same in the files of services.d: def_files.c reads them, the others are pure.
noinst_LIBRARIES += rpcd/librpcdefset.a
rpcd_librpcdefset_a_SOURCES = \
	rpcd/registry/def_set.c rpcd/registry/def_set.h rpcd/registry/def_hcl.c rpcd/registry/def_hcl.h \
	rpcd/registry/def_fields.c rpcd/registry/def_fields.h rpcd/registry/def_files.c rpcd/registry/def_files.h

# This node: its checks, its reports, its log, joining and leaving.
noinst_LIBRARIES += rpcd/librpcagent.a
rpcd_librpcagent_a_SOURCES = \
	rpcd/registry/registry_file.c rpcd/registry/registry_file.h rpcd/registry/registry_journal.c \
	rpcd/registry/registry_journal.h rpcd/registry/registry_loop.c rpcd/registry/registry_loop.h
# Its checks.
rpcd_librpcagent_a_SOURCES += \
	rpcd/checks/alias.c rpcd/checks/alias.h rpcd/checks/check_process.c rpcd/checks/check_process.h \
	rpcd/checks/checks.c rpcd/checks/checks.h
# What DNS asks.
rpcd_librpcagent_a_SOURCES += \
	rpcd/names/dns_conf.c rpcd/names/dns_conf.h rpcd/names/dns_explain.c rpcd/names/dns_explain.h \
	rpcd/names/dns_follow.c rpcd/names/dns_lookups.c rpcd/names/dns_lookups.h \
	rpcd/names/dns_lookups_int.h rpcd/names/dns_question.c rpcd/names/dns_process.c rpcd/names/dns_process.h \
	rpcd/names/dns_reply.c rpcd/names/dns_reply.h rpcd/names/recursors.c rpcd/names/recursors.h
# Joining and leaving, reports, the log.
rpcd_librpcagent_a_SOURCES += \
	rpcd/node/admin.c rpcd/node/admin.h rpcd/node/coord_report.c rpcd/node/coord_report.h rpcd/node/log_streams.c \
	rpcd/node/log_streams.h rpcd/node/twin_watch.c rpcd/node/twin_watch.h

sbin_PROGRAMS += rpcd/rpcd
rpcd_rpcd_SOURCES = rpcd/main.c rpcd/rpcd.h rpcd/opening.c rpcd/opening.h rpcd/info.c rpcd/info.h
# What both have below rpcd/http and the room of TLS.
RPCD_ROOMS = rpcd/librpcapi.a rpcd/librpcagent.a rpcd/librpcregistry.a rpcd/librpcdefset.a rpcd/librpcdefinition.a \
	rpcd/librpcevent.a rpcd/librpceventwire.a rpcd/librpccache.a rpcd/librpccachetable.a rpcd/librpcreplicate.a rpcd/librpcacl.a rpcd/librpcfailover.a rpcd/librpcroute.a rpcd/librpcwan.a rpcd/librpcgossip.a rpcd/librpckeys.a rpcd/librpcdns.a rpcd/librpcaudit.a rpcd/librpcconf.a
RPCD_SYSTEM_LIBS = $(RT_LIBS) $(JANSSON_LIBS) $(ZLIB_LIBS) $(PCRE2_LIBS) $(NGHTTP2_LIBS) -lm
rpcd_rpcd_LDADD = rpcd/librpchttp.a rpcd/librpcnotls.a $(RPCD_ROOMS) common/libtvjson.a $(RPCD_SYSTEM_LIBS)
# The same with HTTPS: rpcd becomes it where there is an https_port.
sbin_PROGRAMS += rpcd/rpcd-tls
rpcd_rpcd_tls_SOURCES = $(rpcd_rpcd_SOURCES)
rpcd_rpcd_tls_LDADD = rpcd/librpchttp.a rpcd/librpctls.a $(RPCD_ROOMS) common/libtvjson.a $(TLS_LIBS) $(RPCD_SYSTEM_LIBS)
EXTRA_DIST += rpcd/README.md rpcd/acl/README.md rpcd/audit/README.md rpcd/cache/README.md rpcd/check/README.md \
	rpcd/checks/README.md rpcd/event/README.md rpcd/gossip/README.md rpcd/keys/README.md rpcd/node/README.md rpcd/replicate/README.md \
	rpcd/tls/README.md rpcd/wan/README.md
