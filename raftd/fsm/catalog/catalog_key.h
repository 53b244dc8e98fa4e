/* Keys of the catalog's tables. */
#ifndef TV_RAFTD_FSM_CATALOG_CATALOG_KEY_H
#define TV_RAFTD_FSM_CATALOG_CATALOG_KEY_H

#include "raftd/fsm/key.h"

void catalog_node_key(struct tkey *k, struct span node);
void catalog_node_id_key(struct tkey *k, struct span id);
void catalog_service_key(struct tkey *k, struct span node, struct span id);
void catalog_check_key(struct tkey *k, struct span node, struct span id);
void catalog_instance_key(struct tkey *k, struct span name, struct span node, struct span id);

#endif
