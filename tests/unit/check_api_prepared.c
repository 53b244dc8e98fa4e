/* /v1/query: operations, parameters, answers; and failing over to other datacenters, one after the other. */
#include <ev.h>

#include "rpcd/route/failover.h"
#include "tests/unit/api_kit.h"

#define QID "00000000-0000-4000-8000-000000000001"
#define SHORT_TRY MONO_MS(5)

static struct failovers failovers;
static struct mono timeout;

static void
begin(void)
{
	timeout = MONO_MS(600000);
	failovers = (struct failovers){ .conf = { (struct route *)(void *)&failovers, EV_DEFAULT, &timeout } };
	fake_api.failovers = &failovers;
}

static struct prepared_query
query(void)
{
	return (struct prepared_query){ .ID = span_str(QID), .Name = span_str("q"), .Service = { .Service = span_str("web") },
	    .DNS = { .TTL = span_str("5s") } };
}

#define QUERY "{\"ID\":\"" QID "\",\"Name\":\"q\",\"Session\":\"\",\"Token\":\"\",\"Template\":{\"Type\":\"\",\"Regexp\":\"\"," \
	"\"RemoveEmptyTags\":false},\"Service\":{\"Service\":\"web\",\"Failover\":{\"NearestN\":0,\"Datacenters\":null}," \
	"\"OnlyPassing\":false,\"IgnoreCheckIDs\":null,\"Near\":\"\",\"Tags\":null,\"NodeMeta\":null,\"ServiceMeta\":null}," \
	"\"DNS\":{\"TTL\":\"5s\"},\"CreateIndex\":0,\"ModifyIndex\":0}"

/* -- what is kept -- */

START_TEST(keeping)
{
	struct prepared_query q;
	struct prepared_read read;
	struct request *r;

	begin();
	r = fake_begin("POST", "/v1/query?dc=dc2", "{\"name\":\"q\",\"Service\":{\"Service\":\"web\",\"Tags\":[\"!a\"],\"Peer\":\"\","
	    "\"Failover\":{\"Targets\":[{\"Datacenter\":\"dc3\"},{\"Datacenter\":\"dc2\"}]}},\"Unknown\":[]}", NULL);
	asked(OP_QUERY_CREATE, &q);
	span_is(fake.q.dc, "dc2");
	span_is(q.Name, "q");
	span_is(q.Service.Tags.v[0], "!a");
	ck_assert_uint_eq(q.Service.Failover.Datacenters.n, 2);
	span_is(q.Service.Failover.Datacenters.v[0], "dc3");
	reply_record(&text_reply_schema, &(struct text_reply){ span_str(QID) });
	fake_answered(r, 200, "{\"ID\":\"" QID "\"}");
	fake_end(r);
	r = fake_begin("PUT", "/v1/query/" QID, "{\"ID\":\"x\",\"Service\":{\"Service\":\"web\"}}", NULL);
	asked(OP_QUERY_UPDATE, &q);
	span_is(q.ID, QID);
	reply_record(&bool_reply_schema, &(struct bool_reply){ true });
	fake_answered(r, 200, "");
	fake_end(r);
	r = fake_begin("DELETE", "/v1/query/" QID, "", NULL);
	asked(OP_QUERY_DELETE, &read);
	span_is(read.ID, QID);
	reply(TV_EINVAL, "Cannot modify non-existent prepared query: '" QID "'");
	fake_answered(r, 500, "Cannot modify non-existent prepared query: '" QID "'");
	fake_end(r);
	fake_is("POST", "/v1/query", "{nope", 400, NULL);
	/* Whoever misspells a part would lose what it was to guarantee. */
	fake_is("POST", "/v1/query", "{\"Near\":\"_ip\"}", 400, "Request decode failed: json: unknown field \"Near\"");
	fake_is("PUT", "/v1/query/" QID, "{\"Service\":{\"Failovers\":{\"NearestN\":1}}}", 400,
	    "Request decode failed: json: unknown field \"Failovers\"");
	fake_is("POST", "/v1/query", "{\"Service\":{\"Failover\":{\"NearestN\":1,\"Targets\":[{\"Datacenter\":\"a\"}]}}}", 400,
	    "Request decode failed: Service.Failover.Targets cannot be given together with NearestN or Datacenters");
	fake_is("POST", "/v1/query", "{\"Service\":{\"Failover\":{\"Targets\":[{\"Datacenter\":\"a\"},{}]}}}", 400,
	    "Request decode failed: each of Service.Failover.Targets names a Datacenter, and nothing else");
	fake_is("POST", "/v1/query", "{\"Name\":\"a\\u0000b\"}", 400, "Name must not have control characters: there is U+0000 in it");
	fake_is("POST", "/v1/query", "", 400, NULL);
}
END_TEST

START_TEST(reading)
{
	struct prepared_query q = query();
	struct prepared_read read;
	struct request *r;

	begin();
	r = fake_begin("GET", "/v1/query/" QID "?index=7&wait=1s", NULL, NULL);
	asked(OP_QUERY_GET, &read);
	ck_assert_uint_eq(fake.q.index, 7);
	reply_list(&prepared_query_schema, &q, 1);
	fake_answered(r, 200, "[" QUERY "]");
	ck_assert_str_eq(fake_header(r, "X-Consul-Index"), "42");
	ck_assert_str_eq(fake_header(r, "X-Consul-Effective-Consistency"), "leader");
	fake_end(r);
	r = fake_begin("GET", "/v1/query/" QID, NULL, NULL);
	reply_list(&prepared_query_schema, &q, 0);
	fake_answered(r, 404, "Query not found");
	fake_end(r);
	r = fake_begin("GET", "/v1/query/abc", NULL, NULL);
	reply(TV_EINVAL, "no UUID");
	fake_answered(r, 500, "no UUID");
	ck_assert_str_eq(fake_header(r, "X-Consul-KnownLeader"), "false");
	fake_end(r);
	r = fake_begin("GET", "/v1/query?stale", NULL, NULL);
	asked(OP_QUERY_LIST, NULL);
	reply_list(&prepared_query_schema, &q, 2);
	fake_answered(r, 200, "[" QUERY "," QUERY "]");
	fake_end(r);
	fake_is("GET", "/v1/query/", NULL, 400, "Missing query ID");
}
END_TEST

/* Methods belong to what the path ends with. */
START_TEST(methods)
{
	static const struct { const char *method, *path, *allow; unsigned status; } cases[] = {
		{ "PUT", "/v1/query", "OPTIONS,GET,POST", 405 }, { "POST", "/v1/query/x", "GET,PUT,DELETE", 405 },
		{ "POST", "/v1/query/x/execute", "GET", 405 }, { "PUT", "/v1/query/x/explain", "GET", 405 },
		{ "OPTIONS", "/v1/query/x", "OPTIONS,GET,PUT,DELETE", 200 }, { "OPTIONS", "/v1/query/x/execute", "OPTIONS,GET", 200 },
		{ "DELETE", "/v1/query/a/b/explain", "GET", 405 },
	};

	begin();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct request *r = fake_begin(cases[i].method, cases[i].path, NULL, NULL);

		fake_answered(r, cases[i].status, NULL);
		ck_assert_str_eq(fake_header(r, "Allow"), cases[i].allow);
		fake_end(r);
	}
	ck_assert_uint_eq(fake.started, 0);
}
END_TEST

/* -- executing -- */

#define END(mode_, contact_) ",\"Index\":0,\"LastContact\":" contact_ ",\"KnownLeader\":true,\"ConsistencyLevel\":\"" mode_ \
	"\",\"NotModified\":false}"

START_TEST(explaining)
{
	struct prepared_query q = query();
	struct prepared_ask a;
	struct request *r;

	begin();
	r = fake_begin("GET", "/v1/query/a%2Fb/explain?index=9", NULL, NULL);
	asked(OP_QUERY_EXPLAIN, &a);
	span_is(a.Name, "a/b");
	ck_assert_uint_eq(fake.q.index, 0);
	reply_record(&prepared_query_schema, &q);
	fake_answered(r, 200, "{\"Query\":" QUERY END("leader", "0"));
	fake_end(r);
	r = fake_begin("GET", "/v1/query/x/explain", NULL, NULL);
	reply(TV_ENOENT, "Query not found");
	fake_answered(r, 404, "Query not found");
	fake_end(r);
}
END_TEST

/* Answers the newest request with so many instances. */
static void
reply_found(const char *dc, unsigned n, const struct prepared_query *q)
{
	struct health_entry e[4] = { { .Node = { .Node = span_str("n") } } };
	struct prepared_found f = { .Nodes = { e, n, true }, .Datacenter = span_str(dc), .Query = *q };

	reply_record(&prepared_found_schema, &f);
}

static void
ends_with(struct request *r, const char *end)
{
	const char *got = buf_cstr(&r->answer.body);
	size_t n = strlen(got), m = strlen(end);

	ck_assert_msg(r->answered && r->answer.status == 200 && n >= m && strcmp(got + n - m, end) == 0, "%s", got);
}

START_TEST(executing)
{
	struct prepared_query q = query();
	struct prepared_ask a;
	struct request *r;

	begin();
	r = fake_begin("GET", "/v1/query/q/execute?limit=2&near=_agent&connect=true&stale", NULL, NULL);
	asked(OP_QUERY_EXECUTE, &a);
	span_is(a.Name, "q");
	span_is(a.Near, "_agent");
	span_is(a.Agent, fake_api.cluster->node_name);
	ck_assert_int_eq(a.Limit, 2);
	ck_assert(a.Connect);
	reply_found("dc1", 1, &q);
	ends_with(r, "\"Checks\":[]}],\"DNS\":{\"TTL\":\"5s\"},\"Datacenter\":\"dc1\",\"Failovers\":0" END("stale", "7000000"));
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "{\"Service\":\"web\",\"Nodes\":[{\"Node\":{"));
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "\"Tags\":null"));
	fake_end(r);
	r = fake_begin("GET", "/v1/query/q/execute?dc=dc2&limit=-1", NULL, NULL);
	asked(OP_QUERY_EXECUTE, &a);
	span_is(fake.q.dc, "dc2");
	span_is(a.Agent, "");
	ck_assert_int_eq(a.Limit, -1);
	reply_found("dc2", 0, &q);
	fake_answered(r, 200, "{\"Service\":\"web\",\"Nodes\":[],\"DNS\":{\"TTL\":\"5s\"},\"Datacenter\":\"dc2\",\"Failovers\":0"
	    END("leader", "0"));
	fake_end(r);
	r = fake_begin("GET", "/v1/query/q/execute", NULL, NULL);
	reply(TV_ENOENT, "Query not found");
	fake_answered(r, 404, "Query not found");
	fake_end(r);
	r = fake_begin("GET", "/v1/query/q/execute", NULL, NULL);
	reply(TV_OK, "");
	fake_answered(r, 500, "rpc error making call: malformed answer");
	fake_end(r);
	fake_is("GET", "/v1/query/q/execute?limit=x", NULL, 500, "Bad limit: strconv.Atoi: parsing \"x\": invalid syntax");
	fake_is("GET", "/v1/query/q/execute?limit=9223372036854775808", NULL, 500,
	    "Bad limit: strconv.Atoi: parsing \"9223372036854775808\": value out of range");
	fake_is("GET", "/v1/query/q/execute?connect=x", NULL, 500,
	    "Error parsing 'connect' value: strconv.ParseBool: parsing \"x\": invalid syntax");
	fake.full = true;
	fake_is("GET", "/v1/query/q/execute", NULL, 503, NULL);
	fake.full = false;
	/* One that goes away takes its question along. */
	r = fake_begin("GET", "/v1/query/q/execute", NULL, NULL);
	fake_end(r);
	ck_assert_uint_eq(fake.cancelled, 1);
}
END_TEST

/* -- failing over -- */

static struct span dcs[] = { { (const uint8_t *)"dc1", 3 }, { (const uint8_t *)"dc2", 3 }, { (const uint8_t *)"dc3", 3 },
	{ (const uint8_t *)"dc4", 3 } };

/* Up to the first try: a query with these, when there are dc1 to dc4. */
static struct request *
until_tries(int64_t nearest, struct span_list named)
{
	struct prepared_query q = query();
	struct request *r = fake_begin("GET", "/v1/query/q/execute?limit=3&token=t", NULL, NULL);

	q.Service.Failover = (struct prepared_failover){ nearest, named };
	reply_found("dc1", 0, &q);
	asked(OP_CATALOG_DATACENTERS, NULL);
	span_is(fake.q.dc, "");
	reply_record(&text_list_schema, &(struct text_list){ { dcs, 4, true } });
	return r;
}

static void
asked_at(const char *dc)
{
	struct prepared_remote p;

	asked(OP_QUERY_REMOTE, &p);
	span_is(fake.q.dc, dc);
	span_is(fake.q.token, "t");
	span_is(p.Query.Service.Service, "web");
	ck_assert_int_eq(p.Limit, 3);
}

START_TEST(nearest_then_named)
{
	struct span named[] = { span_str("dc9"), span_str("dc4"), span_str("dc2"), span_str("dc1"), span_str("dc4") };
	struct prepared_query q = query();
	struct request *r;

	begin();
	r = until_tries(1, (struct span_list){ named, 5, true });
	asked_at("dc2");
	reply_found("dc2", 0, &q);
	asked_at("dc4");
	reply_found("dc4", 2, &q);
	ends_with(r, "\"Datacenter\":\"dc4\",\"Failovers\":2" END("leader", "0"));
	fake_end(r);
	/* All of them, and none finds anything: the last one that answered says so. */
	r = until_tries(9, (struct span_list){ NULL, 0, false });
	asked_at("dc2");
	reply_found("dc2", 0, &q);
	asked_at("dc3");
	reply(TV_EUNREACH, "No path to datacenter");
	asked_at("dc4");
	reply(TV_ENOLEADER, "No cluster leader");
	ends_with(r, "\"Nodes\":[],\"DNS\":{\"TTL\":\"5s\"},\"Datacenter\":\"dc2\",\"Failovers\":3" END("leader", "0"));
	fake_end(r);
	/* Only names that nobody has. */
	r = until_tries(0, (struct span_list){ named, 1, true });
	ends_with(r, "\"Nodes\":[],\"DNS\":{\"TTL\":\"5s\"},\"Datacenter\":\"dc1\",\"Failovers\":0" END("leader", "0"));
	fake_end(r);
	ck_assert_uint_eq(failovers.stats.executed, 3);
	ck_assert_uint_eq(failovers.stats.failed_over, 2);
	ck_assert_uint_eq(failovers.stats.tries, 5);
	ck_assert_uint_eq(failovers.stats.refused, 2);
}
END_TEST

static void
run_loop_once(void)
{
	ev_run(EV_DEFAULT, EVRUN_ONCE);
}

START_TEST(one_that_hangs)
{
	struct prepared_query q = query();
	struct request *r;

	begin();
	timeout = SHORT_TRY;
	r = until_tries(2, (struct span_list){ NULL, 0, false });
	asked_at("dc2");
	while (failovers.stats.timed_out == 0)
		run_loop_once();
	ck_assert_uint_eq(fake.cancelled, 1);
	asked_at("dc3");
	reply_found("dc3", 1, &q);
	ends_with(r, "\"Datacenter\":\"dc3\",\"Failovers\":2" END("leader", "0"));
	fake_end(r);
	/* All hang: then it is the first answer, which found nothing. */
	r = until_tries(2, (struct span_list){ NULL, 0, false });
	while (!r->answered)
		run_loop_once();
	ends_with(r, "\"Nodes\":[],\"DNS\":{\"TTL\":\"5s\"},\"Datacenter\":\"dc1\",\"Failovers\":2" END("leader", "0"));
	fake_end(r);
	/* The client goes while one is asked. */
	r = until_tries(2, (struct span_list){ NULL, 0, false });
	fake_end(r);
	ck_assert_uint_eq(fake.cancelled, 4);
	ck_assert(!ev_pending_count(EV_DEFAULT));
}
END_TEST

/* What can be asked at no datacenter at all is told as it was found here. */
START_TEST(too_busy)
{
	struct prepared_query q = query();
	struct request *r;

	begin();
	q.Service.Failover.NearestN = 1;
	r = fake_begin("GET", "/v1/query/q/execute", NULL, NULL);
	fake.full = true;
	reply_found("dc1", 0, &q);
	ends_with(r, "\"Datacenter\":\"dc1\",\"Failovers\":0" END("leader", "0"));
	fake_end(r);
	fake.full = false;
	r = fake_begin("GET", "/v1/query/q/execute", NULL, NULL);
	reply_found("dc1", 0, &q);
	reply(TV_ENOLEADER, "No cluster leader");
	ends_with(r, "\"Datacenter\":\"dc1\",\"Failovers\":0" END("leader", "0"));
	fake_end(r);
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = { keeping, reading, methods, explaining, executing, nearest_then_named, one_that_hangs,
	    too_busy };

	return api_kit_main("api_prepared", tests, sizeof(tests) / sizeof(tests[0]));
}
