/* The endpoint table, keys, and what holds for every request: request to operation, reply to answer. */
#include <zlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "rpcd/api/park.h"
#include "tests/unit/api_kit.h"

/* -- table ------------------------------------------------------------------- */

/* An existing path of the endpoint. */
static void
path_of(const struct endpoint *e, char path[128])
{
	size_t n = strlen(e->path);

	snprintf(path, 128, "%s%s%s", e->path, n > 1 && e->path[n - 1] == '/' ? "x" : "", e->ending != NULL ? e->ending : "");
}

/* Of one path, and of one ending? */
static bool
is_like(const struct endpoint *a, const struct endpoint *b)
{
	return strcmp(a->path, b->path) == 0 && strcmp(a->ending != NULL ? a->ending : "", b->ending != NULL ? b->ending : "") == 0;
}

START_TEST(every_endpoint_tells_its_methods)
{
	static const char *const methods[] = { "GET", "PUT", "POST", "DELETE", "PATCH", "HEAD" };
	const struct endpoint *e, *last = NULL;

	for (unsigned i = 0; (e = api_endpoint(i)) != NULL; i++) {
		char path[128], allow[64] = "OPTIONS", text[64];

		if (last != NULL && is_like(last, e))
			continue;		/* the rows of a path stand together */
		last = e;
		for (unsigned k = 0; e[k].path != NULL && is_like(&e[k], e); k++)
			if (e[k].when == NULL)
				snprintf(allow + strlen(allow), sizeof(allow) - strlen(allow), ",%s", e[k].method);
		path_of(e, path);
		struct request *r = fake_begin("OPTIONS", path, NULL, NULL);
		fake_answered(r, 200, "");
		ck_assert_str_eq(fake_header(r, "Allow"), allow);
		ck_assert_ptr_eq(r->endpoint, e);
		fake_end(r);
		for (unsigned m = 0; m < sizeof(methods) / sizeof(methods[0]); m++) {
			if (strstr(allow, methods[m]) != NULL)
				continue;
			snprintf(text, sizeof(text), "method %s not allowed", methods[m]);
			r = fake_begin(methods[m], path, NULL, NULL);
			fake_answered(r, 405, text);
			ck_assert_str_eq(fake_header(r, "Allow"), allow + (e->flags & BARE_ALLOW ? strlen("OPTIONS,") : 0));
			fake_end(r);
		}
	}
	ck_assert_uint_eq(fake.started, 0);
}
END_TEST

/* A request goes to the row of its method and of its parameters, whatever stands before it. */
START_TEST(rows_are_found)
{
	const struct endpoint *e;

	for (unsigned i = 0; (e = api_endpoint(i)) != NULL; i++) {
		char path[160];

		path_of(e, path);
		if (e->when != NULL)
			snprintf(path + strlen(path), sizeof(path) - strlen(path), "?%s", e->when);
		request_reset(&fake_request);
		fake_request.head = (struct request_head){ .method = e->method, .target = span_str(path), .on_socket = true };
		api_begin(&fake_api, &fake_request);
		ck_assert_msg(fake_request.endpoint == e, "%s %s", e->method, path);
		fake_end(&fake_request);
		if (strcmp(e->path, "/v1/snapshot") == 0)
			reply(TV_EUNREACH, "");
	}
}
END_TEST

/* Begins with what an administrator uses?  Written down a second time, on purpose: a new row has to think of it. */
static bool
is_for_administrators(const char *method, const char *path)
{
	static const char *const whole[] = { "/v1/operator/keyring", "/v1/snapshot", "/v1/agent/monitor",
		"/v1/operator/raft/recover" };
	static const char *const services[] = { "/v1/agent/check/", "/v1/agent/query", "/v1/agent/service/",
		"/v1/agent/maintenance", "/v1/agent/token/" };

	for (unsigned i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
		if (strcmp(path, whole[i]) == 0)
			return true;
	for (unsigned i = 0; i < sizeof(services) / sizeof(services[0]); i++)
		if (strncmp(path, services[i], strlen(services[i])) == 0)
			return false;
	return strcmp(method, "GET") != 0 && (strncmp(path, "/v1/operator/", 13) == 0 ||
	    strncmp(path, "/v1/agent/", 10) == 0 || strncmp(path, "/v1/snapshot", 12) == 0);
}

static bool
is_refused(const char *method, const char *path, bool on_socket)
{
	struct request_head head = { .on_socket = on_socket, .on_loopback = !on_socket };
	struct request *r = &fake_request;
	bool refused;

	request_reset(r);
	r->head = head;
	r->head.method = method;
	r->head.target = span_str(path);
	r->ready = fake_woken;
	api_begin(&fake_api, r);	/* the refusal comes before the body */
	refused = r->answered && r->answer.status == 403;
	if (refused) {
		const char *text = buf_cstr(&r->answer.body);

		ck_assert_msg(strstr(text, "http_admin") != NULL && strstr(text, "/run/x/rpcd.sock") != NULL, "%s", text);
	}
	fake_end(r);
	/* What is open at a server for a snapshot outlives its request, until the server has answered. */
	if (!refused && strcmp(path, "/v1/snapshot") == 0)
		reply(TV_EUNREACH, "");
	return refused;
}

/* Each row has decided who may ask; what administers is on the socket, and on TCP only with http_admin. */
START_TEST(administration)
{
	const struct endpoint *e;
	unsigned administer = 0;

	for (unsigned i = 0; (e = api_endpoint(i)) != NULL; i++) {
		bool expected = is_for_administrators(e->method, e->path);
		char path[128];

		path_of(e, path);
		ck_assert_msg(endpoint_access(e) >= ACCESS_NONE && endpoint_access(e) <= ACCESS_NAMED,
		    "%s %s: who may ask?", e->method, e->path);
		ck_assert_msg(((e->access & ACCESS_ADMIN) != 0) == expected, "%s %s", e->method, e->path);
		/* What only passes an operation on lets that decide. */
		ck_assert_msg((e->op != 0) == (endpoint_access(e) == ACCESS_OP), "%s %s", e->method, e->path);
		fake_conf.http_admin = false;
		ck_assert_msg(is_refused(e->method, path, false) == expected, "%s %s", e->method, path);
		ck_assert_msg(!is_refused(e->method, path, true), "%s %s on the socket", e->method, path);
		fake_conf.http_admin = true;
		ck_assert_msg(!is_refused(e->method, path, false), "%s %s with http_admin", e->method, path);
		administer += expected;
	}
	ck_assert_uint_ge(administer, 16);
}
END_TEST

START_TEST(paths)
{
	struct request *r = fake_begin("GET", "/v1/none/x", NULL, NULL);

	fake_answered(r, 404, "");
	ck_assert_ptr_null(fake_header(r, "Content-Type"));
	ck_assert_str_eq(fake_header(r, "Vary"), "Accept-Encoding");
	fake_end(r);
	r = fake_begin("GET", "/v1/kv?recurse", NULL, NULL);
	fake_answered(r, 301, "<a href=\"/v1/kv/?recurse\">Moved Permanently</a>.\n\n");
	ck_assert_str_eq(fake_header(r, "Location"), "/v1/kv/?recurse");
	ck_assert_str_eq(fake_header(r, "Content-Type"), "text/html; charset=utf-8");
	fake_end(r);
	r = fake_begin("PUT", "/v1/kv/a//b", "1", NULL);
	fake_answered(r, 301, "");
	ck_assert_str_eq(fake_header(r, "Location"), "/v1/kv/a/b");
	fake_end(r);
	fake_is("GET", "/v1/kv/a%2F..%2Fb", NULL, 301, "<a href=\"/v1/kv/b\">Moved Permanently</a>.\n\n");
	fake_is("GET", "/v1/kv/a%07", NULL, 400, "");
	fake_is("GET", "/v1/kv/a%00", NULL, 400, "");
	fake_is("GET", "/v1/kv/%zz", NULL, 400, "400 Bad Request");
	fake_is("GET", "/v1/catalog/nodes?x=%zz", NULL, 500, "");
	fake_is("GET", "/v1/catalog/nodesx", NULL, 404, "");
	fake_is("GET", "/", NULL, 200, "Consul Agent");
	ck_assert_uint_eq(fake.started, 0);
}
END_TEST

/* What Consul serves and we do not says so, and hides nothing that we serve; what nobody serves is an empty 404. */
START_TEST(not_served)
{
	const char *p;
	const struct endpoint *e;
	unsigned count = 0;

	for (; (p = not_served_at(count)) != NULL; count++) {
		char path[128];

		snprintf(path, sizeof(path), "%s%s", p, p[strlen(p) - 1] == '/' ? "x" : "");
		fake_is("GET", path, NULL, 404, "not served by this version");
		fake_is("PUT", path, "{}", 404, "not served by this version");
	}
	ck_assert_uint_gt(count, 15);
	for (unsigned i = 0; (e = api_endpoint(i)) != NULL; i++) {
		char path[128];

		path_of(e, path);
		ck_assert_msg(!is_not_served(span_str(path)), "%s is served: take it out of not_served.c", path);
	}
	fake_is("GET", "/v1/txnx", NULL, 404, "");
	fake_is("GET", "/v1/agent/servicesx", NULL, 404, "");
	fake_is("GET", "/v2/txn", NULL, 404, "");
	ck_assert_uint_eq(fake.started, 0);
}
END_TEST

static char line[2048];
static unsigned line_count;

static void
take_line(void *ctx, enum log_level level, const char *tag, const char *text)
{
	(void)ctx;
	ck_assert_int_eq(level, LOG_LVL_DEBUG);		/* keys are in paths: at no other level */
	snprintf(line, sizeof(line), "%s: %s", tag, text);
	line_count++;
}

/* Method, path, status, microseconds, client: once for each request, however it ends, and no secret in it. */
START_TEST(request_lines)
{
	struct request_head tcp = { .client_ip = "192.0.2.7", .token = "s3cret" }, local = { .on_socket = true };
	static const struct { const char *method, *target, *begins, *ends; bool on_socket; } v[] = {
		{ "GET", "/v1/kv/a%2Fb?raw&token=s3cret", "http: GET /v1/kv/a%2Fb gone ", " us 192.0.2.7", false },
		{ "GET", "/v1/none?token=s3cret", "http: GET /v1/none 404 ", " us rpcd.sock", true },
		{ "PATCH", "/v1/kv/a", "http: PATCH /v1/kv/a 405 ", " us 192.0.2.7", false },
		{ "PUT", "/v1/acl/destroy/s3cret", "http: PUT /v1/acl/ 404 ", " us 192.0.2.7", false },
		{ "GET", "/v1/kv/a\nERR b", "http: GET /v1/kv/a\\x0aERR b 400 ", " us 192.0.2.7", false },
	};

	fake_api.token_in_query = fake_api.token_in_clear = (struct log_limit){ .burst = 1, .period = MONO_S(3600),
	    .used = 1, .since = clock_mono() };	/* the warnings of tokens were given before */
	fake_conf.http_plaintext_tokens = true;
	log_tap(LOG_LVL_DEBUG, take_line, NULL);
	for (unsigned i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		line_count = 0;
		fake_begin(v[i].method, v[i].target, NULL, v[i].on_socket ? &local : &tcp);
		ck_assert_uint_eq(line_count, 0);
		fake_end(&fake_request);
		ck_assert_uint_eq(line_count, 1);
		ck_assert_msg(strncmp(line, v[i].begins, strlen(v[i].begins)) == 0, "%s", line);
		ck_assert_msg(strlen(line) > strlen(v[i].ends) &&
		    strcmp(line + strlen(line) - strlen(v[i].ends), v[i].ends) == 0, "%s", line);
		ck_assert_ptr_null(strstr(line, "s3cret"));
	}
	log_tap(LOG_LVL_DEBUG, NULL, NULL);
}
END_TEST

START_TEST(browsers)
{
	static char public[] = "agent.example.com", site[] = "https://ui.example.com:8443";
	static char *hosts[] = { public }, *origins[] = { site };
	enum { NONE, HOSTS, ORIGINS };
	static const struct { const char *method, *host, *origin, *site; bool loopback; int conf; unsigned status; } v[] = {
		{ "GET", "evil.example.com:8500", NULL, NULL, true, NONE, 403 },
		{ "GET", "evil.example.com:8500", NULL, NULL, false, NONE, 0 },
		{ "GET", "127.0.0.1:8500", NULL, NULL, true, NONE, 0 },
		{ "GET", "[::1]:8500", NULL, NULL, true, NONE, 0 },
		{ "GET", "localhost:8500", NULL, NULL, true, NONE, 0 }, { "GET", "consul", NULL, NULL, true, NONE, 0 },
		{ "GET", "a.localhost", NULL, NULL, true, NONE, 0 },
		{ "GET", "agent.site.internal", NULL, NULL, true, NONE, 0 },
		{ "GET", "127.0.0.1.evil.com", NULL, NULL, true, NONE, 403 },
		{ "GET", "localhost.evil.com.", NULL, NULL, true, NONE, 403 },
		/* once names are configured, all listeners look */
		{ "GET", "agent.example.com:8500", NULL, NULL, true, HOSTS, 0 },
		{ "GET", "agent.example.com:8500", NULL, NULL, false, HOSTS, 0 },
		{ "GET", "evil.example.com:8500", NULL, NULL, false, HOSTS, 403 },
		{ "PUT", "evil.example.com:8500", NULL, NULL, false, HOSTS, 403 },
		{ "GET", "10.0.0.1:8500", NULL, NULL, false, HOSTS, 0 }, { "GET", NULL, NULL, NULL, false, HOSTS, 0 },
		{ "PUT", "127.0.0.1:8500", "http://evil.com", NULL, true, NONE, 403 },
		{ "PUT", "10.0.0.1:8500", "null", NULL, false, NONE, 403 },
		{ "PUT", "127.0.0.1:8500", "http://127.0.0.1:8500", NULL, true, NONE, 0 },
		{ "DELETE", "127.0.0.1:8500", NULL, "cross-site", true, NONE, 403 },
		{ "DELETE", "127.0.0.1:8500", NULL, "same-site", true, NONE, 403 },
		{ "DELETE", "127.0.0.1:8500", "http://127.0.0.1:8500", "same-origin", true, NONE, 0 },
		{ "GET", "127.0.0.1:8500", "http://evil.com", "cross-site", true, NONE, 403 },
		{ "GET", "127.0.0.1:8500", NULL, "cross-site", true, NONE, 403 },	/* an image, a link */
		{ "GET", "127.0.0.1:8500", "http://evil.com", NULL, true, NONE, 403 },
		{ "GET", "127.0.0.1:8500", NULL, "none", true, NONE, 0 },		/* typed by its user */
		/* a configured origin, and what only looks like it */
		{ "GET", "127.0.0.1:8500", "https://ui.example.com:8443", "cross-site", true, ORIGINS, 0 },
		{ "PUT", "10.0.0.1:8500", "https://UI.example.com:8443", NULL, false, ORIGINS, 0 },
		{ "PUT", "127.0.0.1:8500", "https://ui.example.com", "cross-site", true, ORIGINS, 403 },
		{ "PUT", "127.0.0.1:8500", "https://ui.example.com:84430", "cross-site", true, ORIGINS, 403 },
		{ "GET", "127.0.0.1:8500", NULL, "cross-site", true, ORIGINS, 403 },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		for (unsigned token = 0; token < 2; token++) {
			struct request_head head = { .host = v[i].host, .origin = v[i].origin, .fetch_site = v[i].site,
				.token = token ? "t" : NULL, .on_loopback = v[i].loopback };

			fake_conf.http_hosts = (struct conf_list){ hosts, v[i].conf == HOSTS };
			fake_conf.http_origins = (struct conf_list){ origins, v[i].conf == ORIGINS };
			struct request *r = fake_begin(v[i].method, "/v1/kv/a", "", &head);

			ck_assert_msg(r->answered ? r->answer.status == v[i].status : v[i].status == 0, "case %zu", i);
			fake_end(r);
		}
	/* outside the API there is nothing to win; over the socket no browser comes */
	struct request_head cross = { .host = "127.0.0.1", .fetch_site = "cross-site", .on_loopback = true };
	struct request_head local = { .host = "no.such.name", .on_socket = true };
	fake_answered(fake_begin("GET", "/", NULL, &cross), 200, "Consul Agent");
	fake_end(&fake_request);
	ck_assert(!fake_begin("GET", "/v1/kv/a", NULL, &local)->answered);
	fake_end(&fake_request);
}
END_TEST

/* -- key/value ----------------------------------------------------------------- */

START_TEST(kv_reads)
{
	struct kv_entry e = { .Key = span_str("a/b"), .Value = span_str("hello"), .CreateIndex = 5, .ModifyIndex = 6 };
	struct kv_read args = { 0 };
	struct request *r = fake_begin("GET", "/v1/kv/a%2Fb?index=41&wait=10s&dc=dc2&token=t&stale", NULL, NULL);

	asked(OP_KV_GET, &args);
	span_is(args.Key, "a/b");
	span_is(fake.q.dc, "dc2");
	span_is(fake.q.token, "t");
	ck_assert(fake.q.index == 41 && fake.q.mode == OP_STALE);
	ck_assert_uint_eq(fake.q.wait_ms, 10000);
	ck_assert(!r->answered && fake.woken == 0);
	reply_list(&kv_entry_schema, &e, 1);
	ck_assert_uint_eq(fake.woken, 1);
	fake_answered(r, 200,
	    "[{\"LockIndex\":0,\"Key\":\"a/b\",\"Flags\":0,\"Value\":\"aGVsbG8=\",\"CreateIndex\":5,\"ModifyIndex\":6}]");
	ck_assert_str_eq(fake_header(r, "Content-Type"), "application/json");
	ck_assert_str_eq(fake_header(r, "X-Consul-Index"), "42");
	ck_assert_str_eq(fake_header(r, "X-Consul-KnownLeader"), "true");
	ck_assert_str_eq(fake_header(r, "X-Consul-LastContact"), "7");
	ck_assert_str_eq(fake_header(r, "X-Consul-Default-ACL-Policy"), "allow");
	ck_assert_ptr_null(fake_header(r, "X-Consul-Effective-Consistency"));
	fake_end(r);

	r = fake_begin("GET", "/v1/kv/a?raw", NULL, NULL);
	reply_list(&kv_entry_schema, &e, 1);
	fake_answered(r, 200, "hello");
	ck_assert_str_eq(fake_header(r, "Content-Type"), "text/plain");
	ck_assert_ptr_null(fake_header(r, "X-Content-Type-Options"));	/* of all answers: response_head.c */
	ck_assert_str_eq(fake_header(r, "Content-Security-Policy"), "sandbox");
	fake_end(r);

	r = fake_begin("GET", "/v1/kv/a?raw&recurse&dc=dc1", NULL, NULL);
	asked(OP_KV_LIST, &args);
	span_is(fake.q.dc, "");				/* our own */
	reply_list(&kv_entry_schema, &e, 0);
	fake_answered(r, 404, "");
	ck_assert_str_eq(fake_header(r, "X-Consul-Index"), "42");
	fake_end(r);
	fake_is("GET", "/v1/kv/", NULL, 400, "Missing key name");
}
END_TEST

START_TEST(kv_keys)
{
	struct span names[] = { span_str("a<b"), span_str("c") };
	struct text_list list = { { names, 2, true } }, none = { { NULL, 0, true } };
	struct kv_read args = { 0 };
	struct request *r = fake_begin("GET", "/v1/kv/p?keys&recurse&seperator=/&pretty", NULL, NULL);

	asked(OP_KV_KEYS, &args);
	span_is(args.Separator, "/");
	reply_record(&text_list_schema, &list);
	fake_answered(r, 200, "[\n    \"a\\u003cb\",\n    \"c\"\n]\n");
	fake_end(r);
	r = fake_begin("GET", "/v1/kv/p?keys", NULL, NULL);
	reply_record(&text_list_schema, &none);
	fake_answered(r, 404, "");
	fake_end(r);
	r = fake_begin("GET", "/v1/kv/?keys", NULL, NULL);
	reply_record(&text_list_schema, &none);
	fake_answered(r, 200, "[]");
	fake_end(r);
}
END_TEST

START_TEST(kv_writes)
{
	static const struct { const char *method, *target; enum kv_verb verb; uint64_t flags,
	    index; const char *session; } v[] = {
		{ "PUT", "/v1/kv/k", KV_SET, 0, 0, "" },
		{ "PUT", "/v1/kv/k?flags=18446744073709551615", KV_SET, UINT64_MAX, 0, "" },
		{ "PUT", "/v1/kv/k?cas=0", KV_CAS, 0, 0, "" }, { "PUT", "/v1/kv/k?cas=9&flags=3", KV_CAS, 3, 9, "" },
		{ "PUT", "/v1/kv/k?acquire=s", KV_LOCK, 0, 0, "s" },
		{ "PUT", "/v1/kv/k?release=s", KV_UNLOCK, 0, 0, "s" },
		{ "DELETE", "/v1/kv/k", KV_DELETE, 0, 0, "" }, { "DELETE", "/v1/kv/k?cas=4", KV_DELETE_CAS, 0, 4, "" },
		{ "DELETE", "/v1/kv/k?recurse", KV_DELETE_TREE, 0, 0, "" },
		{ "DELETE", "/v1/kv/k?recurse&parts", KV_DELETE_TREE_PARTS, 0, 0, "" },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct kv_apply args = { 0 };
		bool put = v[i].method[0] == 'P';
		struct request *r = fake_begin(v[i].method, v[i].target, put ? "data" : NULL, NULL);

		asked(OP_KV_APPLY, &args);
		ck_assert_msg(args.Verb == v[i].verb && args.Flags == v[i].flags &&
		    args.ModifyIndex == v[i].index, "%s", v[i].target);
		span_is(args.Key, "k");
		span_is(args.Session, v[i].session);
		span_is(args.Value, put ? "data" : "");
		reply_record(&bool_reply_schema, &(struct bool_reply){ i % 2 == 0 });
		fake_answered(r, 200, i % 2 == 0 ? "true" : "false");
		ck_assert_ptr_null(fake_header(r, "X-Consul-Index"));
		fake_end(r);
	}
}
END_TEST

START_TEST(kv_refusals)
{
	char large[1002];

	fake_is("PUT", "/v1/kv/", "x", 400, "Missing key name");
	fake_is("DELETE", "/v1/kv/", NULL, 400, "Missing key name");
	fake_is("PUT", "/v1/kv/a?cas=1&acquire=x", "1", 400, "Conflicting flags: acquire=x&cas=1");
	fake_is("DELETE", "/v1/kv/a?cas=1&recurse", NULL, 400, "Conflicting flags: cas=1&recurse=");
	fake_is("DELETE", "/v1/kv/a?parts", NULL, 400, "parts is for recurse: a key alone goes at once");
	fake_is("PUT", "/v1/kv/a?cas=abc", "1", 500, "strconv.ParseUint: parsing \"abc\": invalid syntax");
	fake_is("PUT", "/v1/kv/a?flags=18446744073709551616", "1", 500,
	    "strconv.ParseUint: parsing \"18446744073709551616\": value out of range");
	fake_is("GET", "/v1/kv/a?index=1&wait=10", NULL, 400, "Invalid wait time");
	fake_is("GET", "/v1/kv/a?index=-1", NULL, 400, "Invalid index");
	fake_is("GET", "/v1/kv/a?stale&consistent", NULL, 400,
	    "Cannot specify ?stale with ?consistent, conflicting semantics.");
	fake_is("GET", "/v1/kv/a?max_stale=abc", NULL, 400, "Invalid max_stale value \"abc\"");
	memset(large, 'x', sizeof(large) - 1);
	large[sizeof(large) - 1] = '\0';
	fake_is("PUT", "/v1/kv/a", large, 413, "Request body(1001 bytes) too large, max size: 1000 bytes. "
	    "See https://www.consul.io/docs/agent/options#kv_max_value_size.");
	/* What servers would refuse as malformed or too large never leaves. */
	snprintf(large, sizeof(large), "/v1/kv/a?dc=%0300d", 1);
	fake_is("GET", large, NULL, 500, "No path to datacenter");
	snprintf(large, sizeof(large), "/v1/kv/a?token=%0300d", 1);
	fake_is("GET", large, NULL, 403, "ACL not found");
	char many[1000] = "{\"Node\":\"n\",\"Checks\":[{}";
	for (size_t n = strlen(many); n < 900; n += 3)
		strcat(many, ",{}");
	strcat(many, "]}");
	fake_is("PUT", "/v1/catalog/register", many, 413,
	    "Request is too large for the servers, max size: 4000 bytes (limits.request_bytes_max)");
	ck_assert_uint_eq(fake.started, 0);
	fake.full = true;
	struct request *r = fake_begin("GET", "/v1/kv/a", NULL, NULL);
	ck_assert_uint_eq(r->answer.status, 503);
	fake_end(r);
}
END_TEST

/* -- errors of the cluster, clients that leave ------------------------------------ */

START_TEST(errors)
{
	static const struct { enum tv_err err; const char *text; unsigned status; const char *answer; } v[] = {
		{ TV_ENOLEADER, "", 500, "No cluster leader" }, { TV_EUNREACH, "", 500, "No path to datacenter" },
		{ TV_EINVAL, "raft apply failed: invalid session \"x\"", 500,
		    "raft apply failed: invalid session \"x\"" },
		{ TV_EPERM, "", 403, "Permission denied" }, { TV_EAUTH, "ACL not found", 403, "ACL not found" },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct request *r = fake_begin("PUT", "/v1/kv/a", "1", NULL);

		reply(v[i].err, v[i].text);
		fake_answered(r, v[i].status, v[i].answer);
		ck_assert_str_eq(fake_header(r, "Content-Type"), "text/plain; charset=utf-8");
		ck_assert_ptr_null(fake_header(r, "X-Consul-Index"));
		fake_end(r);
	}
	struct request *r = fake_begin("GET", "/v1/session/info/abc", NULL, NULL);
	reply(TV_EINVAL, "failed session lookup: index error: UUID must be 36 characters");
	fake_answered(r, 500, "failed session lookup: index error: UUID must be 36 characters");
	ck_assert_str_eq(fake_header(r, "X-Consul-KnownLeader"), "false");
	ck_assert_str_eq(fake_header(r, "X-Consul-Index"), "1");
	fake_end(r);
	r = fake_begin("GET", "/v1/kv/a?keys", NULL, NULL);
	reply(TV_OK, "");				/* no value at all */
	fake_answered(r, 500, "rpc error making call: malformed answer");
	fake_end(r);
	r = fake_begin("GET", "/v1/catalog/nodes", NULL, NULL);
	buf_reset(&value);
	mpw_array(&value, 3);
	reply(TV_OK, "");				/* cut short */
	fake_answered(r, 500, "rpc error making call: malformed answer");
	fake_end(r);
}
END_TEST

START_TEST(client_leaves)
{
	struct request *r = fake_begin("GET", "/v1/kv/a?index=9", NULL, NULL);

	fake_end(r);
	ck_assert_uint_eq(fake.cancelled, 1);
	ck_assert_uint_eq(fake.woken, 0);
}
END_TEST

/* The head's strings are gone once the request is folded. */
static bool
is_zero(const void *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (((const uint8_t *)bytes)[i] != 0)
			return false;
	return true;
}

/* A key that cannot be read is a bad request, in Consul's words. */
START_TEST(keys_that_cannot_be_read)
{
	static const struct { const char *body, *says; } v[] = {
		{ NULL, "Bad request: Request decode failed: EOF" }, { "no JSON", "Bad request: Request decode failed: " },
		{ "{\"Key\":7}", "Bad request: Request decode failed: json: cannot unmarshal number into Go value of type string" },
	};

	for (unsigned i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct request *r = fake_begin("PUT", "/v1/operator/keyring", v[i].body, NULL);

		ck_assert_uint_eq(r->answer.status, 400);
		ck_assert_msg(strncmp(buf_cstr(&r->answer.body), v[i].says, strlen(v[i].says)) == 0, "%s",
		    buf_cstr(&r->answer.body));
		fake_end(r);
	}
}
END_TEST

/* The memory of a request serves the next one: a token and a key are gone from it. */
START_TEST(secrets_are_wiped)
{
	struct request *r = fake_begin("POST", "/v1/operator/keyring",
	    "{\"Key\":\"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\"}", NULL);
	char *token = arena_alloc(&r->arena, 4000);		/* a whole block, which the next request gets */

	ck_assert_ptr_nonnull(token);
	memset(token, 't', 4000);
	ck_assert_uint_eq(fake.started, 1);
	ck_assert(r->body.secret && r->scratch.secret && r->answer.body.secret);
	ck_assert_uint_gt(r->body.len, 0);
	buf_puts(&r->scratch, "0123456789abcdef");
	buf_puts(&r->answer.body, "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=");
	fake_end(r);
	request_reset(r);
	ck_assert(is_zero(token, 4000));
	ck_assert(r->body.cap > 0 && is_zero(r->body.data, r->body.cap));
	ck_assert(r->scratch.cap > 0 && is_zero(r->scratch.data, r->scratch.cap));
	ck_assert(r->answer.body.cap > 0 && is_zero(r->answer.body.data, r->answer.body.cap));
	ck_assert(!r->body.secret && !r->scratch.secret && !r->answer.body.secret);
}
END_TEST

START_TEST(folding)
{
	char target[] = "/v1/kv/a%2Fb?raw&index=41&dc=dc2&pretty", token[] = "secret", host[] = "localhost";
	char gzip[] = "deflate, gzip;q=0.5";
	struct request_head head = { .token = token, .accept_encoding = gzip, .host = host, .client_ip = "127.0.0.1",
		.on_loopback = true };
	struct kv_entry e = { .Key = span_str("a/b"), .Value = span_str("hello") };
	struct request *r = fake_begin("GET", target, NULL, &head);

	ck_assert(api_fold(r));
	memset(target, 'x', sizeof(target) - 1);
	memset(token, 'x', sizeof(token) - 1);
	memset(gzip, 'x', sizeof(gzip) - 1);
	memset(host, 'x', sizeof(host) - 1);
	ck_assert_uint_eq(r->query.n, 0);
	ck_assert_str_eq(r->head.token, "secret");
	ck_assert_str_eq(r->head.accept_encoding, "gzip");
	ck_assert_ptr_null(r->head.host);
	span_is(r->head.target, "/v1/kv/a%2Fb?raw&index=41&dc=dc2&pretty");
	reply_list(&kv_entry_schema, &e, 1);
	fake_answered(r, 200, "hello");
	ck_assert(params_has(&r->query, "pretty"));
	span_is(r->rest, "a/b");
	span_is(r->op.dc, "dc2");
	fake_end(r);

	/* what a handler still needs stays as it was */
	r = fake_begin("GET", "/v1/health/node/n?index=3&filter=Name==x", NULL, NULL);
	ck_assert(!r->answered);
	ck_assert(api_fold(r));
	ck_assert(params_has(&r->query, "filter"));
	reply(TV_OK, "");
	fake_answered(r, 200, "[]");
	fake_end(r);

	r = fake_begin("GET", "/v1/kv/a?index=9", NULL, NULL);
	ck_assert(api_fold(r));
	fake_end(r);				/* the client leaves */
	ck_assert_uint_eq(fake.cancelled, 1);
}
END_TEST

static struct request resumed;		/* into this one */
static struct parked *parked;
static bool no_room;

static struct request *
fake_resume(void *transport)
{
	ck_assert_ptr_eq(transport, &resumed);
	if (no_room) {
		api_park_drop(parked);
		return NULL;
	}
	request_reset(&resumed);
	resumed.ready = fake_woken;
	ck_assert(api_unpark(parked, &resumed));
	return &resumed;
}

static void
park(const char *target, const struct request_head *head)
{
	struct request *r = fake_begin("GET", target, NULL, head);

	ck_assert(!r->answered);
	r->transport = &resumed;
	ck_assert(api_fold(r));
	parked = api_park(r, fake_resume);
	ck_assert_ptr_nonnull(parked);
	ck_assert(LIST_EMPTY(&fake_api.live));
	ck_assert_uint_eq(fake_api.stats.live, 1);
}

static void
unpark_none(void)
{
	ck_assert(LIST_EMPTY(&fake_api.live) && LIST_EMPTY(&fake_api.parked));
	ck_assert_uint_eq(fake_api.stats.live, 0);
}

static void
unpark_done(void)
{
	api_end(&resumed);
	request_done(&resumed);
	memset(&resumed, 0, sizeof(resumed));
	unpark_none();
}

START_TEST(parking)
{
	char token[] = "secret";
	struct request_head head = { .token = token, .accept_encoding = "gzip" };
	struct kv_entry e = { .Key = span_str("a/b"), .Value = span_str("hello") };

	park("/v1/kv/a%2Fb?raw&index=41&dc=dc2&stale", &head);
	memset(token, 'x', sizeof(token) - 1);
	api_end(fake_begin("GET", "/v1/nothing", NULL, NULL));	/* it is used for others meanwhile */
	reply_list(&kv_entry_schema, &e, 1);
	fake_answered(&resumed, 200, "hello");
	ck_assert_str_eq(resumed.head.token, "secret");
	ck_assert_str_eq(resumed.head.method, "GET");
	span_is(resumed.rest, "a/b");
	span_is(resumed.op.dc, "dc2");
	ck_assert_uint_eq(resumed.op.index, 41);
	ck_assert_uint_eq(resumed.op.mode, OP_STALE);
	ck_assert_str_eq(fake_header(&resumed, "X-Consul-Index"), "42");
	unpark_done();

	/* its client leaves */
	park("/v1/kv/a?index=9", &(struct request_head){ .authorization = "Bearer t" });
	ck_assert_ptr_eq(fake_resume(&resumed), &resumed);
	ck_assert_str_eq(resumed.head.authorization, "Bearer t");
	ck_assert_uint_eq(fake.cancelled, 0);
	unpark_done();
	ck_assert_uint_eq(fake.cancelled, 1);

	/* the reply comes after it was taken up */
	park("/v1/kv/a?index=9", NULL);
	fake_resume(&resumed);
	reply(TV_OK, "");
	fake_answered(&resumed, 404, "");
	unpark_done();
}
END_TEST

START_TEST(parked_without_memory)
{
	no_room = true;
	park("/v1/kv/a?index=9", NULL);
	reply(TV_OK, "");
	ck_assert_uint_eq(fake.cancelled, 0);		/* it was answered, if not for its client */
	park("/v1/kv/a?index=9", NULL);
	api_unpark_all(&fake_api);
	ck_assert_uint_eq(fake.cancelled, 1);
	no_room = false;
	unpark_none();
}
END_TEST

START_TEST(not_parked)
{
	struct request *r = fake_begin("GET", "/v1/health/node/n?index=3&filter=Name==x", NULL, NULL);

	ck_assert(api_fold(r));
	ck_assert_ptr_null(api_park(r, fake_resume));	/* its filter is compiled */
	fake_end(r);
}
END_TEST

static uint64_t asked_number;

static bool
fake_again(struct request *r, uint64_t number)
{
	asked_number = number;
	if (number != 7)
		return false;
	r->answered = true;
	return true;
}

START_TEST(same_reply_again)
{
	struct request *r = fake_begin("GET", "/v1/kv/a?index=9", NULL, NULL);

	r->again = fake_again;
	fake.reply_number = 7;
	ck_assert(api_fold(r));
	reply(TV_OK, "");
	ck_assert(r->answered && r->answer.header_count == 0);	/* not rendered */
	fake_end(r);
	r = fake_begin("GET", "/v1/kv/a?index=9", NULL, NULL);
	r->again = fake_again;
	fake.reply_number = 8;
	reply(TV_OK, "");
	fake_answered(r, 404, "");
	ck_assert_uint_eq(asked_number, 8);
	fake_end(r);
}
END_TEST

START_TEST(compression)
{
	struct span big = span_of(fake.request, 4000);
	struct kv_entry e = { .Key = span_str("k"), .Value = big };
	struct request_head head = { .accept_encoding = "deflate, gzip" };
	uint8_t plain[8000];
	uLongf n = 0;

	struct request *r = fake_begin("GET", "/v1/kv/k?raw", NULL, &head);
	reply_list(&kv_entry_schema, &e, 1);
	ck_assert_uint_eq(r->answer.status, 200);
	ck_assert_str_eq(fake_header(r, "Content-Encoding"), "gzip");
	ck_assert_uint_lt(r->answer.body.len, 4000);
	z_stream z = { .next_in = r->answer.body.data, .avail_in = (uInt)r->answer.body.len, .next_out = plain,
		.avail_out = sizeof(plain) };
	ck_assert_int_eq(inflateInit2(&z, 15 + 16), Z_OK);
	ck_assert_int_eq(inflate(&z, Z_FINISH), Z_STREAM_END);
	n = z.total_out;
	inflateEnd(&z);
	ck_assert_uint_eq(n, 4000);
	fake_end(r);
	e.Value = span_of(fake.request, 8001);		/* would hold up others for too long */
	r = fake_begin("GET", "/v1/kv/k?raw", NULL, &head);
	reply_list(&kv_entry_schema, &e, 1);
	ck_assert_uint_eq(r->answer.body.len, 8001);
	ck_assert_ptr_null(fake_header(r, "Content-Encoding"));
	fake_end(r);
	e.Value = span_str("tiny");
	r = fake_begin("GET", "/v1/kv/k?raw", NULL, &head);
	reply_list(&kv_entry_schema, &e, 1);
	fake_answered(r, 200, "tiny");
	ck_assert_ptr_null(fake_header(r, "Content-Encoding"));
	fake_end(r);
}
END_TEST

/* Large answers that nobody reads are bounded together; small ones go on. */
START_TEST(slow_readers)
{
	struct kv_entry big = { .Key = span_str("k"), .Value = span_of(fake.request, 100000) },
	    small = { .Key = span_str("k") };
	struct request *waiting[2];

	for (int i = 0; i < 2; i++) {
		struct request *r = fake_begin("GET", "/v1/kv/k?raw", NULL, NULL);

		reply_list(&kv_entry_schema, &big, 1);
		fake_answered(r, 200, NULL);
		waiting[i] = malloc(sizeof(*r));
		ck_assert_ptr_nonnull(waiting[i]);
		LIST_REMOVE(r, live);
		*waiting[i] = *r;		/* moves: what it holds goes with it */
		LIST_INSERT_HEAD(&fake_api.live, waiting[i], live);
		memset(r, 0, sizeof(*r));
	}
	struct request *r = fake_begin("GET", "/v1/kv/k?raw", NULL, NULL);
	reply_list(&kv_entry_schema, &big, 1);
	fake_answered(r, 503, "too many large answers are being sent (see limits.answers_bytes_max)");
	api_end(r);
	r = fake_begin("GET", "/v1/kv/k?raw", NULL, NULL);
	reply_list(&kv_entry_schema, &small, 1);
	fake_answered(r, 200, "");
	api_end(r);
	api_end(waiting[0]);
	r = fake_begin("GET", "/v1/kv/k?raw", NULL, NULL);
	reply_list(&kv_entry_schema, &big, 1);
	fake_answered(r, 200, NULL);
	api_end(r);
	api_end(waiting[1]);
	ck_assert_uint_eq(fake_api.answers_bytes, 0);
	for (int i = 0; i < 2; i++) {
		request_done(waiting[i]);
		free(waiting[i]);
	}
}
END_TEST

/* -- large answers -- */

#define ENTRIES 3000			/* of 100 bytes */

static struct kv_entry
entry_of_100(void)
{
	static const char text[101] = "................................................................................"
	    "....................";

	return (struct kv_entry){ .Key = span_str("k"), .Value = span_of(text, 100) };
}

/* Rendered in slices it is the same as at once, and others are served in between. */
START_TEST(large_list_in_slices)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct kv_entry e = entry_of_100();
	struct request *r = fake_begin("GET", "/v1/kv/?recurse", NULL, NULL);
	struct buf whole = BUF_INIT(1 << 20);

	fake_conf.answers_bytes_max = 8 << 20;
	reply_list(&kv_entry_schema, &e, ENTRIES);		/* no loop: at once */
	ck_assert(r->answered);
	buf_putspan(&whole, buf_span(&r->answer.body));
	fake_end(r);
	api_render_start(&fake_api, loop);
	r = fake_begin("GET", "/v1/kv/?recurse", NULL, NULL);
	reply_list(&kv_entry_schema, &e, ENTRIES);
	ck_assert(!r->answered);
	ck_assert_uint_ge(fake_api.answers_bytes, ENTRIES * 100);	/* what waits is counted */
	while (!r->answered)
		ev_run(loop, EVRUN_ONCE);
	ck_assert_uint_eq(r->answer.status, 200);
	ck_assert(span_eq(buf_span(&r->answer.body), buf_span(&whole)));
	ck_assert_uint_eq(fake_api.answers_bytes, whole.len);
	fake_end(r);
	ck_assert_uint_eq(fake_api.answers_bytes, 0);
	fake.reply_number = 7;					/* others have the same reply: at once */
	r = fake_begin("GET", "/v1/kv/?recurse", NULL, NULL);
	reply_list(&kv_entry_schema, &e, ENTRIES);
	ck_assert(r->answered);
	fake_end(r);
	buf_done(&whole);
	ev_loop_destroy(loop);
}
END_TEST

/* Its client goes, there is no room for it, or it is malformed near its end. */
START_TEST(large_list_fails)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct kv_entry e = entry_of_100();
	struct request *r;

	api_render_start(&fake_api, loop);
	r = fake_begin("GET", "/v1/kv/?recurse", NULL, NULL);
	reply_list(&kv_entry_schema, &e, ENTRIES);
	fake_answered(r, 503, "too many large answers are being sent (see limits.answers_bytes_max)");
	fake_end(r);
	fake_conf.answers_bytes_max = 8 << 20;
	r = fake_begin("GET", "/v1/kv/?recurse", NULL, NULL);
	reply_list(&kv_entry_schema, &e, ENTRIES);
	ck_assert(!r->answered);
	fake_end(r);
	ck_assert_ptr_null(fake_api.renders);
	ck_assert_uint_eq(fake_api.answers_bytes, 0);
	while (ev_run(loop, EVRUN_NOWAIT))
		;
	r = fake_begin("GET", "/v1/kv/?recurse", NULL, NULL);
	buf_reset(&value);
	mpw_array(&value, ENTRIES + 1);
	for (unsigned i = 0; i < ENTRIES; i++)
		schema_pack(&kv_entry_schema, &e, &value);
	mpw_uint(&value, 1);
	reply(TV_OK, "");
	while (!r->answered)
		ev_run(loop, EVRUN_ONCE);
	fake_answered(r, 500, "rpc error making call: malformed answer");
	fake_end(r);
	ev_loop_destroy(loop);
}
END_TEST

START_TEST(many_names_in_slices)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct span names[20000];
	struct text_list list = { .Values = { names, 20000, true } };
	struct request *r;

	for (unsigned i = 0; i < 20000; i++)
		names[i] = span_str("name");
	fake_conf.answers_bytes_max = 8 << 20;
	api_render_start(&fake_api, loop);
	r = fake_begin("GET", "/v1/kv/?keys", NULL, NULL);
	reply_record(&text_list_schema, &list);
	ck_assert(!r->answered);
	while (!r->answered)
		ev_run(loop, EVRUN_ONCE);
	ck_assert_uint_eq(r->answer.status, 200);
	ck_assert_uint_eq(r->answer.body.len, 20000 * 7 + 1);
	ck_assert_int_eq(memcmp(r->answer.body.data, "[\"name\",\"name\"", 14), 0);
	fake_end(r);
	ev_loop_destroy(loop);
}
END_TEST

/* There are no tenants here: whoever names one is refused, wherever it stands; nothing and "default" are what there is. */
START_TEST(tenancy)
{
	static const char ns[] = "Invalid query parameter: \"ns\" - Namespaces are a Consul Enterprise feature";
	static const struct { const char *query, *said; } params[] = {
		{ "ns=team-b&raw", ns }, { "ns=&ns=team-b", ns }, { "ns=default&ns=a", ns },
		{ "partition=p", "Invalid query parameter: \"partition\" - Partitions are a Consul Enterprise feature" },
		{ "peer=other", "Invalid query parameter: \"peer\" - Cluster peering is missing in this version" },
		{ "peer=default", "Invalid query parameter: \"peer\" - Cluster peering is missing in this version" },
		{ "sg=g", "Invalid query parameter: \"sg\" - Sameness Groups are a Consul Enterprise feature" },
	};
	static const char *const served[] = { "ns=", "ns", "ns=default", "ns=Default&partition=default&peer=&sg=" };
	static const char *const bodies[] = {
		"{\"Name\":\"w\",\"Namespace\":\"a\"}", "{\"Name\":\"w\",\"namespace\":\"a\"}",
		"{\"Name\":\"w\",\"Checks\":[{\"TTL\":\"1s\",\"Namespace\":\"a\"}]}",
		"{\"Name\":\"w\",\"Connect\":{\"SidecarService\":{\"Namespace\":\"a\"}}}",
		"{\"Name\":\"w\",\"Proxy\":{\"Upstreams\":[{\"DestinationNamespace\":\"a\"}]}}",
		"{\"Name\":\"w\",\"proxy\":{\"upstreams\":[{\"destination_partition\":\"a\"}]}}",
		"{\"Name\":\"w\",\"Partition\":\"a\"}", "{\"Name\":\"w\",\"Partition\":1}",
	};
	struct request_head heads[] = {
		{ .tenant_namespace = "a" }, { .tenant_partition = "a" },
		{ .tenant_namespace = "", .tenant_partition = "default" },
	};
	struct request *r;
	char path[128];

	for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++) {
		snprintf(path, sizeof(path), "/v1/kv/k?%s", params[i].query);
		fake_is("GET", path, NULL, 400, params[i].said);
		fake_is("PUT", path, "v", 400, params[i].said);
		snprintf(path, sizeof(path), "/v1/agent/services?%s", params[i].query);
		fake_is("GET", path, NULL, 400, params[i].said);
	}
	for (size_t i = 0; i < sizeof(served) / sizeof(served[0]); i++) {
		snprintf(path, sizeof(path), "/v1/kv/k?%s", served[i]);
		r = fake_begin("GET", path, NULL, NULL);
		asked(OP_KV_GET, NULL);
		fake_end(r);
	}
	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		r = fake_begin("PUT", "/v1/agent/service/register", bodies[i], NULL);
		fake_answered(r, 400, NULL);
		ck_assert_msg(strstr(buf_cstr(&r->answer.body), "a Consul Enterprise feature") != NULL, "%s", bodies[i]);
		fake_end(r);
	}
	/* What clients fill as they like is theirs. */
	fake_is("PUT", "/v1/agent/service/register", "{\"Name\":\"w\",\"Namespace\":\"default\","
	    "\"Meta\":{\"Namespace\":\"a\"}}", 200, "");
	r = fake_begin("PUT", "/v1/session/create", "{\"ServiceChecks\":[{\"ID\":\"c\",\"Namespace\":\"a\"}]}", NULL);
	fake_answered(r, 400, NULL);
	fake_end(r);
	for (size_t i = 0; i < 3; i++) {
		r = fake_begin("GET", "/v1/kv/k", NULL, &heads[i]);
		ck_assert_int_eq(r->answered, i < 2);
		if (i < 2)
			fake_answered(r, 400, i == 0 ?
			    "Invalid header: \"X-Consul-Namespace\" - Namespaces are a Consul Enterprise feature" :
			    "Invalid header: \"X-Consul-Partition\" - Partitions are a Consul Enterprise feature");
		fake_end(r);
	}
}
END_TEST

/* RFC 9110, 11.1: the scheme is in any case. */
START_TEST(authorization)
{
	static const struct { const char *header, *token; } v[] = {
		{ "Bearer t", "t" }, { "bearer t", "t" }, { "BEARER t", "t" }, { "Bearer   t", "t" }, { "bEaReR\tt", "t" },
		{ "Bearer \t t", "t" }, { "Bearer", "" }, { "Bearer ", "" }, { "Bearert", "" }, { "Basic dTpw", "" }, { "", "" },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct request_head head = { .authorization = v[i].header };
		struct request *r = fake_begin("GET", "/v1/kv/k", NULL, &head);

		asked(OP_KV_GET, NULL);
		span_is(fake.q.token, v[i].token);
		fake_end(r);
	}
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = {
		tenancy, authorization,
		every_endpoint_tells_its_methods, rows_are_found, administration, paths, not_served, request_lines,
		browsers, kv_reads, kv_keys, kv_writes, kv_refusals, errors, client_leaves, folding, parking,
		parked_without_memory, not_parked,
		keys_that_cannot_be_read, secrets_are_wiped, same_reply_again, compression, slow_readers, large_list_in_slices,
		large_list_fails, many_names_in_slices,
	};

	return api_kit_main("api", tests, sizeof(tests) / sizeof(tests[0]));
}
