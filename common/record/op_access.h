/*
 * What the access column of ops.h means in the language of rules: raftd judges by it what it serves, rpcd what is
 * carried out there.
 */
#ifndef TV_COMMON_RECORD_OP_ACCESS_H
#define TV_COMMON_RECORD_OP_ACCESS_H

#include "common/acl/set.h"
#include "common/record/ops.h"

/* What rules are about that give a right to this. */
enum acl_resource op_access_resource(enum op_resource r);
/*
 * Do these rules allow the operation, as far as its row alone says?  args: its argument record.  OP_FILTER and OP_NONE:
 * yes; the first is shown what it may read, the second is judged elsewhere.
 */
bool op_access_allows(const struct acl_set *who, const struct op *op, const void *args);

#endif
