/* /v1/acl/: access control is off, and says so. */
#include "rpcd/api/api.h"

static void
run_disabled(struct request *r)
{
	answer_text(r, 401, "ACL support disabled");
}

#define DISABLED(path_, method_) { (path_), (method_), ACCESS_NONE, .run = run_disabled }

const struct endpoint api_acl[] = {
	DISABLED("/v1/acl/bootstrap", "PUT"),
	DISABLED("/v1/acl/login", "POST"),
	DISABLED("/v1/acl/logout", "POST"),
	DISABLED("/v1/acl/replication", "GET"),
	DISABLED("/v1/acl/policies", "GET"),
	DISABLED("/v1/acl/policy", "PUT"),
	DISABLED("/v1/acl/policy/", "GET"), DISABLED("/v1/acl/policy/", "PUT"), DISABLED("/v1/acl/policy/", "DELETE"),
	DISABLED("/v1/acl/roles", "GET"),
	DISABLED("/v1/acl/role", "PUT"),
	DISABLED("/v1/acl/role/", "GET"), DISABLED("/v1/acl/role/", "PUT"), DISABLED("/v1/acl/role/", "DELETE"),
	DISABLED("/v1/acl/tokens", "GET"),
	DISABLED("/v1/acl/token", "PUT"),
	DISABLED("/v1/acl/token/", "GET"), DISABLED("/v1/acl/token/", "PUT"), DISABLED("/v1/acl/token/", "DELETE"),
	DISABLED("/v1/acl/rules/translate", "POST"),
	{ .path = NULL },
};
