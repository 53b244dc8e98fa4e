/* Inside the checker of histories.  linear.c: what is known of operations; linear_search.c: the search for an order. */
#ifndef TV_TESTS_SIM_LINEAR_INT_H
#define TV_TESTS_SIM_LINEAR_INT_H

#include <stdbool.h>

#include "tests/sim/linear.h"

#define NOBODY UINT32_MAX

struct slot {			/* a value at a key */
	uint32_t key;
	uint64_t value;
	uint32_t writers;	/* operations that may write it */
	uint32_t seen;		/* steps of operations which surely happened that saw it */
	uint32_t left;		/* of those, not in the order yet */
	int64_t seen_end, seen_last;	/* earliest and latest end of an operation that saw it */
	int64_t written;	/* start of one that writes it */
	int64_t last_start;	/* latest start of those that saw it */
};

struct step {
	enum lin_kind kind;
	uint32_t slot;
};

struct op {
	int64_t start, end;
	enum lin_outcome outcome;
	uint32_t tag, group;
	uint32_t first, count;	/* steps */
	bool sure;		/* it happened */
	bool pure;		/* writes nothing */
	bool dropped;		/* cannot matter */
	/* search */
	bool done;
	uint32_t prev, next;	/* list of those that began and are not in the order */
};

struct span_of_value {		/* of the operations that wrote and saw a value which only one wrote */
	int64_t first_end, last_start;
	uint32_t key, writer;
};

struct moment {
	int64_t at;
	uint32_t op, group;
	bool end;
};

struct linear {
	struct op *ops;
	size_t op_count, op_cap;
	struct step *steps;
	size_t step_count, step_cap;
	struct slot *slots;
	size_t slot_count, slot_cap;
	uint32_t *slot_table;	/* hash of key and value -> slot + 1 */
	size_t table_cap;
	uint32_t key_count;
	uint32_t *parent;	/* keys that belong together */
	int64_t *false_end;	/* by key: newest end of a comparison that failed */
	uint32_t *state;	/* by key: slot */
	struct span_of_value *spans;	/* by key, then first_end */
	size_t span_count;
	size_t *key_spans;	/* by key: where its spans begin; one more at the end */
	struct moment *moments;
	size_t moment_count;
	/* report */
	uint32_t report_keys[64];
	uint64_t report_values[64];
};

/*
 * One group's moments; fills in the report when the answer is not LIN_YES.  quick: takes short cuts, so that LIN_YES is
 * an answer and LIN_NO is none.
 */
enum lin_verdict linear_search(struct linear *l, const struct moment *m, size_t count, bool quick, uint64_t work,
    struct lin_report *report);
void *linear_grow(void *p, size_t *cap, size_t need, size_t size);

#endif
