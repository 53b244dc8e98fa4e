/* /v1/coordinate/: where nodes are, as round trips see it. */
#include "common/record/records.h"
#include "rpcd/api/api.h"

#define SEGMENT FROM_QUERY("segment", coordinate_read, BySegment), FROM_QUERY("segment", coordinate_read, Segment)

const struct endpoint api_coordinate[] = {
	{ "/v1/coordinate/datacenters", "GET", ACCESS_OP, NULL, OP_COORDINATE_DATACENTERS, .flags = COORDINATES },
	{ "/v1/coordinate/nodes", "GET", ACCESS_OP, NULL, OP_COORDINATE_NODES, .query = QUERY_READ, BIND(SEGMENT),
	    .flags = COORDINATES | SHOW_INDEX },
	{ "/v1/coordinate/node/", "GET", ACCESS_OP, NULL, OP_COORDINATE_NODE, .query = QUERY_READ,
	    .missing = "Missing node name", BIND(FROM_PATH(coordinate_read, Node), SEGMENT),
	    .flags = COORDINATES | SHOW_INDEX | NOT_FOUND },
	/* Whether the node is known is not for clients: a report about an unknown one vanishes. */
	{ "/v1/coordinate/update", "PUT", ACCESS_OP, NULL, OP_COORDINATE_UPDATE, BODY_JSON, QUERY_DC,
	    BIND(FROM_BODY_DC(coordinate_update)), .flags = COORDINATES | STRICT, .render = RENDER_EMPTY },
	{ .path = NULL },
};
