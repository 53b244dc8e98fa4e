/*
 * What the functions of an area are given: to prepare a write, to apply it, to read; and the row that names them.
 */
#ifndef TV_RAFTD_FSM_APPLY_H
#define TV_RAFTD_FSM_APPLY_H

#include "raftd/fsm/state.h"

struct acl_set;

/* What applying one entry may use. */
struct apply {
	struct fsm *f;
	struct arena *out;		/* for the result */
	struct fsm_result *res;		/* never NULL */
	uint8_t needs;			/* version that the entry needs: it is applied as that version does */
};
/* Sets an application error; the text is formatted. */
void apply_fail(struct apply *p, enum tv_err err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void apply_bool(struct apply *p, bool value);

/* Read in progress. */
struct reading {
	struct fsm *f;
	struct arena *a;
	struct buf *out;
	struct fsm_answer *ans;
	const struct acl_set *who;	/* what the token may; NULL: all */
};
void read_fail(struct reading *r, enum tv_err err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* An array of records whose number is known at its end. */
size_t list_begin(struct buf *out);
void list_end(struct buf *out, size_t at, uint32_t count);

/* Checking and completing a write before it goes to the log. */
struct prepare {
	struct fsm *f;
	uint16_t op;			/* may be made another one that takes the same arguments */
	struct arena *a;
	int64_t now;
	const char *uuid;
	struct span *error_text;
};
enum tv_err prepare_fail(struct prepare *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

struct fsm_op {				/* the arguments are those of the operation's row in common/record/ops.h */
	uint16_t code;
	enum tv_err (*prepare)(struct prepare *p, void *rec);	/* NULL: nothing to do */
	void (*apply)(struct apply *p, const void *rec);	/* writes */
	void (*read)(struct reading *r, const void *rec);	/* reads */
	void (*warm)(struct fsm *reader, const void *rec);	/* writes: looks at what apply will; NULL: that is little */
	uint8_t since;						/* writes: version of the state machine; 0: the first */
	bool one;						/* reads: of one record, which needs no view */
	uint8_t (*needs)(struct span args);	/* writes: version that these arguments need; NULL: never more than since */
};
/* The areas: an array each, which ends with a row of zeros. */
#define FSM_AREAS(X) \
	X(kv_ops) X(session_ops) X(register_ops) X(catalog_ops) X(address_ops) X(health_ops) X(deregister_ops) X(coordinate_ops) \
	X(autopilot_ops) X(tombstone_ops) X(server_ops) X(stage_ops) X(txn_ops) X(query_ops) X(acl_ops) X(acl_token_ops) \
	X(acl_policy_ops) X(acl_role_ops) X(acl_resolve_ops) X(acl_method_ops) X(acl_binding_ops) \
	X(acl_login_ops) X(acl_repl_ops)
#define X(name) extern const struct fsm_op name[];
FSM_AREAS(X)
#undef X

#endif
