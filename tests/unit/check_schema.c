/* Base64, JSON text and the schema's JSON of chosen records. */
#include <check.h>
#include <stdlib.h>

#include "common/record/mpack.h"
#include "common/record/records.h"
#include "common/text/base64.h"
#include "common/text/duration.h"
#include "common/text/json_text.h"

#define TEXT_MAX 65536

static const char *
text_of(struct buf *b)
{
	const char *t = buf_cstr(b);

	ck_assert(!b->failed);
	return t;
}

START_TEST(base64_vectors)
{
	static const struct { const char *plain, *coded; } v[] = {	/* RFC 4648 section 10 */
		{ "", "" }, { "f", "Zg==" }, { "fo", "Zm8=" }, { "foo", "Zm9v" }, { "foob", "Zm9vYg==" },
		{ "fooba", "Zm9vYmE=" }, { "foobar", "Zm9vYmFy" },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct buf b = BUF_INIT(TEXT_MAX);

		base64_encode(span_str(v[i].plain), &b);
		ck_assert_str_eq(text_of(&b), v[i].coded);
		buf_reset(&b);
		ck_assert_int_eq(base64_decode(span_str(v[i].coded), &b), TV_OK);
		ck_assert_str_eq(text_of(&b), v[i].plain);
		buf_done(&b);
	}
}
END_TEST

START_TEST(base64_refuses)
{
	static const char *const bad[] = { "Z", "Zg=", "Zg", "Z===", "====", "Zh==", "Zm9=", "Zg==Zg==", "Zm 9",
	    "Zm9v\n", "Z-9v" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct buf b = BUF_INIT(TEXT_MAX);

		buf_puts(&b, "kept");
		ck_assert_msg(base64_decode(span_str(bad[i]), &b) == TV_EFORMAT, "%s", bad[i]);
		ck_assert_str_eq(text_of(&b), "kept");
		buf_done(&b);
	}
}
END_TEST

START_TEST(base64url)
{
	static const struct { const char *plain, *coded; } v[] = {
		{ "", "" }, { "f", "Zg" }, { "fo", "Zm8" }, { "foo", "Zm9v" }, { "foob", "Zm9vYg" }, { "?>~", "Pz5-" }, { "???", "Pz8_" },
	};
	static const char *const bad[] = { "Z", "Zm9vZ", "Zg==", "Zh", "Zm9", "Pz5+", "Pz8/", "Zm 9" };
	struct buf b = BUF_INIT(TEXT_MAX);

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		buf_reset(&b);
		ck_assert(base64url_decode(span_str(v[i].coded), &b));
		ck_assert_str_eq(text_of(&b), v[i].plain);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		buf_reset(&b);
		ck_assert_msg(!base64url_decode(span_str(bad[i]), &b), "%s", bad[i]);
	}
	buf_done(&b);
}
END_TEST

START_TEST(json_nesting)
{
	ck_assert_uint_eq(json_depth(span_str("1")), 0);
	ck_assert_uint_eq(json_depth(span_str("{\"a\":[1,{\"b\":\"]}[{\\\"[[\"}]}")), 3);
	ck_assert_uint_eq(json_depth(span_str("]][")), 1);
}
END_TEST

START_TEST(quoting)
{
	static const struct { struct span in; const char *out; } v[] = {
		{ { (const uint8_t *)"", 0 }, "\"\"" },
		{ { (const uint8_t *)"a\"b\\c/", 6 }, "\"a\\\"b\\\\c/\"" },
		{ { (const uint8_t *)"\n\r\t\b\0\x1f\x7f", 7 }, "\"\\n\\r\\t\\u0008\\u0000\\u001f\x7f\"" },
		{ { (const uint8_t *)"<&>", 3 }, "\"\\u003c\\u0026\\u003e\"" },
		{ { (const uint8_t *)"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9 },
		    "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"" },
		{ { (const uint8_t *)"\xe2\x80\xa8\xe2\x80\xa9", 6 }, "\"\\u2028\\u2029\"" },
		/* stray, overlong, surrogate, cut short: one replacement per byte, as Go does */
		{ { (const uint8_t *)"\xff" "a", 2 }, "\"\\ufffda\"" },
		{ { (const uint8_t *)"\xc0\x80", 2 }, "\"\\ufffd\\ufffd\"" },
		{ { (const uint8_t *)"\xed\xa0\x80", 3 }, "\"\\ufffd\\ufffd\\ufffd\"" },
		{ { (const uint8_t *)"\xe2\x82", 2 }, "\"\\ufffd\\ufffd\"" },
		{ { (const uint8_t *)"\xf4\x90\x80\x80", 4 }, "\"\\ufffd\\ufffd\\ufffd\\ufffd\"" },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct buf b = BUF_INIT(TEXT_MAX);

		json_quote(v[i].in, &b);
		ck_assert_str_eq(text_of(&b), v[i].out);
		buf_done(&b);
	}
}
END_TEST

START_TEST(indenting)
{
	struct buf b = BUF_INIT(TEXT_MAX);

	json_pretty(span_str("[{\"a\":\"x,{\\\"\",\"b\":[],\"c\":{},\"d\":[1,2]}]"), &b);
	ck_assert_str_eq(text_of(&b),
	    "[\n    {\n        \"a\": \"x,{\\\"\",\n        \"b\": [],\n        \"c\": {},\n        \"d\": [\n"
	    "            1,\n            2\n        ]\n    }\n]\n");
	buf_done(&b);
}
END_TEST

START_TEST(numbers)
{
	static const struct { double v; const char *text; } cases[] = {
		{ 0, "0" }, { -0.0, "-0" }, { 1, "1" }, { 0.1, "0.1" }, { -1.5, "-1.5" }, { 100, "100" }, { 120.25, "120.25" },
		{ 1e-5, "0.00001" }, { 0.000001, "0.000001" }, { 1.25e-7, "1.25e-7" }, { 1e20, "100000000000000000000" },
		{ 1e21, "1e+21" }, { 0.1 + 0.2, "0.30000000000000004" }, { 5e-324, "5e-324" },
		{ 1.7976931348623157e308, "1.7976931348623157e+308" }, { 123456789.123, "123456789.123" },
		{ 1.0 / 0.0, "null" }, { 0.0 / 0.0, "null" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf b = BUF_INIT(TEXT_MAX);

		json_number(cases[i].v, &b);
		ck_assert_str_eq(text_of(&b), cases[i].text);
		buf_done(&b);
	}
}
END_TEST

static void
json_is(const struct schema *s, const void *rec, const char *want)
{
	struct buf b = BUF_INIT(TEXT_MAX);

	schema_json_rec(s, rec, &b);
	ck_assert_str_eq(text_of(&b), want);
	buf_done(&b);
}

START_TEST(kv_json)
{
	struct kv_entry e = { .Key = span_str("a<b"), .Flags = UINT64_MAX, .Value = span_str("hello"), .LockIndex = 1,
		.Session = span_str("s"), .CreateIndex = 7, .ModifyIndex = 9 };

	json_is(&kv_entry_schema, &e, "{\"LockIndex\":1,\"Key\":\"a\\u003cb\",\"Flags\":18446744073709551615,"
	    "\"Value\":\"aGVsbG8=\",\"Session\":\"s\",\"CreateIndex\":7,\"ModifyIndex\":9}");
	e.Session = SPAN_NONE;
	e.Value = span_str("");
	e.Flags = 0;
	json_is(&kv_entry_schema, &e, "{\"LockIndex\":1,\"Key\":\"a\\u003cb\",\"Flags\":0,"
	    "\"Value\":null,\"CreateIndex\":7,\"ModifyIndex\":9}");
}
END_TEST

START_TEST(coordinate_json)
{
	double vec[] = { 0.5, -1e-9 };
	struct node_coordinate c = { .Node = span_str("n"),
		.Coord = { { vec, 2, true }, .Error = 1.5, .Adjustment = 0, .Height = 1e-5 } };

	json_is(&node_coordinate_schema, &c, "{\"Node\":\"n\",\"Segment\":\"\",\"Coord\":{\"Vec\":[0.5,-1e-9],"
	    "\"Error\":1.5,\"Adjustment\":0,\"Height\":0.00001}}");
	c.Coord.Vec = (struct f64_list){ 0 };
	json_is(&node_coordinate_schema, &c, "{\"Node\":\"n\",\"Segment\":\"\",\"Coord\":{\"Vec\":[],"
	    "\"Error\":1.5,\"Adjustment\":0,\"Height\":0.00001}}");
}
END_TEST

START_TEST(check_json)
{
	struct check c = { .Node = span_str("n"), .CheckID = span_str("c") };

	json_is(&check_schema, &c, "{\"Node\":\"n\",\"CheckID\":\"c\",\"Name\":\"\",\"Status\":\"\",\"Notes\":\"\","
	    "\"Output\":\"\",\"ServiceID\":\"\",\"ServiceName\":\"\",\"ServiceTags\":[],\"Type\":\"\",\"ExposedPort\":0,"
	    "\"Definition\":{},\"CreateIndex\":0,\"ModifyIndex\":0}");
	c.Definition.HTTP = span_str("http://x/");
	c.Definition.Interval = 10000000000;
	c.Definition.Header = span_str("{\"A\":[\"b\"]}");
	json_is(check_schema.fields[11].sub, &c.Definition,
	    "{\"HTTP\":\"http://x/\",\"Interval\":\"10s\",\"Header\":{\"A\":[\"b\"]}}");
}
END_TEST

START_TEST(service_json)
{
	struct service_address lan = { span_str("lan"), span_str("10.0.0.1"), 80 };
	struct service s = { .ID = span_str("web1"), .Service = span_str("web"), .Weights = { 1, 1 } };

	json_is(&service_schema, &s, "{\"ID\":\"web1\",\"Service\":\"web\",\"Tags\":[],\"Address\":\"\",\"Meta\":null,"
	    "\"SocketPath\":\"\",\"Weights\":{\"Passing\":1,\"Warning\":1},\"EnableTagOverride\":false,"
	    "\"CreateIndex\":0,\"ModifyIndex\":0,\"Proxy\":{\"Mode\":\"\",\"MeshGateway\":{},\"Expose\":{}},\"Connect\":{}}");
	s.TaggedAddresses = (struct obj_list){ &lan, 1, true };
	s.Port = 81;
	struct node_services ns = { .found = true, .Services = { &s, 1, true } };
	struct buf b = BUF_INIT(TEXT_MAX);
	schema_json_rec(&node_service_map_schema, &ns, &b);
	ck_assert_ptr_nonnull(strstr(text_of(&b), "\"Services\":{\"web1\":{\"ID\":\"web1\",\"Service\":\"web\""));
	ck_assert_ptr_nonnull(strstr(text_of(&b),
	    "\"TaggedAddresses\":{\"lan\":{\"Address\":\"10.0.0.1\",\"Port\":80}},\"Meta\""));
	ck_assert_ptr_nonnull(strstr(text_of(&b), "\"Port\":81,"));
	buf_done(&b);
	json_is(&node_services_schema, &(struct node_services){ .found = false }, "{\"Node\":null,\"Services\":null}");
}
END_TEST

/* A record of an older version has fewer fields, one of a newer version more. */
START_TEST(other_versions)
{
	struct buf b = BUF_INIT(TEXT_MAX), out = BUF_INIT(TEXT_MAX);
	struct arena a = ARENA_INIT(TEXT_MAX);
	struct kv_read q = { 0 };

	mpw_array(&b, 1);
	mpw_cstr(&b, "k");
	struct rd r = rd_span_over(buf_span(&b));
	ck_assert_int_eq(schema_json(&kv_read_schema, &r, &out), TV_OK);
	ck_assert_int_eq(rd_end(&r), TV_OK);
	ck_assert_str_eq(text_of(&out), "{\"Key\":\"k\",\"Separator\":\"\"}");
	r = rd_span_over(buf_span(&b));
	ck_assert_int_eq(schema_unpack(&kv_read_schema, &r, &a, &q), TV_OK);
	ck_assert(span_eqs(q.Key, "k") && q.Separator.len == 0);

	buf_reset(&b);
	buf_reset(&out);
	mpw_array(&b, 4);
	mpw_cstr(&b, "k");
	mpw_cstr(&b, "/");
	mpw_map(&b, 1);
	mpw_cstr(&b, "new");
	mpw_nil(&b);
	mpw_uint(&b, 1);
	r = rd_span_over(buf_span(&b));
	ck_assert_int_eq(schema_json(&kv_read_schema, &r, &out), TV_OK);
	ck_assert_int_eq(rd_end(&r), TV_OK);
	ck_assert_str_eq(text_of(&out), "{\"Key\":\"k\",\"Separator\":\"/\"}");
	r = rd_span_over(buf_span(&b));
	ck_assert_int_eq(schema_unpack(&kv_read_schema, &r, &a, &q), TV_OK);
	ck_assert_int_eq(rd_end(&r), TV_OK);
	buf_done(&b);
	buf_done(&out);
	arena_done(&a);
}
END_TEST

START_TEST(why_no_duration)
{
	static const struct { const char *in, *why; } v[] = {
		{ "abc", "time: invalid duration \"abc\"" }, { "", "time: invalid duration \"\"" },
		{ "-", "time: invalid duration \"-\"" }, { "10", "time: missing unit in duration \"10\"" },
		{ "1m10", "time: missing unit in duration \"1m10\"" }, { ".s", "time: invalid duration \".s\"" },
		{ "10x", "time: unknown unit \"x\" in duration \"10x\"" },
		{ "1hx", "time: unknown unit \"hx\" in duration \"1hx\"" },
		{ "9999999h", "time: invalid duration \"9999999h\"" },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct buf b = BUF_INIT(TEXT_MAX);
		int64_t ns;

		ck_assert_int_ne(duration_parse(span_str(v[i].in), &ns), TV_OK);
		duration_why(span_str(v[i].in), &b);
		ck_assert_str_eq(text_of(&b), v[i].why);
		buf_done(&b);
	}
}
END_TEST

/* As many rows as a record may have, of every kind. */
RECORD_LOCAL(part, (STR, Name), (I64, Size, SF_OMITEMPTY))
RECORD_LOCAL(longest,
	(STR, A1), (BIN, A2), (JSON, A3), (U64, A4), (I64, A5, SF_READONLY | SF_HIDDEN), (BOOL, A6), (F64, A7), (DURATION, A8),
	(STRS, B1), (F64S, B2), (MAP, B3), (OBJ, B4, part), (OPT, B5, has_b5, part, SF_OMITEMPTY), (OBJS, B6, part),
	(OBJMAP, B7, part, SF_NULLEMPTY), (CONST, B8, "{}"),
	(U64, C1), (U64, C2), (U64, C3), (U64, C4), (U64, C5), (U64, C6), (U64, C7), (U64, C8),
	(U64, D1), (U64, D2), (U64, D3), (U64, D4), (U64, D5), (U64, D6), (U64, D7), (U64, D8))

START_TEST(rows)
{
	const struct schema_field *f = longest_schema.fields;

	ck_assert_str_eq(longest_schema.name, "longest");
	ck_assert_uint_eq(longest_schema.count, 32);
	ck_assert_uint_eq(longest_schema.size, sizeof(struct longest));
	ck_assert_uint_eq(part_schema.count, 2);
	ck_assert_str_eq(f[31].name, "D8");
	ck_assert_uint_eq(f[31].offset, offsetof(struct longest, D8));
	ck_assert_uint_eq(f[4].flags, SF_READONLY | SF_HIDDEN);
	ck_assert_uint_eq(f[12].type, ST_OBJ);
	ck_assert_uint_eq(f[12].has, offsetof(struct longest, has_b5) + 1);
	ck_assert_uint_eq(f[12].flags, SF_OMITEMPTY);
	ck_assert_ptr_eq(f[12].sub, &part_schema);
	ck_assert_uint_eq(f[11].has, 0);
	ck_assert_str_eq(f[15].text, "{}");
	for (unsigned i = 0; i < longest_schema.count; i++)
		ck_assert((f[i].sub == &part_schema) == (i >= 11 && i <= 14));
	json_is(&longest_schema, &(struct longest){ .B4 = { .Name = span_str("p") }, .B7 = { 0 }, .D8 = 9 },
	    "{\"A1\":\"\",\"A2\":null,\"A3\":null,\"A4\":0,\"A6\":false,\"A7\":0,\"A8\":0,\"B1\":[],\"B2\":[],\"B3\":{},"
	    "\"B4\":{\"Name\":\"p\"},\"B6\":[],\"B7\":null,\"B8\":{},"
	    "\"C1\":0,\"C2\":0,\"C3\":0,\"C4\":0,\"C5\":0,\"C6\":0,\"C7\":0,\"C8\":0,"
	    "\"D1\":0,\"D2\":0,\"D3\":0,\"D4\":0,\"D5\":0,\"D6\":0,\"D7\":0,\"D8\":9}");
}
END_TEST

START_TEST(field_names)
{
	static const struct { const char *name; bool snake, known; } v[] = {
		{ "ServiceID", false, true }, { "serviceid", false, true }, { "service_id", false, false },
		{ "service_id", true, true }, { "_Service__ID_", true, true }, { "ServiceI", true, false },
		{ "ServiceIDs", true, false }, { "", true, false }, { "_", true, false },
	};
	const struct schema *s = &check_schema;

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		ck_assert_msg((schema_field_named(s, 0, span_str(v[i].name), v[i].snake) != NULL) == v[i].known, "%s",
		    v[i].name);
	ck_assert_ptr_eq(schema_field_named(s, 0, span_str(s->fields[0].name), false), &s->fields[0]);
	ck_assert_ptr_null(schema_field_named(s, 1, span_str(s->fields[0].name), false));
	ck_assert_ptr_null(schema_field_named(s, 0, span_of("Node\0", 5), true));
}
END_TEST

/* For each type of list: as many zeroed elements as it shall have, and the arena's cap. */
START_TEST(lists_that_are_not_there)
{
	struct service none = { .ID = span_str("a") }, again = none;
	struct arena a = ARENA_INIT(4096);
	struct buf b = BUF_INIT(4096);
	struct rd r;

	again.Tags = (struct span_list){ .v = &again.ID, .n = 32, .set = true };
	again.Meta = (struct span_map){ .n = 32, .set = true };
	schema_pack(&service_schema, &none, &b);
	r = rd_span_over(buf_span(&b));
	ck_assert_int_eq(schema_unpack(&service_schema, &r, &a, &again), TV_OK);
	ck_assert(again.Tags.n == 0 && !again.Tags.set && again.Meta.n == 0 && !again.Meta.set);
	buf_done(&b);
	arena_done(&a);
}
END_TEST

START_TEST(new_lists)
{
	static const struct { const char *name; size_t size; } v[] = {
		{ "B1", sizeof(struct span) }, { "B2", sizeof(double) }, { "B3", 2 * sizeof(struct span) },
		{ "B6", sizeof(struct part) },
	};
	struct arena a = ARENA_INIT(1024);
	size_t size;

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		const struct schema_field *f = schema_field_named(&longest_schema, 0, span_str(v[i].name), false);
		struct obj_list list = { NULL, 0, false };

		char *first = schema_list_new(f, 3, &a, &list, &size);
		ck_assert(first != NULL && first == list.v && list.n == 3 && list.set);
		ck_assert_uint_eq(size, v[i].size);
		for (size_t k = 0; k < 3 * size; k++)
			ck_assert_int_eq(first[k], 0);
		ck_assert_ptr_nonnull(schema_list_new(f, 0, &a, &list, &size));
		ck_assert_ptr_null(schema_list_new(f, 1000, &a, &list, &size));
	}
	arena_done(&a);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("schema");
	TCase *t = tcase_create("schema");

	tcase_add_test(t, base64_vectors);
	tcase_add_test(t, base64_refuses);
	tcase_add_test(t, base64url);
	tcase_add_test(t, json_nesting);
	tcase_add_test(t, quoting);
	tcase_add_test(t, indenting);
	tcase_add_test(t, numbers);
	tcase_add_test(t, rows);
	tcase_add_test(t, kv_json);
	tcase_add_test(t, coordinate_json);
	tcase_add_test(t, check_json);
	tcase_add_test(t, service_json);
	tcase_add_test(t, other_versions);
	tcase_add_test(t, why_no_duration);
	tcase_add_test(t, field_names);
	tcase_add_test(t, lists_that_are_not_there);
	tcase_add_test(t, new_lists);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
