/* Real stores for the Raft simulator: what raft_real.c and the shell around snapshot_recv.c share. */
#ifndef TV_TESTS_SIM_RAFT_REAL_H
#define TV_TESTS_SIM_RAFT_REAL_H

#include "raftd/fsm/fsm.h"
#include "raftd/raftd.h"
#include "tests/sim/memfs.h"
#include "tests/sim/raft_world.h"

/* In place of the thread of common/proc/jobs.c: see raft_real_shell.c. */
struct jobs {
	bool running;
};

struct real_node {
	struct world *w;
	struct sim_node *n;
	char name[16], dir[64], log_dir[96], state_dir[96];
	struct memfs *fs;
	struct raftd d;			/* what snapshot_recv.c needs of it */
	struct jobs worker;		/* d's */
	struct snapshot_recv *recv;
	/* a crash within the call at hand */
	uint64_t crash_in;		/* calls of the disk until then; 0: none */
	struct memfs *left;		/* what it left; NULL: it did not come to that */
	bool failing;			/* the call fails, and the server has to stop for that */
	bool failed, sync;		/* it did; it was a sync */
	/* a compaction under way */
	uint64_t cutting;		/* its snapshot position; 0: none */
	/* found by the last recovery */
	struct sim_log found;
	bool installed;
	unsigned later;			/* jobs without hurry that found the thread idle or not */
};

/* For struct plan. */
extern const struct sim_stores real_stores;

#endif
