/*
 * Autopilot: the leader looks after the servers.  It judges their health (raftd/members/rules/server_health.h), lets a newcomer vote only
 * after it has been healthy for a while, and tells membership which servers are dead for good (raftd/members/rules/policy.h decides
 * whether they may go).  The configuration is a record of the state; the leader makes the first one from raftd.conf.
 */
#ifndef TV_RAFTD_MEMBERS_AUTOPILOT_H
#define TV_RAFTD_MEMBERS_AUTOPILOT_H

#include "raftd/members/rules/policy.h"
#include "raftd/raftd.h"

/* Voters that cleanup leaves when MinQuorum is 0: removing one of three gains nothing, and its return would count. */
#define AUTOPILOT_VOTERS_KEPT 3

struct autopilot;

struct autopilot *autopilot_new(struct raftd *d);
void autopilot_free(struct autopilot *a);
/* Leadership began or ended: what was known of the servers is void. */
void autopilot_role_changed(struct autopilot *a);
/* A look at the servers, while leading; at most two a second, however many callers. */
void autopilot_look(struct autopilot *a);
/* The parts of a policy's input that are ours: learners that may vote, dead servers, the least number of voters. */
void autopilot_advise(struct autopilot *a, struct policy_input *in);
/* Name and value pairs for info: are all servers healthy, and how many may fail; only while this one leads. */
void autopilot_info(struct autopilot *a, figure_fn *fn, void *ctx);
/* Answer value of OP_AUTOPILOT_HEALTH; when we do not lead, what we see of the others, and why there is no leader. */
void autopilot_health(struct autopilot *a, struct buf *out);

#endif
