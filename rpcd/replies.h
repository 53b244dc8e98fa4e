/*
 * Answers as libmicrohttpd's response objects.
 *
 * Making one costs an allocation for each name and each value of its headers.  Some answers repeat: every plain write
 * is answered "true", and whoever waits for the same key gets the same bytes.  The last such object is kept and given
 * out again.
 */
#ifndef TV_REPLIES_H
#define TV_REPLIES_H

#include <microhttpd.h>

#include "rpcd/opts.h"
#include "rpcd/request.h"

struct replies;

/* conf: its response_headers are added to every answer; borrowed.  NULL: no memory. */
struct replies *replies_new(const struct rpcd_conf *conf);
void replies_free(struct replies *r);
/*
 * The object for an answer, until replies_done().  many: others may wait for the same one.  It may refer to the bytes
 * of the body, which must stay until libmicrohttpd is done with it.  NULL: no memory.
 */
struct MHD_Response *replies_take(struct replies *r, const struct answer *a, bool many, bool close_after);
void replies_done(struct replies *r, struct MHD_Response *response);
/* What every response gets, streams too: the headers of the answer, the configured ones, Connection: close. */
void replies_headers(const struct replies *r, struct MHD_Response *response, const struct answer *a, bool close_after);

#endif
