/* Which operations are cached, and what makes two questions the same.  Source: http-api, section 1.9. */
#include <stdlib.h>

#include "common/record/records.h"
#include "rpcd/cache/cache.h"

#define NITEMS(a) (sizeof(a) / sizeof((a)[0]))

/* Arguments are those of a catalog read or of an execution, or empty. */
static const struct cached_op {
	enum op_code op;
	bool followed;			/* by a blocking query; else fetched when it is too old for the request */
} cached_ops[] = {
	{ OP_HEALTH_SERVICE, true },
	{ OP_CATALOG_SERVICE, true },
	{ OP_CATALOG_SERVICES, true },
	{ OP_HEALTH_CONNECT, true },
	{ OP_CATALOG_NODES, true },
	/* Each change of any node or service would end a blocking query for it. */
	{ OP_CATALOG_ADDRESS, false },
	{ OP_CATALOG_DATACENTERS, false },
	{ OP_QUERY_EXECUTE, false },
};

bool
cache_takes(enum op_code op, bool *followed)
{
	for (size_t i = 0; i < NITEMS(cached_ops); i++)
		if (cached_ops[i].op == op) {
			if (followed != NULL)
				*followed = cached_ops[i].followed;
			return true;
		}
	return false;
}

static struct span
lower(struct span text, struct arena *a)
{
	uint8_t *to = arena_alloc(a, text.len);

	for (size_t i = 0; to != NULL && i < text.len; i++)
		to[i] = text.p[i] >= 'A' && text.p[i] <= 'Z' ? text.p[i] + ('a' - 'A') : text.p[i];
	return to == NULL ? SPAN_NONE : span_of(to, text.len);
}

static int
by_text(const void *a, const void *b)
{
	return span_cmp(*(const struct span *)a, *(const struct span *)b);
}

/* By name, then by value. */
static int
by_pair(const void *a, const void *b)
{
	const struct span *x = a, *y = b;
	int names = span_cmp(x[0], y[0]);

	return names != 0 ? names : span_cmp(x[1], y[1]);
}

static bool
plain_read(const struct catalog_read *given, struct arena *a, struct catalog_read *out)
{
	*out = (struct catalog_read){ .Name = lower(given->Name, a), .Tags = given->Tags, .NodeMeta = given->NodeMeta };
	out->Tags.v = arena_array(a, given->Tags.n, sizeof(*given->Tags.v));
	out->NodeMeta.kv = arena_array(a, given->NodeMeta.n, sizeof(*given->NodeMeta.kv));
	if (out->Name.p == NULL || out->Tags.v == NULL || out->NodeMeta.kv == NULL)
		return false;
	if (given->Tags.n > 0) {
		memcpy(out->Tags.v, given->Tags.v, given->Tags.n * sizeof(*given->Tags.v));
		qsort(out->Tags.v, out->Tags.n, sizeof(*out->Tags.v), by_text);
	}
	if (given->NodeMeta.n > 0) {
		memcpy(out->NodeMeta.kv, given->NodeMeta.kv, given->NodeMeta.n * sizeof(*given->NodeMeta.kv));
		qsort(out->NodeMeta.kv, out->NodeMeta.n, sizeof(*out->NodeMeta.kv), by_pair);
	}
	return true;
}

/* The asking node is no part of it, but for this node, which "_agent" stands for in the query itself. */
static struct prepared_ask
plain_ask(const struct prepared_ask *given)
{
	return (struct prepared_ask){
		.Name = given->Name, .Limit = given->Limit, .Connect = given->Connect, .Agent = given->Agent,
	};
}

bool
cache_question_args(enum op_code op, const void *args, struct arena *a, struct buf *out)
{
	const struct op *row = op_find((uint16_t)op);
	struct catalog_read plain;
	struct prepared_ask execution;

	if (row->args == &catalog_read_schema) {
		if (!plain_read(args, a, &plain))
			return false;
		args = &plain;
	} else if (op == OP_QUERY_EXECUTE) {
		execution = plain_ask(args);
		args = &execution;
	}
	schema_pack(row->args, args, out);
	return !out->failed;
}
