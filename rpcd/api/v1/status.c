/* /v1/status/: who leads.  Answered without asking for a leader. */
#include "rpcd/api/api.h"

const struct endpoint api_status[] = {
	{ "/v1/status/leader", "GET", ACCESS_OP, NULL, OP_STATUS_LEADER, .query = QUERY_DC, .flags = ANY_SERVER,
	    .render = RENDER_VALUE },
	{ "/v1/status/peers", "GET", ACCESS_OP, NULL, OP_STATUS_PEERS, .query = QUERY_DC, .flags = ANY_SERVER,
	    .render = RENDER_NAMES },
	{ .path = NULL },
};
