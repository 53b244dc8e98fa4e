/* /v1/agent/health/service/: how the services of this node are, by what this node knows. */
#include "rpcd/api/v1/agent.h"

#define NO_DEFINITION "{\"Interval\":\"0s\",\"Timeout\":\"0s\",\"DeregisterCriticalServiceAfter\":\"0s\"," \
	"\"HTTP\":\"\",\"Header\":null,\"Method\":\"\",\"Body\":\"\",\"TLSServerName\":\"\",\"TLSSkipVerify\":false," \
	"\"TCP\":\"\"}"

/* A check as these endpoints show it: without what makes it. */
RECORD_LOCAL(agent_health_check,
	(STR, Node), (STR, CheckID), (STR, Name), (STR, Status), (STR, Notes), (STR, Output), (STR, ServiceID),
	(STR, ServiceName), (STRS, ServiceTags, SF_NULLEMPTY), (CONST, Type, "\"\""),
	(CONST, Definition, NO_DEFINITION),
	(U64, CreateIndex), (U64, ModifyIndex))

enum state { PASSING, WARNING, CRITICAL, MAINTENANCE };
static const struct {
	const char *name;
	unsigned status;
} states[] = {
	[PASSING] = { "passing", 200 },
	[WARNING] = { "warning", 429 },
	[CRITICAL] = { "critical", 503 },
	[MAINTENANCE] = { "maintenance", 503 },
};

struct instance {			/* of the service that is asked for */
	struct instance *next;
	struct span id;
};

struct search {
	struct request *r;
	struct instance *first, **end;
	bool failed;			/* no memory */
};

static void
add_instance(void *ctx, const struct local_record *rec)
{
	struct search *s = ctx;
	struct instance *i;

	if (!span_eq(rec->service.Service, s->r->rest))
		return;
	i = arena_alloc(&s->r->arena, sizeof(*i));
	if (i != NULL)
		i->id = arena_copy(&s->r->arena, rec->service.ID);
	s->failed = s->failed || i == NULL || i->id.p == NULL;
	if (s->failed)
		return;
	*s->end = i;
	s->end = &i->next;
}

/* The checks of one instance: its own, and those of the node. */
struct checks {
	struct buf *out;		/* of a JSON list */
	enum state worst;
};

static enum state
state_of(const struct check *c)
{
	if (span_eqs(c->CheckID, NODE_MAINTENANCE) || span_starts(c->CheckID, span_str(SERVICE_MAINTENANCE)))
		return MAINTENANCE;
	return span_eqs(c->Status, "passing") ? PASSING : span_eqs(c->Status, "warning") ? WARNING : CRITICAL;
}

static void
put_check(void *ctx, const struct local_record *rec)
{
	struct checks *k = ctx;
	const struct check *c = &rec->check;
	struct agent_health_check shown = {
		.Node = c->Node, .CheckID = c->CheckID, .Name = c->Name, .Status = c->Status, .Notes = c->Notes,
		.Output = c->Output, .ServiceID = c->ServiceID, .ServiceName = c->ServiceName,
		.ServiceTags = { c->ServiceTags.v, c->ServiceTags.n, c->ServiceTags.n > 0 },
	};

	buf_puts(k->out, k->out->len > 0 ? "," : "");
	schema_json_rec(&agent_health_check_schema, &shown, k->out);
	if (state_of(c) > k->worst)
		k->worst = state_of(c);
}

static enum state
put_instance(struct request *r, struct span id)
{
	struct entry *e = registry_find(r->api->registry, ENTRY_SERVICE, id);
	struct buf list = BUF_INIT(r->answer.body.max);
	struct checks k = { .out = &list };
	struct buf *out = &r->answer.body;
	struct local_record rec;

	registry_checks_of(r->api->registry, id, put_check, &k);
	buf_printf(out, "{\"AggregatedStatus\":\"%s\",\"Service\":", states[k.worst].name);
	if (e != NULL && registry_get(e, &rec))
		api_agent_service_json(r, &rec.service, out);
	else
		out->failed = true;
	buf_puts(out, ",\"Checks\":[");
	buf_putspan(out, buf_span(&list));
	buf_puts(out, "]}");
	out->failed |= list.failed;
	buf_done(&list);
	return k.worst;
}

static bool
wants_text(const struct request *r)
{
	struct span format = params_get(&r->query, "format");

	return (r->head.accept != NULL && strncmp(r->head.accept, "text/plain", 10) == 0) || span_eqs(format, "text");
}

/* As JSON what is in the answer's body, as text the reason. */
static void
answer_health(struct request *r, unsigned status, const char *reason)
{
	answer_headerf(r, "X-Consul-Reason", "%s", reason);
	if (!wants_text(r)) {
		answer_json_status(r, status);
		return;
	}
	buf_reset(&r->answer.body);
	buf_puts(&r->answer.body, reason);
	answer_header(r, "Content-Type", "text/plain");
	answer_finish(r, status);
}

static void
not_found(struct request *r, bool by_id)
{
	/* A header is one line. */
	char *name = path_printable(r->rest) ? arena_cstr(&r->arena, r->rest) : NULL;
	char *reason = NULL;

	if (name != NULL)
		reason = arena_cstr(&r->arena, arena_printf(&r->arena, by_id ? "ServiceId %s not found" :
		    "ServiceName %s Not Found", name));
	if (by_id && wants_text(r) && reason != NULL) {		/* as Consul: a text that says that it is JSON */
		answer_headerf(r, "X-Consul-Reason", "%s", reason);
		buf_puts(&r->answer.body, reason);
		answer_json_status(r, 404);
		return;
	}
	buf_puts(&r->answer.body, by_id ? "{\"AggregatedStatus\":\"critical\",\"Service\":null,\"Checks\":null}" :
	    "[]");
	answer_health(r, 404, reason != NULL ? reason : "not found");
}

static void
run_by_id(struct request *r)
{
	struct entry *e = registry_find(r->api->registry, ENTRY_SERVICE, r->rest);
	struct local_record rec;

	if (e == NULL || !registry_get(e, &rec)) {
		not_found(r, true);
	} else if (!api_may(r, ACL_SERVICE, rec.service.Service, ACL_READ)) {
		answer_text(r, 403, "Permission denied");
	} else {
		enum state s = put_instance(r, r->rest);

		answer_health(r, states[s].status, states[s].name);
	}
}

static void
run_by_name(struct request *r)
{
	struct search found = { .r = r };
	enum state worst = PASSING;

	found.end = &found.first;
	if (!api_must(r, ACL_SERVICE, r->rest, ACL_READ))
		return;
	registry_each(r->api->registry, ENTRY_SERVICE, add_instance, &found);
	if (found.failed) {
		answer_text(r, 500, "%s", tv_strerror(TV_ENOMEM));
		return;
	}
	if (found.first == NULL) {
		not_found(r, false);
		return;
	}
	for (const struct instance *i = found.first; i != NULL; i = i->next) {
		buf_u8(&r->answer.body, i == found.first ? '[' : ',');
		enum state s = put_instance(r, i->id);

		if (states[s].status > states[worst].status)
			worst = s;
	}
	buf_u8(&r->answer.body, ']');
	answer_health(r, states[worst].status, states[worst].name);
}

const struct endpoint api_agent_health[] = {
	{ "/v1/agent/health/service/id/", "GET", ACCESS_NAMED, .missing = "Bad request: Missing serviceID",
	    .run = run_by_id },
	{ "/v1/agent/health/service/name/", "GET", ACCESS_NAMED, .missing = "Bad request: Missing service Name",
	    .run = run_by_name },
	{ .path = NULL },
};
