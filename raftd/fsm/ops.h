/* Which function does what, and what a read waits on. */
#ifndef TV_RAFTD_FSM_OPS_H
#define TV_RAFTD_FSM_OPS_H

#include "raftd/fsm/apply.h"
#include "raftd/fsm/read/watch.h"

/* NULL: not one of the state machine's. */
const struct fsm_op *fsm_op_find(uint16_t code);
/* Applies the operation that a payload holds, by its row; malformed arguments are its error, the same on every server. */
void apply_op(struct apply *p, struct span payload);

struct watch_row {			/* the watch column of an operation */
	enum watch_kind kind;
	uint16_t field;			/* offset of the field it names: a text; WK_TABLE: a map, if `more` is not 0 */
	uint64_t tables;		/* WK_TABLE: bits 1 << enum fsm_index */
	uint64_t more;			/* these too, if the map is not empty */
	bool connect;			/* WK_SERVICE: what proxies for the service */
};
const struct watch_row *watch_row_of(const struct op *op);
/*
 * What a read with this argument record waits on: the key, prefix or lower-case service name (borrowed from the record or
 * the arena), and the tables.  False: no memory.
 */
bool watch_subject(const struct watch_row *w, const void *rec, struct arena *a, struct span *what, uint64_t *tables);

#endif
