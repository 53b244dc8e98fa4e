/* /v1/agent/top, a path of our own: who used how much of this node (rpcd/api/accounts.h). */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/record/record.h"
#include "rpcd/api/accounts.h"
#include "rpcd/api/api.h"

RECORD_LOCAL(top_entry,
	(STR, Name), (U64, Requests), (U64, Refused), (U64, BytesIn), (U64, BytesOut), (F64, Milliseconds),
	(U64, Seconds))

static void
put_entry(struct buf *out, bool first, const char *name, const struct usage *u, int64_t ns)
{
	struct top_entry e = {
		.Name = span_str(name), .Requests = u->requests, .Refused = u->refused, .BytesIn = u->bytes_in,
		.BytesOut = u->bytes_out, .Milliseconds = u->timed == 0 ? 0 : (double)u->ns / (double)u->timed / 1e6,
		.Seconds = (uint64_t)(ns / 1000000000),
	};

	buf_puts(out, first ? "" : ",");
	schema_json_rec(&top_entry_schema, &e, out);
}

static void
put_table(struct buf *out, const char *name, const struct usage_table *t, int64_t now)
{
	const struct usage_entry *v[USAGE_NAMES];
	unsigned n = usage_sorted(t, v);

	buf_printf(out, "\"%s\":[", name);
	for (unsigned i = 0; i < n; i++)
		put_entry(out, i == 0, v[i]->name[0] != '\0' ? v[i]->name : "unknown", &v[i]->count,
		    now - v[i]->since_ns);
	buf_puts(out, "]");
}

static int
by_requests(const void *a, const void *b, void *endpoints)
{
	const struct usage *u = endpoints;
	unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

	return u[x].requests != u[y].requests ? (u[x].requests < u[y].requests ? 1 : -1) : (x > y) - (x < y);
}

static void
put_endpoints(struct request *r, struct buf *out)
{
	struct usage *u = r->api->accounts.endpoints;
	unsigned n = 0, *order = u == NULL ? NULL : arena_array(&r->arena, endpoint_count(), sizeof(*order));
	int64_t since = clock_mono().ns - r->api->began.ns;

	for (unsigned i = 0; order != NULL && i < endpoint_count(); i++)
		if (u[i].requests > 0)
			order[n++] = i;
	if (n > 0)
		qsort_r(order, n, sizeof(*order), by_requests, u);
	buf_puts(out, "\"Endpoints\":[");
	for (unsigned i = 0; i < n; i++) {
		char name[256];

		endpoint_name(api_endpoint(order[i]), name, sizeof(name));
		put_entry(out, i == 0, name, &u[order[i]], since);
	}
	buf_puts(out, "]");
}

static void
run_top(struct request *r)
{
	const struct usage_table *t = r->api->accounts.tables;
	struct buf *out = &r->answer.body;
	int64_t now = clock_mono().ns;

	buf_puts(out, "{");
	put_table(out, "Clients", &t[ACCOUNT_CLIENTS], now);
	buf_puts(out, ",");
	put_table(out, "Tokens", &t[ACCOUNT_TOKENS], now);
	buf_puts(out, ",");
	put_endpoints(r, out);
	buf_puts(out, ",");
	put_table(out, "Keys", &t[ACCOUNT_KEYS], now);
	buf_puts(out, ",");
	put_table(out, "Nodes", &t[ACCOUNT_NODES], now);
	buf_puts(out, "}");
	answer_json(r);
}

const struct endpoint api_top[] = {
	{ "/v1/agent/top", "GET", ACCESS_OPERATOR_READ, .run = run_top },
	{ .path = NULL },
};
