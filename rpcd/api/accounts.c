/* See accounts.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/net/source.h"
#include "rpcd/api/accounts.h"
#include "rpcd/api/api.h"

#define ASKED_FROM 8			/* requests of a token that is not known here; then servers are asked */
#define PREFIX_PARTS 2			/* "a/b/" of "a/b/c" */

static const char kv_path[] = "/v1/kv/";

static uint64_t
hash_of(struct span name)
{
	return keyed_hash(name.p, name.len);
}

static bool
is_refusal(unsigned status)
{
	return status == 403 || status == 429 || status == 503;
}

/* -- clients and keys --------------------------------------------------------------- */

static void
add_named(struct request *r, enum account which, struct span name, const struct usage *one)
{
	struct usage_entry *e = usage_of(&r->api->accounts.tables[which], hash_of(name), r->begun.ns);

	if (e == NULL)
		return;
	if (e->name[0] == '\0')
		usage_name(e, name);
	usage_add(&e->count, one);
}

static void
add_client(struct request *r, const struct usage *one)
{
	char user[32];

	if (r->head.client_ip != NULL) {
		add_named(r, ACCOUNT_CLIENTS, span_str(r->head.client_ip), one);
		return;
	}
	snprintf(user, sizeof(user), "uid:%" PRId64, r->head.uid);
	add_named(r, ACCOUNT_CLIENTS, span_str(user), one);
}

/* As it was sent, still encoded: of a folded request there is nothing else. */
static void
add_key(struct request *r, const struct usage *one)
{
	struct span path, query, key;
	unsigned slashes = 0;
	size_t n = 0;

	target_split(r->head.target, &path, &query);
	if (!span_starts(path, span_str(kv_path)) || path.len < sizeof(kv_path))
		return;
	key = span_of(path.p + sizeof(kv_path) - 1, path.len - (sizeof(kv_path) - 1));
	for (size_t i = 0; i < key.len && slashes < PREFIX_PARTS; i++)
		if (key.p[i] == '/') {
			n = i + 1;
			slashes++;
		}
	add_named(r, ACCOUNT_KEYS, n > 0 ? span_of(key.p, n) : key, one);
}

/* -- tokens --------------------------------------------------------------------------- */

static void
on_accessor(void *ctx, const struct acl_answer *a)
{
	struct account_question *q = ctx;
	struct usage_entry *e = usage_find(&q->of->tables[ACCOUNT_TOKENS], q->key);

	q->key = 0;
	if (e != NULL && a->standing == ACL_NOT_FOUND)
		usage_name(e, span_str("(no-token)"));
	else if (e != NULL && a->standing == ACL_GRANTED && !a->unjudged)
		usage_name(e, span_str(a->rights->accessor));
}

/*
 * What this node knows of it; and now and then servers are asked, but for what was refused in clear.  acl_ask() is
 * bounded for invented tokens.
 */
static void
find_accessor(struct request *r, struct usage_entry *e, uint64_t key, struct span token)
{
	struct accounts *a = &r->api->accounts;
	struct acl_resolver *acl = r->api->acl;
	struct account_question *q = a->questions;
	struct acl_answer now;
	struct acl_wait *wait;
	uint64_t n = e->count.requests;

	if (acl == NULL || (n & (n - 1)) != 0)		/* once for each doubling */
		return;
	if (acl_is_master(acl, token))
		usage_name(e, span_str("agent-master"));
	else
		usage_name(e, resolver_accessor(acl, token));
	while (q < a->questions + ACCOUNT_QUESTIONS && q->key != 0)
		q++;
	if (e->name[0] != '\0' || r->token_in_clear || n < ASKED_FROM || q == a->questions + ACCOUNT_QUESTIONS ||
	    !acl_holds(acl))
		return;
	*q = (struct account_question){ a, key };
	switch (acl_ask(acl, token, &now, on_accessor, q, &wait)) {
	case ACL_NOW:
		on_accessor(q, &now);
		break;
	case ACL_BUSY:
		q->key = 0;
		break;
	case ACL_LATER:
		break;
	}
}

/* ?token= of a request that was folded is in its target alone. */
static bool
has_token_in_target(const struct request *r)
{
	return r->folded && memmem(r->head.target.p, r->head.target.len, "token", 5) != NULL;
}

static void
add_token(struct request *r, const struct usage *one)
{
	struct span token;
	struct usage_entry *e;
	uint64_t key;

	if (has_token_in_target(r) && !api_unfold(r))
		return;
	token = api_shown_token(r);
	if (token.len == 0 || span_eqs(token, "anonymous")) {
		bool root = r->head.on_socket && r->head.uid == 0;

		add_named(r, ACCOUNT_TOKENS, span_str(root ? "root" : "anonymous"), one);
		return;
	}
	key = hash_of(token);
	key += key == 0;
	e = usage_of(&r->api->accounts.tables[ACCOUNT_TOKENS], key, r->begun.ns);
	if (e == NULL)
		return;
	usage_add(&e->count, one);
	if (e->name[0] == '\0')
		find_accessor(r, e, key, token);
}

/* -- all of it -------------------------------------------------------------------------- */

/* Of a method that the path has not, and of OPTIONS, r->endpoint is the path's first row. */
static bool
is_of_row(const struct request *r)
{
	return strcmp(r->head.method, "OPTIONS") != 0 && !(r->answered && r->answer.status == 405);
}

void
accounts_add(struct request *r, struct mono took)
{
	struct accounts *a = &r->api->accounts;
	bool waits = r->op.index > 0 || r->stream_bytes > 0 ||
	    (r->endpoint != NULL && r->endpoint->body == BODY_NONE_LIVE);
	struct usage one = {
		.requests = 1, .refused = r->answered && is_refusal(r->answer.status), .bytes_in = r->body_bytes,
		.bytes_out = r->answer_bytes,
		.timed = !waits, .ns = waits ? 0 : took.ns,
	};

	if (r->endpoint == NULL)
		return;
	if (a->endpoints == NULL)
		a->endpoints = calloc(endpoint_count(), sizeof(*a->endpoints));
	if (a->endpoints != NULL && is_of_row(r))
		usage_add(&a->endpoints[endpoint_number(r->endpoint)], &one);
	add_client(r, &one);
	add_token(r, &one);
	add_key(r, &one);
}

void
accounts_add_node(struct accounts *a, const char *peer, uint64_t bytes_in, uint64_t bytes_out)
{
	const char *port = strrchr(peer, ':');
	struct span ip = span_of(peer, port == NULL ? strlen(peer) : (size_t)(port - peer));
	struct usage_entry *e = usage_of(&a->tables[ACCOUNT_NODES], hash_of(ip), clock_mono().ns);

	if (e == NULL)
		return;
	if (e->name[0] == '\0')
		usage_name(e, ip);
	usage_add(&e->count, &(struct usage){ .requests = 1, .bytes_in = bytes_in, .bytes_out = bytes_out });
}

void
accounts_done(struct accounts *a)
{
	for (unsigned i = 0; i < ACCOUNTS; i++)
		usage_done(&a->tables[i]);
	free(a->endpoints);
	a->endpoints = NULL;
}
