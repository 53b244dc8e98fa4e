/* What the servers say of a token, compiled.  Pure. */
#ifndef TV_RPCD_ACL_RIGHTS_H
#define TV_RPCD_ACL_RIGHTS_H

#include "rpcd/acl/resolver.h"

/* From a packed acl_resolved.  TV_EFORMAT, TV_EOF: it is none; TV_ENOMEM, TV_ELIMIT; *out is NULL then. */
enum tv_err acl_rights_read(struct span value, struct acl_rights **out);
/* Of such a value: equal digests are equal rights. */
void acl_rights_digest(struct span value, uint8_t digest[32]);
/* All but access control itself, or nothing.  NULL: no memory. */
struct acl_rights *acl_rights_plain(bool allow);
/* What agent_master gives.  NULL: no memory. */
struct acl_rights *acl_rights_master(const char *node_name);

#endif
