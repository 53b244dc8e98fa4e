/* Sidecars of services: a proxy with what follows from the service that it is for. */
#include <stdio.h>

#include "rpcd/registry/definition.h"

#define LOCALHOST "127.0.0.1"
#define CHECK_INTERVAL 10000000000	/* ns */

struct ports {
	struct span id;			/* of the sidecar */
	uint64_t own;			/* that it has; 0: none of the range */
	bool taken[SIDECAR_PORTS];
};

static void
take_port(void *ctx, const struct local_record *rec)
{
	struct ports *p = ctx;
	uint64_t port = rec->service.Port;

	if (port < SIDECAR_PORT_MIN || port > SIDECAR_PORT_MAX)
		return;
	p->taken[port - SIDECAR_PORT_MIN] = true;
	if (span_eq(rec->service.ID, p->id))
		p->own = port;
}

/* 0: none is left. */
static int64_t
find_port(struct registry *r, struct sidecar_ports *more, struct span id)
{
	struct ports p = { .id = id };

	if (r != NULL)
		registry_each(r, ENTRY_SERVICE, take_port, &p);
	if (p.own != 0)
		return (int64_t)p.own;
	for (int i = 0; i < SIDECAR_PORTS; i++)
		if (!p.taken[i] && (more == NULL || !more->taken[i])) {
			if (more != NULL)
				more->taken[i] = true;
			return SIDECAR_PORT_MIN + i;
		}
	return 0;
}

static void
default_to(struct span *to, struct span from)
{
	if (to->len == 0)
		*to = from;
}

static void
default_proxy(const struct service_def *d, struct span id, struct service_proxy *p)
{
	default_to(&p->DestinationServiceName, d->Name);
	default_to(&p->DestinationServiceID, id);
	if (d->SocketPath.len > 0) {
		default_to(&p->LocalServiceSocketPath, d->SocketPath);
		return;
	}
	default_to(&p->LocalServiceAddress, span_str(LOCALHOST));
	if (p->LocalServicePort == 0)
		p->LocalServicePort = (uint64_t)d->Port;
}

/* That it listens, and that its service is well. */
static bool
default_checks(struct service_def *s, struct span id, struct arena *a)
{
	struct check_def *v = arena_array(a, 2, sizeof(*v));
	struct span host = s->Proxy.LocalServiceAddress.len > 0 ? s->Proxy.LocalServiceAddress : span_str(LOCALHOST);
	bool v6 = memchr(host.p, ':', host.len) != NULL;

	if (v == NULL)
		return false;
	memset(v, 0, 2 * sizeof(*v));
	v[0].Name = span_str("Connect Sidecar Listening");
	v[0].TCP = arena_printf(a, "%s%.*s%s:%d", v6 ? "[" : "", (int)host.len, (const char *)host.p, v6 ? "]" : "",
	    (int)s->Port);
	v[0].Interval = CHECK_INTERVAL;
	v[1].Name = arena_printf(a, "Connect Sidecar Aliasing %.*s", (int)id.len, (const char *)id.p);
	v[1].AliasService = id;
	s->Checks = (struct obj_list){ .v = v, .n = 2, .set = true };
	return v[0].TCP.p != NULL && v[1].Name.p != NULL;
}

static struct span
named_after(struct arena *a, struct span name)
{
	return arena_printf(a, "%.*s" SIDECAR_SUFFIX, (int)name.len, (const char *)name.p);
}

static struct service_def
given(const struct sidecar_def *c)
{
	return (struct service_def){
		.Kind = c->Kind, .Name = c->Name, .Address = c->Address, .SocketPath = c->SocketPath, .Token = c->Token,
		.Tags = c->Tags, .Meta = c->Meta, .TaggedAddresses = c->TaggedAddresses, .Port = c->Port,
		.EnableTagOverride = c->EnableTagOverride, .has_weights = c->has_weights, .has_check = c->has_check,
		.Proxy = c->Proxy, .Weights = c->Weights, .Check = c->Check, .Checks = c->Checks,
	};
}

/* What is wrong with it is said of it. */
static unsigned
refused(unsigned status, char why[DEFINITION_TEXT_MAX])
{
	char text[DEFINITION_TEXT_MAX];

	if (status == 400 && strncmp(why, "Invalid Service Meta", 20) == 0) {
		status = 500;
		snprintf(text, sizeof(text), "Bad request: Invalid SidecarService: %.900s", why);
	} else {
		snprintf(text, sizeof(text), "Invalid SidecarService: %.900s", why);
	}
	snprintf(why, DEFINITION_TEXT_MAX, "%s", text);
	return status;
}

unsigned
definition_sidecar(const struct service_def *d, struct registry *r, struct sidecar_ports *more, struct arena *a,
    struct service_records *out, char why[DEFINITION_TEXT_MAX])
{
	struct span id = d->ID.len > 0 ? d->ID : d->Name;
	struct service_def s = given(&d->Connect.SidecarService);

	s.ID = named_after(a, id);
	default_to(&s.Name, named_after(a, d->Name));
	default_to(&s.Kind, span_str("connect-proxy"));
	default_to(&s.Address, d->Address);
	default_to(&s.Token, d->Token);
	if (s.Tags.n == 0)
		s.Tags = d->Tags;
	if (s.Meta.n == 0)
		s.Meta = d->Meta;
	default_proxy(d, id, &s.Proxy);
	if (s.Port == 0 && (s.Port = find_port(r, more, s.ID)) == 0) {
		snprintf(why, DEFINITION_TEXT_MAX, "no port provided for sidecar_service and none left in the "
		    "configured range [%d, %d]", SIDECAR_PORT_MIN, SIDECAR_PORT_MAX);
		return refused(400, why);
	}
	if (s.ID.p == NULL || s.Name.p == NULL) {
		snprintf(why, DEFINITION_TEXT_MAX, "%s", tv_strerror(TV_ENOMEM));
		return 500;
	}
	unsigned status = definition_service(&s, a, out, why);
	if (status == 0 && out->n == 0 && default_checks(&s, id, a))
		status = definition_service(&s, a, out, why);
	out->service.sidecar = true;
	return status != 0 ? refused(status, why) : 0;
}
