/*
 * The connection of a daemon to the socket of another one on the same node: dialled again with back-off after it
 * closes, greeted in both directions, with calls, and with an idea of whether the other side answers.
 */
#ifndef TV_COMMON_NET_DAEMON_CLIENT_H
#define TV_COMMON_NET_DAEMON_CLIENT_H

#include "common/net/calls.h"
#include "common/net/dial.h"

struct daemon_client {
	/* Set before daemon_client_start(); texts are borrowed. */
	struct chan_conf chan;		/* loop, secret, out_max, and body_max: of a whole answer too */
	const char *daemon;		/* at the other end: "gossipd", "raftd" */
	const char *path;		/* of its socket */
	const char *role, *node_id;	/* our own, for HELLO */
	const char *log_area;
	const char *meanwhile;		/* what happens while it is out of reach, for the log; NULL: others log that */
	unsigned pending_max;		/* calls under way */
	struct mono backoff_max;	/* 0: as in struct dialer_conf */
	/* HELLO is sent: the place for subscriptions.  failures: attempts that failed before this one.  May be NULL. */
	void (*on_up)(void *ctx, struct chan *c, unsigned failures);
	/* A frame that belongs to no call, or answers MSG_PING; not the greeting.  An error closes the channel. */
	enum tv_err (*on_frame)(void *ctx, struct chan *c, const struct frame *f);
	/*
	 * The channel is closed, or an attempt failed: so many in a row, with this one.  Calls that were under way end
	 * with TV_ECLOSED when this returns.
	 */
	void (*on_down)(void *ctx, enum tv_err why, unsigned failures);
	void *ctx;
	/* Its own. */
	struct dialer *dialer;
	struct calls *calls;
	bool greeted;			/* the other side has said HELLO */
	bool same_build;		/* then: it knows MSG_PING */
	bool mute;			/* the user found a question unanswered, and nothing came since */
	unsigned failures;
};

/* Dials from the loop.  False: no memory. */
bool daemon_client_start(struct daemon_client *c);
/* Calls under way end with TV_ECLOSED; on_down is not called.  One that was not started, or is stopped: nothing. */
void daemon_client_stop(struct daemon_client *c);
/* The open channel, or NULL. */
struct chan *daemon_client_chan(const struct daemon_client *c);
/* For info: "connected", "away", or "silent": it does not answer (stopped, or the machine swaps). */
const char *daemon_client_state(const struct daemon_client *c);
/* Asks; as calls_start().  0 with TV_EUNREACH while there is no greeted channel: nothing was sent. */
uint64_t daemon_client_call(struct daemon_client *c, uint16_t type, struct span body, struct mono timeout,
    calls_done *done, void *ctx, enum tv_err *err);
/* Forgets a call without calling done. */
void daemon_client_cancel(struct daemon_client *c, uint64_t id);

#endif
