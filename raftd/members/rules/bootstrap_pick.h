/* Which server forms a cluster with which, pure. */
#ifndef TV_RAFTD_MEMBERS_RULES_BOOTSTRAP_PICK_H
#define TV_RAFTD_MEMBERS_RULES_BOOTSTRAP_PICK_H

#include "raftd/raftd.h"

#define BOOTSTRAP_SERVERS_MAX 15

struct bootstrap_candidate {
	char uuid[37];
	bool alive, linked;		/* gossip says alive; hello exchanged */
	uint64_t expect;
	char cluster_id[37];		/* by its hello */
	uint64_t generation;
};
/*
 * Which servers this one should ask, if it is its turn: fills picked with indexes into `c` (expect - 1 of them, lowest
 * ids first) and returns true.  own_cluster: promised id or "".
 */
bool bootstrap_pick(const char *own_uuid, const char *own_cluster, const char *own_store, uint64_t expect,
    const struct bootstrap_candidate *c, unsigned count, unsigned *picked);
/* May a server with these facts promise `cluster_id` to the server `asker`?  TV_OK or the error for the answer. */
enum tv_err bootstrap_may_promise(const struct identity *own, uint64_t own_expect, bool log_empty,
    const char *asker_uuid, const char *cluster_id, uint64_t expect, const char **why);

#endif
