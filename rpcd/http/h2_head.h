/*
 * Heads of HTTP/2 requests, read as those of HTTP/1.1.  Pure: no I/O, no clock.
 *
 * The fields of a head are written down as a request of HTTP/1.1 would have them, and http_scan.h reads that: so what
 * is refused there is refused here, with the same words, and whatever asks for a head asks one kind.  libnghttp2 has
 * checked before what RFC 9113, 8.2 and 8.3 want: pseudo-fields first and once, names in lower case, no field of a
 * connection.
 */
#ifndef TV_RPCD_HTTP_H2_HEAD_H
#define TV_RPCD_HTTP_H2_HEAD_H

#include "common/base/buf.h"
#include "rpcd/http/http_scan.h"

struct h2_head {
	struct http_head scanned;
	struct buf text;		/* the head as HTTP/1.1 has it; secret: a token may be in it */
	struct buf pseudo;		/* values of :method, :path and :authority, until the first other field */
	struct http_part method, path, authority;
	size_t unpacked;		/* bytes of all fields, each with 32 more (RFC 9113, 6.5.2) */
	bool has_authority, lined;	/* lined: the request line is in text */
	bool differs;			/* Host and :authority */
	bool failed;			/* no memory */
};

/* A new one, for heads of at most max bytes.  NULL: no memory. */
struct h2_head *h2_head_new(size_t max);
/* Wipes and frees it.  NULL is fine. */
void h2_head_free(struct h2_head *h);
/* Before the first field; it may have been used before. */
void h2_head_begin(struct h2_head *h, size_t max);
/*
 * One field.  What is beyond max is not kept.  False: so much beyond it that the sender means harm (a few bytes can
 * unpack to very many), the connection should end.
 */
bool h2_head_field(struct h2_head *h, struct span name, struct span value);
/*
 * The head is complete: HTTP_DONE or HTTP_BAD in h->scanned, over h->text.data.  body: one follows; if its length was
 * not announced, it is HTTP_CHUNKED.  HTTP_MORE: no memory.
 */
enum http_scanned h2_head_end(struct h2_head *h, bool body);

#endif
