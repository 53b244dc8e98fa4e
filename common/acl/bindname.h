/*
 * Names that binding rules bind to: texts in which ${value.X} stands for a value of who logs in.  A subset of HIL,
 * which Consul takes: no other variables, no functions, no arithmetic.  $${ stands for ${ itself.
 *
 * The state machine computes with it: what it takes or refuses never changes without a version of that.  Pure.
 */
#ifndef TV_COMMON_ACL_BINDNAME_H
#define TV_COMMON_ACL_BINDNAME_H

#include "common/base/buf.h"

#define BINDNAME_BYTES_MAX 256u		/* of a bound name; http-api 10.2 */

/* The value of this name; false: there can be none.  "" if there is none this time. */
typedef bool bindname_value_fn(void *ctx, struct span name, struct span *out);
/*
 * Appends the text with all values in place, letters of these lowered.  TV_EFORMAT: it does not read, or names what
 * there is not, with a sentence in why as Consul words it.  TV_ELIMIT: it is longer than out may get.
 */
enum tv_err bindname_fill(struct span text, bindname_value_fn *value, void *ctx, struct buf *out, struct buf *why);

enum bind_type { BIND_TYPE_UNKNOWN, BIND_TYPE_SERVICE, BIND_TYPE_ROLE, BIND_TYPE_NODE };
enum bind_type bindname_type(struct span text);
/* May something of this type have this name? */
bool bindname_valid(enum bind_type type, struct span name);

#endif
