/*
 * Log lines of this process for readers (clusterctl monitor).  Lines may come from any thread; readers
 * are told from the loop.  What waits in between is bounded: what does not fit is counted, and readers are told
 * how many.  Without a reader nothing is kept, and lines above log_level cost what they always cost: nothing.
 */
#ifndef TV_COMMON_NET_LOGTAP_H
#define TV_COMMON_NET_LOGTAP_H

#include <ev.h>

#include "common/base/log.h"

struct logtap;
struct logtap_reader;

struct log_line {
	int64_t wall_ms;
	enum log_level level;
	const char *area;		/* the tag */
	const char *text;		/* escaped: printable, one line */
};

/* At most one per process.  NULL: no memory. */
struct logtap *logtap_new(struct ev_loop *loop);
/* After its last reader, and after the last thread that logs. */
void logtap_free(struct logtap *t);
/* fn gets each line up to this level that is logged from now on.  It may remove readers.  NULL: no memory. */
struct logtap_reader *logtap_add(struct logtap *t, enum log_level level,
    void (*fn)(void *ctx, const struct log_line *line), void *ctx);
/* NULL: nothing. */
void logtap_remove(struct logtap_reader *r);

/* What a slow reader is told instead of the lines that it missed. */
void log_line_lost(struct log_line *line, char *text, size_t cap, uint64_t lost);

#endif
