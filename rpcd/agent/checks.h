/*
 * The checks of the registry, as its user: those with a TTL turn critical when nobody renews them in time; those that
 * this node runs are given to the process "rpcd: check", and their results come back into the registry.
 */
#ifndef TV_RPCD_AGENT_CHECKS_H
#define TV_RPCD_AGENT_CHECKS_H

#include <ev.h>

#include "rpcd/agent/registry.h"

struct checks;

struct checks_conf {
	struct ev_loop *loop;
	struct registry *registry;
	int monitor;			/* of check_monitor_start(); -1: nothing is run */
	bool scripts;			/* the monitor starts the process that runs them */
	uint64_t runs_max;		/* at once, of each of the two processes */
	uint64_t output_max;		/* bytes of output, unless a check says less */
	bool follow_redirects;
	void (*lost)(void *ctx);	/* the monitor is gone: nothing can be run until rpcd starts again */
	void *ctx;
};

struct checks_stats {
	uint64_t tasks;			/* checks that are run */
	uint64_t starts, deaths;	/* of the processes */
	uint64_t runs, under_way, postponed, timed_out;	/* since the processes that are there began */
	unsigned running;		/* processes */
};

/*
 * From now on this is the registry's user.  What is in it already is as earlier runs left it: thresholds hold from the
 * first run on, so that a restart changes no state.  NULL: no memory.
 */
struct checks *checks_new(const struct checks_conf *conf);
/* After the registry. */
void checks_free(struct checks *c);
void checks_stats(const struct checks *c, struct checks_stats *out);
/*
 * Sets status and output, and starts the TTL anew.  TV_ENOENT: no such check, or it has no TTL.  TV_EINVAL: no such
 * status.
 */
enum tv_err checks_update(struct registry *r, struct span id, struct span status, struct span output);

#endif
