/* Definitions of services and checks: what is read, what is refused, and with which words. */
#include <stdarg.h>
#include <stdio.h>

#include "common/base/addr.h"
#include "common/record/proxy_rules.h"
#include "common/record/schema_json.h"
#include "common/text/hostport.h"
#include "common/text/meta.h"
#include "rpcd/registry/registry.h"
#undef RECORD_SCHEMA_TITLED
#define RECORD_SCHEMA_TITLED RECORD_TABLE_TITLED
#include "rpcd/registry/definition.h"

#define REAP_MIN 60000000000		/* ns: a service stays at least so long, as Consul has it */
#define INTERVAL_MIN 1000000000		/* ns, as Consul has it */
#define TIME_MAX (INT64_C(86400) * 366 * 1000000000)
#define HEADERS_MAX 64			/* names */
#define METHOD_BYTES_MAX 24
#define RUN_BYTES_MAX (256u << 10)
#define WEIGHT_MAX 65535
#define PORT_MAX 65535
#define NAME_BYTES_MAX 1024		/* that the catalog takes */

/* -- checks -- */

/* What rpcd-check does with the text of a field: a kind of check is a row here and in check_def. */
#define PROBE(kind_, field_, ...) \
	{ .kind = #kind_, .name = #field_, .offset = offsetof(struct check_def, field_), __VA_ARGS__ }
static const struct probe {
	const char *kind, *name;
	size_t offset;
	bool dials;			/* the text is an address with a port */
	bool path;			/* up to a slash */
	bool runs_args;			/* Args are its own, and no script */
} PROBES[] = {
	PROBE(http, HTTP), PROBE(tcp, TCP, .dials = true), PROBE(udp, UDP, .dials = true),
	PROBE(grpc, GRPC, .dials = true, .path = true), PROBE(h2ping, H2PING, .dials = true),
	PROBE(docker, DockerContainerID, .runs_args = true),
};
#define PROBE_COUNT (sizeof(PROBES) / sizeof(PROBES[0]))

static struct span
probe_target(const struct check_def *d, const struct probe *p)
{
	return *(const struct span *)(const void *)((const char *)d + p->offset);
}

__attribute__((format(printf, 3, 4))) static unsigned
refuse(char why[DEFINITION_TEXT_MAX], unsigned status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, DEFINITION_TEXT_MAX, fmt, ap);
	va_end(ap);
	return status;
}

static bool
is_script(const struct check_def *d)
{
	return d->Args.n > 0 || d->ScriptArgs.n > 0;
}

static bool
is_probe(const struct check_def *d)
{
	for (size_t i = 0; i < PROBE_COUNT; i++)
		if (probe_target(d, &PROBES[i]).len > 0)
			return true;
	return false;
}

static bool
is_alias(const struct check_def *d)
{
	return d->AliasNode.len + d->AliasService.len > 0;
}

/* There is one namespace, and a definition may name it. */
static bool
is_default_namespace(struct span name)
{
	return name.len == 0 || span_eq_nocase(name, span_str("default"));
}

#define NO_NAMESPACES "Namespaces are a Consul Enterprise feature"

/* gRPC: what is behind the slash is a service's name there. */
static struct span
until_slash(struct span s)
{
	const uint8_t *slash = s.len == 0 ? NULL : memchr(s.p, '/', s.len);

	return slash == NULL ? s : span_of(s.p, (size_t)(slash - s.p));
}

static unsigned
addresses_refused(const struct check_def *d, char why[DEFINITION_TEXT_MAX])
{
	struct hostport to;

	for (size_t i = 0; i < PROBE_COUNT; i++) {
		struct span target = probe_target(d, &PROBES[i]);
		bool given = target.len > 0 && PROBES[i].dials;

		target = PROBES[i].path ? until_slash(target) : target;
		const char *text = given ? hostport_parse(target, &to) : NULL;
		if (text != NULL)
			return refuse(why, 400, "Invalid check: %s: address %.*s: %s", PROBES[i].name,
			    (int)(target.len > 256 ? 256 : target.len), (const char *)target.p, text);
	}
	return 0;
}

/* What is common to checks of nodes and of services. */
static unsigned
check_kind(const struct check_def *d, char why[DEFINITION_TEXT_MAX])
{
	bool runs = is_script(d) || is_probe(d);
	unsigned several = is_script(d);

	for (size_t i = 0; i < PROBE_COUNT; i++)
		several += !PROBES[i].runs_args && probe_target(d, &PROBES[i]).len > 0;
	if (!is_default_namespace(d->Namespace))
		return refuse(why, 400, NO_NAMESPACES);
	if (d->Interval > 0 && d->TTL > 0)
		return refuse(why, 400, "Invalid check: Interval and TTL cannot both be specified");
	if (d->UDP.len > 0 && d->Interval <= 0)
		return refuse(why, 400, "Invalid check: Interval must be > 0 for UDP checks");
	if (runs && d->Interval <= 0)
		return refuse(why, 400, "Invalid check: Interval must be > 0 for Script, HTTP, H2PING, or TCP checks");
	if (runs && is_alias(d))
		return refuse(why, 400, "Invalid check: Interval cannot be set for Alias checks");
	if (is_alias(d) && d->TTL > 0)
		return refuse(why, 400, "Invalid check: TTL must be not be set for Alias checks");
	if (!runs && !is_alias(d) && d->TTL <= 0)
		return refuse(why, 400, "Invalid check: TTL must be > 0 for TTL checks");
	if (d->DockerContainerID.len > 0 && !is_script(d))
		return refuse(why, 400, "Invalid check: DockerContainerID needs Args, what is run in the container");
	if (several > 1)
		return refuse(why, 400, "Invalid check: more than one of HTTP, TCP, UDP, GRPC, H2PING and Args");
	return addresses_refused(d, why);
}

/* -- how a check is run -- */

static bool
is_token(struct span s)
{
	static const char others[] = "!#$%&'*+-.^_`|~";

	for (size_t i = 0; i < s.len; i++)
		if (!((s.p[i] | 0x20) >= 'a' && (s.p[i] | 0x20) <= 'z') && !(s.p[i] >= '0' && s.p[i] <= '9') &&
		    (s.p[i] == 0 || strchr(others, s.p[i]) == NULL))
			return false;
	return s.len > 0;
}

static bool
add_lines(const char *name, json_t *values, struct arena *a, struct span_list *out)
{
	size_t i, old = out->n;
	json_t *value;
	struct span *v = arena_array(a, old + json_array_size(values), sizeof(*v));

	if (v == NULL || !json_is_array(values) || !is_token(span_str(name)))
		return false;
	if (old > 0)
		memcpy(v, out->v, old * sizeof(*v));
	json_array_foreach(values, i, value) {
		struct span text = span_of(json_string_value(value), json_string_length(value));

		if (!json_is_string(value) || text_has_controls(text))
			return false;
		v[out->n] = arena_printf(a, "%s: %.*s", name, (int)text.len, (const char *)text.p);
		if (v[out->n++].p == NULL)
			return false;
	}
	out->v = v;
	return true;
}

/* {"A": ["b", "c"]} to "A: b", "A: c". */
static bool
header_lines(struct span json, struct arena *a, struct span_list *out)
{
	char why[128];
	json_t *all = json.len == 0 ? NULL : json_first_value(json, why, sizeof(why)), *values;
	bool ok = json.len == 0 || json_is_object(all) || json_is_null(all);
	const char *name;

	json_object_foreach(all, name, values)
		ok = ok && json_object_size(all) <= HEADERS_MAX && add_lines(name, values, a, out);
	json_decref(all);
	return ok;
}

static size_t
list_bytes(const struct span_list *l)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < l->n; i++)
		bytes += l->v[i].len + 8;
	return bytes;
}

static uint64_t
positive(int64_t n)
{
	return n > 0 ? (uint64_t)n : 0;
}

/* Kind and Target; a TTL has neither. */
static struct check_run
run_of(const struct check_def *d)
{
	for (size_t i = 0; i < PROBE_COUNT; i++)
		if (probe_target(d, &PROBES[i]).len > 0)
			return (struct check_run){ .Kind = span_str(PROBES[i].kind),
			    .Target = probe_target(d, &PROBES[i]) };
	if (is_alias(d))
		return (struct check_run){ .Kind = span_str("alias"), .Target = d->AliasService };
	return (struct check_run){ .Kind = span_str(is_script(d) ? "script" : "") };
}

static unsigned
fill_run(const struct check_def *d, struct arena *a, struct check_run *out, char why[DEFINITION_TEXT_MAX])
{
	struct check_run run = run_of(d);
	bool h2ping = span_eqs(run.Kind, "h2ping");

	*out = run;
	if (run.Kind.len == 0)
		return 0;
	*out = (struct check_run){
		.Kind = run.Kind, .Target = run.Target, .Node = d->AliasNode, .Shell = d->Shell,
		.UseTLS = h2ping ? !span_eqs(d->H2PingUseTLS, "false") : span_eqs(run.Kind, "tcp") ? d->TCPUseTLS :
		    d->GRPCUseTLS,
		.DisableRedirects = d->DisableRedirects,
		.Interval = is_alias(d) ? 0 : d->Interval < INTERVAL_MIN ? INTERVAL_MIN :
		    d->Interval > TIME_MAX ? TIME_MAX : d->Interval,
		.Timeout = d->Timeout < 0 ? 0 : d->Timeout > TIME_MAX ? TIME_MAX : d->Timeout,
		.SuccessBeforePassing = positive(d->SuccessBeforePassing),
		.FailuresBeforeWarning = positive(d->FailuresBeforeWarning),
		.FailuresBeforeCritical = positive(d->FailuresBeforeCritical),
		.OutputMaxSize = positive(d->OutputMaxSize), .Method = d->Method, .Body = d->Body,
		.TLSSkipVerify = d->TLSSkipVerify, .TLSServerName = d->TLSServerName,
		.Args = d->Args.n > 0 ? d->Args : d->ScriptArgs,
	};
	if (d->Method.len > 0 && (!is_token(d->Method) || d->Method.len > METHOD_BYTES_MAX))
		return refuse(why, 400, "Invalid check: Method is not the name of an HTTP method");
	if (!header_lines(d->Header, a, &out->Header))
		return refuse(why, 400, "Invalid check: Header must be an object of lists of text, without control "
		    "characters");
	if (h2ping && d->H2PingUseTLS.len > 0 && !span_eqs(d->H2PingUseTLS, "true") &&
	    !span_eqs(d->H2PingUseTLS, "false"))
		return refuse(why, 400, "Invalid check: H2PingUseTLS is true or false");
	if (d->AliasNode.len > NAME_BYTES_MAX || d->AliasService.len > NAME_BYTES_MAX)
		return refuse(why, 400, "Invalid check: AliasNode or AliasService is longer than 1024 bytes");
	if (out->Target.len + d->Body.len + d->TLSServerName.len + d->Shell.len + list_bytes(&out->Header) +
	    list_bytes(&out->Args) > RUN_BYTES_MAX)
		return refuse(why, 400, "Invalid check: the definition is longer than 256 KiB");
	return 0;
}

static unsigned
fill_check(const struct check_def *d, struct arena *a, struct local_record *out, char why[DEFINITION_TEXT_MAX])
{
	int64_t after = d->DeregisterCriticalServiceAfter;

	*out = (struct local_record){
		.kind = ENTRY_CHECK, .ttl = d->TTL, .token = d->Token,
		.deregister_after = after > 0 && after < REAP_MIN ? REAP_MIN : after,
		.check = {
			.CheckID = d->CheckID.len > 0 ? d->CheckID : d->ID, .Name = d->Name, .Notes = d->Notes,
			.Status = d->Status, .ServiceID = d->ServiceID,
		},
	};
	unsigned status = fill_run(d, a, &out->run, why);
	out->check.Type = out->run.Kind.len > 0 ? out->run.Kind : span_str("ttl");
	return status;
}

/* Of the id that the check has in the end, whether it was given or follows from a name. */
static unsigned
id_refused(struct span id, char why[DEFINITION_TEXT_MAX])
{
	if (id.len > NAME_BYTES_MAX)
		return refuse(why, 400, "Check ID is longer than 1024 bytes");
	if (!check_id_reserved(id))
		return 0;
	return refuse(why, 400, "Check ID \"%.*s\" is reserved: serfHealth is the cluster's, "
	    NODE_MAINTENANCE " and " SERVICE_MAINTENANCE "* come with the endpoints for maintenance",
	    (int)(id.len < 256 ? id.len : 256), (const char *)id.p);
}

unsigned
definition_check(const struct check_def *d, struct arena *a, struct local_record *out,
    char why[DEFINITION_TEXT_MAX])
{
	unsigned status = fill_check(d, a, out, why);

	if (out->check.CheckID.len == 0)
		out->check.CheckID = d->Name;
	if (d->Name.len == 0)
		return refuse(why, 400, "Missing check name");
	if (d->Status.len > 0 && !entry_is_status(d->Status))
		return refuse(why, 400, "Bad check status");
	unsigned refused = id_refused(out->check.CheckID, why);
	if (refused != 0)
		return refused;
	if (d->Token.len > OP_NAME_BYTES_MAX)
		return refuse(why, 400, "Token is longer than 255 bytes");
	if (!schema_names_fit(&check_def_schema, d, why, DEFINITION_TEXT_MAX))
		return 400;
	unsigned kind = check_kind(d, why);
	return kind != 0 ? kind : status;
}

/* -- services -- */

static bool
is_any_address(struct span a)
{
	return span_eqs(a, "0.0.0.0") || span_eqs(a, "::") || span_eqs(a, "[::]");
}

static const char *
weights_refusal(const struct weights *w)
{
	if (w->Passing < 1)
		return "Passing must be greater than 0";
	if (w->Warning < 0)
		return "Warning must be greater or equal than 0";
	if (w->Passing > WEIGHT_MAX || w->Warning > WEIGHT_MAX)
		return "DNS Weight must be between 0 and 65535";
	return NULL;
}

static unsigned
meta_refused(const struct span_map *m, char why[DEFINITION_TEXT_MAX])
{
	if (m->n > META_PAIRS_MAX)
		return refuse(why, 400, "Invalid Service Meta: Node metadata cannot contain more than 64 "
		    "key/value pairs");
	for (uint32_t i = 0; i < m->n; i++) {
		struct span key = m->kv[i][0], value = m->kv[i][1];
		const char *text = meta_pair_refusal(key, value);

		if (text != NULL)
			return refuse(why, 400, "Invalid Service Meta: Couldn't load metadata pair ('%.*s', '%.*s'): "
			    "%s", (int)(key.len > 256 ? 256 : key.len), (const char *)key.p,
			    (int)(value.len > 256 ? 256 : value.len), (const char *)value.p, text);
	}
	return 0;
}

static unsigned
service_refused(const struct service_def *d, char why[DEFINITION_TEXT_MAX])
{
	const char *text;

	if (d->Name.len == 0)
		return refuse(why, 400, "Missing service name");
	if (!is_default_namespace(d->Namespace) || !is_default_namespace(d->Connect.SidecarService.Namespace))
		return refuse(why, 400, NO_NAMESPACES);
	if (is_any_address(d->Address))
		return refuse(why, 400, "Invalid service address");
	if (d->has_weights && (text = weights_refusal(&d->Weights)) != NULL)
		return refuse(why, 400, "Invalid Weights: %s", text);
	if (meta_refused(&d->Meta, why) != 0)
		return 400;
	if (d->Port < 0 || d->Port > PORT_MAX)
		return refuse(why, 400, "Invalid service port: it must be between 0 and 65535");
	if (d->Name.len > NAME_BYTES_MAX || d->ID.len > NAME_BYTES_MAX)
		return refuse(why, 400, "Service name or ID is longer than 1024 bytes");
	if (d->Token.len > OP_NAME_BYTES_MAX)
		return refuse(why, 400, "Token is longer than 255 bytes");
	return schema_names_fit(&service_def_schema, d, why, DEFINITION_TEXT_MAX) ? 0 : 400;
}

static bool
has_address(const struct obj_list *l, const char *name)
{
	const struct service_address *v = l->v;

	for (uint32_t i = 0; i < l->n; i++)
		if (span_eqs(v[i].Name, name))
			return true;
	return false;
}

/* An address of IPv4 or IPv6 is also what lan_ipv4 and wan_ipv4, or those of IPv6, say, if they were not given. */
static bool
tag_addresses(const struct service_def *d, struct arena *a, struct obj_list *out)
{
	static const char *const names[2][2] = { { "lan_ipv4", "wan_ipv4" }, { "lan_ipv6", "wan_ipv6" } };
	char text[ADDR_IP_BYTES];
	struct addr ip;

	*out = d->TaggedAddresses;
	if (!addr_parse_span(d->Address, 0, &ip))
		return true;			/* a name */
	struct service_address *v = arena_array(a, out->n + 2, sizeof(*v));
	if (v == NULL)
		return false;
	if (out->n > 0)
		memcpy(v, out->v, out->n * sizeof(*v));
	out->v = v;
	out->set = true;
	for (int i = 0; i < 2; i++) {
		const char *name = names[ip.len == 16][i];

		if (has_address(&d->TaggedAddresses, name))
			continue;
		v[out->n] = (struct service_address){ span_str(name), arena_copy(a, span_str(addr_ip(&ip, text))),
			(uint64_t)d->Port };
		if (v[out->n++].Address.p == NULL)
			return false;
	}
	return true;
}

/* Nothing at all was said of it. */
static bool
is_empty(const struct check_def *d)
{
	return d->ID.len + d->CheckID.len + d->Name.len + d->Notes.len + d->Status.len == 0 && d->TTL == 0 &&
	    d->Interval == 0 && d->DeregisterCriticalServiceAfter == 0 && !is_script(d) && !is_probe(d) &&
	    !is_alias(d);
}

/* Number i, from 1, of n checks of a service. */
static unsigned
service_check(const struct service_def *d, const struct check_def *c, unsigned i, unsigned n,
    struct arena *a, struct service_records *out, char why[DEFINITION_TEXT_MAX])
{
	struct local_record *rec = &out->checks[out->n++];
	struct span id = out->service.service.ID;
	unsigned status = check_kind(c, why);

	if (status != 0)
		return status;
	if (c->Status.len > 0 && !entry_is_status(c->Status))
		return refuse(why, 400, "Status for checks must 'passing', 'warning', 'critical'");
	if ((status = fill_check(c, a, rec, why)) != 0)
		return status;
	rec->token = out->service.token;
	rec->check.ServiceID = id;
	if (rec->check.CheckID.len == 0 && n > 1)
		rec->check.CheckID = arena_printf(a, "service:%.*s:%u", (int)id.len, (const char *)id.p, i);
	else if (rec->check.CheckID.len == 0)
		rec->check.CheckID = arena_printf(a, "service:%.*s", (int)id.len, (const char *)id.p);
	if (rec->check.Name.len == 0)
		rec->check.Name = arena_printf(a, "Service '%.*s' check", (int)d->Name.len, (const char *)d->Name.p);
	if (rec->check.CheckID.p == NULL || rec->check.Name.p == NULL)
		return refuse(why, 500, "%s", tv_strerror(TV_ENOMEM));
	return id_refused(rec->check.CheckID, why);
}

static unsigned
sidecar_refused(const struct service_def *d, char why[DEFINITION_TEXT_MAX])
{
	if (d->Connect.SidecarService.ID.len > 0)
		return refuse(why, 400, "A SidecarService cannot specify an ID as this is managed by the agent");
	if (d->Connect.SidecarService.Connect.len > 0)
		return refuse(why, 400, "A SidecarService cannot have a nested SidecarService");
	return 0;
}

/* As the catalog will have it: lists that are empty are none, and an upstream without a type is a service. */
static unsigned
take_proxy(const struct service_def *d, struct arena *a, struct service *out, char why[DEFINITION_TEXT_MAX])
{
	struct buf text = BUF_INIT(PROXY_WHY_MAX);
	struct service_proxy *p = &out->Proxy;
	unsigned status = sidecar_refused(d, why);

	*p = d->Proxy;
	out->Kind = d->Kind;
	out->Connect.Native = d->Connect.Native;
	if (status != 0)
		return status;
	if (p->DestinationServiceName.len > NAME_BYTES_MAX)
		return refuse(why, 400, "Proxy.DestinationServiceName is longer than 1024 bytes");
	if (!proxy_check(out, &text))
		status = refuse(why, 400, "%s", buf_cstr(&text));
	buf_done(&text);
	p->Expose.Paths.set = p->Expose.Paths.n > 0;
	p->Upstreams.set = p->Upstreams.n > 0;
	struct upstream *v = arena_array(a, p->Upstreams.n, sizeof(*v));
	if (v == NULL)
		return refuse(why, 500, "%s", tv_strerror(TV_ENOMEM));
	for (uint32_t i = 0; i < p->Upstreams.n; i++) {
		v[i] = ((const struct upstream *)d->Proxy.Upstreams.v)[i];
		if (v[i].DestinationType.len == 0)
			v[i].DestinationType = span_str("service");
	}
	p->Upstreams.v = v;
	return status;
}

unsigned
definition_service(const struct service_def *d, struct arena *a, struct service_records *out,
    char why[DEFINITION_TEXT_MAX])
{
	const struct check_def *checks = d->Checks.v;
	bool single = d->has_check && !is_empty(&d->Check);
	unsigned n = single + d->Checks.n, at = 1;
	unsigned status = service_refused(d, why);

	*out = (struct service_records){ .service = {
		.kind = ENTRY_SERVICE, .token = d->Token,
		.service = {
			.ID = d->ID.len > 0 ? d->ID : d->Name, .Service = d->Name, .Tags = d->Tags,
			.Address = d->Address, .Meta = d->Meta, .Port = (uint64_t)d->Port, .SocketPath = d->SocketPath,
			.Weights = d->has_weights ? d->Weights : (struct weights){ 1, 1 },
			.EnableTagOverride = d->EnableTagOverride,
		},
	} };
	if (status == 0)
		status = take_proxy(d, a, &out->service.service, why);
	if (status != 0)
		return status;
	out->checks = arena_array(a, n, sizeof(*out->checks));
	if (out->checks == NULL || !tag_addresses(d, a, &out->service.service.TaggedAddresses))
		return refuse(why, 500, "%s", tv_strerror(TV_ENOMEM));
	if (single)
		status = service_check(d, &d->Check, at++, n, a, out, why);
	for (uint32_t i = 0; i < d->Checks.n && status == 0; i++)
		status = service_check(d, &checks[i], at++, n, a, out, why);
	return status;
}

/* -- names of DNS -- */

#define LABEL_BYTES_MAX 63

static const char *
no_label(struct span name, bool dots)
{
	if (name.len == 0 || name.len > LABEL_BYTES_MAX)
		return "is longer than the 63 bytes of a label";
	for (size_t i = 0; i < name.len; i++) {
		uint8_t c = name.p[i];

		if (c == '.' && !dots)
			return "has a dot, which is the border between tag and service there";
		if (c <= ' ' || c > '~' || memchr("'@;()\"\\", c, 7) != NULL)
			return "has characters that are not found there: letters, digits and hyphens are";
	}
	return NULL;
}

bool
definition_hidden_from_dns(const struct service *s, char why[DEFINITION_TEXT_MAX])
{
	const char *wrong = no_label(s->Service, false);

	if (wrong != NULL) {
		snprintf(why, DEFINITION_TEXT_MAX, "Service name \"%.*s\" will not be discoverable via DNS: it %s",
		    (int)(s->Service.len < 128 ? s->Service.len : 128), (const char *)s->Service.p, wrong);
		return true;
	}
	for (uint32_t i = 0; i < s->Tags.n; i++) {
		struct span tag = s->Tags.v[i];

		if ((wrong = no_label(tag, true)) == NULL)
			continue;
		snprintf(why, DEFINITION_TEXT_MAX, "Service tag \"%.*s\" of \"%.*s\" will not be discoverable via DNS: "
		    "it %s", (int)(tag.len < 128 ? tag.len : 128), (const char *)tag.p, (int)s->Service.len,
		    (const char *)s->Service.p, wrong);
		return true;
	}
	return false;
}
