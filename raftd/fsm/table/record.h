/* Is a record one that the state machine could have written? */
#ifndef TV_RAFTD_FSM_TABLE_RECORD_H
#define TV_RAFTD_FSM_TABLE_RECORD_H

#include "common/base/arena.h"
#include "raftd/fsm/table/tables.h"

/*
 * TV_EFORMAT: the state machine cannot have written this record, or could not read it.  TV_ENOMEM: the arena or the
 * memory is too small to tell.  tally: its table's, or FT_COUNT.  What records say of one another is not looked at: the
 * tables' code passes over a reference to nothing.
 */
enum tv_err record_check(struct span key, struct span val, struct arena *a, enum fsm_tally *tally);

#endif
