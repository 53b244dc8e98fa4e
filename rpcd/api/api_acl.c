/* /v1/acl/: access control is off, and says so. */
#include "rpcd/api/api.h"

static void
run_disabled(struct request *r)
{
	answer_text(r, 401, "ACL support disabled");
}

const struct endpoint api_acl[] = {
	{ "/v1/acl/bootstrap", "PUT", BODY_NONE, run_disabled, NOT_ADMIN },
	{ "/v1/acl/login", "POST", BODY_NONE, run_disabled, NOT_ADMIN },
	{ "/v1/acl/logout", "POST", BODY_NONE, run_disabled, NOT_ADMIN },
	{ "/v1/acl/replication", "GET", BODY_NONE, run_disabled, NOT_ADMIN },
	{ "/v1/acl/policies", "GET", BODY_NONE, run_disabled, NOT_ADMIN },
	{ "/v1/acl/policy", "PUT", BODY_NONE, run_disabled, NOT_ADMIN },
	{ "/v1/acl/policy/", "GET,PUT,DELETE", BODY_NONE, run_disabled, NOT_ADMIN },
	{ "/v1/acl/roles", "GET", BODY_NONE, run_disabled, NOT_ADMIN },
	{ "/v1/acl/role", "PUT", BODY_NONE, run_disabled, NOT_ADMIN },
	{ "/v1/acl/role/", "GET,PUT,DELETE", BODY_NONE, run_disabled, NOT_ADMIN },
	{ "/v1/acl/tokens", "GET", BODY_NONE, run_disabled, NOT_ADMIN },
	{ "/v1/acl/token", "PUT", BODY_NONE, run_disabled, NOT_ADMIN },
	{ "/v1/acl/token/", "GET,PUT,DELETE", BODY_NONE, run_disabled, NOT_ADMIN },
	{ "/v1/acl/rules/translate", "POST", BODY_NONE, run_disabled, NOT_ADMIN },
	{ NULL, NULL, BODY_NONE, NULL, NULL },
};
