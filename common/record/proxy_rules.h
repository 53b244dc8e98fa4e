/* What a service that is a proxy or a gateway has to say of itself.  Source: connect.md, section 5.1. */
#ifndef TV_COMMON_RECORD_PROXY_RULES_H
#define TV_COMMON_RECORD_PROXY_RULES_H

#include "common/record/records.h"

#define PROXY_WHY_MAX 65536
#define PROXY_LIST_MAX 1024u		/* upstreams, or paths, of one service */

/* Is there anything in Proxy or Connect? */
bool proxy_is_given(const struct service *s);
/* connect-proxy and the three gateways have a proxy; what is of another kind only keeps what it was given. */
bool proxy_kind(struct span kind);
/* False: what is wrong is appended to why, all of it, as Consul lists it. */
bool proxy_check(const struct service *s, struct buf *why);

#endif
