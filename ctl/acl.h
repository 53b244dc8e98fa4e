/* What the files of `clusterctl acl` share: how links are given and shown, and rules shown. */
#ifndef TV_CTL_ACL_H
#define TV_CTL_ACL_H

#include "ctl/resource.h"

#define ACL_ANONYMOUS_ACCESSOR "00000000-0000-0000-0000-000000000002"
#define ACL_NEVER "0001-01-01T00:00:00Z"	/* a time that has not been, as Consul writes it */

/* Asks for /v1/acl/WHAT[/ID], with the parameters that the call gives; see resource_ask(). */
json_t *acl_ask(struct ctl *ctl, const char *method, const char *what, const char *id, const json_t *body);

/*
 * Policies, roles and identities of the call into a token or a role: a list of which something is given is replaced,
 * or added to with --merge; --clear empties one before.  0, or 2 after a complaint.
 */
int acl_set_links(const struct ctl *ctl, const struct resource_field *f, json_t *thing);

/* Links of a token or a role, one a line, and its identities. */
void acl_print_links(json_t *safe, const json_t *thing);
/* Columns: names of what a token or role has, with commas between. */
const char *acl_policies_text(json_t *row);
const char *acl_roles_text(json_t *row);
const char *acl_identities_text(json_t *row);
/* Prints rules as a table; what cannot be read as it is, with a sentence. */
void acl_print_rules(const char *text);

#endif
