/* /v1/catalog/: nodes and services. */
#include "common/record/mpack.h"
#include "common/record/records.h"
#include "common/record/schema_json.h"
#include "rpcd/api/api.h"

struct span
api_body_dc(const struct request *r, struct span given)
{
	return given.len > 0 && !span_eqs(given, r->api->cluster->datacenter) ? given : span_of("", 0);
}

static void
run_register(struct request *r)
{
	struct catalog_register args = { 0 };

	if (!api_decode(r, &catalog_register_schema, SJ_STRICT, false, &args))
		return;
	r->op.dc = api_body_dc(r, args.Datacenter);
	api_start(r, OP_CATALOG_REGISTER, &args, api_finish_bool);
}

static void
run_deregister(struct request *r)
{
	struct catalog_deregister args = { 0 };

	if (!api_decode(r, &catalog_deregister_schema, 0, false, &args))
		return;
	r->op.dc = api_body_dc(r, args.Datacenter);
	api_start(r, OP_CATALOG_DEREGISTER, &args, api_finish_bool);
}

static void
finish_datacenters(struct request *r, const struct op_reply *reply)
{
	struct text_list list = { 0 };

	if (api_failed(r, reply) || !api_record(r, reply, &text_list_schema, &list))
		return;
	api_json_names(r, &list.Values);
}

static void
run_datacenters(struct request *r)
{
	struct empty_rec none = { 0 };

	api_start(r, OP_CATALOG_DATACENTERS, &none, finish_datacenters);
}

/* All values of ?tag. */
static void
take_tags(struct request *r, struct span_list *out)
{
	out->v = arena_array(&r->arena, r->query.n, sizeof(*out->v));
	for (uint32_t i = 0; out->v != NULL && i < r->query.n; i++)
		if (span_eqs(r->query.v[i].name, "tag") && r->query.v[i].value.len > 0)
			out->v[out->n++] = r->query.v[i].value;
	out->set = out->n > 0;
}

/* All values of ?node-meta, each "key:value". */
static void
take_node_meta(struct request *r, struct span_map *out)
{
	out->kv = arena_array(&r->arena, r->query.n, sizeof(*out->kv));
	for (uint32_t i = 0; out->kv != NULL && i < r->query.n; i++) {
		struct span v = r->query.v[i].value;

		if (!span_eqs(r->query.v[i].name, "node-meta") || v.len == 0)
			continue;
		const uint8_t *colon = memchr(v.p, ':', v.len);
		size_t key = colon == NULL ? v.len : (size_t)(colon - v.p);
		out->kv[out->n][0] = span_of(v.p, key);
		out->kv[out->n][1] = colon == NULL ? span_of("", 0) : span_of(colon + 1, v.len - key - 1);
		out->n++;
	}
	out->set = out->n > 0;
}

/* ?near: a node's name, _agent for this one, _ip for the node that asks.  Datacenters have maps of their own. */
static void
take_near(struct request *r, struct catalog_read *args)
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

void
api_catalog_args(struct request *r, struct catalog_read *args)
{
	*args = (struct catalog_read){ .Name = r->rest };
	take_tags(r, &args->Tags);
	take_node_meta(r, &args->NodeMeta);
	take_near(r, args);
}

void
api_finish_catalog(struct request *r, const struct op_reply *reply)
{
	if (api_failed(r, reply))
		return;
	api_headers(r, reply, true);
	api_json(r, reply);
}

static void
run_nodes(struct request *r)
{
	struct catalog_read args;

	if (!api_query(r, true) || !api_filter(r, &node_schema))
		return;
	api_catalog_args(r, &args);
	api_start(r, OP_CATALOG_NODES, &args, api_finish_catalog);
}

/* A map from name to tags. */
static void
finish_services(struct request *r, const struct op_reply *reply)
{
	struct rd in = rd_span_over(reply->value);
	struct buf *out = &r->answer.body;

	if (api_failed(r, reply))
		return;
	api_headers(r, reply, true);
	uint32_t n = mpr_nil(&in) ? 0 : mpr_array(&in);
	buf_u8(out, '{');
	for (uint32_t i = 0; i < n && in.err == TV_OK; i++) {
		struct service_tags s = { 0 };

		if (schema_unpack(&service_tags_schema, &in, &r->arena, &s) != TV_OK)
			break;
		if (i > 0)
			buf_u8(out, ',');
		json_quote(s.Name, out);
		buf_puts(out, ":[");
		for (uint32_t t = 0; t < s.Tags.n; t++) {
			if (t > 0)
				buf_u8(out, ',');
			json_quote(s.Tags.v[t], out);
		}
		buf_u8(out, ']');
	}
	buf_u8(out, '}');
	if (rd_end(&in) != TV_OK)
		answer_text(r, 500, "rpc error making call: malformed answer");
	else
		answer_json(r);
}

static void
run_services(struct request *r)
{
	struct catalog_read args;

	if (!api_query(r, true))
		return;
	api_catalog_args(r, &args);
	api_start(r, OP_CATALOG_SERVICES, &args, finish_services);
}

static void
run_service(struct request *r)
{
	struct catalog_read args;

	if (!api_query(r, true) || !api_need_rest(r, "Missing service name") ||
	    !api_filter(r, &service_instance_schema))
		return;
	api_catalog_args(r, &args);
	api_start(r, OP_CATALOG_SERVICE, &args, api_finish_catalog);
}

/* A packed node_services record with only those services that pass the filter; in the request's scratch. */
static struct span
passing_services(struct request *r, struct span packed)
{
	struct rd in = rd_span_over(packed);
	struct buf kept = BUF_INIT(r->scratch.max);
	uint32_t n, count = 0;

	if (r->filter == NULL || mpr_array(&in) < 2)
		return packed;
	struct span node = mpr_value(&in);
	if (mpr_nil(&in))
		return packed;
	for (n = mpr_array(&in); n > 0 && in.err == TV_OK; n--) {
		struct span service = mpr_value(&in);

		if (api_passes(r, service)) {
			buf_putspan(&kept, service);
			count++;
		}
	}
	buf_reset(&r->scratch);
	mpw_array(&r->scratch, 2);
	buf_putspan(&r->scratch, node);
	mpw_array(&r->scratch, count);
	buf_putspan(&r->scratch, buf_span(&kept));
	if (kept.failed)
		r->scratch.failed = true;
	buf_done(&kept);
	return r->scratch.failed || in.err != TV_OK ? SPAN_NONE : buf_span(&r->scratch);
}

static void
answer_services(struct request *r, const struct schema *s, struct span packed)
{
	struct span passing = passing_services(r, packed);
	struct rd in = rd_span_over(passing);

	if (api_filter_failed(r))
		return;
	if (passing.len == 0 || schema_json(s, &in, &r->answer.body) != TV_OK)
		answer_text(r, 500, "rpc error making call: malformed answer");
	else
		answer_json(r);
}

/* An unknown node is null. */
static void
finish_node(struct request *r, const struct op_reply *reply)
{
	struct rd look = rd_span_over(reply->value);

	if (api_failed(r, reply))
		return;
	api_headers(r, reply, true);
	if (mpr_array(&look) == 0 || mpr_peek(&look) == MP_NIL)
		answer_json_text(r, "null");
	else
		answer_services(r, &node_service_map_schema, reply->value);
}

/* An unknown node is an object of nulls. */
static void
finish_node_services(struct request *r, const struct op_reply *reply)
{
	if (api_failed(r, reply))
		return;
	api_headers(r, reply, true);
	answer_services(r, &node_services_schema, reply->value);
}

static void
run_node_by(struct request *r, void (*finish)(struct request *r, const struct op_reply *reply))
{
	struct catalog_read args;

	if (!api_query(r, true) || !api_need_rest(r, "Missing node name") || !api_filter(r, &service_schema))
		return;
	api_catalog_args(r, &args);
	api_start(r, OP_CATALOG_NODE, &args, finish);
}

static void
run_node(struct request *r)
{
	run_node_by(r, finish_node);
}

static void
run_node_services(struct request *r)
{
	run_node_by(r, finish_node_services);
}

const struct endpoint api_catalog[] = {
	{ "/v1/catalog/register", "PUT", BODY_JSON, run_register, NOT_ADMIN },
	{ "/v1/catalog/deregister", "PUT", BODY_JSON, run_deregister, NOT_ADMIN },
	{ "/v1/catalog/datacenters", "GET", BODY_NONE, run_datacenters, NOT_ADMIN },
	{ "/v1/catalog/nodes", "GET", BODY_NONE, run_nodes, NOT_ADMIN },
	{ "/v1/catalog/services", "GET", BODY_NONE, run_services, NOT_ADMIN },
	{ "/v1/catalog/service/", "GET", BODY_NONE, run_service, NOT_ADMIN },
	{ "/v1/catalog/node/", "GET", BODY_NONE, run_node, NOT_ADMIN },
	{ "/v1/catalog/node-services/", "GET", BODY_NONE, run_node_services, NOT_ADMIN },
	{ NULL, NULL, BODY_NONE, NULL, NULL },
};
