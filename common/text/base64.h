/* Base64 (RFC 4648): the standard alphabet with padding (section 4), and that of URLs without (section 5). */
#ifndef TV_COMMON_TEXT_BASE64_H
#define TV_COMMON_TEXT_BASE64_H

#include "common/base/buf.h"

void base64_encode(struct span in, struct buf *out);
/* Strict: else TV_EFORMAT, and out is unchanged. */
enum tv_err base64_decode(struct span in, struct buf *out);
/* Strict as well.  False: it is none, or does not fit; out may have some of it. */
bool base64url_decode(struct span in, struct buf *out);

#endif
