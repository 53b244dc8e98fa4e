/*
 * /v1/acl/: access control.  Whether it holds is written in the cluster's state, so the servers are asked even to
 * say that it does not.  Tokens are in v1/acl_token.c, policies and roles in v1/acl_policy.c, auth methods and
 * logins in v1/acl_auth.c.  Source: http-api, section 10.
 */
#include "common/base/uuid.h"
#include "common/record/mpack.h"
#include "common/record/records.h"
#include "common/record/schema_json.h"
#include "common/text/json_text.h"
#include "rpcd/api/v1/acl.h"

/* -- shared -- */

bool
acl_decode(struct request *r, const struct schema *s, const char *what, bool optional, void *rec)
{
	char why[512];
	enum tv_err err;
	json_t *v;

	if (api_too_large(r, "body_bytes_max"))
		return false;
	if (r->body.len == 0 && optional)
		return true;
	v = json_first_value(buf_span(&r->body), why, sizeof(why));
	err = v == NULL || !api_tenancy_body(v, why, sizeof(why)) ? TV_EFORMAT :
	    schema_from_json(s, v, SJ_STRICT, &r->arena, rec, why, sizeof(why));
	json_decref(v);
	if (err != TV_OK)
		answer_text(r, err == TV_ENOMEM ? 500 : 400, "Bad request: %s decoding failed: %s%s", what, why,
		    strcmp(why, "json: unknown field \"Namespace\"") == 0 ?
		    " - Namespaces are a Consul Enterprise feature" : "");
	return err == TV_OK;
}

bool
acl_take_id(struct request *r, const char *what, struct span *id)
{
	if (id->len > 0 && !span_eq(*id, r->rest))
		answer_text(r, 400, "Bad request: %s in URL and payload do not match", what);
	*id = r->rest;
	return !r->answered;
}

bool
acl_failed(struct request *r, const struct op_reply *reply)
{
	const char *primary = cluster_acl_primary(r->api->cluster);

	/* What is global is written in the primary datacenter, and nothing was done here. */
	if (reply->err == TV_ECONFLICT && span_starts(reply->text, span_str(ACL_PRIMARY_TEXT)) && r->op.dc.len == 0 &&
	    primary != NULL) {
		api_start_again(r, span_str(primary));
		return true;
	}
	if (reply->err != TV_EDISABLED)
		return api_failed(r, reply);
	answer_span(r, 401, reply->text);
	return true;
}

void
acl_finish(struct request *r, const struct op_reply *reply)
{
	if (!acl_failed(r, reply))
		api_finish(r, reply);
}

/* status: of an empty list. */
static void
finish_first(struct request *r, const struct op_reply *reply, unsigned status)
{
	struct rd in = rd_span_over(reply->value);
	uint32_t n;

	if (acl_failed(r, reply))
		return;
	n = mpr_array(&in);
	api_headers(r, reply, false);
	if (in.err == TV_OK && n == 0 && status == 404)
		answer_empty(r, 404);
	else if (in.err == TV_OK && n == 0)
		answer_text(r, status, "ACL not found");
	else
		api_rendered(r, n != 1 ? TV_EFORMAT : schema_json(op_find(r->op.op)->answer, &in, &r->answer.body));
}

void
acl_finish_one(struct request *r, const struct op_reply *reply)
{
	finish_first(r, reply, 403);
}

void
acl_finish_one_or_404(struct request *r, const struct op_reply *reply)
{
	finish_first(r, reply, 404);
}

/* -- the first token -- */

/* The secret stands in ID too, as clients of old versions look for it. */
static void
finish_bootstrap(struct request *r, const struct op_reply *reply)
{
	struct rd in = rd_span_over(reply->value);
	struct acl_token t = { .AccessorID = SPAN_NONE };
	struct buf one = BUF_INIT(REQUEST_ARENA_MAX);

	if (acl_failed(r, reply) || !api_record(r, reply, &acl_token_schema, &t))
		return;
	one.secret = true;
	buf_puts(&r->answer.body, "{\"ID\":");
	json_quote(t.SecretID, &r->answer.body);
	if (schema_json(&acl_token_schema, &in, &one) != TV_OK || one.len < 2) {
		answer_text(r, 500, "rpc error making call: malformed answer");
	} else {
		buf_u8(&r->answer.body, ',');
		buf_putspan(&r->answer.body, span_of(one.data + 1, one.len - 1));
		answer_json(r);
	}
	buf_done(&one);
}

RECORD_LOCAL(bootstrap_body, (STR, BootstrapSecret))

/* The secret that the token is to have; without one, and else, the leader knows what goes in. */
static void
run_bootstrap(struct request *r)
{
	struct bootstrap_body body = { .BootstrapSecret = SPAN_NONE };

	if (!api_decode(r, &bootstrap_body_schema, 0, true, &body))
		return;
	if (body.BootstrapSecret.len > 0 && !uuid_parse(body.BootstrapSecret, NULL))
		answer_text(r, 400, "Bad request: BootstrapSecret is not a valid UUID");
	else if (span_starts(body.BootstrapSecret, span_str(UUID_RESERVED)))
		answer_text(r, 400, "Bad request: UUIDs with the prefix \"" UUID_RESERVED "\" are reserved");
	else
		api_ask(r, &(struct acl_bootstrap){ .Token = { .SecretID = body.BootstrapSecret } });
}

/* -- rules of the old syntax -- */

static void
run_translate(struct request *r)
{
	struct acl_rules_text q = { .Rules = buf_span(&r->body) };

	if (!api_too_large(r, "body_bytes_max"))
		api_ask(r, &q);
}

static void
finish_translate(struct request *r, const struct op_reply *reply)
{
	struct text_reply t = { .Value = SPAN_NONE };

	if (reply->err == TV_EFORMAT || reply->err == TV_ELIMIT)
		answer_text(r, 400, "Bad request: %.*s", SPAN_ARGS(reply->text));
	else if (acl_failed(r, reply) || !api_record(r, reply, &text_reply_schema, &t))
		return;
	else if (t.Value.len == 0)
		answer_empty(r, 200);
	else
		answer_span(r, 200, t.Value);
}

/* No token of this version has rules of its own. */
static void
finish_translate_token(struct request *r, const struct op_reply *reply)
{
	struct rd in = rd_span_over(reply->value);

	if (acl_failed(r, reply))
		return;
	if (mpr_array(&in) == 0)
		answer_text(r, 403, "ACL not found");
	else
		answer_text(r, 500, "The specified token does not have any rules set");
}

const struct endpoint api_acl[] = {
	{ "/v1/acl/bootstrap", "PUT", ACCESS_OP, .op = OP_ACL_BOOTSTRAP, .body = BODY_KEY, .query = QUERY_DC,
	    .run = run_bootstrap, .finish = finish_bootstrap },
	{ "/v1/acl/replication", "GET", ACCESS_OP, .op = OP_ACL_REPLICATION, .query = QUERY_READ,
	    .finish = acl_finish },
	{ "/v1/acl/rules/translate", "POST", ACCESS_OP, .op = OP_ACL_TRANSLATE, .body = BODY_BYTES,
	    .query = QUERY_READ, .run = run_translate, .finish = finish_translate },
	{ "/v1/acl/rules/translate/", "GET", ACCESS_OP, .op = OP_ACL_TOKEN_GET, .query = QUERY_READ,
	    .missing = "Bad request: Missing token ID", BIND(FROM_PATH(acl_token_read, AccessorID)),
	    .finish = finish_translate_token },
	{ .path = NULL },
};
