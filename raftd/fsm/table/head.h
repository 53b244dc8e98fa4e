/* What any thread may know of the state without reading it, as of the last commit. */
#ifndef TV_RAFTD_FSM_TABLE_HEAD_H
#define TV_RAFTD_FSM_TABLE_HEAD_H

#include "raftd/fsm/state.h"

/* Gives other threads what the last commit made of the state; lock held.  Reads what `facts` says. */
void head_publish(struct fsm *f);

#endif
