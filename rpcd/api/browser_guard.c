/*
 * Requests that a browser sends on behalf of a foreign page (scenario S184).
 *
 * DNS rebinding: a page of evil.example lets its own name point to one of our addresses and then talks to us as its own
 * origin.  It cannot change the Host header, so a loopback listener answers only to names that no one outside can own:
 * addresses, single labels, reserved suffixes, our own name, and what http_hosts lists.  Once http_hosts lists any, all
 * TCP listeners do so.
 *
 * Cross-site requests: an image, a form or a simple fetch needs no permission from us to be sent, and also a GET does
 * work.  Browsers mark them with Origin or Sec-Fetch-Site; programs send neither.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/base/addr.h"
#include "rpcd/api/api.h"

#define PATH_SHOWN 512

/* Host without its port and without the brackets of an IPv6 address. */
static struct span
host_name(const char *host)
{
	struct span s = span_str(host);

	if (s.len > 0 && s.p[0] == '[') {
		const uint8_t *end = memchr(s.p, ']', s.len);

		return end == NULL ? SPAN_NONE : span_of(s.p + 1, (size_t)(end - s.p) - 1);
	}
	const uint8_t *colon = s.len == 0 ? NULL : memchr(s.p, ':', s.len);
	if (colon != NULL)
		s.len = (size_t)(colon - s.p);
	while (s.len > 0 && s.p[s.len - 1] == '.')
		s.len--;
	return s;
}

static bool
same_name(struct span a, const char *b)
{
	return a.len == strlen(b) && strncasecmp((const char *)a.p, b, a.len) == 0;
}

static bool
ends_in(struct span name, const char *suffix)
{
	size_t n = strlen(suffix);

	return name.len > n && same_name(span_of(name.p + name.len - n, n), suffix);
}

/* Names that no stranger can make point to us. */
static bool
host_is_ours(const struct request *r)
{
	static const char *const reserved[] = {
		".localhost", ".local", ".internal", ".consul", ".lan", ".home.arpa", ".test",
	};
	const struct conf_list *more = &r->api->conf->http_hosts;
	struct span name = host_name(r->head.host);

	if (name.len == 0 || memchr(name.p, '.', name.len) == NULL ||
	    addr_parse_span(name, 0, NULL))
		return true;
	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
		if (ends_in(name, reserved[i]))
			return true;
	for (size_t i = 0; i < more->count; i++)
		if (same_name(name, more->items[i]))
			return true;
	return r->api->cluster->node_name != NULL && same_name(name, r->api->cluster->node_name);
}

/* Does Origin ("http://host:port", "null") name the same place as Host? */
static bool
origin_is_host(const struct request *r)
{
	const char *place = strstr(r->head.origin, "://");

	return place != NULL && r->head.host != NULL && strcasecmp(place + 3, r->head.host) == 0;
}

static bool
origin_is_configured(const struct request *r)
{
	const struct conf_list *list = &r->api->conf->http_origins;

	for (size_t i = 0; i < list->count && r->head.origin != NULL; i++)
		if (strcasecmp(r->head.origin, list->items[i]) == 0)
			return true;
	return false;
}

static bool
from_other_site(const struct request *r)
{
	if (origin_is_configured(r))
		return false;
	if (r->head.fetch_site != NULL)
		return strcasecmp(r->head.fetch_site, "same-origin") != 0 &&
		    strcasecmp(r->head.fetch_site, "none") != 0;
	return r->head.origin != NULL && !origin_is_host(r);
}

/* A browser cannot reach the unix socket. */
static bool
host_matters(const struct request *r)
{
	return r->head.host != NULL && !r->head.on_socket &&
	    (r->head.on_loopback || r->api->conf->http_hosts.count > 0);
}

bool
api_browser_guard(struct request *r)
{
	if (host_matters(r) && !host_is_ours(r)) {
		answer_text(r, 403, "This host name is not served%s (see http_hosts in rpcd.conf)",
		    r->head.on_loopback ? " on a loopback address" : "");
		return false;
	}
	if (span_starts(r->path, span_str("/v1/")) && from_other_site(r)) {
		answer_text(r, 403, "Cross-site requests are refused (see http_origins in rpcd.conf)");
		return false;
	}
	return true;
}

/* What changes the cluster or a node, and who wants it.  Without the query, which may hold a token. */
static void
log_asker(const struct request *r)
{
	char path[PATH_SHOWN], from[64];

	if (strcmp(r->head.method, "GET") == 0 || !log_allow(&r->api->asked, "http"))
		return;
	if (r->head.client_ip != NULL)
		snprintf(from, sizeof(from), "%s", r->head.client_ip);
	else if (r->head.on_socket && r->head.uid >= 0)
		snprintf(from, sizeof(from), "uid %lld on rpcd.sock", (long long)r->head.uid);
	else
		snprintf(from, sizeof(from), "an unknown client");
	log_safe(r->path, path, sizeof(path));
	log_info("http", "%s %s requested by %s", r->head.method, path, from);
}

/* rpcd.sock has permissions; a TCP port is open to every user and every container that shares the network. */
bool
api_may_administer(struct request *r)
{
	if (!(r->endpoint->access & ACCESS_ADMIN))
		return true;
	if (r->head.on_socket || r->api->conf->http_admin || (r->api->acl != NULL && acl_holds(r->api->acl))) {
		log_asker(r);
		return true;
	}
	answer_text(r, 403, "%s %s is administrative, which TCP does not serve: use the unix socket %s/rpcd.sock, as "
	    "clusterctl does by default, or set http_admin = true in rpcd.conf", r->head.method, r->endpoint->path,
	    r->api->cluster->run_dir);
	return false;
}
