/*
 * Names of hosts to addresses, as the C library does it (hosts file, DNS), in a few threads.  What was found is kept
 * for some seconds, so that many checks of one host ask once.
 */
#ifndef TV_RPCD_CHECK_RESOLVE_H
#define TV_RPCD_CHECK_RESOLVE_H

#include <ev.h>
#include <netinet/in.h>
#include <stdbool.h>

#include "common/base/err.h"

#define RESOLVE_ADDRESSES_MAX 8
#define RESOLVE_TEXT_BYTES (INET6_ADDRSTRLEN + 10)	/* "[::1]:65535" */

struct address {
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	};
};

struct addresses {
	struct address v[RESOLVE_ADDRESSES_MAX];
	unsigned n;
};

struct resolver;
struct lookup;			/* a question under way */

/*
 * stale is called when the walls keep a file from us that the C library reads, because it was replaced or came late
 * (sandbox_stale()): with its path.  It ends the process.  NULL: no memory.
 */
typedef void resolve_stale(const char *path);
struct resolver *resolver_new(struct ev_loop *loop, resolve_stale *stale);
/* An IP address, without asking anybody; brackets around IPv6 are fine.  Ports are 0. */
bool resolve_literal(const char *host, struct addresses *out);
/*
 * done is called later, with NULL and a reason ("no such host") or with addresses, which are good until it returns.
 * NULL: no memory.
 */
typedef void resolve_done(void *ctx, const struct addresses *found, const char *why);
struct lookup *resolve(struct resolver *r, const char *host, resolve_done *done, void *ctx);
/* Nobody waits for this any more. */
void resolve_cancel(struct lookup *l);

void address_set_port(struct address *a, uint16_t port);
socklen_t address_len(const struct address *a);
/* "127.0.0.1:80", "[::1]:80"; without port where that is 0, then without brackets. */
const char *address_text(const struct address *a, char dst[RESOLVE_TEXT_BYTES]);

#endif
