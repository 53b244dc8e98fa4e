/* /v1/agent/check/ and /v1/agent/checks: the checks of this node. */
#include "common/record/schema_json.h"
#include "common/text/json_text.h"
#include "rpcd/agent/checks.h"
#include "rpcd/api/api.h"

/* What a registration may say.  Checks that this version cannot run are read, to be refused by name. */
struct registration {
	struct span ID, CheckID, Name, Notes, Status, ServiceID;
	int64_t TTL, Interval, DeregisterCriticalServiceAfter;
	struct span HTTP, TCP, GRPC, H2PING, AliasNode, AliasService, DockerContainerID;
	struct span_list Args, ScriptArgs;
};

#define F(t_, f_) { .name = #f_, .type = (t_), .offset = offsetof(struct registration, f_) }
#define IGNORED(name_) { .name = (name_), .type = ST_CONST }
static const struct schema_field registration_fields[] = {
	F(ST_STR, ID),
	F(ST_STR, CheckID),
	F(ST_STR, Name),
	F(ST_STR, Notes),
	F(ST_STR, Status),
	F(ST_STR, ServiceID),
	F(ST_DURATION, TTL),
	F(ST_DURATION, Interval),
	F(ST_DURATION, DeregisterCriticalServiceAfter),
	F(ST_STR, HTTP),
	F(ST_STR, TCP),
	F(ST_STR, GRPC),
	F(ST_STR, H2PING),
	F(ST_STR, AliasNode),
	F(ST_STR, AliasService),
	F(ST_STR, DockerContainerID),
	F(ST_STRS, Args),
	F(ST_STRS, ScriptArgs),
	/* details of checks that need the check process */
	IGNORED("Method"), IGNORED("Header"), IGNORED("Body"), IGNORED("Timeout"), IGNORED("Shell"),
	IGNORED("TLSServerName"), IGNORED("TLSSkipVerify"), IGNORED("GRPCUseTLS"), IGNORED("OutputMaxSize"),
	IGNORED("SuccessBeforePassing"), IGNORED("FailuresBeforeCritical"), IGNORED("ProxyHTTP"), IGNORED("ProxyGRPC"),
	IGNORED("Namespace"),
};
static const struct schema registration_schema = {
	"CheckDefinition", registration_fields, sizeof(registration_fields) / sizeof(registration_fields[0]),
	sizeof(struct registration)
};

static bool
is_status(struct span s)
{
	return span_eqs(s, "passing") || span_eqs(s, "warning") || span_eqs(s, "critical");
}

/* Why the registration is refused, and with which status; NULL: it is fine. */
static const char *
refusal(const struct registration *g, unsigned *status)
{
	bool script = g->Args.n > 0 || g->ScriptArgs.n > 0;
	bool remote = g->HTTP.len + g->TCP.len + g->GRPC.len + g->H2PING.len + g->AliasNode.len + g->AliasService.len +
	    g->DockerContainerID.len > 0;

	*status = 400;
	if (g->Name.len == 0)
		return "Missing check name";
	if (g->Status.len > 0 && !is_status(g->Status))
		return "Bad check status";
	if (g->Interval > 0 && g->TTL > 0)
		return "Invalid check: Interval and TTL cannot both be specified";
	if ((script || remote) && g->Interval <= 0 && g->AliasNode.len == 0 && g->AliasService.len == 0)
		return "Invalid check: Interval must be > 0 for Script, HTTP, H2PING, or TCP checks";
	if (!script && !remote && g->TTL <= 0)
		return "Invalid check: TTL must be > 0 for TTL checks";
	*status = 500;
	if (script)
		return "Scripts are disabled on this agent from remote calls; "
		    "to enable, configure 'enable_script_checks' to true";
	*status = 400;
	if (remote)
		return "Invalid check: only TTL checks are supported by this version";
	return NULL;
}

/* The catalog has the change, or has had its time: 200. */
static void
on_settled(void *ctx)
{
	struct note *n = ctx;
	struct request *r = note_request(n);

	note_free(n);
	if (r != NULL)
		answer_empty(r, 200);
}

static void
answer_settled(struct request *r, struct span id)
{
	struct note *n = note_new(r);

	if (n == NULL)
		answer_empty(r, 200);
	else
		registry_settle(r->api->registry, ENTRY_CHECK, id, on_settled, n);
}

static void
run_register(struct request *r)
{
	struct registration g = { 0 };
	unsigned status;

	if (!api_decode(r, &registration_schema, SJ_STRICT | SJ_SNAKE, false, &g))
		return;
	const char *why = refusal(&g, &status);
	if (why != NULL) {
		answer_text(r, status, "%s", why);
		return;
	}
	struct span id = g.CheckID.len > 0 ? g.CheckID : g.ID.len > 0 ? g.ID : g.Name;
	enum tv_err err = registry_put(r->api->registry, &(struct local_record){
		.kind = ENTRY_CHECK, .ttl = g.TTL, .deregister_after = g.DeregisterCriticalServiceAfter,
		.check = { .CheckID = id, .Name = g.Name, .Notes = g.Notes, .Status = g.Status,
		    .ServiceID = g.ServiceID, .Type = span_str("ttl") },
	});
	if (err == TV_ENOENT)
		answer_text(r, 500, "ServiceID \"%.*s\" does not exist", (int)g.ServiceID.len,
		    (const char *)g.ServiceID.p);
	else if (err == TV_ELIMIT)
		answer_text(r, 500, "too many checks on this node (limit: checks_max in rpcd.conf)");
	else if (err != TV_OK)
		answer_text(r, 500, "%s", tv_strerror(err));
	else
		answer_settled(r, id);
}

static void
run_deregister(struct request *r)
{
	/* An unknown check is gone: that is success. */
	(void)registry_remove(r->api->registry, ENTRY_CHECK, r->rest);
	answer_settled(r, r->rest);
}

static void
update(struct request *r, struct span status, struct span output)
{
	enum tv_err err = checks_update(r->api->registry, r->rest, status, output);

	if (err == TV_ENOENT)
		answer_text(r, 500, "CheckID \"%.*s\" does not have associated TTL", (int)r->rest.len,
		    (const char *)r->rest.p);
	else if (err != TV_OK)
		answer_text(r, 500, "%s", tv_strerror(err));
	else
		answer_settled(r, r->rest);
}

enum { PASS, WARN, FAIL };

static void
run_note(struct request *r)
{
	static const char *const statuses[] = { [PASS] = "passing", [WARN] = "warning", [FAIL] = "critical" };

	update(r, span_str(statuses[r->endpoint->arg]), params_get(&r->query, "note"));
}

struct update_body {
	struct span Status, Output;
};
static const struct schema_field update_fields[] = {
	{ .name = "Status", .type = ST_STR, .offset = offsetof(struct update_body, Status) },
	{ .name = "Output", .type = ST_STR, .offset = offsetof(struct update_body, Output) },
};
static const struct schema update_schema = { "checkUpdate", update_fields, 2, sizeof(struct update_body) };

static void
run_update(struct request *r)
{
	struct update_body b = { 0 };

	if (!api_decode(r, &update_schema, SJ_SNAKE, false, &b))
		return;
	if (!is_status(b.Status))
		answer_text(r, 400, "Invalid check status: '%.*s'", (int)b.Status.len, (const char *)b.Status.p);
	else
		update(r, b.Status, b.Output);
}

static void
put_check(void *ctx, const struct local_record *rec)
{
	struct request *r = ctx;
	struct buf *out = &r->answer.body;

	buf_reset(&r->scratch);
	schema_pack(&check_schema, &rec->check, &r->scratch);
	if (r->scratch.failed || !api_passes(r, buf_span(&r->scratch))) {
		out->failed |= r->scratch.failed;
		return;
	}
	if (out->len > 1)
		buf_u8(out, ',');
	json_quote(rec->check.CheckID, out);
	buf_u8(out, ':');
	struct rd in = rd_span_over(buf_span(&r->scratch));
	(void)schema_json(&check_schema, &in, out);	/* well-formed: we packed it */
}

static void
run_checks(struct request *r)
{
	if (!api_filter_plain(r, &check_schema, ""))
		return;
	buf_u8(&r->answer.body, '{');
	registry_each(r->api->registry, ENTRY_CHECK, put_check, r);
	if (api_filter_failed(r))
		return;
	buf_u8(&r->answer.body, '}');
	answer_json(r);
}

const struct endpoint api_agent_checks[] = {
	{ "/v1/agent/checks", "GET", ACCESS_AGENT, .query = QUERY_CATALOG, .run = run_checks },
	{ "/v1/agent/check/register", "PUT", ACCESS_AGENT, .body = BODY_JSON, .run = run_register },
	{ "/v1/agent/check/deregister/", "PUT", ACCESS_AGENT, .missing = "Missing check ID", .run = run_deregister },
	{ "/v1/agent/check/pass/", "PUT", ACCESS_AGENT, .arg = PASS, .run = run_note },
	{ "/v1/agent/check/warn/", "PUT", ACCESS_AGENT, .arg = WARN, .run = run_note },
	{ "/v1/agent/check/fail/", "PUT", ACCESS_AGENT, .arg = FAIL, .run = run_note },
	{ "/v1/agent/check/update/", "PUT", ACCESS_AGENT, .body = BODY_JSON, .run = run_update },
	{ .path = NULL },
};
