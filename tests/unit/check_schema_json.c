/* JSON into records: names, types, limits and the API's error texts. */
#include <check.h>
#include <stdlib.h>

#include "common/record/records.h"
#include "common/record/schema_json.h"

#define BYTES_MAX (1u << 20)

static struct arena arena;
static char why[256];

static enum tv_err
read_into(const struct schema *s, unsigned flags, const char *text, void *rec)
{
	json_t *v = json_first_value(span_str(text), why, sizeof(why));

	ck_assert_msg(v != NULL, "%s", why);
	why[0] = '\0';
	enum tv_err err = schema_from_json(s, v, flags, &arena, rec, why, sizeof(why));
	json_decref(v);
	return err;
}

static void
setup(void)
{
	arena = ARENA_INIT(BYTES_MAX);
}

static void
teardown(void)
{
	arena_done(&arena);
}

START_TEST(registration)
{
	struct catalog_register r = { 0 };

	ck_assert_int_eq(read_into(&catalog_register_schema, SJ_STRICT,
	    "{\"node\":\"n\",\"ADDRESS\":\"10.0.0.1\",\"NodeMeta\":{\"k\":\"v\"},\"SkipNodeUpdate\":true,"
	    "\"Service\":{\"Service\":\"web\",\"Tags\":[\"a\",\"b\"],\"Port\":80,\"Meta\":null,"
	    "\"Proxy\":{\"Config\":{\"x\": [0.1,1e3,true,null,\"\\u00e9\",{}]}},"
	    "\"TaggedAddresses\":{\"lan\":{\"address\":\"1.2.3.4\",\"Port\":81}},\"Weights\":{\"Passing\":3}},"
	    "\"Checks\":[{\"CheckID\":\"c\",\"Definition\":{\"Interval\":\"10s\",\"Timeout\":1000000000,"
	    "\"Header\":{\"A\":[\"b\"]}},\"CreateIndex\":99}]} trailing", &r), TV_OK);
	ck_assert(span_eqs(r.Node, "n") && span_eqs(r.Address, "10.0.0.1") && r.SkipNodeUpdate);
	ck_assert(r.NodeMeta.n == 1 && span_eqs(r.NodeMeta.kv[0][0], "k") && span_eqs(r.NodeMeta.kv[0][1], "v"));
	ck_assert(!r.TaggedAddresses.set && r.has_service && !r.has_check);
	ck_assert(r.Service.Tags.n == 2 && span_eqs(r.Service.Tags.v[1], "b") && r.Service.Port == 80);
	ck_assert(!r.Service.Meta.set && r.Service.Weights.Passing == 3 && r.Service.Weights.Warning == 0);
	ck_assert(span_eqs(r.Service.Proxy.Config, "{\"x\":[0.1,1000,true,null,\"\xc3\xa9\",{}]}"));
	const struct service_address *lan = r.Service.TaggedAddresses.v;
	ck_assert(r.Service.TaggedAddresses.n == 1 && span_eqs(lan->Name, "lan") && lan->Port == 81);
	ck_assert(span_eqs(lan->Address, "1.2.3.4"));
	const struct check *c = r.Checks.v;
	ck_assert(r.Checks.n == 1 && c->Definition.Interval == 10000000000 && c->Definition.Timeout == 1000000000);
	ck_assert(span_eqs(c->Definition.Header, "{\"A\":[\"b\"]}") && c->CreateIndex == 0);
}
END_TEST

START_TEST(coordinate)
{
	struct coordinate_update u = { 0 };

	ck_assert_int_eq(read_into(&coordinate_update_schema, SJ_STRICT,
	    "{\"node\":\"n\",\"Token\":\"t\",\"Coord\":{\"Vec\":[1,-2.5,null],\"Error\":0.1,\"Height\":1}}", &u), TV_OK);
	ck_assert(span_eqs(u.Node, "n") && u.Segment.len == 0 && u.Coord.Error == 0.1 && u.Coord.Height == 1);
	ck_assert(u.Coord.Vec.n == 3 && u.Coord.Vec.v[0] == 1 && u.Coord.Vec.v[1] == -2.5 && u.Coord.Vec.v[2] == 0);
	ck_assert_int_ne(read_into(&coordinate_update_schema, 0, "{\"Coord\":{\"Vec\":[\"1\"]}}", &u), TV_OK);
	ck_assert_str_eq(why, "json: cannot unmarshal string into Go value of type float64");
	ck_assert_int_ne(read_into(&coordinate_update_schema, 0, "{\"Coord\":{\"Vec\":7}}", &u), TV_OK);
	ck_assert_str_eq(why, "json: cannot unmarshal number into Go value of type []float64");
}
END_TEST

START_TEST(unknown_fields)
{
	struct catalog_register r = { 0 };

	ck_assert_int_ne(read_into(&catalog_register_schema, SJ_STRICT,
	    "{\"Node\":\"n\",\"Bogus\":true,\"Service\":{\"Other\":1}}", &r), TV_OK);
	ck_assert_str_eq(why, "json: unknown field \"Bogus\"");
	ck_assert_int_ne(read_into(&catalog_register_schema, SJ_STRICT, "{\"Service\":{\"Other\":1}}", &r), TV_OK);
	ck_assert_str_eq(why, "json: unknown field \"Other\"");
	ck_assert_int_eq(read_into(&catalog_register_schema, 0, "{\"Bogus\":true}", &r), TV_OK);
	/* internal fields are not for clients */
	struct catalog_deregister d = { 0 };
	ck_assert_int_eq(read_into(&catalog_deregister_schema, 0, "{\"Now\":5}", &d), TV_OK);
	ck_assert_int_eq(d.Now, 0);
}
END_TEST

START_TEST(snake_case)
{
	struct service s = { 0 };

	ck_assert_int_ne(read_into(&service_schema, SJ_STRICT, "{\"enable_tag_override\":true}", &s), TV_OK);
	ck_assert_int_eq(read_into(&service_schema, SJ_STRICT | SJ_SNAKE,
	    "{\"enable_tag_override\":true,\"tagged_addresses\":{\"wan\":{}},\"socket_path\":\"/x\"}", &s), TV_OK);
	ck_assert(s.EnableTagOverride && s.TaggedAddresses.n == 1 && span_eqs(s.SocketPath, "/x"));
}
END_TEST

/* What a proxy says of itself may be spelled so in every request; what is beside it may not. */
START_TEST(snake_case_of_proxies)
{
	struct catalog_register r = { 0 };

	ck_assert_int_eq(read_into(&catalog_register_schema, SJ_STRICT,
	    "{\"Service\":{\"Proxy\":{\"destination_service_name\":\"web\",\"mesh_gateway\":{\"mode\":\"none\"},"
	    "\"upstreams\":[{\"destination_name\":\"db\",\"local_bind_port\":9}],\"config\":{\"a_b\":1},"
	    "\"expose\":{\"paths\":[{\"listener_port\":8}]}},\"Port\":80}}", &r), TV_OK);
	const struct service_proxy *p = &r.Service.Proxy;
	ck_assert(span_eqs(p->DestinationServiceName, "web") && span_eqs(p->MeshGateway.Mode, "none"));
	ck_assert(span_eqs(p->Config, "{\"a_b\":1}"));
	ck_assert_uint_eq(((const struct upstream *)p->Upstreams.v)->LocalBindPort, 9);
	ck_assert_int_eq(((const struct exposed_path *)p->Expose.Paths.v)->ListenerPort, 8);
	ck_assert_int_ne(read_into(&catalog_register_schema, SJ_STRICT,
	    "{\"Service\":{\"Proxy\":{\"other_thing\":1}}}", &r), TV_OK);
	ck_assert_str_eq(why, "json: unknown field \"other_thing\"");
	ck_assert_int_ne(read_into(&catalog_register_schema, SJ_STRICT,
	    "{\"Service\":{\"Proxy\":{},\"enable_tag_override\":true}}", &r), TV_OK);
}
END_TEST

START_TEST(session_values)
{
	static const struct { const char *text; int64_t ns; } v[] = {
		{ "{\"LockDelay\":15}", 15000000000 }, { "{\"LockDelay\":\"250ms\"}", 250000000 },
		{ "{\"LockDelay\":1000}", 1000 }, { "{\"LockDelay\":5000000000}", 5000000000 },
		{ "{\"LockDelay\":null}", 7 },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct session s = { .LockDelay = 7 };	/* a default given before */

		ck_assert_int_eq(read_into(&session_schema, 0, v[i].text, &s), TV_OK);
		ck_assert_int_eq(s.LockDelay, v[i].ns);
	}
	struct session s = { 0 };
	ck_assert_int_eq(read_into(&session_schema, 0, "{\"NodeChecks\":[],\"Checks\":null}", &s), TV_OK);
	ck_assert(s.NodeChecks.set && s.NodeChecks.n == 0 && !s.Checks.set);
}
END_TEST

START_TEST(wrong_types)
{
	static const struct { const char *text, *why; } v[] = {
		{ "{\"LockDelay\":\"xyz\"}", "time: invalid duration \"xyz\"" },
		{ "{\"Name\":1}", "json: cannot unmarshal number into Go value of type string" },
		{ "{\"Name\":true}", "json: cannot unmarshal bool into Go value of type string" },
		{ "{\"NodeChecks\":\"x\"}", "json: cannot unmarshal string into Go value of type []string" },
		{ "{\"NodeChecks\":[1]}", "json: cannot unmarshal number into Go value of type string" },
		{ "[]", "json: cannot unmarshal array into Go value of type session" },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct session s = { 0 };

		ck_assert_int_ne(read_into(&session_schema, 0, v[i].text, &s), TV_OK);
		ck_assert_str_eq(why, v[i].why);
	}
	/* too long to be repeated: a sentence all the same */
	char text[2000];
	struct session long_one = { 0 };
	snprintf(text, sizeof(text), "{\"LockDelay\":\"%01900d\"}", 0);
	text[20] = 'x';
	ck_assert_int_ne(read_into(&session_schema, 0, text, &long_one), TV_OK);
	ck_assert_str_eq(why, "time: invalid duration");
	struct service s = { 0 };
	ck_assert_int_ne(read_into(&service_schema, 0, "{\"Port\":-1}", &s), TV_OK);
	ck_assert_str_eq(why, "json: cannot unmarshal number -1 into Go value of type uint64");
	ck_assert_int_ne(read_into(&service_schema, 0, "{\"EnableTagOverride\":\"yes\"}", &s), TV_OK);
	ck_assert_str_eq(why, "json: cannot unmarshal string into Go value of type bool");
}
END_TEST

START_TEST(binary)
{
	struct kv_entry e = { 0 };

	ck_assert_int_eq(read_into(&kv_entry_schema, 0, "{\"Value\":\"aAA=\",\"ModifyIndex\":4}", &e), TV_OK);
	ck_assert(span_eq(e.Value, span_of("h\0", 2)) && e.ModifyIndex == 0);
	ck_assert_int_ne(read_into(&kv_entry_schema, 0, "{\"Value\":\"?\"}", &e), TV_OK);
	ck_assert_str_eq(why, "illegal base64 data");
	ck_assert_int_eq(read_into(&kv_entry_schema, 0, "{\"Key\":\"a\\u0000b\"}", &e), TV_OK);
	ck_assert(span_eq(e.Key, span_of("a\0b", 3)));
}
END_TEST

START_TEST(first_value)
{
	static const char *const bad[] = { "{nope", "nope", "{\"a\":}", "\"\xff\"" };
	char deep[200];

	ck_assert_ptr_null(json_first_value(span_str(" \n"), why, sizeof(why)));
	ck_assert_str_eq(why, "EOF");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(json_first_value(span_str(bad[i]), why, sizeof(why)) == NULL, "%s", bad[i]);
	for (size_t i = 0; i < sizeof(deep); i++)
		deep[i] = i < sizeof(deep) / 2 ? '[' : ']';
	ck_assert_ptr_null(json_first_value(span_of(deep, sizeof(deep)), why, sizeof(why)));
	json_t *v = json_first_value(span_str("{\"a\":\"[[{\"} {\"b\":1}"), why, sizeof(why));
	ck_assert_ptr_nonnull(v);
	ck_assert_int_eq(json_object_size(v), 1);
	json_decref(v);
}
END_TEST

START_TEST(numbers_of_64_bits)
{
	static const char text[] = "{\"Flags\":18446744073709551615,\"Key\":\"9999999999999999999,\\\"\",\"LockIndex\": 9223372036854775808}";
	struct kv_entry kv = { 0 };
	json_t *v = json_first_value(span_str(text), why, sizeof(why));

	ck_assert_ptr_nonnull(v);
	ck_assert_int_eq(schema_from_json(&kv_entry_schema, v, 0, &arena, &kv, why, sizeof(why)), TV_OK);
	ck_assert_uint_eq(kv.Flags, UINT64_MAX);
	ck_assert_uint_eq(kv.LockIndex, UINT64_C(1) << 63);
	ck_assert_str_eq((const char *)kv.Key.p, "9999999999999999999,\"");
	json_decref(v);
	/* Only where the field has room for it. */
	ck_assert_ptr_null(json_first_value(span_str("{\"Flags\":18446744073709551616}"), why, sizeof(why)));
	v = json_first_value(span_str("{\"Key\":18446744073709551615}"), why, sizeof(why));
	ck_assert_int_eq(schema_from_json(&kv_entry_schema, v, 0, &arena, &kv, why, sizeof(why)), TV_EFORMAT);
	ck_assert_str_eq(why, "json: cannot unmarshal number into Go value of type string");
	json_decref(v);
	/* What is of any form keeps it. */
	struct service_proxy p = { 0 };
	v = json_first_value(span_str("{\"Config\":{\"a\":[18446744073709551615,\"\\u0001large:1x\"]}}"), why, sizeof(why));
	ck_assert_int_eq(schema_from_json(&service_proxy_schema, v, 0, &arena, &p, why, sizeof(why)), TV_OK);
	ck_assert_str_eq((const char *)p.Config.p, "{\"a\":[18446744073709551615,\"\\u0001large:1x\"]}");
	json_decref(v);
}
END_TEST

RECORD_LOCAL(amount, (STR, Name), (U64, Value), (STR, Later))
RECORD_LOCAL(words, (STR, Name), (STRS, Values))
RECORD_LOCAL(amounts, (OBJMAP, All, amount, SF_BARE), (OBJMAP, Lists, words, SF_BARE), (OBJMAP, None, amount, SF_BARE))

/* A map from names to values, each the second field of its record; also straight from what a peer has sent. */
START_TEST(bare_values)
{
	static const struct schema_field field = { .type = ST_OBJMAP, .flags = SF_BARE, .sub = &amount_schema };
	static const uint8_t sent[] = { 0x92, 0x91, 0xa1, 'x', 0x93, 0xa1, '"', 7, 0xa1, 'z' };	/* without a value, and with more */
	struct amount a[] = { { span_str("a"), 1, span_str("z") }, { span_str("b<"), 0, SPAN_NONE } };
	struct span v[] = { span_str("p"), span_str("q") };
	struct words w = { span_str("w"), { v, 2, true } };
	struct amounts all = { { a, 2, true }, { &w, 1, true }, { NULL, 0, false } };
	struct rd in = rd_span_over(span_of(sent, sizeof(sent)));
	struct buf out = BUF_INIT(BYTES_MAX);

	schema_json_rec(&amounts_schema, &all, &out);
	ck_assert_str_eq(buf_cstr(&out), "{\"All\":{\"a\":1,\"b\\u003c\":0},\"Lists\":{\"w\":[\"p\",\"q\"]},\"None\":{}}");
	buf_reset(&out);
	ck_assert_int_eq(schema_json_value(&field, &in, &out), TV_OK);
	ck_assert_int_eq(rd_end(&in), TV_OK);
	ck_assert_str_eq(buf_cstr(&out), "{\"x\":0,\"\\\"\":7}");
	in = rd_span_over(span_of(sent, sizeof(sent) - 1));
	ck_assert_int_ne(schema_json_value(&field, &in, &out), TV_OK);
	buf_done(&out);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("schema_json");
	TCase *t = tcase_create("schema_json");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, registration);
	tcase_add_test(t, coordinate);
	tcase_add_test(t, unknown_fields);
	tcase_add_test(t, snake_case);
	tcase_add_test(t, snake_case_of_proxies);
	tcase_add_test(t, session_values);
	tcase_add_test(t, wrong_types);
	tcase_add_test(t, binary);
	tcase_add_test(t, first_value);
	tcase_add_test(t, numbers_of_64_bits);
	tcase_add_test(t, bare_values);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
