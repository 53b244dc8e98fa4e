/* /v1/catalog/: nodes and services. */
#include "common/record/mpack.h"
#include "common/record/records.h"
#include "rpcd/api/api.h"

static void
finish_services(struct request *r, const struct op_reply *reply)
{
	static const struct schema_field by_name = { .type = ST_OBJMAP, .flags = SF_BARE, .sub = &service_tags_schema };
	struct rd in = rd_span_over(reply->value);

	if (api_failed(r, reply))
		return;
	api_headers(r, reply, true);
	(void)schema_json_value(&by_name, &in, &r->answer.body);
	api_rendered(r, rd_end(&in));
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
	api_rendered(r, passing.len == 0 ? TV_EFORMAT :
	    api_record_json(s, api_translates(r, s, r->op.dc), &in, &r->answer.body));
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

static bool
names_clean(struct request *r, void *args)
{
	return api_names_clean(r, &catalog_register_schema, args);
}

/* It has no options of a read but this one. */
static bool
cached_fits(struct request *r, void *args UNUSED)
{
	return api_cached_fits(r);
}

const struct endpoint api_catalog[] = {
	{ "/v1/catalog/register", "PUT", ACCESS_OP, NULL, OP_CATALOG_REGISTER, BODY_JSON, .flags = STRICT,
	    BIND(FROM_BODY_DC(catalog_register)), .check = names_clean, .render = RENDER_VALUE },
	{ "/v1/catalog/deregister", "PUT", ACCESS_OP, NULL, OP_CATALOG_DEREGISTER, BODY_JSON,
	    BIND(FROM_BODY_DC(catalog_deregister)), .render = RENDER_VALUE },
	{ "/v1/catalog/datacenters", "GET", ACCESS_OP, NULL, OP_CATALOG_DATACENTERS, .flags = CACHED,
	    .check = cached_fits, .render = RENDER_NAMES },
	{ "/v1/catalog/nodes", "GET", ACCESS_OP, NULL, OP_CATALOG_NODES, READ_CATALOG, .flags = SHOW_MODE | FILTERED },
	{ "/v1/catalog/services", "GET", ACCESS_OP, NULL, OP_CATALOG_SERVICES, READ_CATALOG,
	    .flags = CACHED, .finish = finish_services },
	{ "/v1/catalog/service/", "GET", ACCESS_OP, NULL, OP_CATALOG_SERVICE, .missing = "Missing service name",
	    READ_CATALOG, .flags = SHOW_MODE | FILTERED | CACHED },
	{ "/v1/catalog/connect/", "GET", ACCESS_OP, NULL, OP_CATALOG_CONNECT, .missing = "Missing service name",
	    READ_CATALOG, .flags = SHOW_MODE | FILTERED },
	{ "/v1/catalog/node/", "GET", ACCESS_OP, NULL, OP_CATALOG_NODE, .missing = "Missing node name", READ_CATALOG,
	    .flags = FILTERED, .filter = &service_schema, .finish = finish_node },
	{ "/v1/catalog/node-services/", "GET", ACCESS_OP, NULL, OP_CATALOG_NODE, .missing = "Missing node name",
	    READ_CATALOG, .flags = FILTERED, .filter = &service_schema, .finish = finish_node_services },
	{ .path = NULL },
};
