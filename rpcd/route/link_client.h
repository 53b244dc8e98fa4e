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
#ifndef TV_LINKS_H
#define TV_LINKS_H

#include "common/net/chan.h"
#include "common/net/noise.h"
#include "rpcd/route/peer_standing.h"

struct links;
struct link_call;

struct links_conf {
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
struct links *links_new(const struct links_conf *conf);
/* Ends all calls with TV_ECLOSED (done is called), closes all links. */
void links_free(struct links *l);
/*
 * Asks the rpcd at ip:port.  body is copied if the link is not up yet.  done is called exactly once, never before
 * this or any other function here but links_free() returns.  NULL: no memory or no room; nothing was sent and done will
 * not be called.
 */
struct link_call *links_call(struct links *l, const char *ip, uint16_t port, uint16_t type, struct span body,
    struct mono timeout, link_done *done, void *ctx);
/* Has it left for the peer?  False: it waits for the link to come up, and nothing was done. */
bool links_sent(const struct link_call *c);
/*
 * The answer to this call does not wait for anything but the peer: it is watched that the peer answers at all.  One
 * that stays silent, also when asked, loses its link: the calls end with TV_ECLOSED.
 */
void links_expect(struct link_call *c);
/* The answer is no longer wanted; done will not be called. */
void links_cancel(struct link_call *c);
/* Is a link to this address open now?  For preferring it. */
bool links_is_up(const struct links *l, const char *ip, uint16_t port);
/* What is known of this address, for preferring the better one. */
enum standing links_standing(const struct links *l, const char *ip, uint16_t port);
/* Dials this address if there is no link and it does not rest, to learn whether it proves itself. */
void links_probe(struct links *l, const char *ip, uint16_t port);

/*
 * conf.noise has changed.  A link whose key is gone takes no new calls, which dial anew, and closes when its last one
 * has ended; at the latest after conf.retire_time, and what is under way then ends with TV_ECLOSED.
 */
void links_rekeyed(struct links *l);

struct links_stats {
	unsigned open;
	unsigned retiring;		/* of them those whose key has left the ring */
	unsigned unproven;		/* links to peers that never proved themselves */
	unsigned known;			/* addresses of which something is remembered */
	uint64_t dialled, failed, calls;
	uint64_t evicted;		/* links that made room for others */
	uint64_t retired;		/* links whose key left the ring */
};
void links_stats(const struct links *l, struct links_stats *out);

#endif
