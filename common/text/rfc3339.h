/* Times as text, in the form that the API shows them: RFC 3339, UTC, as many digits of the second as there are. */
#ifndef TV_COMMON_TEXT_RFC3339_H
#define TV_COMMON_TEXT_RFC3339_H

#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/rd.h"

#define RFC3339_BYTES_MAX 64

/* Nanoseconds since 1970: "2021-06-22T10:20:30.5Z". */
void rfc3339_print(int64_t ns, struct buf *out);
/*
 * Reads "2021-06-22T10:20:30Z", with a fraction of the second or none, and with an offset in place of the Z.
 * TV_EFORMAT for anything else; TV_ELIMIT for what does not fit: before 1678 or after 2261.
 */
enum tv_err rfc3339_parse(struct span text, int64_t *ns);

#endif
