# rpcd: one library for each room, the lower ones below.  The link line of rpcd lists each of them once, the upper ones
# first, so that none can need one above it.
noinst_LIBRARIES += rpcd/librpcconf.a rpcd/librpcgossip.a rpcd/librpcwan.a rpcd/librpcroute.a
rpcd_librpcconf_a_SOURCES = rpcd/opts.c rpcd/opts.h
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
rpcd_librpcreplicate_a_SOURCES = rpcd/acl/replicate.c rpcd/acl/replicate.h

# The agent's cache.  Its table is pure: tests link it with nothing else of rpcd.
noinst_LIBRARIES += rpcd/librpccachetable.a rpcd/librpccache.a
rpcd_librpccachetable_a_SOURCES = \
	rpcd/cache/cache_table.c rpcd/cache/cache_table.h rpcd/cache/cache_table_int.h rpcd/cache/cache_room.c
rpcd_librpccache_a_SOURCES = rpcd/cache/cache.c rpcd/cache/cache.h rpcd/cache/question.c

# The HTTP API without sockets: what unit tests link.
noinst_LIBRARIES += rpcd/librpcapi.a
rpcd_librpcapi_a_SOURCES = \
	rpcd/api/params.c rpcd/api/params.h rpcd/api/api_request.c rpcd/api/api_request.h rpcd/api/gzip.c rpcd/api/gzip.h \
	rpcd/api/browser_guard.c rpcd/api/access.c rpcd/api/tenancy.c rpcd/api/api_agent_token.c rpcd/api/not_served.c rpcd/api/request_log.c rpcd/api/audit.c rpcd/api/audit.h rpcd/api/members_json.c rpcd/api/members_json.h \
	rpcd/api/api.c rpcd/api/api.h rpcd/api/endpoint.c rpcd/api/endpoint.h rpcd/api/handler.c rpcd/api/render.c rpcd/api/filter.c rpcd/api/cached.c rpcd/api/translate.c \
	rpcd/api/api_kv.c rpcd/api/api_config.c rpcd/api/api_session.c rpcd/api/api_catalog.c rpcd/api/api_ui.c rpcd/api/api_health.c rpcd/api/api_status.c \
	rpcd/api/api_agent.c rpcd/api/agent_stats.c rpcd/api/agent_stats.h rpcd/api/api_agent_checks.c rpcd/api/api_agent_coord.c rpcd/api/api_agent.h \
	rpcd/api/api_agent_services.c rpcd/api/api_agent_health.c rpcd/api/api_operator.c rpcd/api/api_acl.c rpcd/api/api_acl_token.c rpcd/api/api_acl_policy.c rpcd/api/api_acl_auth.c rpcd/api/api_acl.h \
	rpcd/api/api_autopilot.c rpcd/api/host.c rpcd/api/host.h \
	rpcd/api/api_event.c rpcd/api/api_queries.c rpcd/api/api_monitor.c rpcd/api/api_metrics.c \
	rpcd/api/api_coordinate.c rpcd/api/api_keyring.c rpcd/api/api_snapshot.c rpcd/api/api_txn.c rpcd/api/api_prepared.c \
	rpcd/api/api_dns.c

# HTTP/1.1.  http_scan.c, heads and chunks, is pure: tests and fuzzers link it with nothing else of rpcd.
noinst_LIBRARIES += rpcd/librpchttp.a
rpcd_librpchttp_a_SOURCES = \
	rpcd/http/http_scan.c rpcd/http/http_scan.h rpcd/http/http.c rpcd/http/http.h rpcd/http/http_int.h \
	rpcd/http/http_conns.c rpcd/http/http_serve.c rpcd/http/http_send.c rpcd/http/response_head.c \
	rpcd/http/response_head.h rpcd/http/client_limits.c rpcd/http/client_limits.h

# User events and queries of the pool.  event_wire.c is pure, and the API needs it.
noinst_LIBRARIES += rpcd/librpcevent.a
rpcd_librpcevent_a_SOURCES = \
	rpcd/event/waits.c rpcd/event/waits.h rpcd/event/events.c rpcd/event/events.h \
	rpcd/event/queries.c rpcd/event/queries.h rpcd/event/fire.c rpcd/event/fire.h
noinst_LIBRARIES += rpcd/librpceventwire.a
rpcd_librpceventwire_a_SOURCES = rpcd/event/event_wire.c rpcd/event/event_wire.h

# rpcd-check, the program of "rpcd: check": it alone of rpcd needs libcurl, libnghttp2 and GnuTLS.  librpccheck.a is pure.
noinst_LIBRARIES += rpcd/librpccheck.a
rpcd_librpccheck_a_SOURCES = \
	rpcd/check/schedule.c rpcd/check/schedule.h rpcd/check/verdict.c rpcd/check/verdict.h \
	rpcd/check/tail.c rpcd/check/tail.h rpcd/check/reason.c rpcd/check/reason.h rpcd/check/grpc.c rpcd/check/grpc.h \
	rpcd/check/docker_stream.c rpcd/check/docker_stream.h rpcd/check/fair.c rpcd/check/fair.h \
	rpcd/check/names.c rpcd/check/names.h rpcd/check/url.c rpcd/check/url.h
sbin_PROGRAMS += rpcd/rpcd-check
rpcd_rpcd_check_SOURCES = \
	rpcd/check/main.c rpcd/check/checks.c rpcd/check/checker.h rpcd/check/resolve.c rpcd/check/resolve.h \
	rpcd/check/dial.c rpcd/check/dial.h rpcd/check/tls.c rpcd/check/tls.h rpcd/check/probe_tcp.c rpcd/check/probe_udp.c rpcd/check/probe_http.c \
	rpcd/check/probe_h2.c rpcd/check/probe_script.c rpcd/check/keeper.c rpcd/check/keeper.h rpcd/check/role.h \
	rpcd/check/curl_loop.c rpcd/check/curl_loop.h rpcd/check/probe_docker.c
rpcd_rpcd_check_CFLAGS = $(AM_CFLAGS) $(NGHTTP2_CFLAGS) $(GNUTLS_CFLAGS)
rpcd_rpcd_check_LDADD = rpcd/librpccheck.a common/libtvjson.a $(RT_LIBS) $(JANSSON_LIBS) $(CURL_LIBS) $(NGHTTP2_LIBS) $(GNUTLS_LIBS) -lm

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

# The table of what is registered on this node: pure; clock, catalog and file are handed in.
noinst_LIBRARIES += rpcd/librpcregistry.a
rpcd_librpcregistry_a_SOURCES = \
	rpcd/agent/registry.c rpcd/agent/registry_index.c rpcd/agent/registry_define.c rpcd/agent/registry_sync.c rpcd/agent/registry_rights.c rpcd/agent/own_node.c rpcd/agent/own_node.h rpcd/agent/registry_node.c rpcd/agent/registry.h rpcd/agent/registry_int.h
# What clients write of services and checks; pure, and the API needs it.
noinst_LIBRARIES += rpcd/librpcdefinition.a
rpcd_librpcdefinition_a_SOURCES = rpcd/agent/definition.c rpcd/agent/sidecar.c rpcd/agent/definition.h
# The same in the files of services.d: def_files.c reads them, the others are pure.
noinst_LIBRARIES += rpcd/librpcdefset.a
rpcd_librpcdefset_a_SOURCES = rpcd/agent/def_set.c rpcd/agent/def_set.h rpcd/agent/def_hcl.c rpcd/agent/def_hcl.h rpcd/agent/def_fields.c rpcd/agent/def_fields.h \
	rpcd/agent/def_files.c rpcd/agent/def_files.h

# This node: its checks, its reports, its log, joining and leaving.
noinst_LIBRARIES += rpcd/librpcagent.a
rpcd_librpcagent_a_SOURCES = \
	rpcd/agent/admin.c rpcd/agent/admin.h rpcd/agent/coord_report.c rpcd/agent/coord_report.h rpcd/agent/twin_watch.c rpcd/agent/twin_watch.h \
	rpcd/agent/log_streams.c rpcd/agent/log_streams.h \
	rpcd/agent/checks.c rpcd/agent/checks.h rpcd/agent/alias.c rpcd/agent/alias.h rpcd/agent/registry_file.c \
	rpcd/agent/dns_conf.c rpcd/agent/dns_conf.h rpcd/agent/dns_lookups.c rpcd/agent/dns_lookups.h \
	rpcd/agent/dns_explain.c rpcd/agent/dns_explain.h \
	rpcd/agent/dns_reply.c rpcd/agent/dns_reply.h \
	rpcd/agent/dns_process.c rpcd/agent/dns_process.h rpcd/agent/recursors.c rpcd/agent/recursors.h \
	rpcd/agent/check_process.c rpcd/agent/check_process.h \
	rpcd/agent/registry_loop.c rpcd/agent/registry_loop.h rpcd/agent/registry_file.h \
	rpcd/agent/registry_journal.c rpcd/agent/registry_journal.h

sbin_PROGRAMS += rpcd/rpcd
rpcd_rpcd_SOURCES = rpcd/main.c rpcd/rpcd.h rpcd/opening.c rpcd/opening.h rpcd/info.c rpcd/info.h
rpcd_rpcd_LDADD = rpcd/librpchttp.a rpcd/librpcapi.a rpcd/librpcagent.a rpcd/librpcregistry.a rpcd/librpcdefset.a rpcd/librpcdefinition.a \
	rpcd/librpcevent.a rpcd/librpceventwire.a rpcd/librpccache.a rpcd/librpccachetable.a rpcd/librpcreplicate.a rpcd/librpcacl.a rpcd/librpcfailover.a rpcd/librpcroute.a rpcd/librpcwan.a rpcd/librpcgossip.a rpcd/librpcdns.a rpcd/librpcaudit.a rpcd/librpcconf.a \
	common/libtvjson.a $(RT_LIBS) $(MHD_LIBS) $(JANSSON_LIBS) $(ZLIB_LIBS) $(PCRE2_LIBS) -lm
EXTRA_DIST += rpcd/README.md
