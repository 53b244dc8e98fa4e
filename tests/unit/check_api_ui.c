/* /v1/internal/ui/: one node, lists of nodes, summaries of services; and replies that cannot be read. */
#include "tests/unit/api_kit.h"

static struct service
service(const char *id, const char *name)
{
	return (struct service){ .ID = span_str(id), .Service = span_str(name) };
}

static struct check
check_of(const char *node, const char *id, const char *status)
{
	return (struct check){ .Node = span_str(node), .CheckID = span_str(id), .Status = span_str(status) };
}

/* -- one node -- */

START_TEST(one_node)
{
	struct service web = service("web1", "web");
	struct check disk = check_of("x1", "disk", "passing");
	struct node_dump d = { .Node = span_str("x1"), .Address = span_str("10.0.0.1"), .Services = { &web, 1, true },
	    .Checks = { &disk, 1, true } };
	struct catalog_read read;
	struct request *r;

	r = fake_begin("GET", "/v1/internal/ui/node/x1?dc=dc2", NULL, NULL);
	asked(OP_NODE_DUMP, &read);
	span_is(read.Name, "x1");
	span_is(fake.q.dc, "dc2");
	reply_list(&node_dump_schema, &d, 1);
	fake_answered(r, 200, NULL);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "\"Node\":\"x1\""));
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "\"ID\":\"web1\""));
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "\"CheckID\":\"disk\""));
	ck_assert_str_eq(fake_header(r, "X-Consul-Index"), "42");
	fake_end(r);
	/* A list of none, and nothing at all. */
	r = fake_begin("GET", "/v1/internal/ui/node/nobody", NULL, NULL);
	reply_list(&node_dump_schema, &d, 0);
	fake_answered(r, 404, "");
	ck_assert_str_eq(fake_header(r, "X-Consul-Index"), "42");
	fake_end(r);
	r = fake_begin("GET", "/v1/internal/ui/node/nobody", NULL, NULL);
	mpw_nil(&value);
	reply(TV_OK, "");
	fake_answered(r, 404, "");
	fake_end(r);
	fake_is("GET", "/v1/internal/ui/node/", NULL, 400, "Missing node name");
}
END_TEST

/* What is no list of nodes is an error of the server, and not a node that is missing. */
START_TEST(malformed_node)
{
	static const struct { const char *bytes; size_t len; } cases[] = {
		{ "\xc3", 1 },			/* true */
		{ "", 0 },
		{ "\x91", 1 },			/* a list of one, without it */
		{ "\x91\xc3", 2 },
		{ "\x91\x97\xa1", 3 },		/* a record that is cut short */
		{ "\xdd\xff\xff\xff\xff", 5 },	/* more than there is */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct request *r = fake_begin("GET", "/v1/internal/ui/node/x1", NULL, NULL);

		buf_put(&value, cases[i].bytes, cases[i].len);
		reply(TV_OK, "");
		fake_answered(r, 500, "rpc error making call: malformed answer");
		fake_end(r);
	}
}
END_TEST

START_TEST(all_nodes)
{
	struct node_dump d = { .Node = span_str("x1"), .Address = span_str("10.0.0.1") };
	struct request *r = fake_begin("GET", "/v1/internal/ui/nodes", NULL, NULL);

	asked(OP_NODE_DUMP, NULL);
	reply_list(&node_dump_schema, &d, 2);
	fake_answered(r, 200, "[{\"ID\":\"\",\"Node\":\"x1\",\"Address\":\"10.0.0.1\",\"TaggedAddresses\":null,\"Meta\":null,"
	    "\"Services\":[],\"Checks\":[]},{\"ID\":\"\",\"Node\":\"x1\",\"Address\":\"10.0.0.1\",\"TaggedAddresses\":null,"
	    "\"Meta\":null,\"Services\":[],\"Checks\":[]}]");
	ck_assert_str_eq(fake_header(r, "X-Consul-Effective-Consistency"), "leader");
	fake_end(r);
	r = fake_begin("GET", "/v1/internal/ui/nodes", NULL, NULL);
	reply(TV_ENOLEADER, "No cluster leader");
	fake_answered(r, 500, "No cluster leader");
	fake_end(r);
	r = fake_begin("GET", "/v1/internal/ui/nodes?filter=Nothing==1", NULL, NULL);
	fake_answered(r, 500, NULL);
	fake_end(r);
}
END_TEST

/* -- services -- */

static void
put_entry(const char *node, struct service s, const struct check *checks, unsigned n)
{
	schema_pack(&health_entry_schema, &(struct health_entry){
		.Node = { .Node = span_str(node), .Datacenter = span_str("dc1") }, .Service = s,
		.Checks = { (void *)(uintptr_t)checks, n, true } }, &value);
}

#define REST(native_, proxied_, transparent_) "\"GatewayConfig\":{},\"TransparentProxy\":" transparent_ ",\"ConnectNative\":" native_ \
	",\"ConnectedWithProxy\":" proxied_ ",\"ConnectedWithGateway\":false}"
#define CHECKS(p_, w_, c_) "\"ChecksPassing\":" p_ ",\"ChecksWarning\":" w_ ",\"ChecksCritical\":" c_ ","

/* A check of the node is in the entry of each instance on it, and counts once; a proxy's counts for its service, too. */
START_TEST(summaries)
{
	const struct check first[] = { check_of("x1", "disk", "passing"), check_of("x1", "w1", "warning") };
	const struct check second[] = { check_of("x1", "disk", "passing"), check_of("x1", "w2", "critical") };
	const struct check third[] = { check_of("x2", "p", "critical") };
	struct span tags[] = { span_str("b"), span_str("a") }, meta[][2] = { { span_str("external-source"), span_str("nomad") },
	    { span_str("other"), span_str("x") } };
	struct service web1 = service("web1", "web"), web2 = service("web2", "web"), proxy = service("p", "web-proxy");
	struct request *r = fake_begin("GET", "/v1/internal/ui/services", NULL, NULL);

	asked(OP_SERVICE_DUMP, NULL);
	web1.Tags = (struct span_list){ tags, 2, true };
	web2.Tags = (struct span_list){ tags + 1, 1, true };
	web1.Meta = (struct span_map){ meta, 2, true };
	web2.Connect.Native = true;
	proxy.Kind = span_str("connect-proxy");
	proxy.Proxy.DestinationServiceName = span_str("web");
	proxy.Proxy.Mode = span_str("transparent");
	mpw_array(&value, 3);
	put_entry("x1", web2, second, 2);
	put_entry("x2", proxy, third, 1);
	put_entry("x1", web1, first, 2);
	reply(TV_OK, "");
	fake_answered(r, 200, "[{\"Name\":\"web\",\"Datacenter\":\"dc1\",\"Tags\":[\"a\",\"b\"],\"Nodes\":[\"x1\"],"
	    "\"ExternalSources\":[\"nomad\"],\"InstanceCount\":2," CHECKS("1", "1", "2") REST("true", "true", "true")
	    ",{\"Kind\":\"connect-proxy\",\"Name\":\"web-proxy\",\"Datacenter\":\"dc1\",\"Tags\":null,\"Nodes\":[\"x2\"],"
	    "\"ExternalSources\":null,\"InstanceCount\":1," CHECKS("0", "0", "1") REST("false", "false", "false") "]");
	fake_end(r);
	r = fake_begin("GET", "/v1/internal/ui/services?filter=Service.ID==web1", NULL, NULL);
	mpw_array(&value, 2);
	put_entry("x1", web1, first, 2);
	put_entry("x1", web2, second, 2);
	reply(TV_OK, "");
	fake_answered(r, 200, NULL);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "\"InstanceCount\":1,\"ChecksPassing\":1,\"ChecksWarning\":1,"
	    "\"ChecksCritical\":0,"));
	fake_end(r);
	r = fake_begin("GET", "/v1/internal/ui/services", NULL, NULL);
	reply_list(&health_entry_schema, &(struct health_entry){ .Checks = { NULL, 0, false } }, 0);
	fake_answered(r, 200, "[]");
	fake_end(r);
}
END_TEST

START_TEST(malformed_services)
{
	static const struct { const char *bytes; size_t len; } cases[] = {
		{ "\xc3", 1 }, { "\x91", 1 }, { "\x91\xc3", 2 }, { "\x90\xc3", 2 }, { "\xdd\xff\xff\xff\xff", 5 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct request *r = fake_begin("GET", "/v1/internal/ui/services", NULL, NULL);

		buf_put(&value, cases[i].bytes, cases[i].len);
		reply(TV_OK, "");
		fake_answered(r, 500, NULL);
		ck_assert_msg(strncmp(buf_cstr(&r->answer.body), "rpc error making call: ", 23) == 0, "%s",
		    buf_cstr(&r->answer.body));
		fake_end(r);
	}
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = { one_node, malformed_node, all_nodes, summaries, malformed_services };

	return api_kit_main("api_ui", tests, sizeof(tests) / sizeof(tests[0]));
}
