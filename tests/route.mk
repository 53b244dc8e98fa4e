# The router against fakes of its neighbours: route.c and dcs.c alone are linked, not their library.
if HAVE_CHECK
check_PROGRAMS += tests/unit/check_route
TESTS += tests/unit/check_route
tests_unit_check_route_SOURCES = tests/unit/check_route.c rpcd/route.c rpcd/dcs.c
tests_unit_check_route_LDADD = common/libtvrt.a $(UNIT_LIBS) $(EV_LIBS) -lm
endif
