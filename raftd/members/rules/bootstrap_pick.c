/* Which server forms a cluster with which, see bootstrap_pick.h. */
#include <string.h>

#include "raftd/members/rules/bootstrap_pick.h"

static bool
usable(const struct bootstrap_candidate *c, uint64_t expect, const char *own_cluster)
{
	return c->alive && c->linked && c->expect == expect && c->generation == 0 &&
	    (c->cluster_id[0] == '\0' || (own_cluster[0] != '\0' && strcmp(c->cluster_id, own_cluster) == 0));
}

bool
bootstrap_pick(const char *own_uuid, const char *own_cluster, const char *own_store, uint64_t expect,
    const struct bootstrap_candidate *c, unsigned count, unsigned *picked)
{
	bool used[64] = { false };
	unsigned found = 0;

	/* Promised to another server, or not asked to form one. */
	if (expect < 2 || expect > BOOTSTRAP_SERVERS_MAX || count > 64 ||
	    (own_cluster[0] != '\0' && strcmp(own_cluster, own_store) != 0))
		return false;
	for (; found < expect - 1; found++) {
		unsigned best = count;

		for (unsigned i = 0; i < count; i++)
			if (!used[i] && usable(&c[i], expect, own_cluster) &&
			    (best == count || strcmp(c[i].uuid, c[best].uuid) < 0))
				best = i;
		if (best == count)
			return false;		/* not enough of them yet */
		if (strcmp(c[best].uuid, own_uuid) < 0)
			return false;		/* it is that one's turn */
		used[best] = true;
		picked[found] = best;
	}
	return true;
}

enum tv_err
bootstrap_may_promise(const struct identity *own, uint64_t own_expect, bool log_empty,
    const char *asker_uuid, const char *cluster_id, uint64_t expect, const char **why)
{
	*why = "";
	if (!log_empty || own->generation > 0)
		*why = "this server belongs to a cluster";
	else if (own->cluster_id[0] != '\0' && strcmp(own->cluster_id, cluster_id) != 0)
		*why = "this server has promised to form another cluster";
	else if (own_expect != expect)
		*why = "bootstrap_expect differs";
	else if (strcmp(asker_uuid, own->uuid) >= 0)
		*why = "the requesting server must have the lower node id";
	return (*why)[0] == '\0' ? TV_OK : TV_ECONFLICT;
}
