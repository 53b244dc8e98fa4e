/*
 * Applying entries that hold groups of operations, as fsm_apply() applies a batch of entries: for the time until there is
 * an operation that is a group.
 */
#ifndef TV_TESTS_SIM_FSM_BATCH_H
#define TV_TESTS_SIM_FSM_BATCH_H

#include "raftd/fsm/group.h"
#include "raftd/fsm/ops.h"
#include "raftd/fsm/table/head.h"
#include "raftd/fsm/table/meta.h"
#include "raftd/fsm/table/table.h"

static inline int
batch_begin(struct fsm *f)
{
	int ret;

	pthread_mutex_lock(&f->lock);
	ret = tbl_begin(f);
	if (ret != 0) {
		f->failed = ret;
		pthread_mutex_unlock(&f->lock);
	}
	return ret;
}

/* What comes now belongs to the next entry. */
static inline void
batch_entry(struct fsm *f, uint64_t term)
{
	f->applied++;
	f->applied_term = term;
	f->at = f->applied + f->restored[FR_BASE];
	arena_reset(&f->work);
}

/* One operation; false: it was refused. */
static inline bool
batch_op(struct fsm *f, struct span payload, struct arena *a)
{
	struct fsm_result res = { .err = TV_OK };
	struct apply p = { .f = f, .out = a, .res = &res };

	apply_op(&p, payload);
	return res.err == TV_OK;
}

/* All of them or none: they stop at one that is refused, and before number fail_at.  True: they stay. */
static inline bool
batch_group(struct fsm *f, const struct span *ops, unsigned n, unsigned fail_at, struct arena *a)
{
	struct fsm_group g;
	bool good = true;

	fsm_group_begin(f, &g);
	for (unsigned i = 0; i < n && good; i++)
		good = i != fail_at && batch_op(f, ops[i], a);
	if (good)
		fsm_group_commit(f, &g);
	else
		fsm_group_fail(f, &g);
	return good;
}

static inline enum tv_err
batch_end(struct fsm *f)
{
	int ret;

	if (f->failed == 0)
		fsm_store_meta(f);
	ret = tbl_end(f);
	if (ret != 0)
		f->failed = ret;
	else
		head_publish(f);
	pthread_mutex_unlock(&f->lock);
	if (ret == 0)
		fsm_fire(f, &f->own_touches);
	return store_env_err(f->env, ret);
}

#endif
