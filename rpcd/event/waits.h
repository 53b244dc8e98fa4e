/* Requests that wait for news, each for a time of its own. */
#ifndef TV_RPCD_EVENT_WAITS_H
#define TV_RPCD_EVENT_WAITS_H

#include <ev.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "common/base/mono.h"

struct waits {
	struct ev_loop *loop;
	LIST_HEAD(wait_list, wait) all;
};

struct wait {				/* the caller's storage; zeroed before first use */
	LIST_ENTRY(wait) link;
	struct waits *list;		/* NULL: does not wait */
	ev_timer timer;
	void (*fn)(void *ctx, bool timed_out);
	void *ctx;
};

/* fn is called once, from the loop, when waits_wake() comes or the time is over.  It may wait again. */
void wait_start(struct waits *list, struct wait *w, struct mono timeout, void (*fn)(void *ctx, bool timed_out),
    void *ctx);
/* Without calling fn.  One that does not wait: nothing. */
void wait_stop(struct wait *w);
void waits_wake(struct waits *list);

#endif
