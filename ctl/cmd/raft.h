/* What the files of `clusterctl raft` share. */
#ifndef TV_CTL_CMD_RAFT_H
#define TV_CTL_CMD_RAFT_H

#include "ctl/ctl.h"

#define RAFT_HEALTH "/v1/operator/autopilot/health"
#define RAFT_TIMEOUT_S 30
#define RAFT_NO_LEADER "No leader: "	/* how the reason begins, where no leader is known */

/* Of a server in a configuration or a health answer: leader, follower, learner, failed, left, unreachable, removed. */
const char *raft_state(json_t *server);
/* The leader among the "Servers" of a configuration or a health answer; NULL: none is known. */
const json_t *raft_leader(const json_t *answer);
/* Prints to stderr which servers a cluster without a leader waits for, as this node's server, or any, sees it. */
void raft_why_no_leader(struct ctl *ctl);

#endif
