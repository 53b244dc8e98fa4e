/* /v1/agent/service/ and /v1/agent/services: the services of this node, and its maintenance. */
#include <sodium.h>

#include "common/base/log.h"
#include "common/record/proxy_rules.h"
#include "common/record/schema_json.h"
#include "rpcd/api/audit.h"
#include "rpcd/api/v1/agent.h"
#include "rpcd/registry/definition.h"
#include "rpcd/registry/registry_loop.h"

/* Services, with their proxies, as the agent shows them: what is empty is left out where the catalog has it. */
static RECORD_TABLE(agent_upstream, upstream,
	(STR, DestinationType), (STR, DestinationName), (STR, Datacenter, SF_OMITEMPTY),
	(STR, LocalBindAddress, SF_OMITEMPTY), (U64, LocalBindPort, SF_OMITEMPTY),
	(STR, LocalBindSocketPath, SF_OMITEMPTY), (STR, LocalBindSocketMode, SF_OMITEMPTY),
	(JSON, Config, SF_OMITEMPTY), (OBJ, MeshGateway, mesh_gateway))
static RECORD_TABLE(agent_proxy, service_proxy,
	(STR, DestinationServiceName, SF_OMITEMPTY), (STR, DestinationServiceID, SF_OMITEMPTY),
	(STR, LocalServiceAddress, SF_OMITEMPTY), (U64, LocalServicePort, SF_OMITEMPTY),
	(STR, LocalServiceSocketPath, SF_OMITEMPTY), (STR, Mode, SF_OMITEMPTY),
	(OBJ, TransparentProxy, transparent_proxy, SF_OMITEMPTY | SF_NILEMPTY), (JSON, Config, SF_OMITEMPTY),
	(OBJS, Upstreams, agent_upstream, SF_OMITEMPTY), (OBJ, MeshGateway, mesh_gateway), (OBJ, Expose, expose))
struct agent_proxy { struct service_proxy of; };
RECORD_LOCAL(agent_service,
	(STR, Kind, SF_OMITEMPTY), (STR, ID), (STR, Service), (STRS, Tags), (MAP, Meta), (U64, Port), (STR, Address),
	(STR, SocketPath), (OBJMAP, TaggedAddresses, service_address, SF_OMITEMPTY), (OBJ, Weights, weights),
	(BOOL, EnableTagOverride), (STR, ContentHash, SF_OMITEMPTY), (OPT, Proxy, has_proxy, agent_proxy, SF_OMITEMPTY),
	(OBJ, Connect, service_connect, SF_OMITEMPTY | SF_NILEMPTY), (STR, Datacenter))

static struct agent_service
shown(const struct request *r, const struct service *s)
{
	return (struct agent_service){
		.ID = s->ID, .Service = s->Service, .Tags = s->Tags, .Meta = s->Meta, .Port = s->Port,
		.Address = s->Address, .SocketPath = s->SocketPath, .TaggedAddresses = s->TaggedAddresses,
		.Weights = s->Weights, .EnableTagOverride = s->EnableTagOverride,
		.Datacenter = span_str(r->api->cluster->datacenter),
		.Kind = s->Kind, .has_proxy = proxy_kind(s->Kind), .Proxy = { s->Proxy }, .Connect = s->Connect,
	};
}

void
api_agent_service_json(const struct request *r, const struct service *s, struct buf *out)
{
	struct agent_service a = shown(r, s);

	schema_json_rec(&agent_service_schema, &a, out);
}

/* -- register, deregister -- */

static bool
is_asked(const struct request *r, const char *name)
{
	struct span v = params_get(&r->query, name);

	return params_has(&r->query, name) && (v.len == 0 || params_bool(v) == 1);
}

/* The service that has this id now, if there is one; false: answered. */
static bool
may_change(struct request *r, struct span id)
{
	struct entry *e = api_is_free(r) ? NULL : registry_find(r->api->registry, ENTRY_SERVICE, id);
	struct local_record rec;

	return e == NULL || !registry_get(e, &rec) || api_must_write(r, ACL_SERVICE, rec.service.Service);
}

/* By its name; a proxy is found as an instance of what it stands for, too. */
static bool
may_register(struct request *r, const struct service *s)
{
	struct span stands_for = s->Proxy.DestinationServiceName;

	return api_must_write(r, ACL_SERVICE, s->Service) &&
	    (!span_eqs(s->Kind, "connect-proxy") || api_must_write(r, ACL_SERVICE, stands_for)) && may_change(r, s->ID);
}

/* The same of a service with the checks that come with it: each as if it came alone. */
static bool
may_register_all(struct request *r, const struct service_records *v)
{
	if (!may_register(r, &v->service.service) || !api_agent_id_is_free(r, ENTRY_SERVICE, v->service.service.ID))
		return false;
	for (uint32_t i = 0; i < v->n; i++)
		if (!api_agent_may_change_check(r, v->checks[i].check.CheckID) ||
		    !api_agent_id_is_free(r, ENTRY_CHECK, v->checks[i].check.CheckID))
			return false;
	return api_agent_may_run(r, v->checks, v->n);
}

static bool
tokens_may_pass(struct request *r, const struct check_def *single, const struct obj_list *checks)
{
	const struct check_def *v = checks->v;
	bool good = api_body_token_gate(r, single->Token);

	for (uint32_t i = 0; i < checks->n && good; i++)
		good = api_body_token_gate(r, v[i].Token);
	return good;
}

/* Of the service, its sidecar, and the checks of both.  False: answered. */
static bool
all_tokens_may_pass(struct request *r, const struct service_def *d)
{
	const struct sidecar_def *s = &d->Connect.SidecarService;

	return api_body_token_gate(r, d->Token) && tokens_may_pass(r, &d->Check, &d->Checks) &&
	    api_body_token_gate(r, s->Token) && tokens_may_pass(r, &s->Check, &s->Checks);
}

static void
run_register(struct request *r)
{
	struct service_def d = { 0 };
	struct service_records v, sidecar = { .n = 0 };
	struct registry *registry = r->api->registry;
	char why[DEFINITION_TEXT_MAX], safe[DEFINITION_TEXT_MAX * 2];

	if (!api_decode(r, &service_def_schema, SJ_STRICT | SJ_SNAKE, false, &d))
		return;
	if (!all_tokens_may_pass(r, &d))
		return;
	d.Token = api_agent_token(r, d.Token);
	unsigned status = definition_service(&d, &r->arena, &v, why);
	if (status == 0 && d.Connect.has_sidecar)
		status = definition_sidecar(&d, registry, NULL, &r->arena, &sidecar, why);
	if (status != 0) {
		answer_text(r, status, "%s", why);
		return;
	}
	if (!may_register_all(r, &v) || (d.Connect.has_sidecar && !may_register_all(r, &sidecar)))
		return;
	audit_about(r, v.service.service.ID);
	bool replace = is_asked(r, "replace-existing-checks");
	if (registry_find(registry, ENTRY_SERVICE, v.service.service.ID) == NULL &&
	    definition_hidden_from_dns(&v.service.service, why))
		log_warn("agent", "%s", log_safe(span_str(why), safe, sizeof(safe)));
	enum tv_err err = registry_put_service(registry, &v.service, v.checks, v.n, replace);
	if (err == TV_OK && d.Connect.has_sidecar)
		err = registry_put_service(registry, &sidecar.service, sidecar.checks, sidecar.n, replace);
	if (err != TV_OK)
		api_agent_refused(r, err);
	else
		api_agent_settled(r, ENTRY_SERVICE, v.service.service.ID);
}

static void
run_deregister(struct request *r)
{
	if (!may_change(r, r->rest))
		return;
	/* An unknown service is gone: that is success. */
	(void)registry_remove(r->api->registry, ENTRY_SERVICE, r->rest);
	api_agent_settled(r, ENTRY_SERVICE, r->rest);
}

/* -- all of them -- */

static void
put_service(void *ctx, const struct local_record *rec)
{
	struct request *r = ctx;
	struct agent_service a = shown(r, &rec->service);

	if (api_shows(r, ACL_SERVICE, a.Service))
		api_agent_put(r, a.ID, &agent_service_schema, &a);
}

static void
run_services(struct request *r)
{
	if (api_filter_plain(r, &agent_service_schema, "Failed to create boolean expression evaluator: "))
		api_agent_list(r, ENTRY_SERVICE, put_service);
}

/* -- one of them, or its next state -- */

#define HASH_CHARS 16

/* ?hash: what the client has seen, of all that is shown. */
static void
show_service(struct request *r)
{
	struct entry *e = registry_find(r->api->registry, ENTRY_SERVICE, r->rest);
	uint8_t digest[crypto_generichash_BYTES_MIN];
	struct buf *out = &r->answer.body;
	char hash[HASH_CHARS + 1];
	struct local_record rec;
	struct local_read *w;

	if (e == NULL || !registry_get(e, &rec)) {
		answer_text(r, 404, "unknown service ID: %.*s", SPAN_ARGS(r->rest));
		return;
	}
	struct agent_service a = shown(r, &rec.service);
	if (!api_may(r, ACL_SERVICE, a.Service, ACL_READ)) {
		answer_text(r, 403, "Permission denied");
		return;
	}
	schema_json_rec(&agent_service_schema, &a, out);
	crypto_generichash(digest, sizeof(digest), out->data, out->len, NULL, 0);
	sodium_bin2hex(hash, sizeof(hash), digest, HASH_CHARS / 2);
	buf_reset(out);
	if (span_eqs(params_get(&r->query, "hash"), hash) && (w = api_may_wait(r)) != NULL) {
		registry_wait(r->api->registry, &w->wait, w->left, api_news, r);
		return;
	}
	a.ContentHash = span_str(hash);
	schema_json_rec(&agent_service_schema, &a, out);
	answer_headerf(r, "X-Consul-ContentHash", "%s", hash);
	answer_json(r);
}

static void
run_service(struct request *r)
{
	api_read_local(r, show_service);
}

/* -- maintenance -- */

#define DEFAULT_REASON(of_) "Maintenance mode is enabled for this " of_ ", but no reason was provided. " \
	"This is a default message."

/* ?enable; false: answered. */
static bool
take_enable(struct request *r, bool *on)
{
	struct span text = params_get(&r->query, "enable");
	int v = params_bool(text);

	if (!params_has(&r->query, "enable") || text.len == 0)
		answer_text(r, 400, "Missing value for enable");
	else if (v < 0)
		answer_text(r, 400, "Invalid value for enable: \"%.*s\"", SPAN_ARGS(text));
	*on = v == 1;
	return !r->answered;
}

/* The check of this id says it; of the service, or of the node. */
static void
set_maintenance(struct request *r, struct span id, struct span service, bool on)
{
	struct span reason = params_get(&r->query, "reason");
	bool is_on = registry_find(r->api->registry, ENTRY_CHECK, id) != NULL;
	const char *standard = service.len > 0 ? DEFAULT_REASON("service") : DEFAULT_REASON("node");
	enum tv_err err = TV_OK;

	if (on && !is_on)		/* else its first reason stays */
		err = registry_put(r->api->registry, &(struct local_record){
			.kind = ENTRY_CHECK, .token = api_agent_token(r, SPAN_NONE),
			.check = {
				.CheckID = id, .ServiceID = service, .Status = span_str("critical"),
				.Name = span_str(service.len > 0 ? "Service Maintenance Mode" :
				    "Node Maintenance Mode"),
				.Notes = reason.len > 0 ? reason : span_str(standard), .Type = span_str("maintenance"),
			},
		});
	else if (!on && is_on)
		err = registry_remove(r->api->registry, ENTRY_CHECK, id);
	if (err == TV_OK)
		api_agent_settled(r, ENTRY_CHECK, id);
	else
		api_agent_refused(r, err);
}

static void
run_node_maintenance(struct request *r)
{
	bool on;

	if (take_enable(r, &on))
		set_maintenance(r, span_str(NODE_MAINTENANCE), SPAN_NONE, on);
}

static void
run_service_maintenance(struct request *r)
{
	struct span id;
	bool on;

	if (!take_enable(r, &on))
		return;
	if (registry_find(r->api->registry, ENTRY_SERVICE, r->rest) == NULL) {
		answer_text(r, 404, "No service registered with ID \"%.*s\"", SPAN_ARGS(r->rest));
		return;
	}
	if (!may_change(r, r->rest))
		return;
	id = arena_printf(&r->arena, SERVICE_MAINTENANCE "%.*s", SPAN_ARGS(r->rest));
	if (id.p == NULL)
		answer_text(r, 500, "%s", tv_strerror(TV_ENOMEM));
	else
		set_maintenance(r, id, r->rest, on);
}

const struct endpoint api_agent_services[] = {
	{ "/v1/agent/services", "GET", ACCESS_SHOWN, .run = run_services },
	{ "/v1/agent/service/", "GET", ACCESS_NAMED, .run = run_service },
	{ "/v1/agent/service/register", "PUT", ACCESS_NAMED, .body = BODY_JSON, .run = run_register },
	{ "/v1/agent/service/deregister/", "PUT", ACCESS_NAMED, .missing = "Missing service ID",
	    .flags = ANY_NAME, .run = run_deregister },
	{ "/v1/agent/service/maintenance/", "PUT", ACCESS_NAMED, .missing = "Missing service ID",
	    .run = run_service_maintenance },
	{ "/v1/agent/maintenance", "PUT", ACCESS_NODE_WRITE, .run = run_node_maintenance },
	{ .path = NULL },
};
