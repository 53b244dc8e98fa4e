/*
 * Targets of requests: path and query as a client sends them, up to the operation that they ask for.
 * First byte: method (1, 2), whether there is a body (4), from another machine in clear (8), limits and what http_config
 * shuts (16); the rest is the target.  The router is a fake that checks the request's form.
 */
#include "common/base/assert.h"
#include "tests/unit/api_fakes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A clean path stays as it is, and never grows a "//" or ".." element. */
static void
check_clean(struct span raw)
{
	struct arena a = ARENA_INIT(1u << 20);
	struct span path, clean;

	if (path_decode(raw, &a, &path) == TV_OK) {
		clean = path_clean(path, &a);
		TV_ASSERT(clean.p != NULL && clean.len > 0 && clean.p[0] == '/');
		TV_ASSERT(span_eq(path_clean(clean, &a), clean));
		TV_ASSERT(memmem(clean.p, clean.len, "//", 2) == NULL && memmem(clean.p, clean.len, "/../", 4) == NULL);
	}
	arena_done(&a);
}

/* Encoding what was decoded gives the same pairs again. */
static void
check_query(struct span query)
{
	struct arena a = ARENA_INIT(1u << 20);
	struct buf text = BUF_INIT(1u << 20), again = BUF_INIT(1u << 20);
	struct params p, q;

	if (params_parse(query, &a, &p) == TV_OK) {
		params_encode(&p, &text);
		TV_ASSERT(params_parse(buf_span(&text), &a, &q) == TV_OK && q.n == p.n);
		params_encode(&q, &again);
		TV_ASSERT(span_eq(buf_span(&text), buf_span(&again)));
	}
	buf_done(&text);
	buf_done(&again);
	arena_done(&a);
}

/* Of another machine no token is let through, however it is spelt. */
static void
check_token(const struct request *r, struct span query)
{
	struct arena a = ARENA_INIT(1u << 20);
	struct params p;

	if (params_parse(query, &a, &p) == TV_OK)
		for (uint32_t i = 0; i < p.n; i++)
			if (span_eqs(p.v[i].name, "token") && p.v[i].value.len > 0 && !span_eqs(p.v[i].value, "anonymous"))
				TV_ASSERT(r->answered && r->answer.status == 403 && fake.started == 0);
	arena_done(&a);
}

static void
shut_much(void)
{
	static char acl[] = "/v1/acl", one[] = "192.0.2.7/32", *paths[] = { acl }, *nets[] = { one };

	fake_conf.block_endpoints = (struct conf_list){ paths, 1 };
	fake_conf.allow_write_from = (struct conf_list){ nets, 1 };
	fake_conf.request_mode = REQUESTS_ENFORCING;
	for (unsigned i = 0; i < REQUEST_LIMITS; i++)
		fake_conf.request_rates[i][0] = fake_conf.request_rates[i][1] = 1000;
	TV_ASSERT(limits_configure(&fake_api.limits, &fake_conf));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct request_head far = { .client_ip = "192.0.2.7" };
	static const char *const methods[] = { "GET", "PUT", "DELETE", "OPTIONS" };
	struct span path, query;
	char *target;

	if (size < 1 || size > 16384)
		return 0;
	target = span_dup(span_of(data + 1, size - 1));
	if (target == NULL)
		return 0;
	fake_setup();
	target_split(span_str(target), &path, &query);
	check_clean(path);
	check_query(query);
	if (data[0] & 16)
		shut_much();
	struct request *r = fake_begin(methods[data[0] & 3], target, data[0] & 4 ? target : NULL,
	    data[0] & 8 ? &far : NULL);
	if (data[0] & 8)
		check_token(r, query);
	TV_ASSERT(r->answered || fake.started == 1 || fake.admin_ctx != NULL || fake.call_done != NULL);
	if (r->answered)
		TV_ASSERT(r->answer.status >= 200 && r->answer.status < 600);
	api_end(r);
	fake_teardown();
	free(target);
	return 0;
}
