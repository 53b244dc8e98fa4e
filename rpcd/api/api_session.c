/* /v1/session/: sessions. */
#include "common/record/mpack.h"
#include "common/record/records.h"
#include "rpcd/api/api.h"

#define LOCK_DELAY_DEFAULT_NS (15ll * 1000000000)

static void
finish_create(struct request *r, const struct op_reply *reply)
{
	struct text_reply id = { 0 };

	if (api_failed(r, reply) || !api_record(r, reply, &text_reply_schema, &id))
		return;
	buf_puts(&r->answer.body, "{\"ID\":");
	json_quote(id.Value, &r->answer.body);
	buf_puts(&r->answer.body, "}");
	answer_json(r);
}

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

	api_query_dc(r);
	if (!api_decode(r, &session_schema, 0, true, &s))
		return;
	reconcile_checks(&s);
	if (!s.NodeChecks.set)
		s.NodeChecks = (struct span_list){ &serf_health, 1, true };
	s.ID = SPAN_NONE;		/* chosen by the server */
	api_start(r, OP_SESSION_CREATE, &s, finish_create);
}

static void
run_destroy(struct request *r)
{
	api_query_dc(r);
	if (api_need_rest(r, "Missing session"))
		api_start(r, OP_SESSION_DESTROY, &(struct session_destroy){ .ID = r->rest }, api_finish_bool);
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
		answer_text(r, 404, "Session id '%.*s' not found", (int)r->rest.len, (const char *)r->rest.p);
	else
		api_json(r, reply);
}

static void
run_renew(struct request *r)
{
	api_query_dc(r);
	if (api_need_rest(r, "Missing session"))
		api_start(r, OP_SESSION_RENEW, &(struct session_read){ .ID = r->rest }, finish_renew);
}

static void
finish_list(struct request *r, const struct op_reply *reply)
{
	if (api_failed(r, reply))
		return;
	api_headers(r, reply, false);
	api_json(r, reply);
}

static void
run_info(struct request *r)
{
	if (api_query(r, false) && api_need_rest(r, "Missing session"))
		api_start(r, OP_SESSION_INFO, &(struct session_read){ .ID = r->rest }, finish_list);
}

static void
run_node(struct request *r)
{
	if (api_query(r, false) && api_need_rest(r, "Missing node name"))
		api_start(r, OP_SESSION_NODE, &(struct session_read){ .Node = r->rest }, finish_list);
}

static void
run_list(struct request *r)
{
	if (api_query(r, false))
		api_start(r, OP_SESSION_LIST, &(struct session_read){ .ID = SPAN_NONE }, finish_list);
}

const struct endpoint api_session[] = {
	{ "/v1/session/create", "PUT", BODY_JSON, run_create, NOT_ADMIN },
	{ "/v1/session/destroy/", "PUT", BODY_NONE, run_destroy, NOT_ADMIN },
	{ "/v1/session/renew/", "PUT", BODY_NONE, run_renew, NOT_ADMIN },
	{ "/v1/session/info/", "GET", BODY_NONE, run_info, NOT_ADMIN },
	{ "/v1/session/node/", "GET", BODY_NONE, run_node, NOT_ADMIN },
	{ "/v1/session/list", "GET", BODY_NONE, run_list, NOT_ADMIN },
	{ NULL, NULL, BODY_NONE, NULL, NULL },
};
