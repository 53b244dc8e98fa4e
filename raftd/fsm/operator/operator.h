/* What the head shows of autopilot's configuration. */
#ifndef TV_RAFTD_FSM_OPERATOR_OPERATOR_H
#define TV_RAFTD_FSM_OPERATOR_OPERATOR_H

#include "raftd/fsm/state.h"

bool autopilot_load(struct fsm *f, struct arena *a, struct autopilot_config *out);

#endif
