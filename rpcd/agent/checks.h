/*
 * Checks registered on this node: their state, their TTL timers, a copy on disk, and anti-entropy: what is
 * registered here is the truth for this node's checks in the catalog.
 *
 * Changes are pushed at once; a push that fails is tried again after 15 to 30 seconds.  Every sync_interval (and a
 * random part of it) the catalog is compared: what it lacks or has differently is pushed, node checks that nobody
 * here knows are removed from it, but for serfHealth.
 */
#ifndef TV_RPCD_AGENT_CHECKS_H
#define TV_RPCD_AGENT_CHECKS_H

#include <ev.h>

#include "common/base/rng.h"
#include "common/record/records.h"
#include "rpcd/route/route.h"

struct checks;

struct checks_conf {
	struct ev_loop *loop;
	struct route *route;
	const char *path;		/* file with the checks; its folder must exist. Borrowed, like all texts here */
	const char *node_name, *node_id, *address;
	unsigned checks_max;
	uint64_t output_max;		/* bytes of output kept */
	struct mono sync_interval;
	struct mono update_interval;	/* a change of output alone is pushed no sooner */
	struct mono sync_wait;		/* see checks_settle */
	uint64_t seed;
};

/* Reads the file, starts the timers.  NULL: no memory.  A file that cannot be read is logged and set aside. */
struct checks *checks_new(const struct checks_conf *conf);
/* Writes what is not on disk yet, cancels what is under way. */
void checks_free(struct checks *c);

struct check_registration {
	struct span CheckID, Name, Notes, Status, ServiceID;
	int64_t TTL, DeregisterCriticalServiceAfter;	/* ns */
};
/* Adds or replaces; a check that was there keeps its status and output.  TV_ELIMIT: checks_max.  TV_ENOMEM. */
enum tv_err checks_register(struct checks *c, const struct check_registration *reg);
/* TV_ENOENT: no such check. */
enum tv_err checks_deregister(struct checks *c, struct span id);
/* Sets status and output, and starts the TTL anew.  TV_ENOENT. */
enum tv_err checks_update(struct checks *c, struct span id, const char *status, struct span output);
/*
 * Calls done when the catalog has this check as it is now (or the push failed, or sync_wait passed): at once if there
 * is nothing to wait for.  So who changes a check sees the effect, and a cluster without leader delays nobody for long.
 * done is called exactly once; by checks_free at the latest.
 */
void checks_settle(struct checks *c, struct span id, void (*done)(void *ctx), void *ctx);
/* Each check in order of registration; rec is valid during the call. */
void checks_each(struct checks *c, void (*fn)(void *ctx, const struct check *rec), void *ctx);
unsigned checks_count(const struct checks *c);

#endif
