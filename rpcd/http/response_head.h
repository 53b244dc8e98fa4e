/*
 * The head of an answer, as text and as the headers that libmicrohttpd is given: both roads that an answer can take
 * come through here, so that clients cannot tell them apart (tests/unit/check_response_head.c compares them byte by
 * byte).
 */
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

typedef void response_head_field(void *ctx, const char *name, const char *value);
/* The headers of an answer in their order: its own, then the configured ones. */
void response_head_fields(const struct rpcd_conf *conf, const struct answer *a, response_head_field *fn, void *ctx);
/* Appends all of the head of an answer with this body length, the empty line included. */
void response_head_write(struct buf *out, const struct rpcd_conf *conf, const struct answer *a,
    enum response_head_keep keep);

#endif
