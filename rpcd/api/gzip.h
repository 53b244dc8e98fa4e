/* gzip for answers: one stream, used again and again. */
#ifndef TV_RPCD_API_GZIP_H
#define TV_RPCD_API_GZIP_H

#include "common/base/buf.h"

#define GZIP_BYTES_MIN 1400		/* shorter bodies are sent as they are */

struct gzip;

struct gzip *gzip_new(void);		/* NULL: no memory */
void gzip_free(struct gzip *g);
/* Appends the packed form of in to out.  TV_ELIMIT, TV_ENOMEM: out is useless. */
enum tv_err gzip_pack(struct gzip *g, struct span in, struct buf *out);
/* Does an Accept-Encoding header allow gzip ("gzip", "*", not ";q=0")?  NULL is no. */
bool gzip_accepted(const char *accept_encoding);

#endif
