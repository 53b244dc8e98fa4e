/* A transaction while it is carried out. */
#ifndef TV_RAFTD_FSM_TXN_INT_H
#define TV_RAFTD_FSM_TXN_INT_H

#include "raftd/fsm/state.h"

/* The prefixes that an OP_TXN_APPLY entry deletes trees of, if not NULL: TXN_OPS_MAX at most; how many there are. */
uint32_t txn_trees(const struct raft_entry *e, struct span *prefixes);

struct txn_run {
	struct fsm *f;
	struct arena *texts;		/* of errors that other areas find */
	struct arena one;		/* for the operation at hand; empty at its beginning */
	int64_t now;			/* of the entry */
	uint64_t tree_keys, tree_bytes;	/* that trees may still remove */
	uint64_t answer_bytes;		/* that results may still take */
	bool reads;			/* it is no entry of the log */
	bool or_empty;			/* get-or-empty is known: FSM_OR_EMPTY_SINCE */
	uint32_t at;			/* number of the operation at hand */
	struct buf *results;		/* packed txn_result each */
	struct buf errors;		/* packed txn_error each */
	uint32_t result_count, error_count;
};

/* Reads and writes of an operation: what it answers is added to `results`, or what is wrong to `errors`. */
void txn_kv_run(struct txn_run *t, const struct txn_kv *q);
void txn_node_run(struct txn_run *t, const struct txn_node *q);
void txn_service_run(struct txn_run *t, const struct txn_service *q);
void txn_check_run(struct txn_run *t, const struct txn_check *q);
/* What is wrong with an operation on a key, whatever the state is; false: nothing. */
bool txn_kv_refused(struct txn_run *t, const struct txn_kv *q);

/* The operation at hand fails with this sentence; texts before and behind `name`, which is quoted, if it is not NULL. */
void txn_fail(struct txn_run *t, const char *before, const struct span *name, const char *behind);
void txn_failf(struct txn_run *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same with the sentence of another area, which says first what the area was asked for. */
void txn_fail_as(struct txn_run *t, struct span text, const char *unless);
void txn_result(struct txn_run *t, const struct txn_result *r);
/* The result is a key's stored record as it is. */
void txn_result_stored(struct txn_run *t, struct span kv);

#endif
