/*
 * Keeps one channel up: dials, dials again with backoff after it closes
 * (100 ms doubling to `backoff_max`, with jitter), and tells when it is up or down.
 */
#ifndef TV_COMMON_NET_DIAL_H
#define TV_COMMON_NET_DIAL_H

#include "common/net/chan.h"

struct dialer;

struct dialer_conf {
	struct chan_conf chan;		/* events.on_frame is used; on_open/on_close are the dialer's */
	const char *unix_path;		/* either this (copied) */
	const char *ip;			/* or this and port (copied) */
	uint16_t port;
	struct mono backoff_max;	/* 0 means 250 ms for unix, 10 s for TCP */
	void (*on_up)(void *ctx, struct chan *c);
	void (*on_down)(void *ctx, enum tv_err why);	/* also for each failed attempt */
};

struct dialer *dialer_new(const struct dialer_conf *conf);
/* The open channel, or NULL. */
struct chan *dialer_chan(struct dialer *d);
/* Did the newest attempt that has come to its end find that no process listens there?  Also within on_down. */
bool dialer_nobody(const struct dialer *d);
/* Forgets the backoff and tries at once if down. */
void dialer_wake(struct dialer *d);
/* Closes the channel without on_down. */
void dialer_free(struct dialer *d);

#endif
