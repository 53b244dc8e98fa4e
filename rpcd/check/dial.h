/*
 * A TCP connection to "host:port", or a UDP socket that is connected to it.  Addresses of a name are tried one after
 * the other; for UDP, where connect(2) sends nothing, the first one that there is a route to is taken.
 */
#ifndef TV_RPCD_CHECK_DIAL_H
#define TV_RPCD_CHECK_DIAL_H

#include <ev.h>

#include "common/base/rd.h"
#include "common/text/hostport.h"
#include "rpcd/check/resolve.h"

#define DIAL_TEXT_BYTES 512

/*
 * fd: connected and not blocking, the callee's from now on; or -1, and why
 * ("dial tcp h:1: connect: connection refused").
 */
typedef void dial_done(void *ctx, int fd, const char *why);

struct dial {				/* in its owner's struct, zeroed */
	struct ev_loop *loop;
	struct resolver *resolver;
	dial_done *done;
	void *ctx;
	bool udp;			/* the caller's: the socket is one of UDP */
	struct hostport to;
	struct addresses addresses;
	unsigned next;			/* of them, to be tried */
	struct span owner;		/* the service that the check is of, borrowed */
	struct lookup *lookup;		/* under way */
	struct mono queued;		/* that it waited for a thread */
	int fd;
	char why[256];			/* of the last one that failed */
	ev_io io;
};

/* How long its name has waited for a thread: our time, which the check's timeout does not count. */
struct mono dial_queued(const struct dial *d);
/*
 * From the loop; done may be called at once, and is the last that touches d.  owner: the service that the check is of,
 * borrowed.  Of UDP fd is connected to the address, with ECONNREFUSED when no socket is bound there.
 */
void dial_begin(struct dial *d, struct ev_loop *loop, struct resolver *resolver, struct span owner, struct span target,
    dial_done *done, void *ctx);
/* Ends it without done; also when done was called. */
void dial_stop(struct dial *d);
/* What it is at, for one whose time is over: "dial tcp 127.0.0.1:1", "dial tcp: lookup h".  Returns dst. */
const char *dial_at(const struct dial *d, char dst[DIAL_TEXT_BYTES]);

#endif
