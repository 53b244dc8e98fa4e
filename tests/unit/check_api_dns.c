/* /v1/agent/dns/: what is looked up for a question, and what is told of the answer. */
#include "common/record/records.h"
#include "rpcd/names/dns_explain.h"
#include "tests/unit/api_kit.h"

static struct failovers failovers;

static void
begin(void)
{
	static struct mono timeout;
	struct rpcd_conf *c = (struct rpcd_conf *)(uintptr_t)fake_api.conf;
	static char row[] = "web*=10s", *rows[] = { row };

	timeout = MONO_S(5);
	c->domain = (char *)(uintptr_t)"consul";
	c->udp_answer_limit = 3;
	c->dns_port = 8600;
	c->dns_allow_stale = true;
	c->service_ttl.items = rows;
	c->service_ttl.count = 1;
	failovers = (struct failovers){ .conf = { (struct route *)(void *)&failovers, EV_DEFAULT, &timeout } };
	fake_api.dns_explainer = dns_explainer_new(&(struct dns_lookups_conf){
		.route = (struct route *)(void *)&failovers, .failovers = &failovers, .conf = c, .datacenter = "dc1",
		.node_name = "n1", .calls_max = 8,
	});
	ck_assert_ptr_nonnull(fake_api.dns_explainer);
}

static void
end(void)
{
	dns_explainer_free(fake_api.dns_explainer);
	fake_api.dns_explainer = NULL;
}

static void
put_entry(const char *node, const char *address, const char *id, const char *status)
{
	struct check c = { .Node = span_str(node), .CheckID = span_str("c1"), .Name = span_str("alive"),
	    .Status = span_str(status), .ServiceID = span_str(id), .Output = span_str("it is ill") };

	schema_pack(&health_entry_schema, &(struct health_entry){
		.Node = { .Node = span_str(node), .Address = span_str(address) },
		.Service = { .ID = span_str(id), .Service = span_str("web"), .Port = 80, .Weights = { 1, 1 } },
		.Checks = { &c, 1, true } }, &value);
}

static void
has(struct request *r, const char *text)
{
	ck_assert_msg(strstr(buf_cstr(&r->answer.body), text) != NULL, "no %s in %s", text, buf_cstr(&r->answer.body));
}

START_TEST(service)
{
	struct catalog_read read;
	struct request *r;

	begin();
	r = fake_begin("GET", "/v1/agent/dns/web.service.consul?tcp", NULL, NULL);
	asked(OP_HEALTH_SERVICE, &read);
	span_is(read.Name, "web");
	ck_assert_int_eq(fake.q.mode, OP_STALE);
	mpw_array(&value, 2);
	put_entry("x1", "10.0.0.1", "web1", "passing");
	put_entry("x2", "10.0.0.2", "web2", "critical");
	reply(TV_OK, "");
	fake_answered(r, 200, NULL);
	has(r, "{\"Name\":\"web.service.consul.\",\"Type\":\"A\",\"Transport\":\"tcp\",");
	has(r, "\"Rcode\":\"NOERROR\"");
	has(r, "\"Records\":[{\"Section\":\"answer\",\"Name\":\"web.service.consul.\",\"Type\":\"A\",\"TTL\":10,"
	    "\"TTLFrom\":\"dns_config.service_ttl \\\"web*\\\"\",\"Data\":\"10.0.0.1\"}]");
	has(r, "{\"Node\":\"x1\",\"ID\":\"web1\",\"Address\":\"10.0.0.1\",\"Port\":80,\"Weight\":1,\"State\":\"passing\","
	    "\"Answered\":true,\"Reason\":\"\"");
	has(r, "\"ID\":\"web2\",\"Address\":\"10.0.0.2\",\"Port\":80,\"Weight\":1,\"State\":\"critical\",\"Answered\":false,"
	    "\"Reason\":\"the check \\\"alive\\\" of the service is critical\",\"Check\":\"alive\",\"Output\":\"it is ill\"");
	has(r, "\"LastContactMs\":7,\"Instances\":2,\"Result\":\"found\"");
	fake_end(r);
	end();
}
END_TEST

/* Those without the tag are looked up too, and told. */
START_TEST(tag)
{
	struct catalog_read read;
	struct request *r;

	begin();
	r = fake_begin("GET", "/v1/agent/dns/v1.web.service.dc2.consul", NULL, NULL);
	ck_assert_uint_eq(fake.started, 2);
	asked(OP_HEALTH_SERVICE, &read);
	ck_assert_uint_eq(read.Tags.n, 0);
	span_is(fake.q.dc, "dc2");
	mpw_array(&value, 1);
	put_entry("x1", "10.0.0.1", "web1", "passing");
	reply(TV_OK, "");
	ck_assert(!r->answered);
	fake_end(r);		/* it goes before the other reply */
	end();
}
END_TEST

START_TEST(nothing)
{
	struct request *r;

	begin();
	r = fake_begin("GET", "/v1/agent/dns/nobody.node.consul", NULL, NULL);
	asked(OP_CATALOG_NODES, NULL);
	reply_list(&node_schema, &(struct node){ .Node = SPAN_NONE }, 0);
	fake_answered(r, 200, NULL);
	has(r, "\"Rcode\":\"NXDOMAIN\"");
	has(r, "\"Why\":\"no node nobody is in the catalog of dc1; `clusterctl catalog nodes` shows them\"");
	fake_end(r);
	r = fake_begin("GET", "/v1/agent/dns/web.service.consul", NULL, NULL);
	reply(TV_ENOLEADER, "No cluster leader");
	fake_answered(r, 200, NULL);
	has(r, "\"Rcode\":\"SERVFAIL\"");
	has(r, "\"Why\":\"it could not be looked up: No cluster leader\"");
	fake_end(r);
	r = fake_begin("GET", "/v1/agent/dns/web.service.dc9.consul", NULL, NULL);
	reply(TV_EUNREACH, "No path to datacenter");
	fake_answered(r, 200, NULL);
	has(r, "\"Why\":\"there is no datacenter dc9, or none of its servers can be reached");
	fake_end(r);
	fake.full = true;
	r = fake_begin("GET", "/v1/agent/dns/web.service.consul", NULL, NULL);
	fake_answered(r, 200, NULL);
	has(r, "\"Rcode\":\"SERVFAIL\"");
	fake_end(r);
	fake.full = false;
	/* Without a look-up. */
	r = fake_begin("GET", "/v1/agent/dns/web.gateways.consul", NULL, NULL);
	fake_answered(r, 200, NULL);
	has(r, "\"Meaning\":\"nothing\"");
	fake_end(r);
	r = fake_begin("GET", "/v1/agent/dns/web.ingress.consul", NULL, NULL);
	fake_answered(r, 200, NULL);
	has(r, "\"Why\":\"ingress gateways are not served by this version\"");
	fake_end(r);
	end();
}
END_TEST

START_TEST(elsewhere)
{
	struct rpcd_conf *c = (struct rpcd_conf *)(uintptr_t)fake_api.conf;
	static char first[] = "192.0.2.1", second[] = "[2001:db8::1]:5353", *addresses[] = { first, second };
	struct request *r;

	begin();
	r = fake_begin("GET", "/v1/agent/dns/www.example.net", NULL, NULL);
	fake_answered(r, 200, NULL);
	has(r, "\"Rcode\":\"REFUSED\",\"Forwarded\":false");
	fake_end(r);
	c->recursors.items = addresses;
	c->recursors.count = 2;
	r = fake_begin("GET", "/v1/agent/dns/www.example.net?type=aaaa", NULL, NULL);
	fake_answered(r, 200, NULL);
	has(r, "\"Type\":\"AAAA\"");
	has(r, "\"Rcode\":\"\",\"Forwarded\":true");
	has(r, "in this order: 192.0.2.1 port 53, 2001:db8::1 port 5353. Only for clients on this host and in "
	    "dns_config.allow_recursion_from (which lists none); others get REFUSED\"");
	fake_end(r);
	c->recursors.count = 0;
	end();
}
END_TEST

START_TEST(wrong_questions)
{
	static const char *const targets[] = { "x..y", "web.service.consul?type=bogus", "web.service.consul?size=70000",
	    "web.service.consul?size=", "web.service.consul?from=here" };

	begin();
	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		char target[128];

		snprintf(target, sizeof(target), "/v1/agent/dns/%s", targets[i]);
		fake_is("GET", target, NULL, 400, NULL);
	}
	fake_is("GET", "/v1/agent/dns/", NULL, 400, "Missing name, as in /v1/agent/dns/web.service.consul");
	ck_assert_uint_eq(fake.started, 0);
	end();
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = { service, tag, nothing, elsewhere, wrong_questions };

	return api_kit_main("api_dns", tests, sizeof(tests) / sizeof(tests[0]));
}
