/*
 * What several lists of rules and a default mean together, compiled once, asked often.
 *
 *   one name      its exact rule, else the longest prefix rule that covers it, else the default
 *   one rule      of those with the same resource, kind and name: deny before write before list before read
 *   intentions    as the rules of services say; without `intentions`, read where the service may be read or written
 *   mesh, peering without a rule, as operator
 *
 * A set is one allocation that never changes and points to nothing of the lists: it may be asked from several threads.
 * A question costs a binary search and allocates nothing.
 * Source: Consul's documentation of ACL rules, recorded cases acl/kv-... and intention/acl-...
 */
#ifndef TV_COMMON_ACL_SET_H
#define TV_COMMON_ACL_SET_H

#include "common/acl/rules.h"

#define ACL_SET_RULES_MAX 131072		/* of all lists */
#define ACL_SET_NAMES_MAX (64 * 1024 * 1024)	/* bytes of their names */

struct acl_set;

enum acl_reason_kind {
	ACL_BY_RULE,
	ACL_BY_DEFAULT,		/* no rule covers the name */
	ACL_BY_ALL_RULES,	/* of "*" as a destination of intentions: all names were looked at */
	ACL_BY_MANAGEMENT	/* acl_set_management() */
};

/* Why a name has its access.  All but kind and access is of the rule, and zero without one. */
struct acl_reason {
	enum acl_reason_kind kind;
	enum acl_access access;
	uint32_t policy;	/* place of its list in what acl_set_new() was given */
	unsigned line;		/* in the policy's text */
	enum acl_resource resource;	/* what the rule is about: services for intentions */
	bool prefix, intentions;	/* intentions: that field decided, not `policy` */
	struct span name;	/* the rule's; a loan from the set */
};

/*
 * Compiles n lists.  default_allow: what no rule covers is allowed, but for ACL_ACL, which only rules give.
 * To be freed with acl_set_free().  TV_ELIMIT for more than the limits above; TV_ENOMEM; *out is NULL then.
 */
enum tv_err acl_set_new(const struct acl_rules *const *lists, uint32_t n, bool default_allow, struct acl_set **out);
void acl_set_free(struct acl_set *set);
/* The set that allows everything; not to be freed. */
const struct acl_set *acl_set_management(void);
/* Bytes that the set takes, itself included. */
size_t acl_set_bytes(const struct acl_set *set);

/* ACL_DENY, ACL_READ, ACL_LIST or ACL_WRITE.  The name does not matter for resources that have none. */
enum acl_access acl_set_access(const struct acl_set *set, enum acl_resource r, struct span name);
/* Whether that access includes `need`, which is ACL_READ, ACL_LIST or ACL_WRITE. */
bool acl_set_allows(const struct acl_set *set, enum acl_resource r, struct span name, enum acl_access need);
/*
 * Whether all that begins with `prefix` may be written, whether it exists or not: the rule that covers the prefix gives
 * write, and no rule about anything below gives less.
 */
bool acl_set_writes_below(const struct acl_set *set, enum acl_resource r, struct span prefix);
/* Whether there may be a name with that access at all: else a filter leaves nothing. */
bool acl_set_allows_any(const struct acl_set *set, enum acl_resource r, enum acl_access need);
/* Whether every name has that access: then a filter leaves all. */
bool acl_set_allows_all(const struct acl_set *set, enum acl_resource r, enum acl_access need);
/* What decided acl_set_access(), which *why repeats. */
void acl_set_explain(const struct acl_set *set, enum acl_resource r, struct span name, struct acl_reason *why);

#endif
