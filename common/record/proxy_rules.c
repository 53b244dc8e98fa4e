/* The rules of proxies and gateways. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/record/proxy_rules.h"

#define FOUND_MAX 16			/* told at once; more are not needed to mend them */
#define PORT_MAX 65535

struct found {				/* what is wrong so far */
	struct buf text;
	unsigned n;
};

static void wrong(struct found *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void
wrong(struct found *w, const char *fmt, ...)
{
	va_list ap;

	if (w->n == FOUND_MAX)
		return;
	w->n++;
	buf_puts(&w->text, "\t* ");
	va_start(ap, fmt);
	buf_vprintf(&w->text, fmt, ap);
	va_end(ap);
	buf_puts(&w->text, "\n");
}

bool
proxy_is_given(const struct service *s)
{
	struct buf packed = BUF_INIT(SCHEMA_TEXT_BYTES_MAX), none = BUF_INIT(4096);
	bool given = s->Connect.Native;

	schema_pack(&service_proxy_schema, &s->Proxy, &packed);
	schema_pack(&service_proxy_schema, &(struct service_proxy){ .Mode = SPAN_NONE }, &none);
	given = given || packed.failed || !span_eq(buf_span(&packed), buf_span(&none));
	buf_done(&packed);
	buf_done(&none);
	return given;
}

static bool
is_gateway(struct span kind)
{
	return span_eqs(kind, "mesh-gateway") || span_eqs(kind, "terminating-gateway") ||
	    span_eqs(kind, "ingress-gateway");
}

bool
proxy_kind(struct span kind)
{
	return span_eqs(kind, "connect-proxy") || is_gateway(kind);
}

/* -- upstreams -- */

static struct span
type_of(const struct upstream *u)
{
	return u->DestinationType.len == 0 ? span_str("service") : u->DestinationType;
}

static struct span
address_of(const struct upstream *u)
{
	return u->LocalBindAddress.len == 0 ? span_str("127.0.0.1") : u->LocalBindAddress;
}

static bool
same_destination(const struct upstream *a, const struct upstream *b)
{
	return span_eq(type_of(a), type_of(b)) && span_eq(a->DestinationName, b->DestinationName) &&
	    span_eq(a->Datacenter, b->Datacenter);
}

static bool
same_listener(const struct upstream *a, const struct upstream *b)
{
	if (a->LocalBindPort != 0 || b->LocalBindPort != 0)
		return a->LocalBindPort == b->LocalBindPort && span_eq(address_of(a), address_of(b));
	return span_eq(a->LocalBindSocketPath, b->LocalBindSocketPath);
}

static bool
upstream_fits(const struct upstream *u, struct found *w)
{
	struct span type = type_of(u);
	unsigned before = w->n;

	if (!span_eqs(type, "service") && !span_eqs(type, "prepared_query"))
		wrong(w, "unknown upstream destination type: \"%.*s\"", (int)type.len, (const char *)type.p);
	else if (u->DestinationName.len == 0)
		wrong(w, "upstream destination name cannot be empty");
	else if (span_eqs(u->DestinationName, "*"))
		wrong(w, "upstream destination name cannot be a wildcard");
	else if (u->LocalBindPort == 0 && u->LocalBindSocketPath.len == 0)
		wrong(w, "upstream local bind port or local socket path must be defined and nonzero");
	return w->n == before;
}

static void
destination_twice(const struct upstream *u, struct found *w)
{
	struct span type = type_of(u), name = u->DestinationName, dc = u->Datacenter;

	wrong(w, "upstreams cannot contain duplicates of [type=\"%.*s\", name=\"%.*s\", namespace=\"\", "
	    "datacenter=\"%.*s\"]", (int)type.len, (const char *)type.p, (int)name.len, (const char *)name.p,
	    (int)dc.len, (const char *)dc.p);
}

static void
listener_twice(const struct upstream *u, struct found *w)
{
	struct span at = u->LocalBindPort != 0 ? address_of(u) : u->LocalBindSocketPath;
	char port[24] = "";

	if (u->LocalBindPort != 0)
		snprintf(port, sizeof(port), ":%llu", (unsigned long long)u->LocalBindPort);
	wrong(w, "upstreams cannot contain duplicates by local bind address and port or unix path; \"%.*s%s\" is "
	    "specified twice", (int)at.len, (const char *)at.p, port);
}

static void
check_upstreams(const struct service_proxy *p, struct found *w)
{
	const struct upstream *v = p->Upstreams.v;

	if (p->Upstreams.n > PROXY_LIST_MAX) {
		wrong(w, "more than %u upstreams", PROXY_LIST_MAX);
		return;
	}
	for (uint32_t i = 0; i < p->Upstreams.n; i++) {
		if (!upstream_fits(&v[i], w))
			continue;
		for (uint32_t k = 0; k < i; k++) {
			if (same_destination(&v[i], &v[k]))
				destination_twice(&v[i], w);
			else if (same_listener(&v[i], &v[k]))
				listener_twice(&v[i], w);
			else
				continue;
			break;
		}
	}
}

/* -- paths -- */

static void
check_paths(const struct expose *e, struct found *w)
{
	const struct exposed_path *v = e->Paths.v;

	if (e->Paths.n > PROXY_LIST_MAX) {
		wrong(w, "more than %u exposed paths", PROXY_LIST_MAX);
		return;
	}
	for (uint32_t i = 0; i < e->Paths.n; i++) {
		struct span protocol = v[i].Protocol;

		if (v[i].Path.len == 0)
			wrong(w, "expose.paths: empty path exposed");
		for (uint32_t k = 0; k < i; k++)
			if (v[i].ListenerPort == v[k].ListenerPort) {
				wrong(w, "expose.paths: duplicate listener ports exposed");
				break;
			}
		if (v[i].ListenerPort <= 0 || v[i].ListenerPort > PORT_MAX)
			wrong(w, "expose.paths: invalid listener port: %lld", (long long)v[i].ListenerPort);
		if (protocol.len > 0 && !span_eqs(protocol, "http") && !span_eqs(protocol, "http2"))
			wrong(w, "protocol '%.*s' not supported for path: %.*s, must be in: [http http2]",
			    (int)protocol.len, (const char *)protocol.p, (int)v[i].Path.len, (const char *)v[i].Path.p);
	}
}

/* -- kinds -- */

static void
check_proxy(const struct service *s, struct found *w)
{
	struct span to = s->Proxy.DestinationServiceName;
	size_t blank = 0;

	while (blank < to.len && memchr(" \t\r\n\v\f", to.p[blank], 6) != NULL)
		blank++;
	if (blank == to.len)
		wrong(w, "Proxy.DestinationServiceName must be non-empty for Connect proxy services");
	if (span_eqs(to, "*"))
		wrong(w, "Proxy.DestinationServiceName must not be a wildcard for Connect proxy services");
	if (s->Port == 0 && s->SocketPath.len == 0)
		wrong(w, "Port or SocketPath must be set for a Connect proxy");
	if (s->Connect.Native)
		wrong(w, "A Proxy cannot also be Connect Native, only typical services");
	check_upstreams(&s->Proxy, w);
	check_paths(&s->Proxy.Expose, w);
}

static void
check_gateway(const struct service *s, struct found *w)
{
	const struct service_proxy *p = &s->Proxy;
	const struct { const char *name; bool given; } fields[] = {
		{ "DestinationServiceName", p->DestinationServiceName.len > 0 },
		{ "DestinationServiceID", p->DestinationServiceID.len > 0 },
		{ "LocalServiceAddress", p->LocalServiceAddress.len > 0 },
		{ "LocalServicePort", p->LocalServicePort != 0 },
		{ "LocalServiceSocketPath", p->LocalServiceSocketPath.len > 0 },
		{ "Upstreams", p->Upstreams.n > 0 },
	};
	int len = (int)s->Kind.len;
	const char *kind = (const char *)s->Kind.p;

	if (s->Port == 0 && !span_eqs(s->Kind, "ingress-gateway"))
		wrong(w, "Port must be non-zero for a %.*s", len, kind);
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (fields[i].given)
			wrong(w, "The Proxy.%s configuration is invalid for a %.*s", fields[i].name, len, kind);
}

bool
proxy_check(const struct service *s, struct buf *why)
{
	struct found w = { .text = BUF_INIT(PROXY_WHY_MAX - 64) };

	if (span_eqs(s->Kind, "connect-proxy"))
		check_proxy(s, &w);
	else if (is_gateway(s->Kind))
		check_gateway(s, &w);
	if (w.n > 0) {
		buf_printf(why, "%u error%s occurred:\n", w.n, w.n == 1 ? "" : "s");
		buf_putspan(why, w.text.failed ? span_str("\t* its texts are too long\n") : buf_span(&w.text));
		buf_puts(why, "\n");
	}
	buf_done(&w.text);
	return w.n == 0;
}
