/*
 * What this node's API does not take from the network, whatever the token may do: paths that the configuration shuts
 * (http_config.block_endpoints), writes from elsewhere (http_config.allow_write_http_from), and secrets in clear.
 *
 * A token that comes as plaintext from another machine, or at an address that other machines reach, can be read by
 * any machine on the way, and so can one in an answer.  Both are refused unless http_allow_plaintext_tokens is on.  Who
 * the client is and whether the way was sealed is told by the connection alone: headers of proxies (X-Forwarded-For,
 * Forwarded) can say anything.  A proxy that ends TLS stands on this machine, and asks over loopback or rpcd.sock.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/net/source.h"
#include "rpcd/api/api.h"

#define TOLD_SETS 16			/* sources that are told apart, in BUCKETS_WAYS: 128 of them, 3 KB */
#define HOW "use HTTPS, or set http_allow_plaintext_tokens = true in rpcd.conf"

/* -- secrets in clear ----------------------------------------------------------- */

/* Of an address as addr_ip() spells it, each in one way: nothing is parsed, for each request comes here. */
static bool
is_loopback(const char *ip)
{
	return strncmp(ip, "127.", 4) == 0 || strcmp(ip, "::1") == 0;
}

static bool
is_clear_to_others(const struct request *r)
{
	return r->head.client_ip != NULL && !r->head.on_tls &&
	    !(r->head.on_loopback && is_loopback(r->head.client_ip));
}

/* The SecretID of the anonymous token is its name: everybody knows it. */
static bool
is_secret(struct span token)
{
	return token.len > 0 && !span_eqs(token, "anonymous");
}

/* The value of some "token=" in a query that cannot be parsed: it came in clear all the same. */
static bool
holds_secret(struct span query, struct span *token)
{
	const uint8_t *end = query.p + query.len, *from = query.p, *to;

	while (from != NULL && (from = memmem(from, (size_t)(end - from), "token=", 6)) != NULL) {
		from += 6;
		to = memchr(from, '&', (size_t)(end - from));
		if (is_secret(*token = span_of(from, (size_t)((to == NULL ? end : to) - from))))
			return true;
	}
	return false;
}

/* In any of its spellings, of which api_shown_token() takes the first; the audit trail finds it there, too. */
static bool
shows_secret(struct request *r, struct span query, struct span *token)
{
	if (params_parse(query, &r->arena, &r->query) != TV_OK) {
		if (holds_secret(query, token))
			return true;
	} else
		for (uint32_t i = 0; i < r->query.n; i++)
			if (span_eqs(r->query.v[i].name, "token") && is_secret(*token = r->query.v[i].value))
				return true;
	if (r->head.token != NULL && is_secret(*token = span_str(r->head.token)))
		return true;
	return is_secret(*token = api_bearer_token(r->head.authorization));
}

/* One line of each source in a minute, and not too many of all. */
static bool
is_told_now(struct request *r)
{
	struct api *api = r->api;
	struct bucket_rate rate = bucket_rate_of(1000 / 60, 0);
	uint64_t source = source_of_text(r->head.client_ip);
	int64_t *at;

	if (api->clear_told.slots == NULL && !buckets_init(&api->clear_told, TOLD_SETS))
		return log_allow(&api->clear_lines, "http");
	at = buckets_of(&api->clear_told, keyed_hash(&source, sizeof(source)), r->begun.ns);
	if (bucket_wait(*at, &rate, r->begun.ns) > 0 || !log_allow(&api->clear_lines, "http"))
		return false;
	bucket_take(at, &rate, r->begun.ns);
	return true;
}

static void
log_burnt(struct request *r, struct span token)
{
	struct span accessor = r->api->acl == NULL ? SPAN_NONE : resolver_accessor(r->api->acl, token);

	if (is_told_now(r))
		log_warn("http", "%s sent a token as plaintext over the network: refused. Whoever listened knows it: "
		    "replace the token%s%.*s, and " HOW, r->head.client_ip, accessor.len > 0 ? " " : "",
		    SPAN_ARGS(accessor));
}

/* For the audit trail: what was asked for, if it is served. */
static void
find_endpoint(struct request *r, struct span raw)
{
	const struct endpoint_path *p;
	struct endpoint_path part;
	struct span path;

	if (path_decode(raw, &r->arena, &path) != TV_OK || (p = endpoint_find(path)) == NULL)
		return;
	part = endpoint_ending(p, path);
	r->endpoint = endpoint_row(&part, r->head.method);
	r->path = path;
	r->rest = span_of(path.p + p->len, path.len - p->len);
}

static void
refuse_token(struct request *r, struct span token)
{
	r->api->stats.clear_refused++;
	r->token_in_clear = true;
	log_burnt(r, token);
	answer_text(r, 403, "A token over plain HTTP is refused, since others can read it on the way, and whoever did "
	    "knows it now: " HOW);
}

bool
api_token_gate(struct request *r, struct span path, struct span query)
{
	struct span token;

	if (!is_clear_to_others(r) || r->api->conf->http_plaintext_tokens || !shows_secret(r, query, &token))
		return true;
	refuse_token(r, token);
	find_endpoint(r, path);
	return false;
}

bool
api_body_token_gate(struct request *r, struct span token)
{
	if (!is_secret(token) || span_eqs(token, "<hidden>") || r->api->conf->http_plaintext_tokens ||
	    !is_clear_to_others(r))
		return true;
	refuse_token(r, token);
	return false;
}

/* A login, the first token, a key of gossip: the request shows no token, but one is in its body or its answer. */
static bool
passes_secrets(struct request *r)
{
	if (r->endpoint->body != BODY_KEY || r->api->conf->http_plaintext_tokens || !is_clear_to_others(r))
		return true;
	r->api->stats.clear_refused++;
	answer_text(r, 403, "%s %s has a secret in its body or its answer, and over plain HTTP others can read it on "
	    "the way: " HOW, r->head.method, r->endpoint->path);
	return false;
}

/* -- what is shut --------------------------------------------------------------- */

static bool
is_blocked(const struct request *r)
{
	const struct conf_list *list = &r->api->conf->block_endpoints;

	for (size_t i = 0; i < list->count; i++)
		if (span_starts(r->path, span_str(list->items[i])))
			return true;
	return false;
}

static bool
may_write_from_there(const struct request *r)
{
	const struct conf_list *list = &r->api->conf->allow_write_from;
	struct addr_net net;
	struct addr a;

	if (list->count == 0 || strcmp(r->head.method, "GET") == 0 || strcmp(r->head.method, "HEAD") == 0 ||
	    strcmp(r->head.method, "OPTIONS") == 0)
		return true;
	if (r->head.client_ip == NULL || !addr_parse(r->head.client_ip, 0, &a))
		return false;
	a = addr_unmapped(a);
	for (size_t i = 0; i < list->count; i++)
		if (addr_net_parse(span_str(list->items[i]), &net) && addr_net_has(&net, &a))
			return true;
	return false;
}

bool
api_gates(struct request *r)
{
	if (r->head.on_socket)
		return true;
	if (is_blocked(r) || !may_write_from_there(r)) {
		r->api->stats.gate_refused++;
		answer_text(r, 403, is_blocked(r) ? "Endpoint is blocked by agent configuration" :
		    "Access is restricted");
		return false;
	}
	return passes_secrets(r);
}
