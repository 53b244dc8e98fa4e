/*
 * Prepared queries that are carried out, and what comes when nothing is found: other datacenters are asked, one after
 * the other, the nearest ones by the round trip, then those that the query names.  The first one that finds something
 * is the answer.  One that refuses, or does not answer in time, is passed over.
 *
 * Steps of one execution: OP_QUERY_EXECUTE; if it finds nothing and the query has a Failover, OP_CATALOG_DATACENTERS
 * for those that there are and their order; then OP_QUERY_REMOTE at each in turn.  Source: http-api, section 9.
 */
#ifndef TV_RPCD_ROUTE_FAILOVER_H
#define TV_RPCD_ROUTE_FAILOVER_H

#include "rpcd/route/route.h"

struct failover_conf {			/* all borrowed; it may change while executions are under way */
	struct route *route;
	struct ev_loop *loop;
	const struct mono *timeout;	/* for the answer of one other datacenter */
};
struct failover_stats {			/* since the start */
	uint64_t executed;		/* with an answer, of whatever kind */
	uint64_t failed_over;		/* those that asked elsewhere */
	uint64_t tries, timed_out, refused;	/* datacenters asked; that did not answer in time; that could not */
};
struct failovers {			/* caller's storage; only conf is filled in */
	struct failover_conf conf;
	struct failover_stats stats;
};

/*
 * The answer, exactly once, never before failover_start() returned: an error, or a prepared_found of that datacenter
 * which found something, or else of the last one that answered.  reply and its spans are borrowed.  tries: of other
 * datacenters.
 */
typedef void failover_done(void *ctx, const struct op_reply *reply, unsigned tries);

struct failover;
/*
 * Carries out q, an OP_QUERY_EXECUTE with packed arguments; what it borrows is copied.  NULL: as route_start(); done
 * will not be called.
 */
struct failover *failover_start(struct failovers *all, const struct op_request *q, failover_done *done, void *ctx);
/* The client went away: frees it; done will not be called. */
void failover_cancel(struct failover *f);

#endif
