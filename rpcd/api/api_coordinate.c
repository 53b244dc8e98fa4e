/* /v1/coordinate/: where nodes are, as round trips see it. */
#include "common/record/mpack.h"
#include "common/record/records.h"
#include "common/record/schema_json.h"
#include "rpcd/api/api.h"

/* False: answered. */
static bool
enabled(struct request *r)
{
	if (r->api->conf->disable_coordinates)
		answer_text(r, 401, "Coordinate support disabled");
	return !r->api->conf->disable_coordinates;
}

static void
take_segment(struct request *r, struct coordinate_read *args)
{
	args->BySegment = params_has(&r->query, "segment");
	args->Segment = params_get(&r->query, "segment");
}

static void
finish_nodes(struct request *r, const struct op_reply *reply)
{
	if (api_failed(r, reply))
		return;
	api_headers(r, reply, false);
	api_json(r, reply);
}

static void
run_nodes(struct request *r)
{
	struct coordinate_read args = { 0 };

	if (!enabled(r) || !api_query(r, false))
		return;
	take_segment(r, &args);
	api_start(r, OP_COORDINATE_NODES, &args, finish_nodes);
}

/* A node without one is not there. */
static void
finish_node(struct request *r, const struct op_reply *reply)
{
	struct rd look = rd_span_over(reply->value);

	if (api_failed(r, reply))
		return;
	api_headers(r, reply, false);
	if (mpr_array(&look) == 0)
		answer_empty(r, 404);
	else
		api_json(r, reply);
}

static void
run_node(struct request *r)
{
	struct coordinate_read args = { .Node = r->rest };

	if (!enabled(r) || !api_query(r, false) || !api_need_rest(r, "Missing node name"))
		return;
	take_segment(r, &args);
	api_start(r, OP_COORDINATE_NODE, &args, finish_node);
}

static void
finish_datacenters(struct request *r, const struct op_reply *reply)
{
	if (!api_failed(r, reply))
		api_json(r, reply);
}

static void
run_datacenters(struct request *r)
{
	struct empty_rec none = { 0 };

	if (enabled(r))
		api_start(r, OP_COORDINATE_DATACENTERS, &none, finish_datacenters);
}

/* Whether the node is known is not for clients: a report about an unknown one vanishes. */
static void
finish_update(struct request *r, const struct op_reply *reply)
{
	if (!api_failed(r, reply))
		answer_empty(r, 200);
}

static void
run_update(struct request *r)
{
	struct coordinate_update args = { 0 };

	if (!enabled(r) || !api_decode(r, &coordinate_update_schema, SJ_STRICT, false, &args))
		return;
	api_query_dc(r);
	if (r->op.dc.len == 0)
		r->op.dc = api_body_dc(r, args.Datacenter);
	api_start(r, OP_COORDINATE_UPDATE, &args, finish_update);
}

const struct endpoint api_coordinate[] = {
	{ "/v1/coordinate/datacenters", "GET", BODY_NONE, run_datacenters, NOT_ADMIN },
	{ "/v1/coordinate/nodes", "GET", BODY_NONE, run_nodes, NOT_ADMIN },
	{ "/v1/coordinate/node/", "GET", BODY_NONE, run_node, NOT_ADMIN },
	{ "/v1/coordinate/update", "PUT", BODY_JSON, run_update, NOT_ADMIN },
	{ NULL, NULL, BODY_NONE, NULL, NULL },
};
