# The router against fakes of its neighbours: its three files and datacenters.c alone are linked, not their library.
if HAVE_CHECK
check_PROGRAMS += tests/unit/check_route tests/unit/check_route_servers
TESTS += tests/unit/check_route tests/unit/check_route_servers
ROUTE_KIT = tests/unit/route_kit.h rpcd/route/route.c rpcd/route/forward.c rpcd/route/dispatch.c rpcd/wan/datacenters.c
tests_unit_check_route_SOURCES = tests/unit/check_route.c $(ROUTE_KIT)
tests_unit_check_route_LDADD = common/libtvrt.a $(UNIT_LIBS) $(EV_LIBS) $(SODIUM_LIBS) -lm
tests_unit_check_route_servers_SOURCES = tests/unit/check_route_servers.c $(ROUTE_KIT)
tests_unit_check_route_servers_LDADD = common/libtvrt.a $(UNIT_LIBS) $(EV_LIBS) $(SODIUM_LIBS) -lm
endif

# Reports of the own coordinate, against fakes of view and router.
if HAVE_CHECK
check_PROGRAMS += tests/unit/check_coord_report
TESTS += tests/unit/check_coord_report
tests_unit_check_coord_report_SOURCES = tests/unit/check_coord_report.c rpcd/node/coord_report.c rpcd/gossip/coord_query.c
tests_unit_check_coord_report_LDADD = common/libtvrt.a $(UNIT_LIBS) $(EV_LIBS) -lm
endif
