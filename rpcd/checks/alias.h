/*
 * Alias checks: as well as what they stand for, a service with its node or a node, here or elsewhere.  Those of this
 * node follow the registry; for another node the catalog is watched, once for all that stand for something there.
 *
 * Critical if a check of the service or of the node is, else warning, else passing.  Checks of the node that are
 * aliases themselves do not count: two of them would hold each other critical for ever.
 */
#ifndef TV_RPCD_CHECKS_ALIAS_H
#define TV_RPCD_CHECKS_ALIAS_H

#include <ev.h>

#include "rpcd/registry/registry.h"

struct aliases;
struct alias;

struct aliases_conf {
	struct ev_loop *loop;
	struct registry *registry;
	struct route *route;		/* to the catalog */
	const char *node_name;		/* own; borrowed */
	struct token_source token;	/* for those that have none of their own */
	/* From the loop, whenever it may have changed. */
	void (*result)(void *alias_ctx, struct span status, struct span output);
};

/* It becomes the one that registry_watch() tells.  NULL: no memory. */
struct aliases *aliases_new(const struct aliases_conf *conf);
/* After all of them were removed. */
void aliases_free(struct aliases *a);
/* node: empty for this one; service: empty for the checks of the node alone.  NULL: no memory. */
struct alias *alias_add(struct aliases *a, struct span node, struct span service, struct span token, void *alias_ctx);
/* No result comes any more. */
void alias_remove(struct alias *s);
unsigned aliases_count(const struct aliases *a);

#endif
