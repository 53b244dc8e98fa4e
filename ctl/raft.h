/* The parts of `clusterctl raft` that have files of their own. */
#ifndef TV_CTL_RAFT_H
#define TV_CTL_RAFT_H

#include "ctl/ctl.h"

#define RAFT_USAGE (-1)			/* the call was wrong, and nothing was said yet */

#define RAFT_HEALTH "/v1/operator/autopilot/health"
#define RAFT_TIMEOUT_S 30

/* Of a server in a configuration or a health answer: leader, follower, learner, failed, left, unreachable, removed. */
const char *raft_state(const json_t *server);
/* Prints to stderr whom a cluster without a leader waits for, as this node's server, or any, sees it. */
void raft_why_no_leader(struct ctl *ctl);
/* raft autopilot [get | set NAME=VALUE ... | health]: what follows "autopilot".  The exit status, or RAFT_USAGE. */
int raft_autopilot(struct ctl *ctl, int n, char **args);
/* raft recover: shows what it would mean; with yes, or after a "yes" typed at a terminal, does it. */
int raft_recover(struct ctl *ctl, bool dry_run, bool yes);

#endif
