/* gzip for answers, on zlib. */
#include <stdlib.h>
#include <strings.h>
#include <zlib.h>

#include "rpcd/api/gzip.h"

#define GZIP_WINDOW (15 + 16)		/* largest window, gzip framing */
#define GZIP_LEVEL 4			/* answers are sent once: speed counts more than the last percent */

struct gzip {
	z_stream z;
};

struct gzip *
gzip_new(void)
{
	struct gzip *g = calloc(1, sizeof(*g));

	if (g != NULL && deflateInit2(&g->z, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
		free(g);
		return NULL;
	}
	return g;
}

void
gzip_free(struct gzip *g)
{
	if (g == NULL)
		return;
	(void)deflateEnd(&g->z);	/* the stream may be mid-way: that is fine here */
	free(g);
}

enum tv_err
gzip_pack(struct gzip *g, struct span in, struct buf *out)
{
	if (in.len > UINT32_MAX || deflateReset(&g->z) != Z_OK)
		return TV_ELIMIT;
	size_t bound = deflateBound(&g->z, (uLong)in.len);
	uint8_t *to = buf_room(out, bound);
	if (to == NULL)
		return TV_ELIMIT;
	g->z.next_in = (z_const Bytef *)(uintptr_t)in.p;
	g->z.avail_in = (uInt)in.len;
	g->z.next_out = to;
	g->z.avail_out = (uInt)bound;
	if (deflate(&g->z, Z_FINISH) != Z_STREAM_END)
		return TV_ENOMEM;
	out->len += bound - g->z.avail_out;
	return TV_OK;
}

/* Is the quality in "gzip;q=0.0" zero? */
static bool
refused(const char *p, const char *end)
{
	const char *q = memchr(p, '=', (size_t)(end - p));

	return q != NULL && strtod(q + 1, NULL) == 0;
}

bool
gzip_accepted(const char *accept_encoding)
{
	const char *p = accept_encoding;

	while (p != NULL && *p != '\0') {
		p += strspn(p, " \t,");
		const char *end = p + strcspn(p, ",");
		size_t n = strcspn(p, " \t;,");

		if ((n == 4 && strncasecmp(p, "gzip", 4) == 0) || (n == 1 && *p == '*'))
			return !refused(p, end);
		p = end;
	}
	return false;
}
