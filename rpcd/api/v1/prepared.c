/* /v1/query: prepared queries.  Below /v1/query/ is an id, or an id or a name with /execute or /explain behind it. */
#include <stdio.h>
#include <strings.h>

#include "common/record/mpack.h"
#include "common/record/records.h"
#include "common/record/schema_json.h"
#include "common/text/json_text.h"
#include "rpcd/api/api.h"
#include "rpcd/route/failover.h"

/* -- what is kept -- */

static json_t *
member(json_t *obj, const char *name)
{
	const char *key;
	json_t *value;

	json_object_foreach(obj, key, value)
		if (strcasecmp(key, name) == 0)
			return value;
	return NULL;
}

/* The datacenter that a target is; NULL with a sentence. */
static const char *
target_datacenter(json_t *target, char *why, size_t cap)
{
	const char *dc = json_string_value(member(target, "Datacenter"));

	if (dc == NULL || dc[0] == '\0' || json_object_size(target) != 1) {
		snprintf(why, cap, "each of Service.Failover.Targets names a Datacenter, and nothing else");
		return NULL;
	}
	return dc;
}

/* Targets, of newer clients, are Datacenters in another form: that is how they are kept and shown. */
static bool
take_targets(json_t *body, char *why, size_t cap)
{
	json_t *failover = member(member(body, "Service"), "Failover"), *targets = member(failover, "Targets");
	json_t *given = member(failover, "Datacenters"), *target, *dcs;
	const char *dc = "";
	size_t i;

	if (json_array_size(targets) == 0)
		return true;
	if (json_integer_value(member(failover, "NearestN")) != 0 || json_array_size(given) > 0) {
		snprintf(why, cap, "Service.Failover.Targets cannot be given together with NearestN or Datacenters");
		return false;
	}
	dcs = json_array();
	json_array_foreach(targets, i, target) {
		if ((dc = target_datacenter(target, why, cap)) == NULL)
			break;
		json_array_append_new(dcs, json_string(dc));
	}
	json_object_clear(failover);
	json_object_set_new(failover, "Datacenters", dcs);
	return dc != NULL;
}

/* False: answered. */
static bool
take_query(struct request *r, bool optional, struct prepared_query *q)
{
	return api_decode_edited(r, &prepared_query_schema, SJ_KNOWN, optional, take_targets, q) &&
	    api_body_token_gate(r, q->Token) && api_names_clean(r, &prepared_query_schema, q);
}

static void
run_create(struct request *r)
{
	struct prepared_query q = { .ID = SPAN_NONE };

	if (take_query(r, false, &q))
		api_ask(r, &q);
}

static void
run_update(struct request *r)
{
	struct prepared_query q = { .ID = SPAN_NONE };

	if (!take_query(r, true, &q))
		return;
	q.ID = r->rest;
	api_ask(r, &q);
}

static void
finish_get(struct request *r, const struct op_reply *reply)
{
	struct rd in = rd_span_over(reply->value);

	if (reply->err != TV_OK) {
		api_refused_headers(r);
		(void)api_failed(r, reply);
		return;
	}
	api_headers(r, reply, true);
	if (mpr_array(&in) == 0 && in.err == TV_OK)
		answer_text(r, 404, "Query not found");
	else
		api_json(r, reply);
}

/* -- executing and explaining -- */

/* As Go words it. */
static void
refuse_value(struct request *r, const char *before, struct span text, enum tv_err err)
{
	struct buf quoted = BUF_INIT(REQUEST_ARENA_MAX);

	text_quote(text, &quoted);
	answer_text(r, 500, "%s: parsing %s: %s", before, buf_cstr(&quoted),
	    err == TV_ELIMIT ? "value out of range" : "invalid syntax");
	buf_done(&quoted);
}

/* ?limit and ?connect; false: answered. */
static bool
take_numbers(struct request *r, struct prepared_ask *ask)
{
	struct span limit = params_get(&r->query, "limit"), connect = params_get(&r->query, "connect");
	enum tv_err err = limit.len == 0 ? TV_OK : i64_parse(limit, &ask->Limit);
	int value = connect.len == 0 ? 0 : params_bool(connect);

	ask->Connect = value == 1;
	if (err != TV_OK)
		refuse_value(r, "Bad limit: strconv.Atoi", limit, err);
	else if (value < 0)
		refuse_value(r, "Error parsing 'connect' value: strconv.ParseBool", connect, TV_EFORMAT);
	return !r->answered;
}

/* The name, and what the query of the request says; false: answered. */
static bool
take_ask(struct request *r, struct prepared_ask *ask)
{
	*ask = (struct prepared_ask){ .Name = span_of(r->rest.p, r->rest.len - strlen(r->endpoint->ending)) };
	r->op.index = 0;			/* it does not block */
	if (!take_numbers(r, ask))
		return false;
	ask->Near = params_get(&r->query, "near");
	if (r->op.dc.len == 0)			/* this node is none of another datacenter's */
		ask->Agent = span_str(r->api->cluster->node_name);
	ask->Address = span_str(r->head.client_ip == NULL ? "" : r->head.client_ip);
	return true;
}

/* The fields that say how it was read, to the end of the object. */
static void
put_end(struct request *r, const struct op_reply *reply, struct buf *out)
{
	api_put_query_meta(r, reply, api_consistency(r), out);
	buf_u8(out, '}');
}

/* False: answered. */
static bool
replied(struct request *r, const struct op_reply *reply)
{
	if (reply->err == TV_ENOENT)
		answer_text(r, 404, "%.*s", SPAN_ARGS(reply->text));
	else if (!api_failed(r, reply))
		return true;
	return false;
}

static void
finish_explain(struct request *r, const struct op_reply *reply)
{
	struct rd in = rd_span_over(reply->value);
	struct buf *out = &r->answer.body;

	if (!replied(r, reply))
		return;
	api_headers(r, reply, true);
	buf_puts(out, "{\"Query\":");
	if (schema_json(&prepared_query_schema, &in, out) != TV_OK) {
		api_malformed(r);
		return;
	}
	put_end(r, reply, out);
	answer_json(r);
}

static void
run_explain(struct request *r)
{
	struct prepared_ask ask;

	if (take_ask(r, &ask))
		api_ask(r, &ask);
}

/* Instances as a list, between what else the answer says. */
static void
answer_found(struct request *r, const struct op_reply *reply, unsigned tries)
{
	struct rd in = rd_span_over(reply->value);
	uint32_t fields = mpr_array(&in);
	struct span nodes = fields < 3 ? SPAN_NONE : mpr_value(&in), dc = fields < 3 ? SPAN_NONE : mpr_bytes(&in, 1024);
	struct buf *out = &r->answer.body, after = BUF_INIT(REQUEST_ARENA_MAX);
	struct prepared_query q = { .ID = SPAN_NONE };

	if (nodes.len == 0 || in.err != TV_OK || schema_unpack(&prepared_query_schema, &in, &r->arena, &q) != TV_OK) {
		api_malformed(r);
		return;
	}
	buf_puts(&after, ",\"DNS\":");
	schema_json_rec(&prepared_dns_schema, &q.DNS, &after);
	buf_puts(&after, ",\"Datacenter\":");
	json_quote(dc, &after);
	buf_printf(&after, ",\"Failovers\":%u", tries);
	put_end(r, reply, &after);
	buf_puts(out, "{\"Service\":");
	json_quote(q.Service.Service, out);
	buf_puts(out, ",\"Nodes\":");
	api_render_list_before(r, &prepared_node_schema, nodes, dc, &after);
	buf_done(&after);
}

static void
on_found(void *ctx, const struct op_reply *reply, unsigned tries)
{
	struct request *r = ctx;

	r->cancel = NULL;
	r->state = NULL;
	if (!replied(r, reply))
		return;
	api_headers(r, reply, true);
	answer_found(r, reply, tries);
}

/* From the cache: how many datacenters were asked, and what was found.  As in Consul there is no 404 then. */
static void
finish_kept(struct request *r, const struct op_reply *reply)
{
	struct rd in = rd_span_over(reply->value);
	struct op_reply found = *reply;

	if (api_failed(r, reply))
		return;
	if (mpr_array(&in) < 2) {
		api_malformed(r);
		return;
	}
	unsigned tries = (unsigned)mpr_uint(&in, UINT32_MAX);
	found.value = mpr_value(&in);
	api_headers(r, reply, true);
	answer_found(r, &found, tries);
}

static void
cancel(struct request *r)
{
	failover_cancel(r->state);
	r->state = NULL;
}

static void
run_execute(struct request *r)
{
	struct prepared_ask ask;

	if (!take_ask(r, &ask))
		return;
	r->finish = finish_kept;
	if (api_wants_cached(r) && api_start_cached(r, OP_QUERY_EXECUTE, &ask))
		return;
	if (!api_pack(r, OP_QUERY_EXECUTE, &ask))
		return;
	r->state = failover_start(r->api->failovers, &r->op, on_found, r);
	if (r->state == NULL)
		api_busy(r);
	else
		r->cancel = cancel;
}

const struct endpoint api_prepared[] = {
	{ "/v1/query", "GET", ACCESS_OP, .op = OP_QUERY_LIST, .query = QUERY_READ, .flags = SHOW_MODE },
	{ "/v1/query", "POST", ACCESS_OP, .op = OP_QUERY_CREATE, .body = BODY_JSON, .query = QUERY_DC,
	    .run = run_create, .render = RENDER_VALUE, .wrap = "ID" },
	{ "/v1/query/", "GET", ACCESS_OP, .ending = "/execute", .op = OP_QUERY_EXECUTE, .query = QUERY_READ,
	    .flags = BARE_ALLOW | CACHED, .run = run_execute },
	{ "/v1/query/", "GET", ACCESS_OP, .ending = "/explain", .op = OP_QUERY_EXPLAIN, .query = QUERY_READ,
	    .flags = BARE_ALLOW, .run = run_explain, .finish = finish_explain },
	{ "/v1/query/", "GET", ACCESS_OP, .op = OP_QUERY_GET, .query = QUERY_READ, .missing = "Missing query ID",
	    BIND(FROM_PATH(prepared_read, ID)), .flags = BARE_ALLOW, .finish = finish_get },
	{ "/v1/query/", "PUT", ACCESS_OP, .op = OP_QUERY_UPDATE, .body = BODY_JSON, .query = QUERY_DC,
	    .missing = "Missing query ID", .flags = BARE_ALLOW, .run = run_update, .render = RENDER_EMPTY },
	{ "/v1/query/", "DELETE", ACCESS_OP, .op = OP_QUERY_DELETE, .query = QUERY_DC, .missing = "Missing query ID",
	    BIND(FROM_PATH(prepared_read, ID)), .flags = BARE_ALLOW, .render = RENDER_EMPTY },
	{ .path = NULL },
};
