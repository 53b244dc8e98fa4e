/* The access column of operations, see op_access.h. */
#include "common/record/op_access.h"

enum acl_resource
op_access_resource(enum op_resource r)
{
	switch (r) {
	case OP_RES_KEY:
		return ACL_KEY;
	case OP_RES_NODE:
		return ACL_NODE;
	case OP_RES_SERVICE:
		return ACL_SERVICE;
	case OP_RES_EVENT:
		return ACL_EVENT;
	case OP_RES_SESSION:
	case OP_RES_SESSION_ID:
		return ACL_SESSION;
	case OP_RES_OPERATOR:
		return ACL_OPERATOR;
	case OP_RES_KEYRING:
		return ACL_KEYRING;
	case OP_RES_AGENT:
		return ACL_AGENT;
	case OP_RES_QUERY:
	case OP_RES_QUERY_ID:
		return ACL_QUERY;
	case OP_RES_STATE:
	case OP_RES_ACL:
		break;
	}
	return ACL_ACL;
}

/* All of the state holds the secrets of all tokens. */
static enum acl_access
access_needed(const struct op_access *a, const void *field)
{
	if (a->scope == OP_VERB)
		return *(const uint64_t *)field == 0 ? ACL_READ : ACL_WRITE;
	if (a->resource == OP_RES_STATE || a->right == OP_MAY_WRITE)
		return ACL_WRITE;
	return a->right == OP_MAY_LIST ? ACL_LIST : ACL_READ;
}

bool
op_access_allows(const struct acl_set *who, const struct op *op, const void *args)
{
	const struct op_access *a = &op->access;
	const void *field = (const char *)args + a->field;
	struct span name = a->scope == OP_OBJECT ? *(const struct span *)field : SPAN_NONE;

	return a->scope == OP_FILTER || a->scope == OP_NONE ||
	    acl_set_allows(who, op_access_resource(a->resource), name, access_needed(a, field));
}
