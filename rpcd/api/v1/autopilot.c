/* /v1/operator/autopilot/: how the servers are looked after, and how they are. */
#include <jansson.h>

#include "common/record/records.h"
#include "common/record/schema_json.h"
#include "rpcd/api/api.h"

/* -- configuration -- */

/* What a configuration is refused for is the asker's mistake. */
static void
finish_set(struct request *r, const struct op_reply *reply)
{
	if (reply->err == TV_EINVAL && reply->text.len > 0)
		answer_text(r, 400, "Bad request: %.*s", SPAN_ARGS(reply->text));
	else
		api_finish(r, reply);
}

static bool
take_cas(struct request *r, struct autopilot_set *args)
{
	args->Cas = params_has(&r->query, "cas");
	return api_number(r, "cas", 400, "Bad request: Error parsing cas value: ", &args->Index);
}

static bool
take_config(struct request *r, struct autopilot_config *c)
{
	char why[512];
	json_t *v;
	enum tv_err err;

	if (api_too_large(r, "body_bytes_max"))
		return false;
	v = json_first_value(buf_span(&r->body), why, sizeof(why));
	err = v == NULL ? TV_EFORMAT : schema_from_json(&autopilot_config_schema, v, 0, &r->arena, c, why, sizeof(why));
	json_decref(v);
	if (err == TV_ENOMEM)
		answer_text(r, 500, "out of memory");
	else if (err != TV_OK)
		answer_text(r, 400, "Bad request: Error parsing autopilot config: %s", why);
	return err == TV_OK;
}

/* Replaces it as a whole, with ?cas only while it is what the asker knows. */
static void
run_set(struct request *r)
{
	struct autopilot_set args = { 0 };

	if (take_config(r, &args.Config) && take_cas(r, &args))
		api_ask(r, &args);
}

/* -- health -- */

static void
finish_health(struct request *r, const struct op_reply *reply)
{
	struct autopilot_health h = { 0 };

	if (api_failed(r, reply) || !api_record(r, reply, &autopilot_health_schema, &h))
		return;
	schema_json_rec(&autopilot_health_schema, &h, &r->answer.body);
	answer_json_status(r, h.Healthy ? 200 : 429);
}

RECORD_LOCAL(state_server,
	(STR, ID), (STR, Name), (STR, Address), (STR, NodeStatus), (STR, Version), (DURATION, LastContact, SF_DURTEXT),
	(U64, LastTerm), (U64, LastIndex), (BOOL, Healthy), (STR, StableSince), (STR, Reason, SF_OMITEMPTY),
	(STR, Status), (CONST, Meta, "null"), (CONST, NodeType, "\"voter\""))
RECORD_LOCAL(state,
	(BOOL, Healthy), (U64, FailureTolerance), (OBJMAP, Servers, state_server, SF_KEYSHOWN), (STR, Leader),
	(STRS, Voters))

static void
finish_state(struct request *r, const struct op_reply *reply)
{
	struct autopilot_health h = { 0 };
	const struct server_health *s;

	if (api_failed(r, reply) || !api_record(r, reply, &autopilot_health_schema, &h))
		return;
	struct state_server *list = arena_array(&r->arena, h.Servers.n, sizeof(*list));
	struct span *voters = arena_array(&r->arena, h.Servers.n, sizeof(*voters));
	struct state st = { .Healthy = h.Healthy, .FailureTolerance = h.FailureTolerance,
		.Servers = { list, h.Servers.n, true }, .Voters = { voters, 0, true } };

	if (list == NULL || voters == NULL) {
		answer_text(r, 500, "%s", tv_strerror(TV_ENOMEM));
		return;
	}
	s = h.Servers.v;
	for (uint32_t i = 0; i < h.Servers.n; i++) {
		list[i] = (struct state_server){ s[i].ID, s[i].Name, s[i].Address, s[i].SerfStatus, s[i].Version,
			s[i].LastContact, s[i].LastTerm, s[i].LastIndex, s[i].Healthy, s[i].StableSince, s[i].Reason,
			span_str(s[i].Leader ? "leader" : s[i].Voter ? "voter" : "non-voter") };
		if (s[i].Leader)
			st.Leader = s[i].ID;
		if (s[i].Voter)
			voters[st.Voters.n++] = s[i].ID;
	}
	schema_json_rec(&state_schema, &st, &r->answer.body);
	answer_json(r);
}

const struct endpoint api_autopilot[] = {
	{ "/v1/operator/autopilot/configuration", "GET", ACCESS_OP, NULL, OP_AUTOPILOT_READ, .query = QUERY_READ },
	{ "/v1/operator/autopilot/configuration", "PUT", ACCESS_OP | ACCESS_ADMIN, NULL, OP_AUTOPILOT_SET, BODY_JSON,
	    QUERY_DC, .run = run_set, .render = RENDER_VALUE, .finish = finish_set },
	{ "/v1/operator/autopilot/health", "GET", ACCESS_OP, NULL, OP_AUTOPILOT_HEALTH, .query = QUERY_READ,
	    .finish = finish_health },
	{ "/v1/operator/autopilot/state", "GET", ACCESS_OP, NULL, OP_AUTOPILOT_HEALTH, .query = QUERY_READ,
	    .finish = finish_state },
	{ .path = NULL },
};
