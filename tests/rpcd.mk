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
