/*
 * MSG_MONITOR on a channel: the log lines of this process as MSG_LOG frames.  A reader that is too slow misses lines
 * and is told how many.
 */
#ifndef TV_COMMON_NET_MONITOR_H
#define TV_COMMON_NET_MONITOR_H

#include "common/net/chan.h"
#include "common/net/logtap.h"

struct monitor;

/* Serves the question in `body`, and those that follow on this channel: *m is NULL at first.  TV_EFORMAT, TV_ENOMEM. */
enum tv_err monitor_serve(struct monitor **m, struct logtap *tap, struct chan *c, struct span body);
/* Before the channel is gone.  NULL: nothing. */
void monitor_stop(struct monitor *m);

/* Asks, as the other side. */
void monitor_ask(struct chan *c, enum log_level level);
/* The body of a MSG_LOG.  Its texts go to area[cap] and text[cap], escaped again: a process is not believed. */
enum tv_err monitor_read(struct span body, struct log_line *line, char *area, char *text, size_t cap);

#endif
