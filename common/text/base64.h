/* Base64, standard alphabet with padding (RFC 4648 section 4). */
#ifndef TV_COMMON_TEXT_BASE64_H
#define TV_COMMON_TEXT_BASE64_H

#include "common/base/buf.h"

void base64_encode(struct span in, struct buf *out);
/* Strict: else TV_EFORMAT, and out is unchanged. */
enum tv_err base64_decode(struct span in, struct buf *out);

#endif
