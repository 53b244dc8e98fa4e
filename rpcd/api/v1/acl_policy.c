/* /v1/acl/policy and /v1/acl/role. */
#include "common/record/records.h"
#include "rpcd/api/v1/acl.h"

static void
run_set_policy(struct request *r)
{
	struct acl_policy_set q = { .Create = false };

	if (!acl_decode(r, &acl_policy_schema, "Policy", false, &q.Policy))
		return;
	if (r->rest.len == 0 && q.Policy.ID.len > 0)
		answer_text(r, 400, "Bad request: Cannot specify the ID when creating a new policy");
	else if (acl_take_id(r, "Policy ID", &q.Policy.ID))
		api_ask(r, &q);
}

static void
run_set_role(struct request *r)
{
	struct acl_role_set q = { .Create = false };

	if (acl_decode(r, &acl_role_schema, "Role", false, &q.Role) && acl_take_id(r, "Role ID", &q.Role.ID))
		api_ask(r, &q);
}

#define MISSING(what_) .missing = "Bad request: Missing " what_
#define READ(op_, finish_, ...) ACCESS_OP, .op = (op_), .query = QUERY_READ, BIND(__VA_ARGS__), .finish = (finish_)
#define DELETE(op_) ACCESS_OP, .op = (op_), .query = QUERY_DC, BIND(FROM_PATH(acl_id, ID)), .render = RENDER_VALUE, \
	.finish = acl_finish
#define WRITE(op_, run_) ACCESS_OP, .op = (op_), .body = BODY_BYTES, .query = QUERY_DC, .run = (run_), \
	.finish = acl_finish
#define LIST(op_) ACCESS_OP, .op = (op_), .query = QUERY_READ, .flags = SHOW_INDEX, .finish = acl_finish

const struct endpoint api_acl_policy[] = {
	{ "/v1/acl/policies", "GET", LIST(OP_ACL_POLICY_LIST) },
	{ "/v1/acl/policy", "PUT", WRITE(OP_ACL_POLICY_SET, run_set_policy) },
	{ "/v1/acl/policy/", "GET", READ(OP_ACL_POLICY_GET, acl_finish_one, FROM_PATH(acl_read, ID)),
	    MISSING("policy ID") },
	{ "/v1/acl/policy/", "PUT", WRITE(OP_ACL_POLICY_SET, run_set_policy), MISSING("policy ID") },
	{ "/v1/acl/policy/", "DELETE", DELETE(OP_ACL_POLICY_DELETE), MISSING("policy ID") },
	{ "/v1/acl/policy/name/", "GET", READ(OP_ACL_POLICY_GET, acl_finish_one, FROM_PATH(acl_read, Name)),
	    MISSING("policy Name") },
	{ "/v1/acl/roles", "GET", LIST(OP_ACL_ROLE_LIST) },
	{ "/v1/acl/role", "PUT", WRITE(OP_ACL_ROLE_SET, run_set_role) },
	{ "/v1/acl/role/", "GET", READ(OP_ACL_ROLE_GET, acl_finish_one_or_404, FROM_PATH(acl_read, ID)),
	    MISSING("role ID") },
	{ "/v1/acl/role/", "PUT", WRITE(OP_ACL_ROLE_SET, run_set_role), MISSING("role ID") },
	{ "/v1/acl/role/", "DELETE", DELETE(OP_ACL_ROLE_DELETE), MISSING("role ID") },
	{ "/v1/acl/role/name/", "GET", READ(OP_ACL_ROLE_GET, acl_finish_one_or_404, FROM_PATH(acl_read, Name)),
	    MISSING("role Name") },
	{ .path = NULL },
};
