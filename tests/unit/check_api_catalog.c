/* Sessions, the catalog, health and coordinates: request to operation, reply to answer. */
#include "tests/unit/api_kit.h"

/* -- sessions ------------------------------------------------------------------------ */

START_TEST(session_create)
{
	static const struct { const char *body; int64_t delay; unsigned node_checks, checks; const char *ignored; } v[] = {
		{ NULL, 15000000000, 1, 0, NULL }, { "{}", 15000000000, 1, 0, NULL },
		{ "{\"LockDelay\":\"1s\",\"Node\":\"n9\"}", 1000000000, 1, 0, NULL },
		{ "{\"LockDelay\":0}", 0, 1, 0, NULL }, { "{\"NodeChecks\":[]}", 15000000000, 0, 0, NULL },
		{ "{\"Checks\":[]}", 15000000000, 0, 0, NULL },
		{ "{\"Checks\":[\"serfHealth\"],\"NodeChecks\":[\"a\",\"b\"]}", 15000000000, 2, 0, NULL },
		{ "{\"Checks\":[\"x\"],\"NodeChecks\":[]}", 15000000000, 0, 0, NULL },
		{ "{\"Checks\":[\"x\"]}", 15000000000, 1, 1, NULL },
		{ "{\"Unknown\":1,\"ID\":\"mine\"}", 15000000000, 1, 0, "299 - \"json: unknown field Unknown, which was ignored\"" },
		{ "{\"Unk\\\"\u00fcUnknown\":[0]}", 15000000000, 1, 0,
		    "299 - \"json: unknown field Unk??Unknown, which was ignored\"" },
		{ "{\"nothing\":null,\"nor\":\"\",\"this\":false}", 15000000000, 1, 0, NULL },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct session s = { 0 };
		struct request *r = fake_begin("PUT", "/v1/session/create?dc=dc2", v[i].body, NULL);

		asked(OP_SESSION_CREATE, &s);
		ck_assert_msg(s.LockDelay == v[i].delay && s.NodeChecks.n == v[i].node_checks &&
		    s.Checks.n == v[i].checks &&
		    s.NodeChecks.set, "%s", v[i].body);
		span_is(s.Node, i == 2 ? "n9" : "n1");
		span_is(s.Behavior, "release");
		ck_assert_uint_eq(s.ID.len, 0);
		span_is(fake.q.dc, "dc2");
		reply_record(&text_reply_schema, &(struct text_reply){ span_str("the-id") });
		fake_answered(r, 200, "{\"ID\":\"the-id\"}");
		if (v[i].ignored != NULL)
			ck_assert_str_eq(fake_header(r, "Warning"), v[i].ignored);
		else
			ck_assert_ptr_null(fake_header(r, "Warning"));
		fake_end(r);
	}
	fake_is("PUT", "/v1/session/create", "{\"LockDelay\":\"xyz\"}", 400,
	    "Request decode failed: time: invalid duration \"xyz\"");
}
END_TEST

START_TEST(session_rest)
{
	struct session s = { .ID = span_str("i"), .NodeChecks = { NULL, 0, true } };
	struct session_read q = { 0 };
	struct request *r = fake_begin("PUT", "/v1/session/renew/abc", NULL, NULL);

	asked(OP_SESSION_RENEW, &q);
	span_is(q.ID, "abc");
	reply_list(&session_schema, &s, 1);
	fake_answered(r, 200,
	    "[{\"ID\":\"i\",\"Name\":\"\",\"Node\":\"\",\"LockDelay\":0,\"Behavior\":\"\",\"TTL\":\"\","
	    "\"NodeChecks\":[],\"ServiceChecks\":null,\"CreateIndex\":0,\"ModifyIndex\":0}]");
	ck_assert_ptr_null(fake_header(r, "X-Consul-Index"));
	fake_end(r);
	r = fake_begin("PUT", "/v1/session/renew/abc", NULL, NULL);
	reply_list(&session_schema, &s, 0);
	fake_answered(r, 404, "Session id 'abc' not found");
	fake_end(r);
	r = fake_begin("GET", "/v1/session/node/n2?index=3", NULL, NULL);
	asked(OP_SESSION_NODE, &q);
	span_is(q.Node, "n2");
	reply_list(&session_schema, &s, 0);
	fake_answered(r, 200, "[]");
	ck_assert_str_eq(fake_header(r, "X-Consul-Index"), "42");
	fake_end(r);
	fake_is("GET", "/v1/session/info/", NULL, 400, "Missing session");
	fake_is("GET", "/v1/session/node/", NULL, 400, "Missing node name");
	fake_is("PUT", "/v1/session/destroy/", NULL, 400, "Missing session");
}
END_TEST

/* -- catalog and health -------------------------------------------------------------- */

START_TEST(catalog_writes)
{
	struct catalog_register reg = { 0 };
	struct catalog_deregister dereg = { 0 };
	struct request *r = fake_begin("PUT", "/v1/catalog/register",
	    "{\"Node\":\"n\",\"Address\":\"10.0.0.1\",\"Datacenter\":\"dc2\",\"Service\":{\"Service\":\"web\"}}", NULL);

	asked(OP_CATALOG_REGISTER, &reg);
	span_is(fake.q.dc, "dc2");
	ck_assert(reg.has_service && !reg.has_check);
	span_is(reg.Service.Service, "web");
	reply_record(&bool_reply_schema, &(struct bool_reply){ true });
	fake_answered(r, 200, "true");
	fake_end(r);
	r = fake_begin("PUT", "/v1/catalog/deregister", "{\"Node\":\"n\",\"Datacenter\":\"dc1\",\"CheckID\":\"c\"}",
	    NULL);
	asked(OP_CATALOG_DEREGISTER, &dereg);
	span_is(fake.q.dc, "");
	span_is(dereg.CheckID, "c");
	fake_end(r);
	fake_is("PUT", "/v1/catalog/register", "{\"Node\":\"n\",\"Bogus\":1}", 400,
	    "Request decode failed: json: unknown field \"Bogus\"");
	fake_is("PUT", "/v1/catalog/register", NULL, 400, "Request decode failed: EOF");
	r = fake_begin("PUT", "/v1/catalog/register", "{nope", NULL);
	ck_assert(r->answer.status == 400 && strncmp(buf_cstr(&r->answer.body), "Request decode failed: ", 23) == 0);
	fake_end(r);
}
END_TEST

START_TEST(catalog_reads)
{
	struct span names[] = { span_str("dc1"), span_str("dc2") };
	struct text_list datacenters = { .Values = { names, 2, true } };
	struct catalog_read args = { 0 };
	struct span tags[] = { span_str("a"), span_str("b") };
	struct service_tags st = { span_str("web"), { tags, 2, true } };
	struct service web = { .ID = span_str("w1"), .Service = span_str("web") };
	struct node_services found = { true, { .Node = span_str("n") }, { &web, 1, true } }, none = { 0 };

	struct request *r = fake_begin("GET",
	    "/v1/catalog/service/web?tag=x&tag=y&node-meta=k:v:w&node-meta=z&consistent", NULL, NULL);
	asked(OP_CATALOG_SERVICE, &args);
	span_is(args.Name, "web");
	ck_assert(args.Tags.n == 2 && args.NodeMeta.n == 2 && fake.q.mode == OP_CONSISTENT);
	span_is(args.NodeMeta.kv[0][1], "v:w");
	span_is(args.NodeMeta.kv[1][1], "");
	reply_list(&service_instance_schema, &(struct service_instance){ 0 }, 0);
	fake_answered(r, 200, "[]");
	ck_assert_str_eq(fake_header(r, "X-Consul-Effective-Consistency"), "consistent");
	fake_end(r);

	r = fake_begin("GET", "/v1/catalog/services", NULL, NULL);
	reply_list(&service_tags_schema, &st, 1);
	fake_answered(r, 200, "{\"web\":[\"a\",\"b\"]}");
	fake_end(r);
	r = fake_begin("GET", "/v1/catalog/node/n", NULL, NULL);
	reply_record(&node_services_schema, &found);
	fake_answered(r, 200, NULL);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "\"Services\":{\"w1\":{\"ID\":\"w1\""));
	fake_end(r);
	r = fake_begin("GET", "/v1/catalog/node/n", NULL, NULL);
	reply_record(&node_services_schema, &none);
	fake_answered(r, 200, "null");
	ck_assert_str_eq(fake_header(r, "X-Consul-Effective-Consistency"), "leader");
	fake_end(r);
	r = fake_begin("GET", "/v1/catalog/node-services/n", NULL, NULL);
	reply_record(&node_services_schema, &none);
	fake_answered(r, 200, "{\"Node\":null,\"Services\":null}");
	fake_end(r);
	r = fake_begin("GET", "/v1/catalog/datacenters", NULL, NULL);
	ck_assert_uint_eq(fake.q.op, OP_CATALOG_DATACENTERS);
	reply_record(&text_list_schema, &datacenters);
	fake_answered(r, 200, "[\"dc1\",\"dc2\"]");
	fake_end(r);
	fake_conf.use_cache = true;
	fake_is("GET", "/v1/catalog/datacenters?cached&consistent", NULL, 400,
	    "Cannot specify ?cached with ?consistent, conflicting semantics.");
	fake_conf.use_cache = false;
	fake_is("GET", "/v1/catalog/service/", NULL, 400, "Missing service name");
	fake_conf.discovery_max_stale = MONO_S(5);
	r = fake_begin("GET", "/v1/catalog/nodes", NULL, NULL);
	ck_assert(fake.q.mode == OP_STALE && fake.q.max_stale_ms == 5000);
	fake_end(r);
}
END_TEST

static void
near_is(const char *target, const struct request_head *head, enum op_code op, const char *node, const char *address)
{
	struct catalog_read args = { 0 };
	struct request *r = fake_begin("GET", target, NULL, head);

	asked(op, &args);
	span_is(args.Near, node);
	span_is(args.NearAddress, address);
	fake_end(r);
}

START_TEST(near)
{
	struct request_head from = { .client_ip = "10.0.0.7" };

	near_is("/v1/catalog/nodes?near=b", NULL, OP_CATALOG_NODES, "b", "");
	near_is("/v1/catalog/nodes?near=_agent", NULL, OP_CATALOG_NODES, "n1", "");
	near_is("/v1/catalog/service/web?near=_ip", &from, OP_CATALOG_SERVICE, "", "10.0.0.7");
	near_is("/v1/health/service/web?near=_ip", NULL, OP_HEALTH_SERVICE, "", "");	/* over the unix socket */
	near_is("/v1/health/checks/web?near=x", NULL, OP_HEALTH_CHECKS, "x", "");
	near_is("/v1/health/state/any?near=x", NULL, OP_HEALTH_STATE, "x", "");
	near_is("/v1/health/state/any?near=", NULL, OP_HEALTH_STATE, "", "");
	near_is("/v1/catalog/nodes?near=b&dc=dc1", NULL, OP_CATALOG_NODES, "b", "");
	near_is("/v1/catalog/nodes?near=b&dc=dc2", NULL, OP_CATALOG_NODES, "", "");	/* maps do not compare */
}
END_TEST

#define COORD "\"Coord\":{\"Vec\":[1,2,3,4,5,6,7,8],\"Error\":0.5,\"Adjustment\":-0.1,\"Height\":0.001}"

START_TEST(coordinate_reads)
{
	double vec[8] = { 0.25 };
	struct node_coordinate c = { .Node = span_str("n"), .Coord = { .Vec = { vec, 8, true }, .Error = 1.5 } };
	struct dc_coordinates dc = { .Datacenter = span_str("dc1"), .AreaID = span_str("wan"), .Coordinates = { &c, 1, true } };
	struct coordinate_read args = { 0 };
	const char *one = "[{\"Node\":\"n\",\"Segment\":\"\",\"Coord\":{\"Vec\":[0.25,0,0,0,0,0,0,0],\"Error\":1.5,"
	    "\"Adjustment\":0,\"Height\":0}}]";
	struct request *r = fake_begin("GET", "/v1/coordinate/nodes?index=7&stale", NULL, NULL);

	asked(OP_COORDINATE_NODES, &args);
	ck_assert(!args.BySegment && fake.q.index == 7 && fake.q.mode == OP_STALE);
	reply_list(&node_coordinate_schema, &c, 1);
	fake_answered(r, 200, one);
	ck_assert_str_eq(fake_header(r, "X-Consul-Index"), "42");
	ck_assert_ptr_null(fake_header(r, "X-Consul-Effective-Consistency"));
	fake_end(r);
	r = fake_begin("GET", "/v1/coordinate/nodes?segment=s", NULL, NULL);
	args = (struct coordinate_read){ 0 };
	asked(OP_COORDINATE_NODES, &args);
	ck_assert(args.BySegment);
	span_is(args.Segment, "s");
	reply_list(&node_coordinate_schema, &c, 0);
	fake_answered(r, 200, "[]");
	fake_end(r);
	r = fake_begin("GET", "/v1/coordinate/node/n", NULL, NULL);
	args = (struct coordinate_read){ 0 };
	asked(OP_COORDINATE_NODE, &args);
	span_is(args.Node, "n");
	reply_list(&node_coordinate_schema, &c, 1);
	fake_answered(r, 200, one);
	fake_end(r);
	r = fake_begin("GET", "/v1/coordinate/node/none", NULL, NULL);
	reply_list(&node_coordinate_schema, &c, 0);
	fake_answered(r, 404, "");
	ck_assert_str_eq(fake_header(r, "X-Consul-Index"), "42");
	fake_end(r);
	r = fake_begin("GET", "/v1/coordinate/datacenters", NULL, NULL);
	ck_assert_uint_eq(fake.q.op, OP_COORDINATE_DATACENTERS);
	reply_list(&dc_coordinates_schema, &dc, 1);
	fake_answered(r, 200, NULL);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "{\"Datacenter\":\"dc1\",\"AreaID\":\"wan\",\"Coordinates\":[{"));
	ck_assert_ptr_null(fake_header(r, "X-Consul-Index"));
	fake_end(r);
}
END_TEST

START_TEST(coordinate_update)
{
	struct coordinate_update u = { 0 };
	struct request *r = fake_begin("PUT", "/v1/coordinate/update", "{\"Node\":\"n\"," COORD "}", NULL);

	asked(OP_COORDINATE_UPDATE, &u);
	span_is(u.Node, "n");
	span_is(fake.q.dc, "");
	ck_assert(u.Coord.Vec.n == 8 && u.Coord.Vec.v[7] == 8 && u.Coord.Adjustment == -0.1);
	reply_record(&bool_reply_schema, &(struct bool_reply){ false });	/* an unknown node vanishes */
	fake_answered(r, 200, "");
	fake_end(r);
	r = fake_begin("PUT", "/v1/coordinate/update", "{\"Node\":\"n\",\"Datacenter\":\"dc2\"," COORD "}", NULL);
	span_is(fake.q.dc, "dc2");
	reply(TV_EINVAL, "incompatible coordinate");
	fake_answered(r, 500, "incompatible coordinate");
	fake_end(r);
	fake_is("PUT", "/v1/coordinate/update", "{\"Node\":\"n\",\"Coords\":1}", 400,
	    "Request decode failed: json: unknown field \"Coords\"");
	fake_is("PUT", "/v1/coordinate/update", "{\"Coord\":{\"Vec\":[\"NaN\"]}}", 400,
	    "Request decode failed: json: cannot unmarshal string into Go value of type float64");
	fake_is("PUT", "/v1/coordinate/update", NULL, 400, "Request decode failed: EOF");
	fake_conf.disable_coordinates = true;
	unsigned started = fake.started;
	fake_is("PUT", "/v1/coordinate/update", "{\"Node\":\"n\"," COORD "}", 401, "Coordinate support disabled");
	fake_is("GET", "/v1/coordinate/nodes", NULL, 401, "Coordinate support disabled");
	fake_is("GET", "/v1/coordinate/node/n", NULL, 401, "Coordinate support disabled");
	fake_is("GET", "/v1/coordinate/datacenters", NULL, 401, "Coordinate support disabled");
	ck_assert_uint_eq(fake.started, started);
}
END_TEST

START_TEST(cache_control)
{
	static const struct { const char *text; bool good; } tries[] = {
		{ "max-age=5", true }, { "no-cache", true }, { "must-revalidate , max-age=0", true },
		{ "max-age=1,stale-if-error=60 ", true },
		{ "", true }, { " , ,", true }, { "max-age=abc", false }, { "max-age", true }, { "max-age=", false },
		{ "max-age=-1", true }, { "Max-Age=x", false }, { "max-age= 5", false }, { "s-max-age=x", true },
		{ "max-age=5;must-revalidate", false }, { "max-age=99999999999999999999", false },
		{ "no-cache, stale-if-error=1s", false },
	};

	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		struct request_head head = { .cache_control = tries[i].text };
		struct request *r = fake_begin("GET", "/v1/health/service/x?cached", NULL, &head);

		ck_assert_msg(r->answered == !tries[i].good, "%s", tries[i].text);
		if (!tries[i].good)
			fake_answered(r, 400, "Invalid Cache-Control header.");
		fake_end(r);
	}
}
END_TEST

static void
reply_nodes(const struct node *a, const struct node *b)
{
	buf_reset(&value);
	mpw_array(&value, 2);
	schema_pack(&node_schema, a, &value);
	schema_pack(&node_schema, b, &value);
	reply(TV_OK, "");
}

START_TEST(filters)
{
	struct service both[2] = { { .ID = span_str("a"), .Service = span_str("web"), .Port = 1 },
		{ .ID = span_str("b"), .Service = span_str("web"), .Port = 2 } };
	struct node_services ns = { .found = true, .Node = { .Node = span_str("n") }, .Services = { both, 2, true } };
	struct node n1 = { .Node = span_str("one") }, n2 = { .Node = span_str("two") };
	struct request *r;

	r = fake_begin("GET", "/v1/catalog/nodes?filter=Node==two", NULL, NULL);
	reply_nodes(&n1, &n2);
	ck_assert(strstr(buf_cstr(&r->answer.body), "[{\"ID\":\"\",\"Node\":\"two\"") != NULL);
	ck_assert_ptr_null(strstr(buf_cstr(&r->answer.body), "one"));
	ck_assert_str_eq(fake_header(r, "X-Consul-Index"), "42");
	fake_end(r);
	r = fake_begin("GET", "/v1/catalog/nodes?filter=Node==none", NULL, NULL);
	reply_nodes(&n1, &n2);
	fake_answered(r, 200, "[]");
	fake_end(r);

	fake_conf.filter_time_max = MONO_ZERO;
	r = fake_begin("GET", "/v1/catalog/nodes?filter=Node==two", NULL, NULL);
	reply_nodes(&n1, &n2);
	fake_answered(r, 500, "Failed to evaluate filter: it takes too long (see limits.filter_time_max)");
	fake_end(r);
	fake_conf.filter_time_max = MONO_S(60);

	/* of a node only the services are filtered */
	r = fake_begin("GET", "/v1/catalog/node/n?filter=Port==2", NULL, NULL);
	reply_record(&node_services_schema, &ns);
	ck_assert(strstr(buf_cstr(&r->answer.body), "\"Services\":{\"b\":{") != NULL);
	fake_end(r);
	r = fake_begin("GET", "/v1/catalog/node-services/n?filter=Port==3", NULL, NULL);
	reply_record(&node_services_schema, &ns);
	ck_assert(strstr(buf_cstr(&r->answer.body), "\"Services\":[]") != NULL);
	fake_end(r);
	fake_is("GET", "/v1/agent/checks?filter=Status==critical", NULL, 200, "{}");
	fake_is("GET", "/v1/agent/checks?filter=Nope==1", NULL, 500, "Selector \"Nope\" is not valid");
	fake_is("GET", "/v1/health/state/any?filter=Node+is+empty", NULL, 500,
	    "Failed to create boolean expression evaluator: "
	    "Invalid match operator \"Is Empty\" for selector \"Node\"");
	r = fake_begin("GET", "/v1/health/service/web?filter=Checks.Status=!x", NULL, NULL);
	ck_assert_uint_eq(r->answer.status, 500);
	ck_assert_str_eq(fake_header(r, "X-Consul-KnownLeader"), "false");
	fake_end(r);
}
END_TEST

START_TEST(health_reads)
{
	struct catalog_read args = { 0 };
	struct request *r = fake_begin("GET", "/v1/health/service/web?passing", NULL, NULL);

	asked(OP_HEALTH_SERVICE, &args);
	ck_assert(args.Passing);
	fake_end(r);
	r = fake_begin("GET", "/v1/health/service/web?passing=false&max_stale=1500us", NULL, NULL);
	asked(OP_HEALTH_SERVICE, &args);
	ck_assert(!args.Passing && fake.q.mode == OP_STALE && fake.q.max_stale_ms == 2);
	fake_end(r);
	r = fake_begin("GET", "/v1/health/service/web?passing=maybe&index=100", NULL, NULL);
	ck_assert_uint_eq(fake.q.index, 0);
	reply_list(&health_entry_schema, &(struct health_entry){ 0 }, 0);
	fake_answered(r, 400, "Invalid value for ?passing");
	ck_assert_str_eq(fake_header(r, "X-Consul-KnownLeader"), "true");
	fake_end(r);
	r = fake_begin("GET", "/v1/health/state/any", NULL, NULL);
	asked(OP_HEALTH_STATE, &args);
	span_is(args.Name, "any");
	fake_end(r);
	fake_is("GET", "/v1/health/state/", NULL, 400, "Missing check state");
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = {
		session_create, session_rest, catalog_writes, catalog_reads, near, coordinate_reads,
		coordinate_update, cache_control, filters, health_reads,
	};

	return api_kit_main("api_catalog", tests, sizeof(tests) / sizeof(tests[0]));
}
