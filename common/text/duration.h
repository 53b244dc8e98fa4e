/*
 * Lengths of time as text, in the form that the API and the configuration share.
 */
#ifndef TV_COMMON_TEXT_DURATION_H
#define TV_COMMON_TEXT_DURATION_H

#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/rd.h"

/*
 * Reads "1h2m3.5s", "250ms", "-1s", "10us"; without a unit only "0".
 * TV_EFORMAT for anything else, TV_ELIMIT when it does not fit 64 bits of nanoseconds.
 */
enum tv_err duration_parse(struct span text, int64_t *ns);
/* Why text is no duration, in the API's words: time: invalid duration "abc"; time: missing unit in duration "10". */
void duration_why(struct span text, struct buf *out);
/* As Go prints them: "1m30s", "10s", "250ms", "24h0m0s", "0s". */
void duration_print(int64_t ns, struct buf *out);

#endif
