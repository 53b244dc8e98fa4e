# rpcd
noinst_LIBRARIES += rpcd/librpcroute.a
rpcd_librpcroute_a_SOURCES = \
	rpcd/view.c rpcd/view.h rpcd/raftlocal.c rpcd/raftlocal.h \
	rpcd/links.c rpcd/links.h rpcd/standing.c rpcd/standing.h rpcd/linkd.c rpcd/linkd.h \
	rpcd/route.c rpcd/route.h rpcd/route_int.h rpcd/ways.c rpcd/flight.c \
	rpcd/keyask.c rpcd/keyask.h rpcd/admin.c rpcd/admin.h \
	rpcd/coords.c rpcd/coords.h rpcd/places.c rpcd/places.h rpcd/dcs.c rpcd/dcs.h rpcd/report.c rpcd/report.h

# The HTTP API without sockets: what unit tests link.
noinst_LIBRARIES += rpcd/librpcapi.a
rpcd_librpcapi_a_SOURCES = \
	rpcd/params.c rpcd/params.h rpcd/request.c rpcd/request.h rpcd/gzip.c rpcd/gzip.h \
	rpcd/opts.c rpcd/opts.h rpcd/trust.c rpcd/notyet.c rpcd/reqlog.c rpcd/members_json.c rpcd/members_json.h \
	rpcd/api.c rpcd/api.h rpcd/apihelp.c rpcd/apifilter.c \
	rpcd/api_kv.c rpcd/api_session.c rpcd/api_catalog.c rpcd/api_health.c rpcd/api_status.c \
	rpcd/api_agent.c rpcd/api_agent_checks.c rpcd/api_agent_coord.c rpcd/api_operator.c rpcd/api_acl.c \
	rpcd/api_autopilot.c \
	rpcd/api_event.c rpcd/api_queries.c rpcd/api_monitor.c rpcd/api_coordinate.c rpcd/api_keyring.c rpcd/api_snapshot.c

# Heads and chunks of HTTP/1.1; pure.
noinst_LIBRARIES += rpcd/librpchttp.a
rpcd_librpchttp_a_SOURCES = rpcd/http_scan.c rpcd/http_scan.h

# ?filter= expressions; pure.
noinst_LIBRARIES += rpcd/librpcfilter.a
rpcd_librpcfilter_a_SOURCES = \
	rpcd/filter/lex.c rpcd/filter/parse.c rpcd/filter/bind.c rpcd/filter/eval.c rpcd/filter/tree.h rpcd/filter/filter.h
RPC_FILTER_LIBS = rpcd/librpcfilter.a common/libtvcore.a $(PCRE2_LIBS)

# User events and queries of the pool.  event_wire.c is pure, and the API needs it.
noinst_LIBRARIES += rpcd/librpcevent.a
rpcd_librpcevent_a_SOURCES = \
	rpcd/event/waits.c rpcd/event/waits.h rpcd/event/events.c rpcd/event/events.h \
	rpcd/event/queries.c rpcd/event/queries.h rpcd/event/fire.c rpcd/event/fire.h
noinst_LIBRARIES += rpcd/librpceventwire.a
rpcd_librpceventwire_a_SOURCES = rpcd/event/event_wire.c rpcd/event/event_wire.h

# This node's own checks.
noinst_LIBRARIES += rpcd/librpcagent.a
rpcd_librpcagent_a_SOURCES = \
	rpcd/agent/checks.c rpcd/agent/checks.h rpcd/agent/checks_int.h \
	rpcd/agent/checks_store.c rpcd/agent/checks_sync.c

sbin_PROGRAMS += rpcd/rpcd
rpcd_rpcd_SOURCES = rpcd/main.c rpcd/monitors.c rpcd/monitors.h rpcd/http.c rpcd/http.h rpcd/http_int.h \
	rpcd/http_conns.c rpcd/http_serve.c rpcd/http_send.c rpcd/head.c rpcd/head.h rpcd/clients.c rpcd/clients.h
rpcd_rpcd_LDADD = rpcd/librpchttp.a rpcd/librpcapi.a rpcd/librpcagent.a rpcd/librpcroute.a rpcd/librpcevent.a rpcd/librpcfilter.a \
	rpcd/librpcroute.a rpcd/librpceventwire.a common/libtvjson.a \
	$(RT_LIBS) $(MHD_LIBS) $(JANSSON_LIBS) $(ZLIB_LIBS) $(PCRE2_LIBS) -lm
EXTRA_DIST += rpcd/README.md
