/*
 * Writes the lines of the log that had to wait for its reader (log.h) when there is room for them, from the loop.
 * Without it they would wait for the next line.
 */
#ifndef TV_COMMON_PROC_LOG_DRAIN_H
#define TV_COMMON_PROC_LOG_DRAIN_H

#include <ev.h>

struct log_drain {		/* caller's storage; nothing to free */
	struct ev_loop *loop;
	ev_prepare prepare;	/* do lines wait? */
	ev_io io;		/* active while they do */
};

/* One per process, in the loop of its main thread, which is not kept alive by it. */
void log_drain_start(struct log_drain *d, struct ev_loop *loop);
void log_drain_stop(struct log_drain *d);

#endif
