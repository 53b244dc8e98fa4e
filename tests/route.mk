# The router against fakes of its neighbours: route.c alone is linked, not its library.
if HAVE_CHECK
check_PROGRAMS += tests/unit/check_route
TESTS += tests/unit/check_route
tests_unit_check_route_SOURCES = tests/unit/check_route.c rpcd/route.c
tests_unit_check_route_LDADD = common/libtvrt.a $(UNIT_LIBS) $(EV_LIBS)
endif
