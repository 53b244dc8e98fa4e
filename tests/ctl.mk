# clusterctl, with a fake in the place of rpcd
if HAVE_CHECK
check_PROGRAMS += tests/unit/check_ctl
TESTS += tests/unit/check_ctl
tests_unit_check_ctl_SOURCES = tests/unit/check_ctl.c tests/unit/ctl_kit.h
tests_unit_check_ctl_LDADD = ctl/libctl.a raftd/libfsm.a common/libtvjson.a common/libtvrt.a common/libtvcore.a $(CHECK_LIBS) $(JANSSON_LIBS) \
	$(SODIUM_LIBS) $(PCRE2_LIBS) $(OPENSSL_LIBS) $(ZLIB_LIBS) -lm
check_PROGRAMS += tests/unit/check_ctl_resource
TESTS += tests/unit/check_ctl_resource
tests_unit_check_ctl_resource_SOURCES = tests/unit/check_ctl_resource.c tests/unit/ctl_kit.h
tests_unit_check_ctl_resource_LDADD = $(tests_unit_check_ctl_LDADD)
check_PROGRAMS += tests/unit/check_ctl_acl
TESTS += tests/unit/check_ctl_acl
tests_unit_check_ctl_acl_SOURCES = tests/unit/check_ctl_acl.c tests/unit/ctl_kit.h
tests_unit_check_ctl_acl_LDADD = $(tests_unit_check_ctl_LDADD)
check_PROGRAMS += tests/unit/check_ctl_endpoint
TESTS += tests/unit/check_ctl_endpoint
tests_unit_check_ctl_endpoint_SOURCES = tests/unit/check_ctl_endpoint.c
tests_unit_check_ctl_endpoint_LDADD = $(tests_unit_check_ctl_LDADD)
endif
