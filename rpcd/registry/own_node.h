/* What the catalog is to say of this node beside its name, id and address: pure, from cluster.conf. */
#ifndef TV_RPCD_REGISTRY_OWN_NODE_H
#define TV_RPCD_REGISTRY_OWN_NODE_H

#include "common/base/arena.h"
#include "common/conf/cluster_conf.h"
#include "common/record/records.h"

struct own_node {
	struct span_map tagged, meta;	/* in bytewise order of their keys */
};

/*
 * The addresses lan and wan, each with its family's name as well, as far as tagged_addresses says nothing else, and all
 * that is there and in node_meta.  Texts are those of c, the maps are the arena's.  False: no memory.
 */
bool own_node_make(const struct cluster_conf *c, struct arena *a, struct own_node *out);
/* Does the catalog's record say the same?  Its address is gossip's word, and is not looked at. */
bool own_node_is(const struct own_node *own, const struct node *there);

#endif
