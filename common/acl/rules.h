/*
 * The rules of an access policy: from text, in the language of Consul's policies or as JSON, to a list.
 *
 *     key_prefix "app/" { policy = "write" }
 *     key "app/secret" { policy = "deny" }
 *     operator = "read"
 *
 * A list is one allocation, never changes, and keeps nothing of the text.
 * Source: Consul's documentation of ACL rules, recorded cases acl/policy-* and auth/translate*.
 */
#ifndef TV_COMMON_ACL_RULES_H
#define TV_COMMON_ACL_RULES_H

#include "common/base/buf.h"

#define ACL_RULES_TEXT_MAX (256 * 1024)	/* bytes of a text */
#define ACL_RULES_MAX 8192		/* rules of a text */

/* What a rule is about, by name; intentions have no rules of their own.  Nothing here asks about mesh and peering. */
enum acl_resource {
	ACL_ACL, ACL_AGENT, ACL_EVENT, ACL_KEY, ACL_KEYRING, ACL_MESH, ACL_NODE, ACL_OPERATOR, ACL_PEERING, ACL_QUERY,
	    ACL_SERVICE, ACL_SESSION,
	ACL_INTENTION,			/* to the service of that name: `intentions` of service rules */
	ACL_RESOURCES
};

/* What a rule gives.  A greater one includes the smaller ones above ACL_DENY. */
enum acl_access {
	ACL_UNSET,			/* of intentions: as the rule's policy says */
	ACL_DENY, ACL_READ,
	ACL_LIST,			/* of keys only */
	ACL_WRITE
};

struct acl_rule {
	struct span name;		/* empty where the resource has no names; may hold any bytes */
	unsigned line;			/* of the text, from 1; 0 when there was none */
	uint8_t resource;		/* enum acl_resource */
	uint8_t access, intentions;	/* enum acl_access; intentions of services only */
	bool prefix;			/* covers all that begins with `name`; true where the resource has no names */
};

struct acl_rules {
	size_t bytes;			/* of all of this, names included */
	uint32_t count;
	struct acl_rule rule[];		/* in the order of the text; several may be about the same */
};

/* "key", "service" ...; never NULL. */
const char *acl_resource_name(enum acl_resource r);
/* Whether rules about it name something: not acl, keyring, mesh, operator, peering. */
bool acl_resource_has_names(enum acl_resource r);
/* "deny", "read", "list", "write"; "" for ACL_UNSET. */
const char *acl_access_name(enum acl_access a);

/*
 * The rules of a text, to be freed with acl_rules_free(); an empty text has none.  Names of resources and fields may
 * be written in any case; a field or a resource without names that is given twice counts as the last one says, as in
 * Consul.
 *
 * Else *out is NULL, and why has one sentence for the client, without a period:
 *   TV_EFORMAT  `Failed to parse ACL rules: At LINE:COLUMN: ...` for what cannot be read, for resources and fields
 *               that are not known and for sentinel code; `Invalid key policy: "x" ...` for an access that the
 *               resource does not have
 *   TV_ELIMIT   too long, too many rules, or nested too deep (also with the prefix `Failed to parse ACL rules: `)
 *   TV_ENOMEM
 */
enum tv_err acl_rules_parse(struct span text, struct acl_rules **out, struct buf *why);
void acl_rules_free(struct acl_rules *rules);
/*
 * Rules of the old syntax, HCL or JSON, in the current one, added to out: what was a rule about a name becomes one
 * about all that begin with it.  Neither names nor accesses are checked; comments stay, the layout becomes the usual
 * one.
 *
 * TV_OK, or one sentence in why: TV_EFORMAT and TV_ELIMIT as above, with the prefix `Failed to parse rules: `;
 * TV_ELIMIT when out is too small, TV_ENOMEM, both with the prefix `Failed to output new rules: `.
 */
enum tv_err acl_rules_translate(struct span text, struct buf *out, struct buf *why);

/*
 * What a service identity gives: service write on the name and on NAME-sidecar-proxy, service and node read
 * everywhere.  NULL without memory.
 */
struct acl_rules *acl_identity_service(struct span name);
/* What a node identity gives, in its datacenter: node write on the name, service read everywhere.  NULL likewise. */
struct acl_rules *acl_identity_node(struct span name);

/* The rules of the builtin policy global-management, as text that acl_rules_parse() takes. */
extern const char acl_rules_management[];

#endif
