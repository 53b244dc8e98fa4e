/* The last bytes of an output that may be of any length, in bounded memory.  Pure. */
#ifndef TV_RPCD_CHECK_TAIL_H
#define TV_RPCD_CHECK_TAIL_H

#include "common/base/buf.h"

struct tail {
	struct buf buf;
	size_t max;			/* bytes that are kept */
	uint64_t total;			/* bytes that came */
};

void tail_init(struct tail *t, size_t max);
void tail_done(struct tail *t);
void tail_put(struct tail *t, struct span bytes);
/* At most max bytes; a loan until the next call. */
struct span tail_span(const struct tail *t);
/* The same as the output of a program: where something is missing it begins with a line that says so. */
void tail_print(const struct tail *t, struct buf *out);

#endif
