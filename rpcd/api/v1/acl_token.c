/* /v1/acl/token: tokens.  What carries a secret is wiped when the request ends (BODY_KEY). */
#include "common/record/records.h"
#include "common/text/rfc3339.h"
#include "rpcd/api/v1/acl.h"

/* False: answered. */
static bool
decode_token(struct request *r, bool optional, struct acl_token *t)
{
	int64_t ns;

	if (!acl_decode(r, &acl_token_schema, "Token", optional, t))
		return false;
	if (t->ExpirationTime.len == 0 || rfc3339_parse(t->ExpirationTime, &ns) != TV_EFORMAT)
		return true;
	answer_text(r, 400, "Bad request: Token decoding failed: parsing time \"\\\"%.*s\\\"\" as "
	    "\"\\\"2006-01-02T15:04:05Z07:00\\\"\": cannot parse it",
	    (int)(t->ExpirationTime.len > 64 ? 64 : t->ExpirationTime.len), (const char *)t->ExpirationTime.p);
	return false;
}

static void
run_create(struct request *r)
{
	struct acl_token_set q = { .Create = true };

	if (decode_token(r, false, &q.Token))
		api_ask(r, &q);
}

static void
run_update(struct request *r)
{
	struct acl_token_set q = { .Create = false };

	if (decode_token(r, false, &q.Token) && acl_take_id(r, "Token Accessor ID", &q.Token.AccessorID))
		api_ask(r, &q);
}

static void
run_clone(struct request *r)
{
	struct acl_token_set q = { .Create = true };

	if (!decode_token(r, true, &q.Token))
		return;
	q.Source = span_of(r->rest.p, r->rest.len - strlen(r->endpoint->ending));
	if (q.Source.len == 0)
		answer_text(r, 400, "Bad request: Missing token ID");
	else
		api_ask(r, &q);
}

static void
run_delete(struct request *r)
{
	api_ask(r, &(struct acl_token_delete){ .AccessorID = r->rest, .Asker = api_token(r) });
}

static void
run_self(struct request *r)
{
	api_ask(r, &(struct acl_secret){ .SecretID = api_token(r) });
}

#define WRITE(op_, run_) ACCESS_OP, .op = (op_), .body = BODY_KEY, .query = QUERY_DC, .run = (run_), \
	.finish = acl_finish
#define READ(op_) ACCESS_OP, .op = (op_), .body = BODY_KEY, .query = QUERY_READ, .finish = acl_finish_one
#define MISSING .missing = "Bad request: Missing token ID"

const struct endpoint api_acl_token[] = {
	{ "/v1/acl/tokens", "GET", ACCESS_OP, .op = OP_ACL_TOKEN_LIST, .query = QUERY_READ,
	    BIND(FROM_QUERY("policy", acl_token_list, Policy), FROM_QUERY("role", acl_token_list, Role),
	    FROM_QUERY("authmethod", acl_token_list, AuthMethod)), .flags = SHOW_INDEX, .finish = acl_finish },
	{ "/v1/acl/token", "PUT", WRITE(OP_ACL_TOKEN_SET, run_create) },
	{ "/v1/acl/token/self", "GET", READ(OP_ACL_TOKEN_SELF), .run = run_self },
	{ "/v1/acl/token/", "PUT", WRITE(OP_ACL_TOKEN_CLONE, run_clone), .ending = "/clone" },
	{ "/v1/acl/token/", "GET", READ(OP_ACL_TOKEN_GET), MISSING, BIND(FROM_PATH(acl_token_read, AccessorID)) },
	{ "/v1/acl/token/", "PUT", WRITE(OP_ACL_TOKEN_SET, run_update), MISSING },
	{ "/v1/acl/token/", "DELETE", WRITE(OP_ACL_TOKEN_DELETE, run_delete), MISSING, .render = RENDER_VALUE },
	{ .path = NULL },
};
