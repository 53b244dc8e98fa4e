/* The catalog entry of a gossip member: what it should be, and whether it is so. */
#ifndef TV_RAFTD_LEADER_MEMBER_ENTRY_H
#define TV_RAFTD_LEADER_MEMBER_ENTRY_H

#include "common/record/member.h"
#include "raftd/fsm/fsm.h"

#define MEMBER_META_MAX 8

struct member_pairs {
	struct span kv[MEMBER_META_MAX][2];
	uint32_t n;
};

/* Arguments of OP_CATALOG_REGISTER with what they point to; not to be moved. */
struct member_entry {
	struct catalog_register args;
	struct member_pairs tagged, node_meta, service_meta;
	char ip[46];
};

/* m: borrowed by *out. */
void member_entry_make(const struct member *m, const char *dc, bool alive, struct member_entry *out);
/* Does the stored node say the same? */
bool member_entry_same_node(const struct member *m, const struct node *stored);
/* Servers: is the service `consul` there as it should be?  Others: true. */
bool member_entry_same_service(struct fsm *f, const struct member *m);

#endif
