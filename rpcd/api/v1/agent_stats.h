/* Stats and DebugConfig of /v1/agent/self: what the daemons tell by `info`, and what programs for Consul look for. */
#ifndef TV_RPCD_API_V1_AGENT_STATS_H
#define TV_RPCD_API_V1_AGENT_STATS_H

#include "rpcd/api/api.h"

/* The API is that of this version; clients choose features by it.  What follows '+' is ours. */
#define API_VERSION "1.10.0"
#define API_VERSION_FULL API_VERSION "+triumvir." TV_VERSION

/*
 * The object, all of its values texts.  sections: map section -> map name -> text, as info has it; the names agent,
 * build, consul and runtime are none of theirs.  Histograms are left out: of each there are numbers beside it.
 */
void agent_stats_json(const struct api *api, struct span sections, struct buf *out);
/* The object. */
void agent_debug_config_json(const struct api *api, struct arena *a, struct buf *out);
/* {"a":"b"} */
void agent_map_json(const struct span_map *map, struct buf *out);

#endif
