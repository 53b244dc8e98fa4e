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

/*
 * What its node has in the catalog beside what gossip tells: its agent's part, which a write of the leader leaves as it is.  The
 * agent writes tagged addresses and metadata there, and takes out what is not configured any more; the leader writes the address,
 * and what each node has of these before its agent says something else.
 */
struct member_kept {
	bool whole;			/* the node is as it should be: only service or check are to be written */
	struct span_map tagged, meta;	/* else: what its node is to have; not set: as each node has it */
};

/* serfHealth of the node of that name, which is borrowed. */
void member_entry_health(struct span node, bool alive, struct check *out);
/* m and kept: borrowed by *out. */
void member_entry_make(const struct member *m, const char *dc, bool alive, const struct member_kept *kept,
    struct member_entry *out);
/*
 * What the state says of a member (rules/reconcile.h), and what a write is to keep.  Texts are of the arena, MEMBER_ENTRY_TEXTS
 * bytes at most: what is larger than an agent may configure is not kept.  Reads, so in a thread (statethread.h).  An error:
 * nothing is known.
 */
#define MEMBER_ENTRY_KEPT (64u << 10)
#define MEMBER_ENTRY_TEXTS (4 * 1024 + MEMBER_ENTRY_KEPT)
enum tv_err member_entry_look(struct fsm *reader, const struct member *m, struct arena *keep, struct reconcile_stored *out,
    struct member_kept *kept);

#endif
