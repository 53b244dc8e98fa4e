/* TTL checks: entries of the registry that turn critical when nobody renews them in time. */
#ifndef TV_RPCD_AGENT_CHECKS_H
#define TV_RPCD_AGENT_CHECKS_H

#include <ev.h>

#include "rpcd/agent/registry.h"

/* Makes this the user of the registry: what has a TTL, now and later, has a timer on the loop until it goes. */
void checks_run(struct registry *r, struct ev_loop *loop);
/*
 * Sets status and output, and starts the TTL anew.  TV_ENOENT: no such check, or it has no TTL.  TV_EINVAL: no such
 * status.
 */
enum tv_err checks_update(struct registry *r, struct span id, struct span status, struct span output);

#endif
