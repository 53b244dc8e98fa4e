/* /v1/session/: sessions. */
#include "common/record/mpack.h"
#include "common/record/records.h"
#include "rpcd/api/api.h"

#define LOCK_DELAY_DEFAULT_NS (15ll * 1000000000)

/*
 * The deprecated Checks and their successor NodeChecks: the rules of clients of both generations,
 * in this order (http API, section on sessions).
 */
static void
reconcile_checks(struct session *s)
{
	bool node_checks_empty = s->NodeChecks.set && s->NodeChecks.n == 0;

	if (!s->Checks.set)
		return;
	if (s->Checks.n == 0) {
		s->NodeChecks = (struct span_list){ NULL, 0, true };
		s->Checks = (struct span_list){ NULL, 0, false };
	} else if ((s->Checks.n == 1 && span_eqs(s->Checks.v[0], "serfHealth")) || node_checks_empty) {
		s->Checks = (struct span_list){ NULL, 0, false };
	}
}

static void
run_create(struct request *r)
{
	struct span serf_health = span_str("serfHealth");
	struct session s = {
		.Node = span_str(r->api->cluster->node_name),
		.LockDelay = LOCK_DELAY_DEFAULT_NS,
		.Behavior = span_str("release"),
	};

	if (!api_decode(r, &session_schema, 0, true, &s) || !api_names_clean(r, &session_schema, &s))
		return;
	reconcile_checks(&s);
	if (!s.NodeChecks.set)
		s.NodeChecks = (struct span_list){ &serf_health, 1, true };
	s.ID = SPAN_NONE;		/* chosen by the server */
	api_ask(r, &s);
}

static void
finish_renew(struct request *r, const struct op_reply *reply)
{
	struct rd in = rd_span_over(reply->value);
	bool none = reply->err == TV_ENOENT;

	if (!none && api_failed(r, reply))
		return;
	none = none || reply->value.len == 0 || mpr_nil(&in) || mpr_array(&in) == 0;
	if (none)
		answer_text(r, 404, "Session id '%.*s' not found", SPAN_ARGS(r->rest));
	else
		api_json(r, reply);
}

const struct endpoint api_session[] = {
	{ "/v1/session/create", "PUT", ACCESS_OP, NULL, OP_SESSION_CREATE, BODY_JSON, QUERY_DC, .run = run_create,
	    .render = RENDER_VALUE, .wrap = "ID" },
	{ "/v1/session/destroy/", "PUT", ACCESS_OP, NULL, OP_SESSION_DESTROY, .query = QUERY_DC,
	    .missing = "Missing session", BIND(FROM_PATH(session_destroy, ID)), .render = RENDER_VALUE },
	{ "/v1/session/renew/", "PUT", ACCESS_OP, NULL, OP_SESSION_RENEW, .query = QUERY_DC,
	    .missing = "Missing session", BIND(FROM_PATH(session_read, ID)), .finish = finish_renew },
	{ "/v1/session/info/", "GET", ACCESS_OP, NULL, OP_SESSION_INFO, .query = QUERY_READ,
	    .missing = "Missing session", BIND(FROM_PATH(session_read, ID)), .flags = SHOW_INDEX },
	{ "/v1/session/node/", "GET", ACCESS_OP, NULL, OP_SESSION_NODE, .query = QUERY_READ,
	    .missing = "Missing node name", BIND(FROM_PATH(session_read, Node)), .flags = SHOW_INDEX },
	{ "/v1/session/list", "GET", ACCESS_OP, NULL, OP_SESSION_LIST, .query = QUERY_READ, .flags = SHOW_INDEX },
	{ .path = NULL },
};
