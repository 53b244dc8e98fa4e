/* Where rpcd is reached, see endpoint.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/endpoint.h"

#define TEXT_MAX 4096u
#define PORT "8500"
#define PORT_TLS "8501"
#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:"

/* What asks for TLS, and how much that means. */
struct request {
	const char *by;		/* the option or variable; NULL: none */
	bool by_files;		/* only a variable with a file or a name, which is not about a unix socket */
	bool by_option;
	bool refused;		/* CONSUL_HTTP_SSL=false */
};

/* A variable that is set, and not empty; *name becomes that of the one that is. */
static const char *
variable(const char *own, const char *theirs, const char **name)
{
	const char *value = getenv(own);

	*name = own;
	if (value == NULL || value[0] == '\0') {
		value = getenv(theirs);
		*name = theirs;
	}
	return value == NULL || value[0] == '\0' ? NULL : value;
}

bool
endpoint_truth(const char *text, bool *value)
{
	static const char *const yes[] = { "1", "t", "T", "TRUE", "true", "True" };
	static const char *const no[] = { "0", "f", "F", "FALSE", "false", "False" };

	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
		*value = strcmp(text, yes[i]) == 0;
		if (*value || strcmp(text, no[i]) == 0)
			return true;
	}
	return false;
}

/* *value stays where neither variable is set. */
static bool
read_truth(const char *own, const char *theirs, bool *value, const char **from, char *err, size_t cap)
{
	const char *name, *text = variable(own, theirs, &name);

	if (text == NULL)
		return true;
	*from = name;
	if (endpoint_truth(text, value))
		return true;
	snprintf(err, cap, "%s: \"%s\" is neither true nor false", name, text);
	return false;
}

/* One of what goes with TLS: the option, else the variable.  Notes what asks by it. */
static const char *
read_part(const char *option, const char *given, const char *own, const char *theirs, struct request *r,
    const char **from)
{
	const char *value = given;

	*from = option;
	if (value == NULL)
		value = variable(own, theirs, from);
	if (value != NULL && (r->by == NULL || (given != NULL && !r->by_option))) {
		r->by = *from;
		r->by_option = given != NULL;
		r->by_files = !r->by_option;
	}
	return value;
}

/* A file of CAs goes before a folder, as in Consul, and an option before a variable. */
static void
read_ca(const struct endpoint_given *given, struct endpoint *e, struct request *r)
{
	const char *from[2];

	e->ca_file = read_part("--ca-file", given->ca_file, "TRIUMVIR_CACERT", "CONSUL_CACERT", r, &from[0]);
	e->ca_path = read_part("--ca-path", given->ca_path, "TRIUMVIR_CAPATH", "CONSUL_CAPATH", r, &from[1]);
	if (given->ca_path != NULL && given->ca_file == NULL)
		e->ca_file = NULL;
	if (e->ca_file != NULL)
		e->ca_path = NULL;
	e->ca_from = e->ca_file != NULL ? from[0] : from[1];
}

/* All that goes with TLS, and what asks for it. */
static bool
read_tls(const struct endpoint_given *given, struct endpoint *e, const char **server_name, struct request *r,
    char *err, size_t cap)
{
	const char *from, *name = NULL;
	bool wanted = false, verified = true;

	read_ca(given, e, r);
	e->client_cert = read_part("--client-cert", given->client_cert, "TRIUMVIR_CLIENT_CERT", "CONSUL_CLIENT_CERT",
	    r, &from);
	e->client_key = read_part("--client-key", given->client_key, "TRIUMVIR_CLIENT_KEY", "CONSUL_CLIENT_KEY", r,
	    &from);
	*server_name = read_part("--tls-server-name", given->server_name, "TRIUMVIR_TLS_SERVER_NAME",
	    "CONSUL_TLS_SERVER_NAME", r, &from);
	if (!read_truth("TRIUMVIR_SSL", "CONSUL_HTTP_SSL", &wanted, &name, err, cap) ||
	    !read_truth("TRIUMVIR_SSL_VERIFY", "CONSUL_HTTP_SSL_VERIFY", &verified, &e->unverified_from, err, cap))
		return false;
	e->unverified = !verified;
	r->refused = name != NULL && !wanted;
	if (wanted && !r->by_option)
		*r = (struct request){ .by = name };
	else if (r->refused && r->by_files)
		r->by = NULL;
	return true;
}

static bool
bad_addr(const char *addr, char *err, size_t cap)
{
	snprintf(err, cap, "bad address \"%s\": write HOST:PORT or unix:PATH, or https://HOST:PORT", addr);
	return false;
}

/* "unix:PATH": what is in clear there does not leave the machine, but an option or CONSUL_HTTP_SSL contradicts. */
static bool
set_socket(struct endpoint *e, const char *addr, const struct request *r, char *err, size_t cap)
{
	const char *path = addr + 5;

	if (strncmp(path, "//", 2) == 0)
		path += 2;
	if (path[0] != '/')
		return bad_addr(addr, err, cap);
	if (r->by != NULL && !r->by_files) {
		snprintf(err, cap, "%s asks for TLS, which %s does not speak: write https://HOST:PORT, or leave one "
		    "of them out", r->by, addr);
		return false;
	}
	e->addr = strdup(addr);
	e->unix_path = strdup(path);
	e->base = strdup("http://localhost");
	return true;
}

/* Parts of "HOST:PORT/PREFIX". */
struct place {
	char host[512];		/* an IPv6 address in brackets */
	char port[64];		/* "" without one */
	char prefix[1024];	/* with its slash at the beginning; "" without one */
};

/* The prefix of paths: of a proxy before rpcd, for addresses with a scheme. */
static bool
split_prefix(const char *text, bool scheme, struct place *p)
{
	size_t n = strlen(text);

	while (n > 0 && text[n - 1] == '/')
		n--;
	if ((text[0] == '/' && !scheme) || n >= sizeof(p->prefix))
		return false;
	snprintf(p->prefix, sizeof(p->prefix), "%.*s", (int)n, text);
	return true;
}

static bool
split(const char *addr, bool scheme, struct place *p)
{
	size_t n = strcspn(addr, "/"), host = n;
	const char *colon = memchr(addr, ':', n), *end = memchr(addr, ']', n);
	bool bare = addr[0] != '[' && colon != NULL && memchr(colon + 1, ':', n - (size_t)(colon + 1 - addr)) != NULL;

	for (const char *c = addr; *c != '\0'; c++)
		if ((unsigned char)*c <= ' ' || *c == 0x7f || strchr("?#@\\", *c) != NULL)
			return false;
	if (n == 0 || n >= sizeof(p->host) - 2 || !split_prefix(addr + n, scheme, p))
		return false;
	p->port[0] = '\0';
	if (addr[0] == '[') {
		host = end != NULL ? (size_t)(end + 1 - addr) : 0;
		if (host <= 2 || (host < n && addr[host] != ':'))
			return false;
	} else if (colon != NULL && !bare) {
		host = (size_t)(colon - addr);
	}
	if (host == 0 || (host < n && (n - host - 1 == 0 || n - host - 1 >= sizeof(p->port))))
		return false;
	snprintf(p->host, sizeof(p->host), bare ? "[%.*s]" : "%.*s", (int)host, addr);
	if (host < n)
		snprintf(p->port, sizeof(p->port), "%.*s", (int)(n - host - 1), addr + host + 1);
	return true;
}

static char *
text_of(struct buf *b)
{
	char *text = b->failed ? NULL : strdup(buf_cstr(b));

	buf_done(b);
	return text;
}

/* base has the name that the certificate is to be for, and libcurl is told where that is. */
static bool
set_name(struct endpoint *e, const struct place *p, const char *name, char *err, size_t cap)
{
	struct buf to = BUF_INIT(TEXT_MAX), host = BUF_INIT(TEXT_MAX), base = BUF_INIT(TEXT_MAX);
	bool v6 = strchr(name, ':') != NULL;
	const char *before = v6 ? "[" : "", *behind = v6 ? "]" : "";

	if (name[0] == '\0' || name[strspn(name, NAME_CHARS)] != '\0') {
		snprintf(err, cap, "\"%s\" is no name that a certificate can be for, such as server.dc1.consul", name);
		return false;
	}
	buf_printf(&to, "%s%s%s:%s:%s:%s", before, name, behind, p->port, p->host, p->port);
	buf_printf(&host, "%s:%s", p->host, p->port);
	buf_printf(&base, "https://%s%s%s:%s%s", before, name, behind, p->port, p->prefix);
	e->connect_to = text_of(&to);
	e->host = text_of(&host);
	free(e->base);
	e->base = text_of(&base);
	return true;
}

static void
set_base(struct endpoint *e, struct place *p, const char *addr)
{
	struct buf b = BUF_INIT(TEXT_MAX);

	if (p->port[0] == '\0')
		snprintf(p->port, sizeof(p->port), "%s", e->tls ? PORT_TLS : PORT);
	buf_printf(&b, "http%s://%s:%s%s", e->tls ? "s" : "", p->host, p->port, p->prefix);
	e->base = text_of(&b);
	e->addr = strdup(e->tls && e->base != NULL ? e->base : addr);
}

/* Over TCP; http:// with CONSUL_HTTP_SSL is https, as for Consul's clients, and a contradiction with all else. */
static bool
set_tcp(struct endpoint *e, const char *addr, const char *server_name, const struct request *r, char *err, size_t cap)
{
	bool plain = strncmp(addr, "http://", 7) == 0, sealed = strncmp(addr, "https://", 8) == 0;
	struct place p;

	if (!split(addr + (plain ? 7 : sealed ? 8 : 0), plain || sealed, &p))
		return bad_addr(addr, err, cap);
	if (plain && r->by != NULL && (r->by_files || r->by_option)) {
		snprintf(err, cap, "%s asks for TLS, and %s for none: write https://, or %s", r->by, addr,
		    r->by_option ? "leave one of them out" : "unset it");
		return false;
	}
	e->tls = sealed || r->by != NULL;
	set_base(e, &p, addr);
	if (!e->tls)
		return true;
	if ((e->client_cert == NULL) != (e->client_key == NULL)) {
		snprintf(err, cap, "a client certificate is two files, the certificate and its key: give --client-cert "
		    "and --client-key, or CONSUL_CLIENT_CERT and CONSUL_CLIENT_KEY");
		return false;
	}
	return server_name == NULL || set_name(e, &p, server_name, err, cap);
}

bool
endpoint_find(const struct endpoint_given *given, struct endpoint *out, char *err, size_t cap)
{
	struct request r = { NULL, false, false, false };
	const char *addr = given->addr, *server_name, *from;
	bool good;

	*out = (struct endpoint){ .addr = NULL };
	if (!read_tls(given, out, &server_name, &r, err, cap))
		return false;
	if (addr == NULL)
		addr = variable("TRIUMVIR_ADDR", "CONSUL_HTTP_ADDR", &from);
	if (addr == NULL)
		addr = r.by != NULL && !r.by_files ? "https://127.0.0.1:" PORT_TLS : ENDPOINT_SOCKET;
	good = strncmp(addr, "unix:", 5) == 0 ? set_socket(out, addr, &r, err, cap) :
	    set_tcp(out, addr, server_name, &r, err, cap);
	if (good && (out->addr == NULL || out->base == NULL ||
	    (server_name != NULL && out->tls && (out->connect_to == NULL || out->host == NULL)))) {
		snprintf(err, cap, "no memory for the address");
		return false;
	}
	return good;
}

void
endpoint_done(struct endpoint *e)
{
	free(e->addr);
	free(e->base);
	free(e->unix_path);
	free(e->connect_to);
	free(e->host);
	*e = (struct endpoint){ .addr = NULL };
}
