/* /v1/agent/check/ and /v1/agent/checks: the checks of this node. */
#include "common/record/schema_json.h"
#include "common/text/json_text.h"
#include "rpcd/api/audit.h"
#include "rpcd/api/v1/agent.h"
#include "rpcd/checks/checks.h"
#include "rpcd/registry/definition.h"

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

void
api_agent_settled(struct request *r, enum entry_kind kind, struct span id)
{
	struct note *n = note_new(r);

	if (n == NULL)
		answer_empty(r, 200);
	else
		registry_settle(r->api->registry, kind, id, on_settled, n);
}

struct span
api_agent_token(const struct request *r, struct span given)
{
	return given.len > 0 ? given : api_shown_token(r);
}

void
api_agent_refused(struct request *r, enum tv_err err)
{
	if (err == TV_ELIMIT)
		answer_text(r, 500, "too many services or checks on this node (limit: checks_max in rpcd.conf)");
	else
		answer_text(r, 500, "%s", tv_strerror(err));
}

bool
api_agent_may_run(struct request *r, const struct local_record *checks, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (checks[i].run.Args.n > 0 && !r->api->conf->enable_script_checks) {
			answer_text(r, 500, CHECKS_REMOTE_OFF);
			return false;
		}
	return true;
}

/* Of a service the right to its name; else that to this node. */
static bool
may_write_check(struct request *r, struct span service)
{
	if (service.len > 0)
		return api_must_write(r, ACL_SERVICE, service);
	return api_must_write(r, ACL_NODE, span_str(r->api->cluster->node_name));
}

bool
api_agent_may_change_check(struct request *r, struct span id)
{
	struct entry *e = api_is_free(r) ? NULL : registry_find(r->api->registry, ENTRY_CHECK, id);
	struct local_record rec;

	return e == NULL || !registry_get(e, &rec) || may_write_check(r, rec.check.ServiceName);
}

bool
api_agent_id_is_free(struct request *r, enum entry_kind kind, struct span id)
{
	struct entry *e = registry_alike(r->api->registry, kind, id);
	struct local_record rec;

	if (e == NULL || !registry_get(e, &rec))
		return true;
	struct span there = kind == ENTRY_CHECK ? rec.check.CheckID : rec.service.ID;
	answer_text(r, 400, "A %s with the ID \"%.*s\" is registered on this node, and IDs are compared without case",
	    kind == ENTRY_CHECK ? "check" : "service", SPAN_ARGS(there));
	return false;
}

/* The service that a new one is to belong to, and the one that has its id now. */
static bool
may_register(struct request *r, const struct local_record *rec)
{
	struct entry *e = rec->check.ServiceID.len == 0 ? NULL :
	    registry_find(r->api->registry, ENTRY_SERVICE, rec->check.ServiceID);
	struct local_record service = { .kind = ENTRY_SERVICE };

	if (api_is_free(r) || (rec->check.ServiceID.len > 0 && (e == NULL || !registry_get(e, &service))))
		return true;		/* or it will be refused */
	return may_write_check(r, e == NULL ? SPAN_NONE : service.service.Service) &&
	    api_agent_may_change_check(r, rec->check.CheckID);
}

static void
run_register(struct request *r)
{
	struct check_def d = { 0 };
	struct local_record rec;
	char why[DEFINITION_TEXT_MAX];

	if (!api_decode(r, &check_def_schema, SJ_STRICT | SJ_SNAKE, false, &d))
		return;
	if (!api_body_token_gate(r, d.Token))
		return;
	d.Token = api_agent_token(r, d.Token);
	unsigned status = definition_check(&d, &r->arena, &rec, why);
	if (status != 0) {
		answer_text(r, status, "%s", why);
		return;
	}
	if (!may_register(r, &rec) || !api_agent_id_is_free(r, ENTRY_CHECK, rec.check.CheckID) ||
	    !api_agent_may_run(r, &rec, 1))
		return;
	audit_about(r, rec.check.CheckID);
	enum tv_err err = registry_put(r->api->registry, &rec);
	if (err == TV_ENOENT)
		answer_text(r, 500, "ServiceID \"%.*s\" does not exist", SPAN_ARGS(d.ServiceID));
	else if (err != TV_OK)
		api_agent_refused(r, err);
	else
		api_agent_settled(r, ENTRY_CHECK, rec.check.CheckID);
}

static void
run_deregister(struct request *r)
{
	if (!api_agent_may_change_check(r, r->rest))
		return;
	/* An unknown check is gone: that is success. */
	(void)registry_remove(r->api->registry, ENTRY_CHECK, r->rest);
	api_agent_settled(r, ENTRY_CHECK, r->rest);
}

static void
update(struct request *r, struct span status, struct span output)
{
	enum tv_err err;

	if (!api_agent_may_change_check(r, r->rest))
		return;
	err = checks_update(r->api->registry, r->rest, status, output);
	if (err == TV_ENOENT)
		answer_text(r, 500, "CheckID \"%.*s\" does not have associated TTL", SPAN_ARGS(r->rest));
	else if (err != TV_OK)
		answer_text(r, 500, "%s", tv_strerror(err));
	else
		api_agent_settled(r, ENTRY_CHECK, r->rest);
}

enum { PASS, WARN, FAIL };

static void
run_note(struct request *r)
{
	static const char *const statuses[] = { [PASS] = "passing", [WARN] = "warning", [FAIL] = "critical" };

	update(r, span_str(statuses[r->endpoint->arg]), params_get(&r->query, "note"));
}

RECORD_LOCAL_TITLED("checkUpdate", check_update, (STR, Status), (STR, Output))

static void
run_update(struct request *r)
{
	struct check_update b = { 0 };

	if (!api_decode(r, &check_update_schema, SJ_SNAKE, false, &b))
		return;
	if (!entry_is_status(b.Status))
		answer_text(r, 400, "Invalid check status: '%.*s'", SPAN_ARGS(b.Status));
	else
		update(r, b.Status, b.Output);
}

static bool
shows_check(const struct request *r, const struct check *c)
{
	if (c->ServiceName.len > 0)
		return api_may(r, ACL_SERVICE, c->ServiceName, ACL_READ);
	return api_may(r, ACL_NODE, span_str(r->api->cluster->node_name), ACL_READ);
}

void
api_agent_put(struct request *r, struct span id, const struct schema *s, const void *rec)
{
	struct buf *out = &r->answer.body;

	buf_reset(&r->scratch);
	schema_pack(s, rec, &r->scratch);
	if (r->scratch.failed || !api_passes(r, buf_span(&r->scratch))) {
		out->failed |= r->scratch.failed;
		return;
	}
	buf_puts(out, out->len > 1 ? "," : "");
	json_quote(id, out);
	buf_u8(out, ':');
	struct rd in = rd_span_over(buf_span(&r->scratch));
	(void)schema_json(s, &in, out);		/* well-formed: we packed it */
}

void
api_agent_list(struct request *r, enum entry_kind kind, void (*put)(void *ctx, const struct local_record *rec))
{
	buf_u8(&r->answer.body, '{');
	registry_each(r->api->registry, kind, put, r);
	if (api_filter_failed(r))
		return;
	buf_u8(&r->answer.body, '}');
	api_filtered_header(r);
	answer_json(r);
}

static void
put_check(void *ctx, const struct local_record *rec)
{
	struct request *r = ctx;

	if (shows_check(r, &rec->check))
		api_agent_put(r, rec->check.CheckID, &check_schema, &rec->check);
	else
		r->hidden = true;
}

static void
run_checks(struct request *r)
{
	if (api_filter_plain(r, &check_schema, ""))
		api_agent_list(r, ENTRY_CHECK, put_check);
}

const struct endpoint api_agent_checks[] = {
	{ "/v1/agent/checks", "GET", ACCESS_SHOWN, .run = run_checks },
	{ "/v1/agent/check/register", "PUT", ACCESS_NAMED, .body = BODY_JSON, .run = run_register },
	{ "/v1/agent/check/deregister/", "PUT", ACCESS_NAMED, .missing = "Missing check ID",
	    .flags = ANY_NAME, .run = run_deregister },
	{ "/v1/agent/check/pass/", "PUT", ACCESS_NAMED, .arg = PASS, .run = run_note },
	{ "/v1/agent/check/warn/", "PUT", ACCESS_NAMED, .arg = WARN, .run = run_note },
	{ "/v1/agent/check/fail/", "PUT", ACCESS_NAMED, .arg = FAIL, .run = run_note },
	{ "/v1/agent/check/update/", "PUT", ACCESS_NAMED, .body = BODY_JSON, .run = run_update },
	{ .path = NULL },
};
