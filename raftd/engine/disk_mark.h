/*
 * How far the disk of a server has come, as it tells the others and they remember: by that a server learns that its disk was put
 * back to an older state, by a reverted snapshot of a virtual machine or an old copy of the data folder (S61).  Pure.
 *
 * A mark holds only what is durable and can never be taken back by the protocol: the term, the vote in it, and the part of the log
 * that the leader of this term has, too.  A server that starts with less than its mark has forgotten promises.  The others remember
 * marks in memory, and hear them every few seconds: what was promised after the newest mark, or is known only to servers that have
 * been restarted since, cannot be missed by this.
 */
#ifndef TV_RAFTD_ENGINE_DISK_MARK_H
#define TV_RAFTD_ENGINE_DISK_MARK_H

#include "raftd/core/raft.h"

struct disk_mark {
	uint64_t life;			/* random number of the process that said it; 0: no mark */
	uint64_t term, kept;		/* kept: see struct raft_status */
	raft_id vote;			/* in that term; 0: none */
	bool went_back;			/* it knows that its disk went back, and that is not made up for */
};

/* What a server finds on its disk when it starts. */
struct disk_found {
	uint64_t life;			/* of this process */
	uint64_t term, last;		/* last: the end of the log or of the state */
	raft_id vote;
};

/* Marks of other servers. */
struct disk_marks {
	struct { raft_id id; struct disk_mark mark; } of[RAFT_SERVERS_MAX];
	unsigned count;
};

/* A mark that server id says of itself.  Only of servers of this configuration; others are forgotten. */
void disk_marks_heard(struct disk_marks *b, const struct raft_config *c, raft_id id, const struct disk_mark *m);
/* What is remembered of a server, for it to hear; life 0: nothing. */
struct disk_mark disk_marks_of(const struct disk_marks *b, raft_id id);
/* Does this disk hold less than an earlier life of it told another server, which remembers `seen`? */
bool disk_went_back(const struct disk_found *f, const struct disk_mark *seen);

#endif
