/*
 * Targets of requests: path and query as a client sends them, up to the operation that they ask for.
 * First byte: method; the rest is the target.  The router is a fake that checks the request's form.
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

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
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
	struct request *r = fake_begin(methods[data[0] & 3], target, data[0] & 4 ? target : NULL, NULL);
	TV_ASSERT(r->answered || fake.started == 1 || fake.admin_ctx != NULL);
	if (r->answered)
		TV_ASSERT(r->answer.status >= 200 && r->answer.status < 600);
	api_end(r);
	fake_teardown();
	free(target);
	return 0;
}
