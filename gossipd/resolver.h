/*
 * Addresses of what is to be dialled (common/conf/target.h).  gossipd itself reads no file and asks no name server:
 * each look-up is the work of a process that was started for it, gossipd-names, behind walls of its own.
 */
#ifndef TV_GOSSIPD_RESOLVER_H
#define TV_GOSSIPD_RESOLVER_H

#include <ev.h>

#include "common/conf/cluster_conf.h"
#include "gossipd/core/swim/table.h"

struct resolver;
struct resolve;			/* one look-up under way */

/* What came of one target.  Borrowed. */
struct resolver_answer {
	enum target_outcome outcome;
	struct span why;		/* printable; empty: nothing to say */
	unsigned count;
	struct addr addrs[TARGET_ADDRS_MAX];
};
/* place: in the list of targets.  It must not cancel this look-up. */
typedef void resolver_done(void *ctx, unsigned place, const struct resolver_answer *a);

struct resolver_stats {
	uint64_t lookups, failures;	/* targets; of them without an answer, or without an address */
	uint64_t stuck;			/* processes that did not answer, and were killed */
	unsigned running;		/* processes */
	char last[TARGET_WHY_BYTES];	/* the latest failure; "" */
};

/*
 * With privileges: what starts the processes later.  Without it (no program, no user) a warning is logged, and each
 * look-up fails with that reason.  NULL: no memory.
 */
struct resolver *resolver_open(const struct cluster_conf *c);
/* Behind the walls. */
void resolver_run(struct resolver *r, struct ev_loop *loop);
void resolver_reload(struct resolver *r, int log_level);
/* Look-ups under way end unheard. */
void resolver_free(struct resolver *r);

/*
 * Looks up 1 to RESOLVER_TARGETS_MAX targets, texts that target_parse() takes.  done is called once for each of them,
 * from the loop and never before this returns; with the last call the look-up is gone.  port: where none is written.
 * timeout: RESOLVER_TIMEOUT at most; what is not found by then is TARGET_UNANSWERED.  urgent: for a client that waits,
 * which may use the places that are kept from the others.  NULL: no memory.
 */
#define RESOLVER_TARGETS_MAX 64
#define RESOLVER_TIMEOUT MONO_S(20)	/* as long as the C library asks three name servers */
struct resolve *resolver_start(struct resolver *r, const struct span *targets, unsigned count, uint16_t port,
    struct mono timeout, bool urgent, resolver_done *done, void *ctx);
/* done is not called any more. */
void resolver_cancel(struct resolve *l);
void resolver_stats(const struct resolver *r, struct resolver_stats *out);

#endif
