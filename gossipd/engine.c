/* This node's orders to its pools; see engine.h. */
#include "config.h"

#include <stdio.h>

#include "common/base/log.h"
#include "gossipd/engine.h"

const char *
engine_pool_name(enum gossip_pool pool)
{
	return pool == POOL_LAN ? "LAN" : "WAN";
}

bool
engine_is_alone(const struct engine *e, enum gossip_pool pool)
{
	struct swim_stats stats;

	swim_stats(pool_core(e->pools[pool]), &stats);
	return stats.alive <= 1;
}

enum tv_err
engine_tags(struct engine *e, const struct member_tag *changes, uint32_t count)
{
	struct tagset fresh;
	struct buf meta = BUF_INIT(TAGSET_META_ROOM);
	enum tv_err err = tagset_copy(&e->tags, &fresh);

	if (err != TV_OK)
		return err;
	for (uint32_t i = 0; i < count && err == TV_OK; i++)
		err = tagset_put(&fresh, changes[i].name, changes[i].value);
	if (err == TV_OK)
		err = tagset_meta(&fresh, &meta);	/* does it fit? */
	buf_done(&meta);
	for (int i = 0; i < ENGINE_POOLS && err == TV_OK; i++)
		if (e->pools[i] != NULL)
			err = pool_set_tags(e->pools[i], &fresh);
	if (err != TV_OK) {
		tagset_done(&fresh);
		return err;
	}
	tagset_done(&e->tags);
	e->tags = fresh;
	return TV_OK;
}

enum tv_err
engine_leave(struct engine *e)
{
	if (e->leaving)
		return TV_EEXIST;
	e->leaving = true;
	log_info("serf", "leaving %s", e->pools[POOL_WAN] != NULL ? "the LAN and WAN pools" : "the LAN pool");
	for (int i = ENGINE_POOLS - 1; i >= 0; i--)
		if (e->pools[i] != NULL)
			(void)pool_leave(e->pools[i]);	/* cannot have begun */
	return TV_OK;
}

enum tv_err
engine_force_leave(struct engine *e, struct span name, bool prune)
{
	char wan[NODE_NAME_BYTES_MAX * 2 + 2];
	enum tv_err lan_err = pool_force_leave(e->pools[POOL_LAN], name, prune), wan_err = TV_ENOENT;

	if (e->pools[POOL_WAN] != NULL) {
		wan_err = pool_force_leave(e->pools[POOL_WAN], name, prune);
		if (wan_err == TV_ENOENT && name.len <= NODE_NAME_BYTES_MAX) {
			int n = snprintf(wan, sizeof(wan), "%.*s.%s", (int)name.len, (const char *)name.p,
			    e->cluster->datacenter);

			wan_err = pool_force_leave(e->pools[POOL_WAN], span_of(wan, (size_t)n), prune);
		}
	}
	if (lan_err == TV_OK || wan_err == TV_OK)
		return TV_OK;
	return lan_err != TV_ENOENT ? lan_err : wan_err;
}
