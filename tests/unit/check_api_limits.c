/* Limits that an operator sets (rpcd/api/limits.h), and what is not taken from the network (rpcd/api/gates.c). */
#include "common/base/clock.h"
#include "tests/unit/api_kit.h"

#define S INT64_C(1000000000)

static struct request_head far = { .client_ip = "192.0.2.7" }, other = { .client_ip = "192.0.2.8" },
	near = { .client_ip = "127.0.0.1", .on_loopback = true }, root = { .on_socket = true, .uid = 0 },
	user = { .on_socket = true, .uid = 1000 };

static void
setup(void)
{
	fake_setup();
	fake_conf.request_mode = REQUESTS_ENFORCING;
	for (unsigned i = 0; i < REQUEST_LIMITS; i++)
		for (unsigned k = 0; k < 2; k++)
			fake_conf.request_rates[i][k] = CONF_NO_RATE;
	fake_conf.http_plaintext_tokens = true;
	fake_api.began = clock_mono();
	fake_api.clear_lines = (struct log_limit){ .burst = 100, .period = MONO_S(60) };
}

static char line[1024];
static unsigned line_count;

static void
take_line(void *ctx UNUSED, enum log_level level UNUSED, const char *tag UNUSED, const char *text)
{
	if (strstr(text, " sends its token ") != NULL)
		return;			/* told of another thing: api_warn_of_token() */
	snprintf(line, sizeof(line), "%s", text);
	line_count++;
}

/* The status, or 0 if it went on. */
static unsigned
asks(const char *method, const char *target, const struct request_head *head)
{
	struct request *r = fake_begin(method, target, "", head);
	unsigned status = r->answered ? r->answer.status : 0;

	fake_end(r);
	return status;
}

/* How many of so many requests are refused with this status; the others go on. */
static unsigned
refused(unsigned n, unsigned status, const char *method, const char *target, const struct request_head *head)
{
	unsigned found = 0;

	for (unsigned i = 0; i < n; i++) {
		unsigned got = asks(method, target, head);

		found += got == status;
		ck_assert_msg(got == status || got == 0, "%u", got);
	}
	return found;
}

static void
limit(enum request_limit which, unsigned kind, uint64_t thousandths)
{
	fake_conf.request_rates[which][kind] = thousandths;
	ck_assert(limits_configure(&fake_api.limits, &fake_conf));
}

START_TEST(nothing_is_limited_unless_told)
{
	ck_assert_uint_eq(refused(100, 429, "GET", "/v1/kv/a", &far), 0);
	ck_assert(limits_configure(&fake_api.limits, &fake_conf));
	ck_assert_uint_eq(refused(100, 429, "GET", "/v1/kv/a", &far), 0);
	fake_conf.request_mode = REQUESTS_DISABLED;
	limit(LIMIT_ALL, 0, 100);
	ck_assert_uint_eq(refused(100, 429, "GET", "/v1/kv/a", &far), 0);
	ck_assert_ptr_null(fake_api.limits.sources.slots);
	ck_assert_ptr_null(fake_api.limits.tokens.slots);
}
END_TEST

START_TEST(all_clients_share_one)
{
	struct request *r;

	limit(LIMIT_ALL, 0, 100);		/* one, and then one in ten seconds */
	ck_assert_uint_eq(refused(1, 429, "GET", "/v1/kv/a", &far), 0);
	ck_assert_uint_eq(refused(2, 429, "GET", "/v1/catalog/nodes?index=5", &other), 2);
	ck_assert_uint_eq(refused(2, 429, "GET", "/v1/agent/self", &user), 2);
	r = fake_begin("GET", "/v1/kv/a", NULL, &far);
	fake_answered(r, 429, "rate limit exceeded, try again later or against a different server");
	ck_assert_str_eq(fake_header(r, "Retry-After"), "10");
	fake_end(r);
	/* Writes have no limit; root, and what tells of the cluster, are not limited. */
	ck_assert_uint_eq(refused(5, 429, "PUT", "/v1/kv/a", &far), 0);
	ck_assert_uint_eq(refused(5, 429, "GET", "/v1/kv/a", &root), 0);
	ck_assert_uint_eq(refused(5, 429, "GET", "/v1/status/leader", &far), 0);
	ck_assert_uint_eq(refused(5, 429, "GET", "/v1/operator/raft/configuration", &far), 0);
	ck_assert_uint_eq(fake_api.limits.stats.exceeded[LIMIT_ALL][0], 5);
	ck_assert_uint_eq(fake_api.limits.stats.refused, 5);
}
END_TEST

static bool
yes(void *ctx UNUSED)
{
	return true;
}

START_TEST(a_write_at_the_leader_is_503)
{
	struct request *r;

	limit(LIMIT_ALL, 1, 500);
	ck_assert_uint_eq(refused(7, 429, "PUT", "/v1/session/create", &far), 2);
	fake_api.leads = yes;
	r = fake_begin("DELETE", "/v1/kv/a", NULL, &far);
	fake_answered(r, 503, "rate limit exceeded for operation that can only be performed by the leader, try again "
	    "later");
	ck_assert_str_eq(fake_header(r, "Retry-After"), "2");
	fake_end(r);
	ck_assert_uint_eq(asks("PUT", "/v1/txn", &far), 503);
	ck_assert_uint_eq(refused(5, 503, "GET", "/v1/kv/a", &far), 0);
}
END_TEST

START_TEST(each_source_has_its_own)
{
	static const struct request_head six = { .client_ip = "2001:db8::1" }, same = { .client_ip = "2001:db8::2:1" },
		next = { .client_ip = "2001:db8:0:1::1" };
	struct request *r;

	limit(LIMIT_SOURCE, 0, 200);
	ck_assert_uint_eq(refused(3, 429, "GET", "/v1/kv/a", &far), 1);
	ck_assert_uint_eq(refused(3, 429, "GET", "/v1/kv/a", &other), 1);
	ck_assert_uint_eq(refused(3, 429, "GET", "/v1/kv/a", &user), 1);
	ck_assert_uint_eq(refused(3, 429, "GET", "/v1/kv/a", &six), 1);
	ck_assert_uint_eq(refused(3, 429, "GET", "/v1/kv/a", &same), 3);	/* of one /64 */
	ck_assert_uint_eq(refused(3, 429, "GET", "/v1/kv/a", &next), 1);
	r = fake_begin("GET", "/v1/kv/a", NULL, &far);
	fake_answered(r, 429, "rate limit exceeded for this client address, try again later "
	    "(limits.request_limits.source_read_rate of this node)");
	fake_end(r);
	ck_assert_uint_eq(fake_api.limits.stats.exceeded[LIMIT_SOURCE][0], 9);
}
END_TEST

START_TEST(each_token_has_its_own)
{
	struct request_head a = far, b = far, a2 = other, bearer = other;

	a.token = a2.token = "s3cret-a";
	b.token = "s3cret-b";
	bearer.authorization = "Bearer s3cret-b";
	limit(LIMIT_TOKEN, 1, 200);
	log_tap(LOG_LVL_WARN, take_line, NULL);
	line_count = 0;
	ck_assert_uint_eq(refused(3, 429, "PUT", "/v1/kv/a", &a), 1);
	ck_assert_str_eq(line, "PUT /v1/kv/ of 192.0.2.7 is beyond limits.request_limits.token_write_rate: refused");
	ck_assert_uint_eq(refused(3, 429, "PUT", "/v1/kv/a", &a2), 3);
	ck_assert_uint_eq(refused(3, 429, "PUT", "/v1/kv/a", &b), 1);
	ck_assert_uint_eq(refused(3, 429, "PUT", "/v1/kv/a?token=s3cret-b", &other), 3);
	ck_assert_uint_eq(refused(3, 429, "PUT", "/v1/kv/a", &bearer), 3);
	ck_assert_uint_eq(refused(9, 429, "PUT", "/v1/kv/a", &far), 0);		/* without one */
	log_tap(LOG_LVL_WARN, NULL, NULL);
	ck_assert_uint_eq(line_count, 6);	/* of this limit, in a minute */
}
END_TEST

/* What the whole node refuses takes nothing from the client's own share, and the other way round. */
START_TEST(what_is_refused_takes_nothing)
{
	limit(LIMIT_SOURCE, 0, 200);
	limit(LIMIT_ALL, 0, 300);
	ck_assert_uint_eq(refused(50, 429, "GET", "/v1/kv/a", &far), 48);
	ck_assert_uint_eq(refused(1, 429, "GET", "/v1/kv/a", &other), 0);
	ck_assert_uint_eq(refused(1, 429, "GET", "/v1/kv/a", &other), 1);
	limit(LIMIT_ALL, 0, CONF_NO_RATE);
	ck_assert_uint_eq(refused(2, 429, "GET", "/v1/kv/a", &other), 1);
}
END_TEST

START_TEST(permissive_counts_and_serves)
{
	fake_conf.request_mode = REQUESTS_PERMISSIVE;
	limit(LIMIT_ALL, 0, 200);
	log_tap(LOG_LVL_WARN, take_line, NULL);
	ck_assert_uint_eq(refused(10, 429, "GET", "/v1/kv/a", &far), 0);
	log_tap(LOG_LVL_WARN, NULL, NULL);
	ck_assert_ptr_nonnull(strstr(line, "served (mode permissive)"));
	ck_assert_uint_eq(fake_api.limits.stats.exceeded[LIMIT_ALL][0], 8);
	ck_assert_uint_eq(fake_api.limits.stats.refused, 0);
	/* The bucket fills again although they went on asking. */
	fake_api.limits.all[0] -= 5 * S;
	ck_assert_uint_eq(refused(1, 429, "GET", "/v1/kv/a", &far), 0);
	ck_assert_uint_eq(fake_api.limits.stats.exceeded[LIMIT_ALL][0], 8);
}
END_TEST

START_TEST(a_reload_holds_at_once)
{
	limit(LIMIT_SOURCE, 0, 200);
	ck_assert_uint_eq(refused(9, 429, "GET", "/v1/kv/a", &far), 7);
	ck_assert(limits_configure(&fake_api.limits, &fake_conf));		/* nothing has changed */
	ck_assert_uint_eq(refused(9, 429, "GET", "/v1/kv/a", &far), 9);
	limit(LIMIT_SOURCE, 0, 100000);
	ck_assert_uint_eq(refused(9, 429, "GET", "/v1/kv/a", &far), 0);
	fake_conf.request_mode = REQUESTS_DISABLED;
	limit(LIMIT_SOURCE, 0, 1);
	ck_assert_ptr_null(fake_api.limits.sources.slots);
	ck_assert_uint_eq(refused(9, 429, "GET", "/v1/kv/a", &far), 0);
}
END_TEST

/* -- tokens in clear ------------------------------------------------------------- */

START_TEST(tokens_in_clear)
{
	static const struct { const char *target, *token, *authorization; bool refused; } v[] = {
		{ "/v1/kv/a", "s3cret", NULL, true }, { "/v1/kv/a?token=s3cret", NULL, NULL, true },
		{ "/v1/kv/a", NULL, "Bearer s3cret", true }, { "/v1/kv/a", NULL, "bearer\ts3cret", true },
		{ "/v1/kv/a?tok%65n=s3cret", NULL, NULL, true },
		{ "/v1/kv/a?token=&token=s3cret", NULL, NULL, true },
		{ "/v1/kv/a?token=anonymous", "s3cret", NULL, true }, { "/v1/kv/a?token=", "s3cret", NULL, true },
		{ "/v1/kv/a", "anonymous", "Bearer s3cret", true },
		/* whatever is there, or is not */
		{ "/v1/none", "s3cret", NULL, true }, { "/v1//kv/a?token=s3cret", NULL, NULL, true },
		{ "/v1/kv/%zz", "s3cret", NULL, true }, { "*", "s3cret", NULL, true }, { "/v1/status/leader", "s3cret", NULL, true },
		/* no secret */
		{ "/v1/kv/a", NULL, NULL, false }, { "/v1/kv/a?token", "", NULL, false },
		{ "/v1/kv/a", "anonymous", NULL, false }, { "/v1/kv/a", NULL, "Basic dXNlcjpwYXNz", false },
		{ "/v1/kv/token=s3cret", NULL, NULL, false },
	};

	fake_conf.http_plaintext_tokens = false;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct request_head head = far;

		head.token = v[i].token;
		head.authorization = v[i].authorization;
		ck_assert_msg(asks("GET", v[i].target, &head) == (v[i].refused ? 403 : 0), "%s", v[i].target);
		head.on_tls = true;
		ck_assert_uint_ne(asks("GET", v[i].target, &head), 403);
		/* At an address that others reach, or from one: each alone is enough. */
		head = near;
		head.token = v[i].token;
		head.authorization = v[i].authorization;
		ck_assert_uint_ne(asks("GET", v[i].target, &head), 403);
		head.on_loopback = false;
		ck_assert_uint_eq(asks("GET", v[i].target, &head) == 403, v[i].refused);
		head.on_loopback = true;
		head.client_ip = "192.0.2.7";
		ck_assert_uint_eq(asks("GET", v[i].target, &head) == 403, v[i].refused);
		head = user;
		head.token = v[i].token;
		ck_assert_uint_ne(asks("GET", v[i].target, &head), 403);
	}
	struct request_head head = far;

	head.token = "s3cret";
	fake_answered(fake_begin("PUT", "/v1/kv/a", "x", &head), 403, "A token over plain HTTP is refused, since others can "
	    "read it on the way, and whoever did knows it now: use HTTPS, or set http_allow_plaintext_tokens = true in "
	    "rpcd.conf");
	fake_end(&fake_request);
	fake_conf.http_plaintext_tokens = true;
	ck_assert_uint_eq(asks("PUT", "/v1/kv/a", &head), 0);
}
END_TEST

/* One line of each source in a minute, which has no token in it. */
START_TEST(refused_tokens_are_told)
{
	struct request_head head = far;

	fake_conf.http_plaintext_tokens = false;
	head.token = "s3cret";
	log_tap(LOG_LVL_WARN, take_line, NULL);
	line_count = 0;
	for (unsigned i = 0; i < 50; i++)
		ck_assert_uint_eq(asks("GET", "/v1/kv/a?token=s3cret", &head), 403);
	ck_assert_uint_eq(line_count, 1);
	ck_assert_str_eq(line, "192.0.2.7 sent a token as plaintext over the network: refused. Whoever listened knows "
	    "it: replace the token, and use HTTPS, or set http_allow_plaintext_tokens = true in rpcd.conf");
	head.client_ip = "192.0.2.8";
	for (unsigned i = 0; i < 50; i++)
		ck_assert_uint_eq(asks("GET", "/v1/kv/a", &head), 403);
	ck_assert_uint_eq(line_count, 2);
	log_tap(LOG_LVL_WARN, NULL, NULL);
	ck_assert_uint_eq(fake_api.stats.clear_refused, 100);
}
END_TEST

/* It shows no token with itself, but in what it wants to be kept. */
START_TEST(tokens_in_bodies)
{
	static const struct { const char *method, *target, *body; bool refused; } v[] = {
		{ "PUT", "/v1/agent/service/register", "{\"Name\":\"web\",\"Token\":\"s3cret\"}", true },
		{ "PUT", "/v1/agent/service/register",
		    "{\"Name\":\"web\",\"Check\":{\"TTL\":\"9s\",\"Token\":\"s3cret\"}}", true },
		{ "PUT", "/v1/agent/service/register",
		    "{\"name\":\"web\",\"checks\":[{\"ttl\":\"9s\"},{\"ttl\":\"9s\",\"token\":\"s3cret\"}]}", true },
		{ "PUT", "/v1/agent/service/register", "{\"Name\":\"web\",\"Port\":1,\"Connect\":{\"SidecarService\":"
		    "{\"Token\":\"s3cret\"}}}", true },
		{ "PUT", "/v1/agent/service/register", "{\"Name\":\"web\",\"Port\":1,\"Connect\":{\"SidecarService\":"
		    "{\"Checks\":[{\"TTL\":\"9s\",\"Token\":\"s3cret\"}]}}}", true },
		{ "PUT", "/v1/agent/check/register", "{\"Name\":\"up\",\"TTL\":\"9s\",\"Token\":\"s3cret\"}", true },
		{ "POST", "/v1/query", "{\"Service\":{\"Service\":\"web\"},\"Token\":\"s3cret\"}", true },
		{ "PUT", "/v1/query/11111111-2222-3333-4444-555555555555",
		    "{\"Service\":{\"Service\":\"web\"},\"Token\":\"s3cret\"}", true },
		/* no secret; the name is refused, after tokens were looked for */
		{ "PUT", "/v1/agent/service/register", "{\"Name\":\"\",\"Token\":\"\"}", false },
		{ "PUT", "/v1/agent/check/register", "{\"Name\":\"\",\"Token\":\"anonymous\"}", false },
		{ "POST", "/v1/query", "{\"Service\":{\"Service\":\"web\"}}", false },
		{ "POST", "/v1/query", "{\"Service\":{\"Service\":\"web\"},\"Token\":\"<hidden>\"}", false },
	};
	uint64_t refused_so_far = 0;

	fake_conf.http_plaintext_tokens = false;
	log_tap(LOG_LVL_WARN, take_line, NULL);
	line_count = 0;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct request *r = fake_begin(v[i].method, v[i].target, v[i].body, &far);

		if (v[i].refused)
			fake_answered(r, 403, "A token over plain HTTP is refused, since others can read it on the way, and "
			    "whoever did knows it now: use HTTPS, or set http_allow_plaintext_tokens = true in rpcd.conf");
		else
			ck_assert_msg(!r->answered || r->answer.status == 400, "%s", v[i].body);
		fake_end(r);
		refused_so_far += v[i].refused;
		ck_assert_uint_eq(fake_api.stats.clear_refused, refused_so_far);
	}
	ck_assert_uint_eq(line_count, 1);
	ck_assert_ptr_nonnull(strstr(line, "192.0.2.7 sent a token as plaintext over the network: refused."));
	log_tap(LOG_LVL_WARN, NULL, NULL);
}
END_TEST

/* What cannot be parsed was read by others all the same. */
START_TEST(tokens_in_bad_queries)
{
	char many[512] = "/v1/kv/a?token=s3cret";

	fake_conf.http_plaintext_tokens = false;
	for (unsigned i = 0; i < 128; i++)
		strcat(many, "&a");
	ck_assert_uint_eq(asks("GET", many, &far), 403);
	ck_assert_uint_eq(asks("GET", many, &near), 400);
	ck_assert_uint_eq(asks("GET", "/v1/kv/a?x=%zz&token=&token=s3cret", &far), 403);
	ck_assert_uint_eq(asks("GET", "/v1/kv/a?x=%zz&token=&token=anonymous", &far), 500);
	ck_assert_uint_eq(asks("GET", "/v1/kv/a?x=%zz", &far), 500);
	ck_assert_uint_eq(fake_api.stats.clear_refused, 2);
}
END_TEST

/* Those that show no token, and give one. */
START_TEST(secrets_in_bodies_and_answers)
{
	static const struct { const char *method, *target; bool refused; } v[] = {
		{ "POST", "/v1/acl/login", true }, { "PUT", "/v1/acl/bootstrap", true }, { "PUT", "/v1/agent/token/agent", true },
		{ "PUT", "/v1/acl/token", true }, { "GET", "/v1/acl/token/self", true }, { "POST", "/v1/operator/keyring", true },
		{ "GET", "/v1/operator/keyring", true }, { "GET", "/v1/acl/policies", false }, { "GET", "/v1/kv/a", false },
	};
	struct request_head sealed = far;

	sealed.on_tls = true;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		fake_conf.http_plaintext_tokens = false;
		ck_assert_msg((asks(v[i].method, v[i].target, &far) == 403) == v[i].refused, "%s", v[i].target);
		ck_assert_uint_ne(asks(v[i].method, v[i].target, &near), 403);
		ck_assert_uint_ne(asks(v[i].method, v[i].target, &sealed), 403);
		ck_assert_uint_ne(asks(v[i].method, v[i].target, &user), 403);
		fake_conf.http_plaintext_tokens = true;
		ck_assert_uint_ne(asks(v[i].method, v[i].target, &far), 403);
	}
}
END_TEST

/* -- http_config ------------------------------------------------------------------ */

START_TEST(blocked_endpoints)
{
	static char acl[] = "/v1/acl", kv[] = "/v1/kv/secret/", *paths[] = { acl, kv };
	struct request *r;

	fake_conf.block_endpoints = (struct conf_list){ paths, 2 };
	r = fake_begin("GET", "/v1/acl/policies", NULL, &near);
	fake_answered(r, 403, "Endpoint is blocked by agent configuration");
	fake_end(r);
	ck_assert_uint_eq(asks("GET", "/v1/kv/secret/a", &near), 403);
	ck_assert_uint_eq(asks("PUT", "/v1/kv/secret%2Fa", &near), 403);
	ck_assert_uint_eq(asks("GET", "/v1/kv/secret", &near), 0);
	ck_assert_uint_eq(asks("GET", "/v1/kv/other/secret/", &near), 0);
	ck_assert_uint_eq(asks("GET", "/v1/acl/policies", &user), 0);
	ck_assert_uint_eq(fake_api.stats.gate_refused, 3);
}
END_TEST

START_TEST(writes_from_some_networks)
{
	static char one[] = "192.0.2.8/32", six[] = "2001:db8::/32", *nets[] = { one, six };
	static const struct request_head in = { .client_ip = "2001:db8:1::1" }, out = { .client_ip = "2001:db9::1" };
	struct request *r;

	fake_conf.allow_write_from = (struct conf_list){ nets, 2 };
	r = fake_begin("PUT", "/v1/kv/a", "x", &far);
	fake_answered(r, 403, "Access is restricted");
	fake_end(r);
	ck_assert_uint_eq(asks("DELETE", "/v1/kv/a", &far), 403);
	ck_assert_uint_eq(asks("POST", "/v1/acl/login", &far), 403);
	ck_assert_uint_eq(asks("GET", "/v1/kv/a", &far), 0);
	ck_assert_uint_eq(asks("PUT", "/v1/kv/a", &other), 0);
	ck_assert_uint_eq(asks("PUT", "/v1/kv/a", &in), 0);
	ck_assert_uint_eq(asks("PUT", "/v1/kv/a", &out), 403);
	ck_assert_uint_eq(asks("PUT", "/v1/kv/a", &near), 403);
	ck_assert_uint_eq(asks("PUT", "/v1/kv/a", &user), 0);
}
END_TEST

/* -- who used how much -------------------------------------------------------------- */

static void
has(struct request *r, const char *part)
{
	ck_assert_msg(strstr(buf_cstr(&r->answer.body), part) != NULL, "no %s in %s", part, buf_cstr(&r->answer.body));
}

START_TEST(who_used_how_much)
{
	struct request_head shown = near;
	struct request *r;

	shown.token = "s3cret";
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(asks("GET", "/v1/kv/app/web/port?raw", &far), 0);
	fake_end(fake_begin("PUT", "/v1/kv/app/web/x", "12345", &shown));
	ck_assert_uint_eq(asks("GET", "/v1/kv/lone%20key", &user), 0);
	ck_assert_uint_eq(asks("GET", "/v1/kv/app/?recurse&token=s3cret", &near), 0);
	ck_assert_uint_eq(asks("GET", "/v1/none", &near), 404);
	/* Neither is a use of the path's first row. */
	ck_assert_uint_eq(asks("DELETE", "/v1/catalog/nodes", &root), 405);
	ck_assert_uint_eq(asks("OPTIONS", "/v1/catalog/nodes", &root), 200);
	r = fake_begin("GET", "/v1/agent/top", NULL, &root);
	ck_assert(r->answered && r->answer.status == 200);
	has(r, "{\"Clients\":[{\"Name\":\"192.0.2.7\",\"Requests\":3,\"Refused\":0,\"BytesIn\":0,");
	has(r, "{\"Name\":\"127.0.0.1\",\"Requests\":2,");
	has(r, "{\"Name\":\"uid:1000\",\"Requests\":1,");
	has(r, "\"Tokens\":[{\"Name\":\"anonymous\",\"Requests\":4,");
	has(r, "{\"Name\":\"unknown\",\"Requests\":2,\"Refused\":0,\"BytesIn\":5,");
	has(r, "\"Endpoints\":[{\"Name\":\"GET /v1/kv/:name?raw\",\"Requests\":3,");
	has(r, "{\"Name\":\"GET /v1/kv/:name?recurse\",\"Requests\":1,");
	has(r, "{\"Name\":\"PUT /v1/kv/:name\",\"Requests\":1,\"Refused\":0,\"BytesIn\":5,");
	has(r, "\"Keys\":[{\"Name\":\"app/web/\",\"Requests\":4,");
	has(r, "{\"Name\":\"app/\",\"Requests\":1,");
	has(r, "{\"Name\":\"lone%20key\",\"Requests\":1,");
	ck_assert_ptr_null(strstr(buf_cstr(&r->answer.body), "s3cret"));
	ck_assert_ptr_null(strstr(buf_cstr(&r->answer.body), "/v1/catalog/nodes"));
	fake_end(r);
}
END_TEST

/* A waiting request has forgotten what it was asked for, and its token in the URL. */
START_TEST(folded_requests_are_counted)
{
	struct request *r = fake_begin("GET", "/v1/kv/app/web/port?index=5&token=s3cret", NULL, &near);

	ck_assert(api_fold(r));
	fake_end(r);
	r = fake_begin("GET", "/v1/agent/top", NULL, &root);
	has(r, "\"Tokens\":[{\"Name\":\"unknown\",\"Requests\":1,");
	has(r, "\"Keys\":[{\"Name\":\"app/web/\",\"Requests\":1,");
	fake_end(r);
}
END_TEST

/* Each row has a number and a name of its own. */
START_TEST(endpoints_are_numbered)
{
	char name[256], before[256];
	unsigned n = endpoint_count();

	ck_assert_uint_gt(n, 100);
	ck_assert_ptr_null(api_endpoint(n));
	for (unsigned i = 0; i < n; i++) {
		ck_assert_uint_eq(endpoint_number(api_endpoint(i)), i);
		endpoint_name(api_endpoint(i), name, sizeof(name));
		for (unsigned k = 0; k < i; k++) {
			endpoint_name(api_endpoint(k), before, sizeof(before));
			ck_assert_str_ne(name, before);
		}
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("api_limits");
	TCase *t = tcase_create("api_limits");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(t, setup, fake_teardown);
	tcase_add_test(t, nothing_is_limited_unless_told);
	tcase_add_test(t, all_clients_share_one);
	tcase_add_test(t, a_write_at_the_leader_is_503);
	tcase_add_test(t, each_source_has_its_own);
	tcase_add_test(t, each_token_has_its_own);
	tcase_add_test(t, what_is_refused_takes_nothing);
	tcase_add_test(t, permissive_counts_and_serves);
	tcase_add_test(t, a_reload_holds_at_once);
	tcase_add_test(t, tokens_in_clear);
	tcase_add_test(t, refused_tokens_are_told);
	tcase_add_test(t, tokens_in_bodies);
	tcase_add_test(t, tokens_in_bad_queries);
	tcase_add_test(t, secrets_in_bodies_and_answers);
	tcase_add_test(t, blocked_endpoints);
	tcase_add_test(t, writes_from_some_networks);
	tcase_add_test(t, who_used_how_much);
	tcase_add_test(t, folded_requests_are_counted);
	tcase_add_test(t, endpoints_are_numbered);
	suite_add_tcase(s, t);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? 0 : 1;
}
