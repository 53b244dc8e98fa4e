/* Definitions of services and checks: what comes of the JSON that a client writes. */
#include <check.h>
#include <stdlib.h>

#include "common/record/schema_json.h"
#include "rpcd/registry/definition.h"

static struct arena arena;
static char why[DEFINITION_TEXT_MAX];
static struct service_records got;

static void
setup(void)
{
	arena = ARENA_INIT(1u << 20);
}

static void
teardown(void)
{
	arena_done(&arena);
}

static unsigned
define(const char *json)
{
	struct service_def *d = arena_alloc(&arena, sizeof(*d));
	json_t *v = json_first_value(span_str(json), why, sizeof(why));

	ck_assert_ptr_nonnull(v);
	ck_assert_msg(schema_from_json(&service_def_schema, v, SJ_STRICT | SJ_SNAKE, &arena, d, why, sizeof(why)) == TV_OK,
	    "%s: %s", json, why);
	json_decref(v);
	why[0] = '\0';
	return definition_service(d, &arena, &got, why);
}

static const struct check *
check_at(uint32_t i)
{
	ck_assert_uint_lt(i, got.n);
	ck_assert_int_eq(got.checks[i].kind, ENTRY_CHECK);
	return &got.checks[i].check;
}

static void
is(struct span s, const char *text)
{
	ck_assert_msg(span_eqs(s, text), "%.*s is not %s", (int)s.len, (const char *)s.p, text);
}

START_TEST(defaults)
{
	ck_assert_uint_eq(define("{\"Name\":\"web\"}"), 0);
	is(got.service.service.ID, "web");
	ck_assert(got.service.service.Weights.Passing == 1 && got.service.service.Weights.Warning == 1);
	ck_assert_uint_eq(got.n + got.service.service.TaggedAddresses.n, 0);
	ck_assert_uint_eq(define("{\"Name\":\"web\",\"Check\":{}}"), 0);
	ck_assert_uint_eq(got.n, 0);
	ck_assert_uint_eq(define("{\"Name\":\"web\",\"Check\":{\"TTL\":\"10s\",\"DeregisterCriticalServiceAfter\":\"1s\"}}"), 0);
	is(check_at(0)->CheckID, "service:web");
	is(check_at(0)->Name, "Service 'web' check");
	is(check_at(0)->ServiceID, "web");
	is(check_at(0)->Type, "ttl");
	ck_assert_int_eq(got.checks[0].ttl, 10000000000);
	ck_assert_int_eq(got.checks[0].deregister_after, 60000000000);
}
END_TEST

/* The number counts all checks of the service, those with ids of their own, too; the single one is the first. */
START_TEST(numbers_of_checks)
{
	ck_assert_uint_eq(define("{\"ID\":\"w1\",\"Name\":\"web\",\"Check\":{\"TTL\":\"1s\",\"CheckID\":\"own\"},"
	    "\"Checks\":[{\"TTL\":\"2s\"},{\"ttl\":\"3s\",\"id\":\"x\",\"name\":\"n\"}],\"Token\":\"t\"}"), 0);
	ck_assert_uint_eq(got.n, 3);
	is(check_at(0)->CheckID, "own");
	is(check_at(1)->CheckID, "service:w1:2");
	is(check_at(2)->CheckID, "x");
	is(check_at(2)->Name, "n");
	for (uint32_t i = 0; i < 3; i++)
		is(got.checks[i].token, "t");
}
END_TEST

START_TEST(tagged_addresses)
{
	const struct service_address *v;

	ck_assert_uint_eq(define("{\"Name\":\"w\",\"Address\":\"10.0.0.1\",\"Port\":80,"
	    "\"tagged_addresses\":{\"lan_ipv4\":{\"address\":\"1.2.3.4\",\"port\":9}}}"), 0);
	v = got.service.service.TaggedAddresses.v;
	ck_assert_uint_eq(got.service.service.TaggedAddresses.n, 2);
	is(v[0].Address, "1.2.3.4");
	is(v[1].Name, "wan_ipv4");
	is(v[1].Address, "10.0.0.1");
	ck_assert_uint_eq(v[1].Port, 80);
	ck_assert_uint_eq(define("{\"Name\":\"w\",\"Address\":\"FE80:0::1\"}"), 0);
	v = got.service.service.TaggedAddresses.v;
	ck_assert_uint_eq(got.service.service.TaggedAddresses.n, 2);
	is(v[0].Name, "lan_ipv6");
	is(v[0].Address, "fe80::1");
	ck_assert_uint_eq(define("{\"Name\":\"w\",\"Address\":\"web.example.com\"}"), 0);
	ck_assert_uint_eq(got.service.service.TaggedAddresses.n, 0);
}
END_TEST

/* Kept as it was written, but for what stands for nothing. */
START_TEST(proxies)
{
	const struct upstream *up;

	ck_assert_uint_eq(define("{\"name\":\"p\",\"kind\":\"connect-proxy\",\"port\":1,\"proxy\":{\"destination_service_name\":\"web\","
	    "\"config\":{\"b_c\":0.1,\"A\":[-1e20,1.5e+20,1e21,-0e21]},\"upstreams\":[{\"destination_name\":\"db\",\"local_bind_port\":9}],"
	    "\"expose\":{\"paths\":[]}}}"), 0);
	/* An integer of more than 64 bits could not be read again. */
	is(got.service.service.Proxy.Config, "{\"b_c\":0.1,\"A\":[-1e+20,1.5e+20,1e+21,0]}");
	ck_assert(got.service.service.Proxy.Upstreams.n == 1 && !got.service.service.Proxy.Expose.Paths.set);
	up = got.service.service.Proxy.Upstreams.v;
	is(up->DestinationType, "service");
	ck_assert_uint_eq(define("{\"name\":\"w\",\"connect\":{\"native\":true}}"), 0);
	ck_assert(got.service.service.Connect.Native);
	ck_assert_uint_eq(define("{\"name\":\"w\",\"connect\":{\"sidecar_service\":{\"port\":1}}}"), 0);
	ck_assert_uint_eq(define("{\"name\":\"p\",\"kind\":\"connect-proxy\",\"port\":1}"), 400);
	ck_assert_str_eq(why, "1 error occurred:\n\t* Proxy.DestinationServiceName must be non-empty for Connect proxy services\n\n");
	ck_assert_uint_eq(define("{\"name\":\"p\",\"kind\":\"connect-proxy\",\"port\":1,\"proxy\":{\"destinationservicename\":\"a\","
	    "\"expose\":{\"paths\":[{\"path\":\"/a\",\"listenerport\":70000,\"protocol\":\"x\"},{\"listenerport\":70000}]}}}"), 400);
	ck_assert_str_eq(why, "5 errors occurred:\n\t* expose.paths: invalid listener port: 70000\n"
	    "\t* protocol 'x' not supported for path: /a, must be in: [http http2]\n\t* expose.paths: empty path exposed\n"
	    "\t* expose.paths: duplicate listener ports exposed\n\t* expose.paths: invalid listener port: 70000\n\n");
}
END_TEST

START_TEST(refusals)
{
	static const struct { const char *json; unsigned status; const char *why; } v[] = {
		{ "{\"ID\":\"x\"}", 400, "Missing service name" },
		{ "{\"Name\":\"w\",\"Address\":\"0.0.0.0\"}", 400, "Invalid service address" },
		{ "{\"Name\":\"w\",\"Weights\":{\"Passing\":0,\"Warning\":-1}}", 400,
		    "Invalid Weights: Passing must be greater than 0" },
		{ "{\"Name\":\"w\",\"Weights\":{\"Passing\":1,\"Warning\":-1}}", 400,
		    "Invalid Weights: Warning must be greater or equal than 0" },
		{ "{\"Name\":\"w\",\"Weights\":{\"Passing\":65536}}", 400,
		    "Invalid Weights: DNS Weight must be between 0 and 65535" },
		{ "{\"Name\":\"w\",\"Meta\":{\"\":\"x\"}}", 400,
		    "Invalid Service Meta: Couldn't load metadata pair ('', 'x'): Key cannot be blank" },
		{ "{\"Name\":\"w\",\"Meta\":{\"consul-x\":\"y\"}}", 400, "Invalid Service Meta: Couldn't load metadata pair "
		    "('consul-x', 'y'): Key prefix 'consul-' is reserved for internal use" },
		{ "{\"Name\":\"w\",\"Port\":-1}", 400, "Invalid service port: it must be between 0 and 65535" },
		{ "{\"Name\":\"w\",\"Check\":{\"Status\":\"passing\"}}", 400,
		    "Invalid check: TTL must be > 0 for TTL checks" },
		{ "{\"Name\":\"w\",\"Checks\":[{}]}", 400, "Invalid check: TTL must be > 0 for TTL checks" },
		{ "{\"Name\":\"w\",\"Check\":{\"AliasService\":\"x\",\"TCP\":\"h:1\",\"Interval\":\"1s\"}}", 400,
		    "Invalid check: Interval cannot be set for Alias checks" },
		{ "{\"Name\":\"w\",\"Check\":{\"AliasService\":\"x\",\"TTL\":\"1s\"}}", 400,
		    "Invalid check: TTL must be not be set for Alias checks" },
		{ "{\"Name\":\"w\",\"Check\":{\"DockerContainerID\":\"x\",\"Interval\":\"1s\"}}", 400,
		    "Invalid check: DockerContainerID needs Args, what is run in the container" },
		{ "{\"Name\":\"w\",\"Check\":{\"H2PING\":\"h:1\",\"H2PingUseTLS\":1,\"Interval\":\"1s\"}}", 400,
		    "Invalid check: H2PingUseTLS is true or false" },
		{ "{\"Name\":\"w\",\"Checks\":[{\"TTL\":\"1s\"},{\"GRPC\":\"h:1\"}]}", 400,
		    "Invalid check: Interval must be > 0 for Script, HTTP, H2PING, or TCP checks" },
		{ "{\"Name\":\"w\",\"Check\":{\"TCP\":\"h:1\"}}", 400,
		    "Invalid check: Interval must be > 0 for Script, HTTP, H2PING, or TCP checks" },
		{ "{\"Name\":\"w\",\"Check\":{\"TCP\":\"h:1\",\"Args\":[\"id\"],\"Interval\":\"1s\"}}", 400,
		    "Invalid check: more than one of HTTP, TCP, UDP, GRPC, H2PING and Args" },
		{ "{\"Name\":\"w\",\"Check\":{\"UDP\":\"h:1\"}}", 400, "Invalid check: Interval must be > 0 for UDP checks" },
		{ "{\"Name\":\"w\",\"Check\":{\"UDP\":\"h\",\"Interval\":\"1s\"}}", 400,
		    "Invalid check: UDP: address h: missing port in address" },
		{ "{\"Name\":\"w\",\"Check\":{\"TCP\":\"http://h:1\",\"Interval\":\"1s\"}}", 400,
		    "Invalid check: TCP: address http://h:1: too many colons in address" },
		{ "{\"Name\":\"w\",\"Check\":{\"GRPC\":\"/s\",\"Interval\":\"1s\"}}", 400,
		    "Invalid check: GRPC: address : missing port in address" },
		{ "{\"Name\":\"w\",\"Check\":{\"H2PING\":\"[::1]\",\"Interval\":\"1s\"}}", 400,
		    "Invalid check: H2PING: address [::1]: missing port in address" },
		{ "{\"Name\":\"w\",\"Check\":{\"HTTP\":\"http://h\",\"Method\":\"GET /\",\"Interval\":\"1s\"}}", 400,
		    "Invalid check: Method is not the name of an HTTP method" },
		{ "{\"Name\":\"w\",\"Check\":{\"HTTP\":\"http://h\",\"Header\":{\"A\":\"b\"},\"Interval\":\"1s\"}}", 400,
		    "Invalid check: Header must be an object of lists of text, without control characters" },
		{ "{\"Name\":\"w\",\"Check\":{\"HTTP\":\"http://h\",\"Header\":{\"A\":[\"b\\r\\nC: d\"]},"
		    "\"Interval\":\"1s\"}}", 400,
		    "Invalid check: Header must be an object of lists of text, without control characters" },
		{ "{\"Name\":\"w\",\"Check\":{\"HTTP\":\"http://h\",\"Header\":{\"A:\":[\"b\"]},\"Interval\":\"1s\"}}", 400,
		    "Invalid check: Header must be an object of lists of text, without control characters" },
		{ "{\"Name\":\"w\",\"Check\":{\"HTTP\":\"http://h\\u0001\",\"Interval\":\"1s\"}}", 400,
		    "Check.HTTP must not have control characters: there is U+0001 in it" },
		{ "{\"Name\":\"w\",\"Tags\":[\"a\",\"b\\u0085\"]}", 400, "Tags must not have control characters: there is U+0085 in it" },
		{ "{\"Name\":\"w\",\"TaggedAddresses\":{\"\\n\":{\"Address\":\"a\",\"Port\":1}}}", 400,
		    "TaggedAddresses.Name must not have control characters: there is U+000A in it" },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		ck_assert_uint_eq(define(v[i].json), v[i].status);
		ck_assert_str_eq(why, v[i].why);
	}
}
END_TEST

/* In both spellings; times have bounds. */
START_TEST(how_a_check_is_run)
{
	ck_assert_uint_eq(define("{\"Name\":\"w\",\"Checks\":[{\"HTTP\":\"http://h/x\",\"method\":\"POST\",\"Body\":\"b\","
	    "\"header\":{\"A\":[\"1\",\"2\"],\"B\":[\"\"]},\"tls_skip_verify\":true,\"TLSServerName\":\"n\","
	    "\"Interval\":\"10ms\",\"timeout\":\"3s\",\"success_before_passing\":2,\"FailuresBeforeCritical\":3,"
	    "\"failures_before_warning\":1,\"OutputMaxSize\":100},"
	    "{\"tcp\":\"h:1\",\"interval\":\"1000000h\"},{\"ScriptArgs\":[\"a\",\"b\"],\"Interval\":\"5s\"}]}"), 0);
	const struct check_run *r = &got.checks[0].run;

	ck_assert_uint_eq(got.n, 3);
	ck_assert(span_eqs(r->Kind, "http") && span_eqs(r->Target, "http://h/x") && span_eqs(r->Method, "POST") &&
	    span_eqs(r->Body, "b") && r->TLSSkipVerify && span_eqs(r->TLSServerName, "n"));
	ck_assert(r->Interval == 1000000000 && r->Timeout == 3000000000 && r->SuccessBeforePassing == 2 &&
	    r->FailuresBeforeCritical == 3 && r->FailuresBeforeWarning == 1 && r->OutputMaxSize == 100);
	ck_assert_uint_eq(r->Header.n, 3);
	ck_assert(span_eqs(r->Header.v[0], "A: 1") && span_eqs(r->Header.v[1], "A: 2") && span_eqs(r->Header.v[2], "B: "));
	ck_assert(span_eqs(check_at(0)->Type, "http") && check_at(0)->Definition.HTTP.len == 0);
	r = &got.checks[1].run;
	ck_assert(span_eqs(r->Kind, "tcp") && span_eqs(r->Target, "h:1") && r->Interval == INT64_C(86400) * 366 * 1000000000);
	r = &got.checks[2].run;
	ck_assert(span_eqs(r->Kind, "script") && r->Args.n == 2 && span_eqs(r->Args.v[1], "b"));
	ck_assert(span_eqs(check_at(2)->Type, "script"));
}
END_TEST

/* Kinds and what is theirs, in both spellings. */
START_TEST(other_kinds)
{
	ck_assert_uint_eq(define("{\"Name\":\"w\",\"Checks\":["
	    "{\"GRPC\":\"h:1/s\",\"GRPCUseTLS\":true,\"Interval\":\"5s\"},{\"grpc\":\"h:1\",\"interval\":\"5s\"},"
	    "{\"H2PING\":\"h:1\",\"Interval\":\"5s\"},{\"h2ping\":\"h:1\",\"h2ping_use_tls\":false,\"interval\":\"5s\"},"
	    "{\"DockerContainerID\":\"c\",\"Shell\":\"/bin/bash\",\"Args\":[\"id\"],\"Interval\":\"5s\"},"
	    "{\"alias_service\":\"s\",\"alias_node\":\"n\"},{\"AliasNode\":\"n\"},"
	    "{\"UDP\":\":53\",\"Interval\":\"5s\"},{\"tcp\":\"h:1\",\"tcp_use_tls\":true,\"interval\":\"5s\"},"
	    "{\"TCP\":\"h:http\",\"GRPCUseTLS\":true,\"Interval\":\"5s\"},"
	    "{\"http\":\"http://h\",\"disable_redirects\":true,\"interval\":\"5s\"}]}"), 0);
	ck_assert_uint_eq(got.n, 11);
	static const char *const types[] = { "grpc", "grpc", "h2ping", "h2ping", "docker", "alias", "alias", "udp", "tcp",
	    "tcp", "http" };
	static const bool tls[] = { [0] = true, [2] = true, [8] = true, [10] = false };
	for (uint32_t i = 0; i < 11; i++) {
		is(check_at(i)->Type, types[i]);
		is(got.checks[i].run.Kind, types[i]);
		ck_assert(got.checks[i].run.UseTLS == tls[i]);
	}
	ck_assert(got.checks[10].run.DisableRedirects && !got.checks[9].run.DisableRedirects);
	is(got.checks[7].run.Target, ":53");
	is(got.checks[0].run.Target, "h:1/s");
	is(got.checks[4].run.Target, "c");
	is(got.checks[4].run.Shell, "/bin/bash");
	is(got.checks[5].run.Target, "s");
	is(got.checks[5].run.Node, "n");
	ck_assert_int_eq(got.checks[5].run.Interval, 0);
	ck_assert_uint_eq(got.checks[6].run.Target.len, 0);
}
END_TEST

/* What the catalog could not take is refused here, where somebody hears of it. */
START_TEST(too_long)
{
	static const char *const forms[] = { "{\"Name\":\"%s\"}", "{\"Name\":\"w\",\"ID\":\"%s\"}",
		"{\"Name\":\"w\",\"Token\":\"%s\"}", "{\"Name\":\"w\",\"Check\":{\"TTL\":\"1s\",\"CheckID\":\"%s\"}}",
		"{\"Name\":\"w\",\"Meta\":{\"%s\":\"\"}}", "{\"Name\":\"w\",\"Meta\":{\"k\":\"%s\"}}" };
	char name[1100], json[2048];

	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		char *at = strstr(strcpy(json, forms[i]), "%s");

		size_t before = (size_t)(at - json);
		snprintf(json, sizeof(json), "%.*s%s%s", (int)before, forms[i], name, forms[i] + before + 2);
		ck_assert_uint_eq(define(json), 400);
		ck_assert_msg(strstr(why, "long") != NULL, "%s", why);
	}
	/* The id of a check that follows from one that just fits. */
	name[1020] = '\0';
	snprintf(json, sizeof(json), "{\"Name\":\"%s\",\"Check\":{\"TTL\":\"1s\"}}", name);
	ck_assert_uint_eq(define(json), 400);
	ck_assert_str_eq(why, "Check ID is longer than 1024 bytes");
}
END_TEST

/* Whoever registers it: these ids are of the cluster and of the endpoints for maintenance. */
START_TEST(reserved_ids)
{
	static const char *const ids[] = { "serfHealth", "SerfHealth", "_node_maintenance", "_service_maintenance:w",
	    "_SERVICE_MAINTENANCE:" };
	static const char *const free_ids[] = { "serfHealth2", "serfHealt", "_node_maintenance:w", "_service_maintenance" };
	char json[256];

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		snprintf(json, sizeof(json), "{\"Name\":\"w\",\"Checks\":[{\"TTL\":\"1s\"},{\"TTL\":\"1s\",\"ID\":\"%s\"}]}",
		    ids[i]);
		ck_assert_uint_eq(define(json), 400);
		ck_assert_msg(strstr(why, ids[i]) != NULL && strstr(why, "is reserved") != NULL, "%s", why);
		ck_assert(check_id_reserved(span_str(ids[i])));
	}
	for (size_t i = 0; i < sizeof(free_ids) / sizeof(free_ids[0]); i++)
		ck_assert(!check_id_reserved(span_str(free_ids[i])));
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = { defaults, reserved_ids, numbers_of_checks, tagged_addresses, proxies, refusals, how_a_check_is_run,
	    other_kinds, too_long };
	Suite *s = suite_create("definition");
	TCase *t = tcase_create("definition");

	tcase_add_checked_fixture(t, setup, teardown);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(t, tests[i]);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
