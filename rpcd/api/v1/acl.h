/* What the endpoints of access control share. */
#ifndef TV_RPCD_API_V1_ACL_H
#define TV_RPCD_API_V1_ACL_H

#include "rpcd/api/api.h"

/*
 * The body into a record, as these endpoints word what is wrong with it: `Bad request: Token decoding failed: ...`.
 * optional: it may be missing.  False: answered.
 */
bool acl_decode(struct request *r, const struct schema *s, const char *what, bool optional, void *rec);
/* The id of a record is that of the path, and the body may repeat it.  False: answered, it has another one. */
bool acl_take_id(struct request *r, const char *what, struct span *id);
/* An error of the servers: answers it and returns true. */
bool acl_failed(struct request *r, const struct op_reply *reply);
/* finish: the record, the list, or true. */
void acl_finish(struct request *r, const struct op_reply *reply);
/* finish: the one record of a list, or 403 `ACL not found`, or 404 without a body. */
void acl_finish_one(struct request *r, const struct op_reply *reply);
void acl_finish_one_or_404(struct request *r, const struct op_reply *reply);

#endif
