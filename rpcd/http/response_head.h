/* The head of an answer. */
#ifndef TV_RPCD_HTTP_RESPONSE_HEAD_H
#define TV_RPCD_HTTP_RESPONSE_HEAD_H

#include "rpcd/api/api_request.h"
#include "rpcd/opts.h"

/* Does the connection go on after the answer? */
enum response_head_keep {
	HEAD_KEEP,		/* it does, as is usual in HTTP/1.1 */
	HEAD_KEEP_10,		/* it does, as an HTTP/1.0 client has asked for */
	HEAD_CLOSE,
};

/* What the head says of the body's end, in place of its bytes. */
#define HEAD_CHUNKED UINT64_MAX		/* it comes in chunks */
#define HEAD_TO_END (UINT64_MAX - 1)	/* the connection ends with it: for HTTP/1.0 */

/* "Not Found"; of a status without a name "Non-Standard Status". */
const char *response_head_phrase(unsigned status);
/*
 * Appends all of the head of an answer with a body of so many bytes, the empty line included: its own headers, then the
 * configured ones.
 */
void response_head_write(struct buf *out, const struct rpcd_conf *conf, const struct answer *a,
    enum response_head_keep keep, uint64_t body_bytes);

#endif
