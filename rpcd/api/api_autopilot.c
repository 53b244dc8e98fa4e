/* /v1/operator/autopilot/: how the servers are looked after, and how they are. */
#include <inttypes.h>
#include <jansson.h>

#include "common/record/records.h"
#include "common/record/schema_json.h"
#include "common/text/duration.h"
#include "common/text/json_text.h"
#include "rpcd/api/api.h"

/* -- configuration -- */

/* What a configuration is refused for is the asker's mistake. */
static void
finish_set(struct request *r, const struct op_reply *reply)
{
	if (reply->err == TV_EINVAL && reply->text.len > 0)
		answer_text(r, 400, "Bad request: %.*s", (int)reply->text.len, (const char *)reply->text.p);
	else
		api_finish(r, reply);
}

static bool
take_cas(struct request *r, struct autopilot_set *args)
{
	struct span text = params_get(&r->query, "cas");
	struct buf why = BUF_INIT(4096);

	args->Cas = params_has(&r->query, "cas");
	if (!args->Cas || u64_parse(text, &args->Index) == TV_OK)
		return true;
	u64_why(text, &why);
	answer_text(r, 400, "Bad request: Error parsing cas value: %s", buf_cstr(&why));
	buf_done(&why);
	return false;
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

static void
put_text(struct buf *b, const char *before, struct span text)
{
	buf_puts(b, before);
	json_quote(text, b);
}

static void
put_server(struct buf *b, const struct server_health *s)
{
	struct buf contact = BUF_INIT(64);

	duration_print(s->LastContact, &contact);
	json_quote(s->ID, b);
	put_text(b, ":{\"ID\":", s->ID);
	put_text(b, ",\"Name\":", s->Name);
	put_text(b, ",\"Address\":", s->Address);
	put_text(b, ",\"NodeStatus\":", s->SerfStatus);
	put_text(b, ",\"Version\":", s->Version);
	put_text(b, ",\"LastContact\":", buf_span(&contact));
	buf_printf(b, ",\"LastTerm\":%" PRIu64 ",\"LastIndex\":%" PRIu64 ",\"Healthy\":%s", s->LastTerm, s->LastIndex,
	    s->Healthy ? "true" : "false");
	put_text(b, ",\"StableSince\":", s->StableSince);
	if (s->Reason.len > 0)
		put_text(b, ",\"Reason\":", s->Reason);
	put_text(b, ",\"Status\":", span_str(s->Leader ? "leader" : s->Voter ? "voter" : "non-voter"));
	buf_puts(b, ",\"Meta\":null,\"NodeType\":\"voter\"}");
	buf_done(&contact);
}

static void
finish_state(struct request *r, const struct op_reply *reply)
{
	struct autopilot_health h = { 0 };
	const struct server_health *s;
	struct buf *b = &r->answer.body;
	struct span leader = SPAN_NONE;
	bool first = true;

	if (api_failed(r, reply) || !api_record(r, reply, &autopilot_health_schema, &h))
		return;
	s = h.Servers.v;
	for (uint32_t i = 0; i < h.Servers.n; i++)
		if (s[i].Leader)
			leader = s[i].ID;
	buf_printf(b, "{\"Healthy\":%s,\"FailureTolerance\":%" PRIu64 ",\"Servers\":{", h.Healthy ? "true" : "false",
	    h.FailureTolerance);
	for (uint32_t i = 0; i < h.Servers.n; i++) {
		buf_puts(b, i > 0 ? "," : "");
		put_server(b, &s[i]);
	}
	put_text(b, "},\"Leader\":", leader);
	buf_puts(b, ",\"Voters\":[");
	for (uint32_t i = 0; i < h.Servers.n; i++) {
		if (!s[i].Voter)
			continue;
		put_text(b, first ? "" : ",", s[i].ID);
		first = false;
	}
	buf_puts(b, "]}");
	answer_json(r);
}

const struct endpoint api_autopilot[] = {
	{ "/v1/operator/autopilot/configuration", "GET", ACCESS_OP, NULL, OP_AUTOPILOT_READ, .query = QUERY_READ },
	{ "/v1/operator/autopilot/configuration", "PUT", ACCESS_ADMIN, NULL, OP_AUTOPILOT_SET, BODY_JSON, QUERY_DC,
	    .run = run_set, .render = RENDER_VALUE, .finish = finish_set },
	{ "/v1/operator/autopilot/health", "GET", ACCESS_OP, NULL, OP_AUTOPILOT_HEALTH, .query = QUERY_READ,
	    .finish = finish_health },
	{ "/v1/operator/autopilot/state", "GET", ACCESS_OP, NULL, OP_AUTOPILOT_HEALTH, .query = QUERY_READ,
	    .finish = finish_state },
	{ .path = NULL },
};
