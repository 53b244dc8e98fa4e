/* The catalog entry of a gossip member: what it should be, and whether it is so. */
#ifndef TV_RAFTD_LEADER_MEMBER_ENTRY_H
#define TV_RAFTD_LEADER_MEMBER_ENTRY_H

#include "common/record/member.h"
#include "raftd/fsm/fsm.h"
#include "raftd/leader/rules/reconcile.h"

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
/*
 * What the state says of a member (rules/reconcile.h).  Its texts, MEMBER_ENTRY_TEXTS bytes at most, are of the arena.  Reads, so
 * in a thread (statethread.h).  An error: nothing is known.
 */
#define MEMBER_ENTRY_TEXTS (4 * 1024)
enum tv_err member_entry_look(struct fsm *reader, const struct member *m, struct arena *keep, struct reconcile_stored *out);

#endif
