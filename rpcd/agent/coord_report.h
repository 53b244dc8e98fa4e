/*
 * Reports this node's network coordinate to the servers, so that others can be sorted by their distance from it: every
 * 15 seconds or so, less often in large clusters, so that all together stay below 64 reports a second.
 */
#ifndef TV_REPORT_H
#define TV_REPORT_H

#include "rpcd/opts.h"
#include "rpcd/route/route.h"
#include "rpcd/gossip/members.h"

struct report;

struct report_conf {
	struct ev_loop *loop;
	struct view *view;		/* all borrowed */
	struct route *route;
	const struct rpcd_conf *conf;	/* disable_coordinates, live */
	const char *node_name;
	uint64_t seed;
};

/* NULL: no memory. */
struct report *report_new(const struct report_conf *conf);
void report_free(struct report *r);
/* Mean time between two reports of one node among so many members. */
struct mono report_interval(unsigned members, struct mono least);

struct report_stats {
	uint64_t sent, failed;
};
void report_stats(const struct report *r, struct report_stats *out);

#endif
