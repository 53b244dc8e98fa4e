/* Who may ask, with access control on: each endpoint by its row, with a token of no rights, of some, and of nobody. */
#include "common/base/clock.h"
#include "rpcd/acl/resolver.h"
#include "tests/unit/api_kit.h"

static struct agent_tokens tokens;
static char master_token[] = "master";
static struct ev_loop *loop;

/* The resolver's newest question gets this answer: rights by these rules, or NULL: there is no such token. */
static void
rights(const char *rules)
{
	struct acl_resolved_policy p = { .ID = span_str("p"), .Rules = span_str(rules == NULL ? "" : rules) };

	asked(OP_ACL_RESOLVE, NULL);
	if (rules != NULL) {
		reply_record(&acl_resolved_schema, &(struct acl_resolved){ .Policies = { &p, 1, true } });
		return;
	}
	reply(TV_EPERM, "ACL not found");
	ck_assert_uint_eq(fake.q.mode, OP_DEFAULT);
	reply(TV_EPERM, "ACL not found");
}

static void
access_on(void)
{
	loop = ev_loop_new(EVFLAG_AUTO);
	tokens = (struct agent_tokens){ .conf = &fake_conf };
	fake_conf.acl_token_ttl = MONO_S(30);
	fake_conf.acl_tokens[RPCD_TOKEN_AGENT_MASTER] = master_token;
	fake_api.tokens = &tokens;
	fake_api.acl = acl_resolver_new(&(struct acl_resolver_conf){ .loop = loop, .conf = &fake_conf, .tokens = &tokens,
	    .node_name = "n1", .expected = true });
	ck_assert_ptr_nonnull(fake_api.acl);
	rights("");
}

static void
access_off(void)
{
	acl_resolver_free(fake_api.acl);
	agent_tokens_close(&tokens);
	ev_loop_destroy(loop);
}

static bool
decides_here(const struct endpoint *e)
{
	return endpoint_access(e) != ACCESS_NONE && endpoint_access(e) != ACCESS_OP;
}

static struct request *
begin_row(const struct endpoint *e, const char *token, char path[160])
{
	struct request_head head = { .token = token, .client_ip = "127.0.0.1", .on_loopback = true };
	size_t n = strlen(e->path);

	snprintf(path, 160, "%s%s%s", e->path, n > 1 && e->path[n - 1] == '/' ? "x" : "", e->ending != NULL ? e->ending : "");
	return fake_begin(e->method, path, NULL, &head);
}

/* A new row has to decide: what this node does itself is refused to a token of no rights, or shows it nothing. */
START_TEST(each_row_refuses)
{
	const struct endpoint *e;
	unsigned fixed = 0, shown = 0, named = 0;

	access_on();
	for (unsigned i = 0; (e = api_endpoint(i)) != NULL; i++) {
		char path[160];
		struct request *r;
		const char *text;

		if (!decides_here(e))
			continue;
		r = begin_row(e, "", path);
		text = buf_cstr(&r->answer.body);
		if (endpoint_access(e) == ACCESS_NAMED) {
			named++;		/* below */
		} else if (endpoint_access(e) == ACCESS_SHOWN) {
			shown++;
			ck_assert_msg(!r->answered || r->answer.status != 403, "%s %s", e->method, path);
		} else {
			fixed++;
			ck_assert_msg(r->answered && r->answer.status == 403 && strcmp(text, "Permission denied") == 0,
			    "%s %s: %s", e->method, path, text);
		}
		fake_end(r);
	}
	ck_assert_uint_ge(fixed, 17);
	ck_assert_uint_ge(shown, 5);
	ck_assert_uint_ge(named, 12);
	access_off();
}
END_TEST

START_TEST(each_row_knows_strangers)
{
	const struct endpoint *e;

	access_on();
	for (unsigned i = 0, n = 0; (e = api_endpoint(i)) != NULL; i++) {
		char path[160], token[32];
		struct request *r;

		if (!decides_here(e))
			continue;
		snprintf(token, sizeof(token), "stranger %u", n++);
		r = begin_row(e, token, path);
		ck_assert_msg(!r->answered, "%s %s: %s", e->method, path, buf_cstr(&r->answer.body));
		rights(NULL);
		ck_assert_msg(r->answered && r->answer.status == 403, "%s %s", e->method, path);
		ck_assert_str_eq(buf_cstr(&r->answer.body), "ACL not found");
		fake_end(r);
	}
	access_off();
}
END_TEST

/*
 * Rows that name something, or show what is found, and are not decided by an operation: where the name of another one's object
 * is tried with a right to one's own.  All others need the right to a whole resource, or are operations, whose fields
 * tests/system/lib/namedfields.py walks.
 */
static const struct {
	const char *method, *path, *tried;
} named_rows[] = {
	{ "GET", "/v1/agent/service/", "services_and_checks" }, { "GET", "/v1/agent/health/service/id/", "services_and_checks" },
	{ "GET", "/v1/agent/health/service/name/", "services_and_checks" }, { "GET", "/v1/agent/coordinate/", "members_and_events" },
	{ "GET", "/v1/agent/services", "services_and_checks" }, { "GET", "/v1/agent/checks", "services_and_checks" },
	{ "GET", "/v1/agent/members", "members_and_events" }, { "GET", "/v1/event/list", "members_and_events" },
	{ "GET", "/v1/agent/coordinate", "members_and_events" }, { "PUT", "/v1/agent/query/", "members_and_events" },
	{ "GET", "/v1/agent/queries", "each by event:read on its name, as in the list of events" },
	{ "GET", "/v1/config/", "there are no entries" }, { "PUT", "/v1/config", "there are no entries" },
	{ "DELETE", "/v1/config/", "there are no entries" },
#define OBJECTS(path) { "PUT", path, "test_acl_agent_objects" }
	OBJECTS("/v1/agent/service/register"), OBJECTS("/v1/agent/service/deregister/"), OBJECTS("/v1/agent/service/maintenance/"),
	OBJECTS("/v1/agent/check/register"), OBJECTS("/v1/agent/check/deregister/"), OBJECTS("/v1/agent/check/pass/"),
	OBJECTS("/v1/agent/check/warn/"), OBJECTS("/v1/agent/check/fail/"), OBJECTS("/v1/agent/check/update/"),
};

START_TEST(each_row_is_decided)
{
	bool seen[sizeof(named_rows) / sizeof(named_rows[0])] = { false };
	const struct endpoint *e;

	for (unsigned i = 0; (e = api_endpoint(i)) != NULL; i++) {
		unsigned access = endpoint_access(e);
		size_t k = 0;

		if (access == ACCESS_OP)
			ck_assert_msg(e->op != 0 && op_find(e->op) != NULL, "%s %s: by which operation?", e->method, e->path);
		if (access == ACCESS_NONE)
			ck_assert_msg(strcmp(e->method, "GET") == 0, "%s %s changes something", e->method, e->path);
		if (access != ACCESS_NAMED && access != ACCESS_SHOWN)
			continue;
		while (k < sizeof(seen) && (strcmp(named_rows[k].method, e->method) != 0 || strcmp(named_rows[k].path, e->path) != 0))
			k++;
		ck_assert_msg(k < sizeof(seen), "%s %s: whose names are judged, and which test tries it?", e->method, e->path);
		seen[k] = true;
	}
	for (size_t k = 0; k < sizeof(seen); k++)
		ck_assert_msg(seen[k], "%s %s is no such row", named_rows[k].method, named_rows[k].path);
}
END_TEST

static void
as(const char *token, const char *method, const char *path, const char *body, unsigned status, const char *answer)
{
	struct request_head head = { .token = token, .client_ip = "127.0.0.1", .on_loopback = true };
	struct request *r = fake_begin(method, path, body, &head);

	fake_answered(r, status, answer);
	fake_end(r);
}

/* Makes a token known with these rules. */
static void
known(const char *token, const char *rules)
{
	struct acl_answer now;
	struct acl_wait *wait;
	struct request_head head = { .token = token, .client_ip = "127.0.0.1", .on_loopback = true };
	struct request *r = fake_begin("GET", "/v1/agent/checks", NULL, &head);

	rights(rules);
	ck_assert(r->answered);
	fake_end(r);
	ck_assert_int_eq(acl_ask(fake_api.acl, span_str(token), &now, NULL, NULL, &wait), ACL_NOW);
}

START_TEST(services_and_checks)
{
	static const char denied[] = "Permission denied: Missing service:write on ";
	char text[128];

	access_on();
	known("web", "service \"web\" { policy = \"write\" }");
	known("node", "node \"n1\" { policy = \"write\" }");
	snprintf(text, sizeof(text), "%sother", denied);
	as("web", "PUT", "/v1/agent/service/register", "{\"Name\":\"other\"}", 403, text);
	as("web", "PUT", "/v1/agent/service/register", "{\"Name\":\"web\"}", 200, "");
	snprintf(text, sizeof(text), "%sdb", denied);
	as("web", "PUT", "/v1/agent/service/register",
	    "{\"Name\":\"web\",\"Kind\":\"connect-proxy\",\"Port\":1,\"Proxy\":{\"DestinationServiceName\":\"db\"}}", 403,
	    text);
	/* s1 is a service web: not by another name, nor without the right. */
	known("db", "service \"db\" { policy = \"write\" }");
	snprintf(text, sizeof(text), "%sweb", denied);
	as("db", "PUT", "/v1/agent/service/register", "{\"ID\":\"s1\",\"Name\":\"db\"}", 403, text);
	as("", "PUT", "/v1/agent/service/deregister/s1", NULL, 403, text);
	as("web", "PUT", "/v1/agent/service/deregister/s1", NULL, 200, "");
	as("", "PUT", "/v1/agent/service/maintenance/s1?enable=true", NULL, 403, text);
	as("web", "PUT", "/v1/agent/maintenance?enable=true", NULL, 403, "Permission denied");
	as("node", "PUT", "/v1/agent/maintenance?enable=true", NULL, 200, "");
	as("web", "PUT", "/v1/agent/check/register", "{\"Name\":\"c\",\"TTL\":\"1s\"}", 403,
	    "Permission denied: Missing node:write on n1");
	as("node", "PUT", "/v1/agent/check/register", "{\"Name\":\"c\",\"TTL\":\"1s\"}", 200, "");
	as("node", "PUT", "/v1/agent/check/register", "{\"Name\":\"c\",\"TTL\":\"1s\",\"ServiceID\":\"s1\"}", 403, text);
	as("", "GET", "/v1/agent/services", NULL, 200, "{}");
	as("", "GET", "/v1/agent/checks", NULL, 200, "{}");
	as("", "GET", "/v1/agent/service/s1", NULL, 403, "Permission denied");
	as("web", "GET", "/v1/agent/service/s1", NULL, 200, NULL);
	as("", "GET", "/v1/agent/health/service/id/s1", NULL, 403, "Permission denied");
	as("", "GET", "/v1/agent/health/service/name/web", NULL, 403, "Permission denied");
	access_off();
}
END_TEST

START_TEST(members_and_events)
{
	static const struct member two[] = {
		{ .name = { (const uint8_t *)"n1", 2 }, .addr_len = 4 }, { .name = { (const uint8_t *)"n2", 2 }, .addr_len = 4 },
	};
	static const struct user_event events[] = {
		{ .ID = { (const uint8_t *)"b54fe110-7af5-cafc-d1fb-afc8ba432b1c", 36 }, .Name = { (const uint8_t *)"deploy", 6 } },
	};
	struct request_head head = { .token = "n2", .client_ip = "127.0.0.1", .on_loopback = true };
	struct request *r;

	access_on();
	fake.members = two;
	fake.member_count = 2;
	fake.events = events;
	fake.event_count = 1;
	as("", "GET", "/v1/agent/members", NULL, 200, "[]");
	known("n2", "node \"n2\" { policy = \"read\" }\nevent_prefix \"de\" { policy = \"read\" }");
	r = fake_begin("GET", "/v1/agent/members", NULL, &head);
	ck_assert_ptr_null(strstr(buf_cstr(&r->answer.body), "\"n1\""));
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "\"n2\""));
	fake_end(r);
	as("", "GET", "/v1/event/list", NULL, 200, "[]");
	r = fake_begin("GET", "/v1/event/list", NULL, &head);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&r->answer.body), "deploy"));
	fake_end(r);
	/* A token that ends while its client waits gets nothing any more. */
	r = fake_begin("GET", "/v1/event/list?wait=1m", NULL, &head);
	char target[64];
	snprintf(target, sizeof(target), "/v1/event/list?wait=1m&index=%s", fake_header(r, "X-Consul-Index"));
	fake_end(r);
	head.on_socket = true;
	head.uid = 1000;
	r = fake_begin("GET", target, NULL, &head);
	ck_assert(!r->answered);
	ck_assert(api_fold(r));
	ck_assert_int_eq(r->head.uid, 1000);	/* nobody becomes root while he waits */
	fake_conf.acl_token_ttl = MONO_ZERO;
	fake_wake(true);
	ck_assert(!r->answered);
	rights(NULL);
	fake_answered(r, 403, "ACL not found");
	fake_end(r);
	as("n2", "PUT", "/v1/agent/query/deploy", NULL, 403, NULL);
	as("n2", "GET", "/v1/agent/coordinate/n1", NULL, 403, NULL);
	access_off();
}
END_TEST

START_TEST(root_and_master)
{
	struct request_head root = { .on_socket = true, .uid = 0 }, other = { .on_socket = true, .uid = 1000 },
	    tcp = { .client_ip = "127.0.0.1", .on_loopback = true };
	unsigned before;

	access_on();
	before = fake.started;
	static const struct { const char *method, *path; bool allowed; } v[] = {
		{ "PUT", "/v1/agent/leave", true }, { "GET", "/v1/agent/metrics", true }, { "GET", "/v1/agent/host", false },
		{ "PUT", "/v1/agent/force-leave/x", false }, { "PUT", "/v1/agent/maintenance?enable=true", false },
	};
	for (unsigned i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct request *r = fake_begin(v[i].method, v[i].path, NULL, &root);
		ck_assert_msg((r->answered && r->answer.status == 403) != v[i].allowed, "root: %s", v[i].path);
		fake_end(r);
		r = fake_begin(v[i].method, v[i].path, NULL, &other);
		ck_assert_msg(r->answered && r->answer.status == 403, "another user: %s", v[i].path);
		fake_end(r);
		tcp.token = master_token;
		r = fake_begin(v[i].method, v[i].path, NULL, &tcp);
		ck_assert_msg((r->answered && r->answer.status == 403) != v[i].allowed, "agent_master: %s", v[i].path);
		fake_end(r);
	}
	ck_assert_uint_eq(fake.started, before);	/* no server was asked */
	root.token = "web";				/* who shows a token has its rights */
	struct request *r = fake_begin("GET", "/v1/agent/metrics", NULL, &root);
	rights("");
	fake_answered(r, 403, "Permission denied");
	fake_end(r);
	access_off();
}
END_TEST

/* Rights decide then, over TCP and the socket alike. */
START_TEST(http_admin_does_not_matter)
{
	access_on();
	known("op", "agent_prefix \"\" { policy = \"write\" }");
	fake_conf.http_admin = false;
	struct request_head head = { .token = "op", .client_ip = "127.0.0.1", .on_loopback = true };
	struct request *r = fake_begin("PUT", "/v1/agent/leave", NULL, &head);
	ck_assert(!r->answered);
	fake_end(r);
	access_off();
}
END_TEST

START_TEST(agent_tokens_are_set)
{
	struct event_fire e;

	access_on();
	known("op", "agent \"n1\" { policy = \"write\" }");
	as("", "PUT", "/v1/agent/token/default", "{\"Token\":\"x\"}", 403, "Permission denied");
	as("op", "PUT", "/v1/agent/token/bogus", "{\"Token\":\"x\"}", 404, "Token \"bogus\" is unknown");
	as("op", "PUT", "/v1/agent/token/acl_token", "{\"Token\":\"x\"}", 200, "");
	/* From now on it is that of requests without one. */
	struct request *r = fake_begin("PUT", "/v1/event/fire/deploy", NULL, NULL);
	asked(OP_EVENT_FIRE, &e);
	span_is(fake.q.token, "x");
	reply(TV_EPERM, "ACL not found");
	fake_answered(r, 500, "ACL not found");
	fake_end(r);
	/* But what is registered keeps the client's own token alone. */
	known("x", "service_prefix \"\" { policy = \"write\" }");
	as(NULL, "PUT", "/v1/agent/service/register", "{\"Name\":\"web\"}", 200, "");
	ck_assert_uint_eq(fake.registered.token.len, 0);
	as("op", "PUT", "/v1/agent/token/agent", "{\"Token\":\"", 400, NULL);
	access_off();
	fake_api.acl = NULL;
	as("", "PUT", "/v1/agent/token/default", "{\"Token\":\"x\"}", 401, "ACL support disabled");
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = {
		each_row_refuses, each_row_is_decided, each_row_knows_strangers, services_and_checks, members_and_events, root_and_master,
		http_admin_does_not_matter, agent_tokens_are_set,
	};

	return api_kit_main("api_access", tests, sizeof(tests) / sizeof(tests[0]));
}
