/*
 * Who takes over from a leader whose rpcd is away or silent, or whose disk is full, pure: what is known of each other voter,
 * whom to take, and what to tell an operator when there is nobody.
 */
#ifndef TV_SUCCESSOR_H
#define TV_SUCCESSOR_H

#include "common/base/buf.h"
#include "raftd/core/raft.h"

enum successor_state {
	SUCCESSOR_SERVED,		/* its rpcd has just answered */
	SUCCESSOR_UNKNOWN,		/* it cannot tell: another build of raftd or rpcd */
	SUCCESSOR_SILENT,		/* asked, and no answer: its rpcd is frozen */
	SUCCESSOR_DESERTED,		/* no rpcd is connected there */
	SUCCESSOR_GONE,			/* no link to its raftd */
};

struct successor {
	raft_id id;
	enum successor_state state;
};

/*
 * Of those that are served, else of those that cannot tell, the one with the newest log whose disk has room; NULL:
 * nobody would do better.
 */
const struct successor *successor_pick(const struct raft_status *st, const struct successor *s, unsigned count);
/* "n2 (its rpcd does not answer), n3 (...)": why none of them, by the names in c. */
void successor_reasons(const struct raft_status *st, const struct raft_config *c, const struct successor *s,
    unsigned count, struct buf *out);

/* Those that were asked in vain. */
struct successor_tries {
	unsigned count;
	raft_id ids[RAFT_SERVERS_MAX];
};
/*
 * Of the voters that were heard lately, whose disks have room and that lack `lag` entries of our log at most, the one with the
 * newest log; nobody that was tried.  0: there is none.
 */
raft_id successor_with_room(const struct raft_status *st, const struct successor_tries *tries, uint64_t lag);
/* Remembers one; the same again is no other. */
void successor_tried(struct successor_tries *tries, raft_id id);

#endif
