/*
 * The answering side of node-to-node links: rpcd's port 8400 on servers.  Takes operations from other
 * rpcds and hands them to the router.  A malformed frame closes that link and nothing else.
 */
#ifndef TV_RPCD_ROUTE_LINK_SERVER_H
#define TV_RPCD_ROUTE_LINK_SERVER_H

#include "common/net/chan.h"
#include "common/net/noise.h"
#include "rpcd/route/route.h"

struct link_server;

struct link_server_conf {
	struct ev_loop *loop;
	int fd;				/* listening socket; taken over */
	const struct noise_conf *noise;	/* NULL: in clear */
	bool accept_clear;		/* with noise: take links in clear as well */
	const char *node_id;
	struct route *route;
	unsigned conns_max;		/* that have said HELLO; others have a budget of their own */
	unsigned pending_max;		/* operations under way on one link */
	size_t request_max;		/* bytes of one request frame */
	size_t out_max;			/* bytes waiting to be written on one link */
	struct mono open_timeout;	/* of the handshake, and then of the HELLO */
	struct mono retire_time;	/* what is under way when the key of a link goes has this long to end */
	bool (*is_known)(void *ctx, uint64_t source);	/* is a member there (common/net/source.h)?  May be NULL */
	/* An operation of the node at this address ("ip:port") was answered: bytes of both.  May be NULL. */
	void (*answered)(void *ctx, const char *peer, uint64_t bytes_in, uint64_t bytes_out);
	void *ctx;
};

struct link_server *link_server_new(const struct link_server_conf *conf);
void link_server_free(struct link_server *d);
/*
 * From now on new operations are refused as by a server that does not lead: nothing is done, and the asker tries
 * another.
 */
void link_server_quiesce(struct link_server *d);

/*
 * conf.noise has changed.  Who dialled a link whose key is gone is told so and should close it; a link on which nothing
 * is under way some seconds later is closed, and any after conf.retire_time.
 */
void link_server_rekeyed(struct link_server *d);

struct link_server_stats {
	unsigned open, unproven;	/* unproven: of the open ones, those that have not said HELLO */
	uint64_t accepted, refused, requests, malformed;
	uint64_t silent;		/* closed because no HELLO came in time */
	uint64_t evicted;		/* closed without a HELLO, to make room for others */
	unsigned retiring;		/* open links whose key has left the ring */
	uint64_t retired;		/* of them all that there were */
};
void link_server_stats(const struct link_server *d, struct link_server_stats *out);

#endif
