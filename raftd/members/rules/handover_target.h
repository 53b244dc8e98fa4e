/*
 * Which voter takes over from a leader whose rpcd is away or silent, pure: what is known of each other voter,
 * which to take, and what to tell an operator when there is none.
 */
#ifndef TV_RAFTD_MEMBERS_RULES_HANDOVER_TARGET_H
#define TV_RAFTD_MEMBERS_RULES_HANDOVER_TARGET_H

#include "common/base/buf.h"
#include "raftd/core/raft.h"

enum handover_target_state {
	HANDOVER_TARGET_SERVED,		/* its rpcd has just answered */
	HANDOVER_TARGET_UNKNOWN,	/* it cannot tell: another build of raftd or rpcd */
	HANDOVER_TARGET_SILENT,		/* asked, and no answer: its rpcd is frozen */
	HANDOVER_TARGET_DESERTED,	/* no rpcd is connected there */
	HANDOVER_TARGET_GONE,		/* no link to its raftd */
};

struct handover_target {
	raft_id id;
	enum handover_target_state state;
};

/*
 * Of those that are served, else of those that cannot tell, the one with the newest log whose disk has room and whose state is open; NULL:
 * no other voter would do better.
 */
const struct handover_target *handover_target_pick(const struct raft_status *st, const struct handover_target *s, unsigned count);
/* "n2 (its rpcd does not answer), n3 (...)": why none of them, by the names in c. */
void handover_target_reasons(const struct raft_status *st, const struct raft_config *c, const struct handover_target *s,
    unsigned count, struct buf *out);

#endif
