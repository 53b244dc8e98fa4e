/* translate_wan_addrs: which addresses hold for whom, and how answers of the HTTP API show them. */
#include "rpcd/wan/translate.h"
#include "tests/unit/api_kit.h"

#define MAP(...) { (struct span[][2]){ __VA_ARGS__ }, sizeof((struct span[][2]){ __VA_ARGS__ }) / sizeof(struct span[2]), true }
#define ADDRESSES(...) { (struct service_address[]){ __VA_ARGS__ }, \
	sizeof((struct service_address[]){ __VA_ARGS__ }) / sizeof(struct service_address), true }
#define PAIR(name_, value_) { { (const uint8_t *)(name_), sizeof(name_) - 1 }, { (const uint8_t *)(value_), sizeof(value_) - 1 } }
#define TAGGED(name_, address_, port_) { { (const uint8_t *)(name_), sizeof(name_) - 1 }, \
	{ (const uint8_t *)(address_), sizeof(address_) - 1 }, (port_) }

/* -- the rule -- */

START_TEST(whom_it_holds_for)
{
	ck_assert(translate_applies(span_str("dc1"), span_str("dc2")));
	ck_assert(!translate_applies(span_str("dc1"), span_str("dc1")));
	ck_assert(!translate_applies(span_str("dc1"), SPAN_NONE));	/* our own */
	ck_assert(!translate_applies(SPAN_NONE, span_str("dc2")));	/* off */
}
END_TEST

static void
node_is(const struct span_map *tagged, bool applies, const char *plain, const char *v4, const char *v6, const char *any)
{
	struct translated t = translate_node(span_str("10.0.0.1"), tagged, applies);

	span_is(t.plain, plain);
	span_is(t.v4, v4);
	span_is(t.v6, v6);
	span_is(translate_any(&t), any);
}

START_TEST(nodes)
{
	const struct span_map none = { .n = 0 }, wan = MAP(PAIR("lan", "10.0.0.2"), PAIR("wan", "192.0.2.1"));
	const struct span_map all = MAP(PAIR("lan_ipv4", "10.0.0.3"), PAIR("lan_ipv6", "fd00::3"), PAIR("wan", "192.0.2.1"),
	    PAIR("wan_ipv4", "192.0.2.4"), PAIR("wan_ipv6", "2001:db8::6"));
	const struct span_map v4 = MAP(PAIR("wan", "192.0.2.1"), PAIR("wan_ipv4", "192.0.2.4"));
	const struct span_map lan = MAP(PAIR("lan_ipv4", "10.0.0.3"), PAIR("wan", "192.0.2.1"));
	const struct span_map empty = MAP(PAIR("lan_ipv4", "10.0.0.3"), PAIR("wan_ipv4", ""), PAIR("wan", "192.0.2.1"));

	node_is(&none, false, "10.0.0.1", "", "", "10.0.0.1");
	node_is(&none, true, "10.0.0.1", "", "", "10.0.0.1");
	node_is(&wan, false, "10.0.0.1", "", "", "10.0.0.1");
	node_is(&wan, true, "192.0.2.1", "", "", "192.0.2.1");
	node_is(&all, false, "10.0.0.1", "10.0.0.3", "fd00::3", "fd00::3");
	node_is(&all, true, "192.0.2.1", "192.0.2.4", "2001:db8::6", "2001:db8::6");
	node_is(&v4, true, "192.0.2.1", "192.0.2.4", "", "192.0.2.4");
	node_is(&lan, true, "192.0.2.1", "10.0.0.3", "", "10.0.0.3");	/* as in Consul */
	node_is(&empty, true, "192.0.2.1", "", "", "192.0.2.1");
}
END_TEST

static void
service_is(const struct obj_list *tagged, bool applies, const char *plain, const char *v4, const char *v6, uint64_t port)
{
	struct translated t = translate_service(span_str("10.0.0.1"), 80, tagged, applies);

	span_is(t.plain, plain);
	span_is(t.v4, v4);
	span_is(t.v6, v6);
	ck_assert_uint_eq(t.port, port);
}

START_TEST(services)
{
	const struct obj_list none = { .n = 0 };
	const struct obj_list wan = ADDRESSES(TAGGED("lan", "10.0.0.2", 81), TAGGED("wan", "192.0.2.1", 8080));
	const struct obj_list portless = ADDRESSES(TAGGED("wan", "192.0.2.1", 0)), nowhere = ADDRESSES(TAGGED("wan", "", 8080));
	const struct obj_list all = ADDRESSES(TAGGED("lan_ipv4", "10.0.0.3", 83), TAGGED("lan_ipv6", "fd00::3", 83),
	    TAGGED("wan_ipv4", "192.0.2.4", 84), TAGGED("wan_ipv6", "2001:db8::6", 86));

	service_is(&none, true, "10.0.0.1", "", "", 80);
	service_is(&wan, false, "10.0.0.1", "", "", 80);
	service_is(&wan, true, "192.0.2.1", "", "", 8080);
	service_is(&portless, true, "192.0.2.1", "", "", 80);
	service_is(&nowhere, true, "", "", "", 8080);
	service_is(&all, false, "10.0.0.1", "10.0.0.3", "fd00::3", 80);
	service_is(&all, true, "10.0.0.1", "192.0.2.4", "2001:db8::6", 80);	/* ports: that of wan alone */
}
END_TEST

/* -- answers -- */

static const struct span_map node_tags = MAP(PAIR("wan", "192.0.2.1"));
static const struct obj_list service_tags = ADDRESSES(TAGGED("wan", "192.0.2.2", 8080));

static struct node
far_node(void)
{
	return (struct node){ .Node = span_str("far"), .Address = span_str("10.0.0.1"), .Datacenter = span_str("dc2"),
	    .TaggedAddresses = node_tags };
}

static struct service
far_service(void)
{
	return (struct service){ .ID = span_str("w"), .Service = span_str("web"), .Address = span_str("10.0.0.2"), .Port = 80,
	    .TaggedAddresses = service_tags };
}

static struct health_entry
far_entry(void)
{
	return (struct health_entry){ .Node = far_node(), .Service = far_service() };
}

/* Gives the reply to a question of these bytes; true: the answer has these parts, false: none of them. */
static bool
shows(const char *target, const struct schema *s, const void *rec, bool list, const char *node, const char *service)
{
	struct request *r = fake_begin("GET", target, NULL, NULL);

	if (list)
		reply_list(s, rec, 1);
	else
		reply_record(s, rec);
	fake_answered(r, 200, NULL);
	const char *header = fake_header(r, "X-Consul-Translate-Addresses"), *body = buf_cstr(&r->answer.body);
	ck_assert(fake_conf.translate_wan_addrs ? header != NULL && strcmp(header, "true") == 0 : header == NULL);
	bool has_node = strstr(body, node) != NULL, has_service = strstr(body, service) != NULL;
	ck_assert_msg(has_node == has_service, "%s", body);
	fake_end(r);
	return has_node;
}

/* What is asked, and in which parts of the answer addresses show. */
START_TEST(answers)
{
	const struct node n = far_node();
	const struct service s = far_service();
	const struct health_entry e = far_entry();
	const struct service_instance i = { .Node = span_str("far"), .Address = span_str("10.0.0.1"), .TaggedAddresses = node_tags,
		.ServiceID = span_str("w"), .ServiceAddress = span_str("10.0.0.2"), .ServicePort = 80,
		.ServiceTaggedAddresses = service_tags };
	const struct node_services ns = { true, n, { (void *)(uintptr_t)&s, 1, true } };
	static const char node[] = "\"Address\":\"192.0.2.1\"", address[] = "\"Address\":\"192.0.2.2\",\"TaggedAddresses\"",
	    flat[] = "\"ServiceAddress\":\"192.0.2.2\"", port[] = "\"Port\":8080,\"SocketPath\"", flat_port[] = "\"ServicePort\":8080";
	const struct { const char *path; const struct schema *schema; const void *rec; bool list; const char *service[2]; } cases[] = {
		{ "/v1/catalog/nodes", &node_schema, &n, true, { node, node } },
		{ "/v1/catalog/service/web", &service_instance_schema, &i, true, { flat, flat_port } },
		{ "/v1/catalog/connect/web", &service_instance_schema, &i, true, { flat, flat_port } },
		{ "/v1/catalog/node/far", &node_services_schema, &ns, false, { address, port } },
		{ "/v1/catalog/node-services/far", &node_services_schema, &ns, false, { address, port } },
		{ "/v1/health/service/web", &health_entry_schema, &e, true, { address, port } },
		{ "/v1/health/connect/web", &health_entry_schema, &e, true, { address, port } },
	};

	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		char own[128], other[128], filtered[256];

		snprintf(own, sizeof(own), "%s?dc=dc1", cases[c].path);
		snprintf(other, sizeof(other), "%s?dc=dc2", cases[c].path);
		for (int k = 0; k < 2; k++) {
			const char *service = cases[c].service[k];

			fake_conf.translate_wan_addrs = false;
			ck_assert(!shows(other, cases[c].schema, cases[c].rec, cases[c].list, node, service));
			fake_conf.translate_wan_addrs = true;
			ck_assert(shows(other, cases[c].schema, cases[c].rec, cases[c].list, node, service));
			ck_assert(!shows(own, cases[c].schema, cases[c].rec, cases[c].list, node, service));
			ck_assert(!shows(cases[c].path, cases[c].schema, cases[c].rec, cases[c].list, node, service));
		}
		/* A filter sees what was registered. */
		snprintf(filtered, sizeof(filtered), "%s&filter=%s%%20==%%2210.0.0.%c%%22", other,
		    strstr(cases[c].path, "health") != NULL ? "Service.Address" :
		    strstr(cases[c].path, "/service/") != NULL || strstr(cases[c].path, "connect") != NULL ? "ServiceAddress" : "Address",
		    strcmp(cases[c].path, "/v1/catalog/nodes") == 0 ? '1' : '2');
		ck_assert(shows(filtered, cases[c].schema, cases[c].rec, cases[c].list, node, cases[c].service[1]));
	}
}
END_TEST

/* Nothing else of an answer changes: without tags both ways give the same bytes. */
START_TEST(same_bytes)
{
	struct span tags[] = { span_str("a"), span_str("b\n\"") };
	struct service_address lan[] = { TAGGED("lan", "10.0.0.9", 1) };
	struct check check = { .Node = span_str("far"), .CheckID = span_str("c"), .Status = span_str("passing"),
		.Output = span_str("<&>"), .Definition = { .Interval = 1000000000, .Header = span_str("{\"x\":[\"y\"]}") } };
	struct health_entry full = far_entry(), empty = { .Node = { .Node = span_str("n") } };
	struct span_map meta = MAP(PAIR("k", "v"), PAIR("", ""));
	struct buf body = BUF_INIT(1 << 20);

	full.Node.TaggedAddresses = (struct span_map){ .n = 0, .set = true };
	full.Node.Meta = meta;
	full.Service.TaggedAddresses = (struct obj_list){ lan, 1, true };
	full.Service.Tags = (struct span_list){ tags, 2, true };
	full.Service.Weights = (struct weights){ -1, 7 };
	full.Service.Proxy = (struct service_proxy){ .DestinationServiceName = span_str("db"), .Config = span_str("{\"a\":[1.5,null]}") };
	full.Service.Connect.Native = true;
	full.Checks = (struct obj_list){ &check, 1, true };
	for (int which = 0; which < 2; which++) {
		const struct health_entry *e = which == 0 ? &full : &empty;
		struct request *r;

		fake_conf.translate_wan_addrs = false;
		r = fake_begin("GET", "/v1/health/service/web?dc=dc2", NULL, NULL);
		reply_list(&health_entry_schema, e, 3);
		fake_answered(r, 200, NULL);
		buf_reset(&body);
		buf_putspan(&body, buf_span(&r->answer.body));
		fake_end(r);
		fake_conf.translate_wan_addrs = true;
		r = fake_begin("GET", "/v1/health/service/web?dc=dc2", NULL, NULL);
		reply_list(&health_entry_schema, e, 3);
		fake_answered(r, 200, buf_cstr(&body));
		fake_end(r);
	}
	buf_done(&body);
}
END_TEST

/* What has no addresses that are translated, or is shown as it was registered; the header is there all the same. */
START_TEST(others)
{
	struct node_dump dump = { .Node = span_str("far"), .Address = span_str("10.0.0.1"), .TaggedAddresses = node_tags };
	struct request *r;

	fake_conf.translate_wan_addrs = true;
	ck_assert(!shows("/v1/internal/ui/nodes?dc=dc2", &node_dump_schema, &dump, true, "\"Address\":\"192.0.2.1\"", "\"192.0.2.2\""));
	r = fake_begin("GET", "/v1/catalog/nodes?dc=dc2&index=x", NULL, NULL);
	fake_answered(r, 400, "Invalid index");
	ck_assert_str_eq(fake_header(r, "X-Consul-Translate-Addresses"), "true");
	fake_end(r);
	r = fake_begin("GET", "/v1/catalog/nodes?dc=dc2", NULL, NULL);
	buf_reset(&value);
	mpw_array(&value, 2);
	mpw_uint(&value, 1);
	reply(TV_OK, "");
	fake_answered(r, 500, "rpc error making call: malformed answer");
	fake_end(r);
	r = fake_begin("GET", "/v1/catalog/node/far?dc=dc2", NULL, NULL);
	reply_record(&node_services_schema, &(struct node_services){ .found = false });
	fake_answered(r, 200, "null");
	fake_end(r);
}
END_TEST

/* A large answer goes in slices, each of its elements translated. */
START_TEST(in_slices)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	const struct node n = far_node();
	struct request *r;
	unsigned seen = 0;

	fake_conf.answers_bytes_max = 8 << 20;
	fake_conf.translate_wan_addrs = true;
	api_render_start(&fake_api, loop);
	r = fake_begin("GET", "/v1/catalog/nodes?dc=dc2", NULL, NULL);
	reply_list(&node_schema, &n, 5000);
	ck_assert(!r->answered);
	while (!r->answered)
		ev_run(loop, EVRUN_ONCE);
	ck_assert_uint_eq(r->answer.status, 200);
	for (const char *p = buf_cstr(&r->answer.body); (p = strstr(p, "\"Address\":\"192.0.2.1\"")) != NULL; p++)
		seen++;
	ck_assert_uint_eq(seen, 5000);
	fake_end(r);
	ev_loop_destroy(loop);
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = {
		whom_it_holds_for, nodes, services, answers, same_bytes, others, in_slices,
	};

	return api_kit_main("translate", tests, sizeof(tests) / sizeof(tests[0]));
}
