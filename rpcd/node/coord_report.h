/*
 * Reports this node's network coordinate to the servers, so that others can be sorted by their distance from it: every
 * 15 seconds or so, less often in large clusters, so that all together stay below 64 reports a second.
 */
#ifndef TV_RPCD_NODE_COORD_REPORT_H
#define TV_RPCD_NODE_COORD_REPORT_H

#include "rpcd/acl/tokens.h"
#include "rpcd/gossip/members.h"
#include "rpcd/opts.h"
#include "rpcd/route/route.h"

struct coord_report;

struct coord_report_conf {
	struct ev_loop *loop;
	struct members *members;		/* all borrowed */
	struct route *route;
	const struct rpcd_conf *conf;	/* disable_coordinates, live */
	const char *node_name;
	struct token_source token;
	uint64_t seed;
};

/* NULL: no memory. */
struct coord_report *coord_report_new(const struct coord_report_conf *conf);
void coord_report_free(struct coord_report *r);
/* Mean time between two reports of one node among so many members. */
struct mono coord_report_interval(unsigned members, struct mono least);

struct coord_report_stats {
	uint64_t sent, failed;
};
void coord_report_stats(const struct coord_report *r, struct coord_report_stats *out);

#endif
