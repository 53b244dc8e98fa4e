/* The table of endpoints, see endpoint.h: finding a row, and serving it. */
#include <stdio.h>

#include "common/base/assert.h"
#include "common/record/mpack.h"
#include "common/record/records.h"
#include "common/record/schema_json.h"
#include "common/text/json_text.h"
#include "rpcd/api/api.h"
#include "rpcd/cache/cache.h"

#define PATHS_MAX 160
#define BUCKETS 64
#define ARGS_BYTES_MAX 1024		/* of an argument record */

static void
run_root(struct request *r)
{
	answer_text(r, 200, "Consul Agent");
}

static const struct endpoint api_root[] = {
	{ "/", "GET", ACCESS_NONE, .run = run_root },	/* exactly this: no other endpoint ends in the empty name */
	{ .path = NULL },
};

static const struct endpoint *const families[] = {
#define X(name) name,
	ENDPOINT_FAMILIES(X)
#undef X
	api_root,
};

const struct endpoint *
api_endpoint(unsigned i)
{
	for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++)
		for (const struct endpoint *e = families[f]; e->path != NULL; e++)
			if (i-- == 0)
				return e;
	return NULL;
}

/* Rows before each family; the number of all is behind the last. */
static unsigned rows_before[sizeof(families) / sizeof(families[0]) + 1];

static void
count_rows(void)
{
	for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
		unsigned n = 0;

		while (families[f][n].path != NULL)
			n++;
		rows_before[f + 1] = rows_before[f] + n;
	}
}

unsigned
endpoint_count(void)
{
	return rows_before[sizeof(families) / sizeof(families[0])];
}

unsigned
endpoint_number(const struct endpoint *e)
{
	for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
		uintptr_t at = (uintptr_t)e - (uintptr_t)families[f];

		if (at < (rows_before[f + 1] - rows_before[f]) * sizeof(*e))
			return rows_before[f] + (unsigned)(at / sizeof(*e));
	}
	TV_ASSERT(!"a row of the table");
	return 0;
}

void
endpoint_name(const struct endpoint *e, char *dst, size_t cap)
{
	bool folder = e->path[strlen(e->path) - 1] == '/' && e->path[1] != '\0';

	snprintf(dst, cap, "%s %s%s%s%s%s", e->method, e->path, folder ? ":name" : "",
	    e->ending != NULL ? e->ending : "", e->when != NULL ? "?" : "", e->when != NULL ? e->when : "");
}

/* -- finding -- */

static struct {
	struct endpoint_path paths[PATHS_MAX];
	unsigned count;
	struct endpoint_path *buckets[BUCKETS];
} index_of;

/* By the first two letters behind "/v1/". */
static struct endpoint_path **
bucket_of(struct span path)
{
	return &index_of.buckets[path.len < 6 ? 0 : (path.p[4] * 31u + path.p[5]) % BUCKETS];
}

/* A row that would write where it must not, or never be found, is a mistake in the table. */
static void
check_row(const struct endpoint *e)
{
	const struct op *op = op_find((uint16_t)e->op);

	TV_ASSERT(e->run != NULL || op != NULL);
	TV_ASSERT(op == NULL || op->args->size <= ARGS_BYTES_MAX);
	TV_ASSERT(!(e->flags & CACHED) || cache_takes(e->op, NULL));
	for (const struct bind *b = e->bind; b != NULL && b->kind != BIND_END; b++)
		TV_ASSERT(op != NULL && b->size == op->args->size);
	TV_ASSERT(e->when == NULL || (e[1].path != NULL && strcmp(e->path, e[1].path) == 0 &&
	    strcmp(e->method, e[1].method) == 0));
}

static const struct endpoint *
add_path(const struct endpoint *e)
{
	struct endpoint_path *p = &index_of.paths[index_of.count++], **at = bucket_of(span_str(e->path));
	const struct endpoint_path *other = endpoint_find(span_str(e->path));
	const struct endpoint *rows = e;

	*p = (struct endpoint_path){ .rows = rows, .len = strlen(e->path) };
	p->folder = p->len > 1 && e->path[p->len - 1] == '/';
	TV_ASSERT(index_of.count < PATHS_MAX && (other == NULL || other->len < p->len));
	for (; e->path != NULL && strcmp(e->path, rows->path) == 0; e++, p->count++)
		check_row(e);
	while (*at != NULL && (*at)->len > p->len)
		at = &(*at)->next;
	p->next = *at;
	*at = p;
	return e;
}

void
endpoint_index(void)
{
	if (index_of.count > 0)
		return;
	for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++)
		for (const struct endpoint *e = families[f]; e->path != NULL;)
			e = add_path(e);
	count_rows();
}

const struct endpoint_path *
endpoint_find(struct span path)
{
	const struct endpoint_path *p;

	for (p = *bucket_of(path); p != NULL; p = p->next)
		if (path.len >= p->len && (path.len == p->len || p->folder) &&
		    memcmp(path.p, p->rows->path, p->len) == 0)
			return p;
	return NULL;
}

static bool
ends_with(struct span path, size_t from, const char *ending)
{
	size_t n = strlen(ending);

	return path.len >= from + n && memcmp(path.p + path.len - n, ending, n) == 0;
}

static bool
same_ending(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

struct endpoint_path
endpoint_ending(const struct endpoint_path *p, struct span path)
{
	struct endpoint_path part = *p;
	const char *ending;
	unsigned n;

	for (; part.count > 0; part.rows += n, part.count -= n) {
		ending = part.rows->ending;
		for (n = 0; n < part.count && same_ending(part.rows[n].ending, ending); n++)
			;
		if (ending == NULL || ends_with(path, p->len, ending)) {
			part.count = n;
			break;
		}
	}
	return part;
}

const struct endpoint *
endpoint_row(const struct endpoint_path *p, const char *method)
{
	for (unsigned i = 0; i < p->count; i++)
		if (strcmp(p->rows[i].method, method) == 0)
			return &p->rows[i];
	return NULL;
}

void
endpoint_methods(const struct endpoint_path *p, struct buf *out)
{
	for (unsigned i = 0; i < p->count; i++)
		if (p->rows[i].when == NULL)
			buf_printf(out, "%s%s", out->len > 0 ? "," : "", p->rows[i].method);
}

const struct endpoint *
endpoint_variant(const struct endpoint *e, const struct params *query)
{
	while (e->when != NULL && !params_has(query, e->when))
		e++;
	return e;
}

/* -- a request's parts become arguments -- */

/* All values of this name that are not empty. */
static void
bind_texts(struct request *r, const char *name, struct span_list *out)
{
	out->v = arena_array(&r->arena, r->query.n, sizeof(*out->v));
	for (uint32_t i = 0; out->v != NULL && i < r->query.n; i++)
		if (span_eqs(r->query.v[i].name, name) && r->query.v[i].value.len > 0)
			out->v[out->n++] = r->query.v[i].value;
	out->set = out->n > 0;
}

static void
bind_pairs(struct request *r, const char *name, struct span_map *out)
{
	out->kv = arena_array(&r->arena, r->query.n, sizeof(*out->kv));
	for (uint32_t i = 0; out->kv != NULL && i < r->query.n; i++) {
		struct span v = r->query.v[i].value;

		if (!span_eqs(r->query.v[i].name, name) || v.len == 0)
			continue;
		const uint8_t *colon = memchr(v.p, ':', v.len);
		size_t key = colon == NULL ? v.len : (size_t)(colon - v.p);
		out->kv[out->n][0] = span_of(v.p, key);
		out->kv[out->n][1] = colon == NULL ? span_of("", 0) : span_of(colon + 1, v.len - key - 1);
		out->n++;
	}
	out->set = out->n > 0;
}

/* A node's name, _agent for this one, _ip for the node that asks.  Datacenters have maps of their own. */
static void
bind_near(struct request *r, struct catalog_read *args)
{
	struct span near = params_get(&r->query, "near");

	if (near.len == 0 || r->op.dc.len > 0)
		return;
	if (span_eqs(near, "_agent"))
		args->Near = span_str(r->api->cluster->node_name);
	else if (span_eqs(near, "_ip"))
		args->NearAddress = span_str(r->head.client_ip == NULL ? "" : r->head.client_ip);
	else
		args->Near = near;
}

static void
bind_query(struct request *r, const struct bind *b, uint8_t *args)
{
	void *field = args + b->offset;

	if (b->kind == BIND_TEXT)
		*(struct span *)field = params_get(&r->query, b->name);
	else if (b->kind == BIND_FLAG)
		*(bool *)field = true;
	else if (b->kind == BIND_TEXTS)
		bind_texts(r, b->name, field);
	else if (b->kind == BIND_PAIRS)
		bind_pairs(r, b->name, field);
	else
		bind_near(r, (struct catalog_read *)(void *)args);
}

/* False: answered. */
static bool
bind_all(struct request *r, uint8_t *args)
{
	for (const struct bind *b = r->endpoint->bind; b != NULL && b->kind != BIND_END; b++) {
		struct span *text = (struct span *)(void *)(args + b->offset);

		if (b->name != NULL) {
			if (params_has(&r->query, b->name))
				bind_query(r, b, args);
		} else if (b->kind == BIND_PATH) {
			*text = r->rest;
		} else if (b->kind == BIND_DC) {
			if (r->op.dc.len == 0)
				r->op.dc = api_body_dc(r, *text);
		} else if (api_too_large(r, "body_bytes_max")) {
			return false;
		} else {
			*text = buf_span(&r->body);
		}
	}
	return true;
}

/* -- serving -- */

/* Options of the query, as the row wants them; false: answered. */
static bool
take_options(struct request *r)
{
	const struct endpoint *e = r->endpoint;

	if ((e->flags & COORDINATES) && r->api->conf->disable_coordinates) {
		answer_text(r, 401, "Coordinate support disabled");
		return false;
	}
	if (e->query >= QUERY_READ) {
		if (!api_query(r, e->query == QUERY_CATALOG))
			return false;
	} else if (e->query == QUERY_DC) {
		api_query_dc(r);
	}
	/* Others read it with the options. */
	if (e->flags & (ANY_SERVER | CACHED) && e->query < QUERY_READ && !api_cache_control(r))
		return false;
	if (e->flags & ANY_SERVER)
		r->op.mode = OP_STALE;
	return e->missing == NULL || api_need_rest(r, e->missing);
}

static void
serve_operation(struct request *r)
{
	const struct endpoint *e = r->endpoint;
	const struct op *op = op_find((uint16_t)e->op);
	_Alignas(max_align_t) uint8_t args[ARGS_BYTES_MAX] __attribute__((uninitialized));

	if ((e->flags & FILTERED) && !api_filter(r, e->filter != NULL ? e->filter : op->answer))
		return;
	memset(args, 0, op->args->size);
	if (e->body == BODY_JSON && !api_decode(r, op->args, e->flags & STRICT ? SJ_STRICT : 0, false, args))
		return;
	if (bind_all(r, args) && (e->check == NULL || e->check(r, args)))
		api_ask(r, args);
}

static void
run_endpoint(struct request *r)
{
	if (!take_options(r))
		return;
	if (r->endpoint->run != NULL)
		r->endpoint->run(r);
	else
		serve_operation(r);
}

void
endpoint_run(struct request *r)
{
	api_judge(r, run_endpoint);
}

void
api_ask(struct request *r, const void *args)
{
	const struct endpoint *e = r->endpoint;

	api_start(r, e->op, args, e->finish != NULL ? e->finish : api_finish);
}

/* -- the reply becomes the answer -- */

/* The one value of a bool_reply or text_reply as JSON. */
static void
finish_value(struct request *r, const struct op_reply *reply)
{
	const char *wrap = r->endpoint->wrap;
	struct buf *out = &r->answer.body;
	struct bool_reply b = { 0 };
	struct text_reply t = { 0 };
	bool is_bool = op_find(r->op.op)->answer == &bool_reply_schema;

	if (!api_record(r, reply, is_bool ? &bool_reply_schema : &text_reply_schema, is_bool ? (void *)&b : &t))
		return;
	if (wrap != NULL)
		buf_printf(out, "{\"%s\":", wrap);
	if (is_bool)
		buf_puts(out, b.Value ? "true" : "false");
	else
		json_quote(t.Value, out);
	if (wrap != NULL)
		buf_u8(out, '}');
	answer_json(r);
}

static void
finish_names(struct request *r, const struct op_reply *reply)
{
	api_render_names(r, reply->value, (r->endpoint->flags & NOT_FOUND) && r->rest.len > 0);
}

/* Entries of an answer that is a list. */
static uint32_t
entries(const struct op_reply *reply)
{
	struct rd in = rd_span_over(reply->value);

	return reply->value.len == 0 || mpr_nil(&in) ? 0 : mpr_array(&in);
}

void
api_finish(struct request *r, const struct op_reply *reply)
{
	const struct endpoint *e = r->endpoint;

	if (api_failed(r, reply))
		return;
	if (e->flags & (SHOW_INDEX | SHOW_MODE))
		api_headers(r, reply, e->flags & SHOW_MODE);
	if (e->render == RENDER_VALUE)
		finish_value(r, reply);
	else if (e->render == RENDER_NAMES)
		finish_names(r, reply);
	else if (e->render == RENDER_EMPTY)
		answer_empty(r, 200);
	else if ((e->flags & NOT_FOUND) && entries(reply) == 0)
		answer_empty(r, 404);
	else
		api_json(r, reply);
}
