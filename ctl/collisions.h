/* Members that live and have one node id, or one name but for case, as gossip tells of them: for clusterctl status. */
#ifndef TV_CTL_COLLISIONS_H
#define TV_CTL_COLLISIONS_H

#include <jansson.h>
#include <stdbool.h>

struct collisions {
	/* Is a member of this name and id in the catalog? */
	bool (*listed)(void *ctx, const char *name, const char *id);
	/* One pair: what is so, and what to do. */
	void (*say)(void *ctx, const char *remedy, const char *text);
	void *ctx;
	unsigned said;			/* so far; 0 at first */
};

/* Says the pairs of a pool; of both pools the first four.  members: as the API lists them, or NULL. */
void collisions_find(struct collisions *c, const json_t *members, bool wan);

#endif
