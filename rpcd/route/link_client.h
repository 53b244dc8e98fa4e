/*
 * Links to other nodes' rpcds: one long-lived Noise channel per address, dialled on demand, multiplexed
 * by frame id and shared by all requests.  A link that was idle for `idle_timeout` is closed.  A link is up, and
 * calls leave on it, once the peer has proven itself: by the handshake and its HELLO.
 *
 * The outcome of a call tells whether the question may have reached the peer:
 *   TV_OK        body is the answer
 *   TV_EUNREACH  nothing was sent (no connection, refused, handshake failed): safe to try another server
 *   TV_ECLOSED, TV_ETIMEOUT, TV_ELIMIT   it was sent and no answer came: the outcome is unknown
 */
#ifndef TV_RPCD_ROUTE_LINK_CLIENT_H
#define TV_RPCD_ROUTE_LINK_CLIENT_H

#include "common/base/histogram.h"
#include "common/net/chan.h"
#include "common/net/noise.h"
#include "rpcd/route/peer_standing.h"

struct link_client;
struct link_call;

struct link_client_conf {
	struct ev_loop *loop;
	const struct noise_conf *noise;	/* NULL: in clear (loopback or allow_plaintext) */
	const char *node_id;		/* for HELLO; borrowed */
	struct mono dial_timeout;	/* connect and handshake, and then the HELLO */
	struct mono idle_timeout;
	struct mono retire_time;	/* what is under way when the key of a link goes has this long to end */
	size_t answer_max;		/* largest whole answer, bytes */
	size_t out_max;			/* bytes waiting to be written on one link */
	unsigned pending_max;		/* calls under way on one link, or waiting for it */
	/*
	 * Links there are, a quarter of them (but eight, or all if fewer) at most to peers that never proved
	 * themselves.  Those make room first, then links that are down, then the open one that was idle for longest.
	 */
	unsigned links_max;
};

typedef void link_done(void *ctx, enum tv_err err, struct span body);

/* NULL: no memory. */
struct link_client *link_client_new(const struct link_client_conf *conf);
/* Ends all calls with TV_ECLOSED (done is called), closes all links. */
void link_client_free(struct link_client *l);
/*
 * Asks the rpcd at ip:port.  body is copied if the link is not up yet.  done is called exactly once, never before
 * this or any other function here but link_client_free() returns.  NULL: no memory or no room; nothing was sent and
 * done will not be called.
 */
struct link_call *link_client_call(struct link_client *l, const char *ip, uint16_t port, uint16_t type,
    struct span body, struct mono timeout, link_done *done, void *ctx);
/* Has it left for the peer?  False: it waits for the link to come up, and nothing was done. */
bool link_client_sent(const struct link_call *c);
/*
 * The answer to this call does not wait for anything but the peer: it is watched that the peer answers at all.  One
 * that stays silent, also when asked, loses its link: the calls end with TV_ECLOSED.  Its time is in the statistics.
 */
void link_client_expect(struct link_call *c);
/* The answer is no longer wanted; done will not be called. */
void link_client_cancel(struct link_call *c);
/* Is a link to this address open now?  For preferring it. */
bool link_client_is_up(const struct link_client *l, const char *ip, uint16_t port);
/* What is known of this address, for preferring the better one. */
enum standing link_client_standing(const struct link_client *l, const char *ip, uint16_t port);
/* Dials this address if there is no link and it does not rest, to learn whether it proves itself. */
void link_client_probe(struct link_client *l, const char *ip, uint16_t port);

/*
 * conf.noise has changed.  A link whose key is gone takes no new calls, which dial anew, and closes when its last one
 * has ended; at the latest after conf.retire_time, and what is under way then ends with TV_ECLOSED.
 */
void link_client_rekeyed(struct link_client *l);

struct link_client_stats {
	unsigned open;
	unsigned retiring;		/* of them those whose key has left the ring */
	unsigned unproven;		/* links to peers that never proved themselves */
	unsigned known;			/* addresses of which something is remembered */
	uint64_t dialled, failed, calls;
	uint64_t evicted;		/* links that made room for others */
	uint64_t retired;		/* links whose key left the ring */
	struct histogram took;		/* calls of link_client_expect(), from leaving until the answer */
};
void link_client_stats(const struct link_client *l, struct link_client_stats *out);

#endif
