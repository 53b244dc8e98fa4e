/* What a server tells about datacenters, from its view of the WAN pool and the places of its members. */
#ifndef TV_RPCD_WAN_DATACENTERS_H
#define TV_RPCD_WAN_DATACENTERS_H

#include "common/record/ops.h"
#include "rpcd/gossip/members.h"
#include "rpcd/wan/coords.h"

/* What it is told from; both borrowed. */
struct datacenters {
	const struct members *members;
	const struct coords *coords;	/* NULL: none are known */
};
/*
 * Answers OP_VIEW operations for the router; ctx is a struct datacenters.
 *   OP_CATALOG_DATACENTERS     a text_list: the own datacenter, then the others by the median of the estimated round
 *                              trips to their servers, by name where those are equal, and last those without an
 *                              estimate
 *   OP_COORDINATE_DATACENTERS  a list of dc_coordinates in the same order, without those of which nothing is known
 */
enum tv_err datacenters_answer(void *ctx, const struct op_request *q, struct buf *out);
/*
 * Moves those servers to the front that are nearest, or as near within the noise of such estimates; keeps their order.
 * Returns how many; all of them when nothing is known.
 */
unsigned datacenters_nearest(const struct coords *p, struct members_server *servers, unsigned count);

#endif
