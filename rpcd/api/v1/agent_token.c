/* /v1/agent/token/: the tokens of this agent. */
#include "common/base/log.h"
#include "common/record/records.h"
#include "common/record/schema_json.h"
#include "rpcd/api/api.h"

RECORD_LOCAL(token_body, (STR, Token))

static void
run_token(struct request *r)
{
	struct token_body body = { .Token = SPAN_NONE };
	enum rpcd_token kind;
	enum tv_err err;

	if (r->api->acl == NULL || !acl_holds(r->api->acl)) {
		answer_text(r, 401, "ACL support disabled");
		return;
	}
	if (!agent_token_kind(r->rest, &kind)) {
		answer_text(r, 404, "Token \"%.*s\" is unknown", SPAN_ARGS(r->rest));
		return;
	}
	if (!api_decode(r, &token_body_schema, 0, false, &body))
		return;
	err = agent_token_set(r->api->tokens, kind, body.Token);
	if (err == TV_EINVAL)
		answer_text(r, 400, "Bad request: a token has at most %d bytes", OP_NAME_BYTES_MAX);
	else if (err == TV_ENOMEM)
		answer_text(r, 500, "%s", tv_strerror(err));
	else if (err != TV_OK)
		answer_text(r, 500, "the token is used from now on, but it cannot be kept over a restart: %s",
		    tv_strerror(err));
	else
		answer_empty(r, 200);
	if (err != TV_EINVAL && err != TV_ENOMEM)
		log_info("acl", "the token \"%.*s\" of this agent was set by a request", SPAN_ARGS(r->rest));
}

const struct endpoint api_agent_tokens[] = {
	{ "/v1/agent/token/", "PUT", ACCESS_AGENT_WRITE, .body = BODY_KEY, .run = run_token },
	{ .path = NULL },
};
