/* What a server tells about datacenters, from its view of the WAN pool and the places of its members. */
#ifndef TV_DCS_H
#define TV_DCS_H

#include "rpcd/wan/coords.h"
#include "rpcd/gossip/members.h"

/*
 * A text_list: the own datacenter, then the others by the median of the estimated round trips to their servers, by name
 * where those are equal, and last those without an estimate.
 */
void dcs_write_names(const struct view *v, const struct places *p, struct buf *out);
/* A list of dc_coordinates in the same order, without datacenters of which nothing is known. */
void dcs_write_coordinates(const struct view *v, const struct places *p, struct buf *out);
/*
 * Moves those servers to the front that are nearest, or as near within the noise of such estimates; keeps their order.
 * Returns how many; all of them when nothing is known.
 */
unsigned dcs_nearest(const struct places *p, struct view_server *servers, unsigned count);

#endif
