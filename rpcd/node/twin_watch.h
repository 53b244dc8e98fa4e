/*
 * Looks every few seconds whether another living member has this node's id or name (rpcd/gossip/twins.h), says so each
 * minute in the log, on both, and keeps the sentence for `clusterctl status`.  When the other one is gone, the catalog
 * is compared at once.
 */
#ifndef TV_RPCD_NODE_TWIN_WATCH_H
#define TV_RPCD_NODE_TWIN_WATCH_H

#include "rpcd/gossip/twins.h"
#include "rpcd/registry/registry.h"

struct twin_watch;

struct twin_watch_conf {
	struct ev_loop *loop;
	const struct members *members;	/* all borrowed */
	struct registry *registry;
	struct twins_self self;
};

/* NULL: no memory. */
struct twin_watch *twin_watch_new(const struct twin_watch_conf *conf);
void twin_watch_free(struct twin_watch *w);
/* As of the newest look; "" when there is none.  Borrowed until the loop runs on. */
const char *twin_watch_text(const struct twin_watch *w);
const char *twin_watch_remedy(const struct twin_watch *w);

#endif
