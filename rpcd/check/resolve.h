/*
 * Names of hosts to addresses, as the C library does it (nsswitch, hosts file, DNS), in threads of their own: nothing
 * else knows how this machine does it, and it only comes as a call that blocks.  What was found is kept (names.h), so
 * that many checks of one host ask once; the threads are shared out (fair.h), so that names without an answer keep no
 * others waiting.
 */
#ifndef TV_RPCD_CHECK_RESOLVE_H
#define TV_RPCD_CHECK_RESOLVE_H

#include <ev.h>

#include "common/base/err.h"
#include "rpcd/check/names.h"

#define RESOLVE_TEXT_BYTES ADDR_TEXT_BYTES

struct resolver;
struct lookup;			/* under way, for one check */

struct resolver_stats {
	uint64_t questions, unanswered;	/* since the start; of names: how many addresses they had is all the same */
	uint64_t old_used;		/* lookups that were served an old answer */
	unsigned under_way, waiting;	/* questions; waiting: for a thread */
	struct mono longest;		/* of those that wait now */
};

/*
 * stale is called when the walls keep a file from us that the C library reads, because it was replaced or came late
 * (sandbox_stale()): with its path.  It ends the process.  NULL: no memory.
 */
typedef void resolve_stale(const char *path);
struct resolver *resolver_new(struct ev_loop *loop, resolve_stale *stale);
void resolver_stats(const struct resolver *r, struct resolver_stats *out);
/* An IP address, without a lookup; brackets around IPv6 are fine.  Ports are 0. */
bool resolve_literal(const char *host, struct addresses *out);
/*
 * done is called later, with NULL and a reason ("no such host") or with addresses, which are good until it returns, as
 * the lookup is.  owner: the service whose check it is for, or none.  NULL: no memory.
 */
typedef void resolve_done(void *ctx, const struct addresses *found, const char *why);
struct lookup *resolve(struct resolver *r, const char *host, struct span owner, resolve_done *done, void *ctx);
/* Done is not called any more. */
void resolve_cancel(struct lookup *l);
/* How long it has waited for a thread so far: that is our time, and none of the check's. */
struct mono resolve_queued(const struct lookup *l);

/* "127.0.0.1:80", "[::1]:80"; without port where that is 0, then without brackets. */
const char *address_text(const union addr_sock *a, char dst[RESOLVE_TEXT_BYTES]);

#endif
