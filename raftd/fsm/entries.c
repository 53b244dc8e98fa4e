/* Entries: which version one needs, how it is written, checked before the log, and applied. */
#include <errno.h>

#include "common/record/mpack.h"
#include "raftd/fsm/acl/acl.h"
#include "raftd/fsm/kv/kv.h"
#include "raftd/fsm/ops.h"
#include "raftd/fsm/page/page.h"
#include "raftd/fsm/read/read.h"
#include "raftd/fsm/table/head.h"
#include "raftd/fsm/table/meta.h"
#include "raftd/fsm/table/table.h"
#include "raftd/store/bdb/store_fetch.h"

uint8_t
fsm_op_version(uint16_t op)
{
	const struct fsm_op *row = fsm_op_find(op);

	return row == NULL || row->since == 0 ? 1 : row->since;
}

uint8_t
fsm_entry_version(uint16_t op, struct span args, bool premises)
{
	const struct fsm_op *row = fsm_op_find(op);
	uint8_t needs = fsm_op_version(op), more = row == NULL || row->needs == NULL ? 0 : row->needs(args);

	if (more > needs)
		needs = more;
	return premises && needs < FSM_PREMISES_SINCE ? FSM_PREMISES_SINCE : needs;
}

void
fsm_entry_write_judged(struct buf *b, uint16_t op, struct span args, struct span premises)
{
	uint8_t needs = fsm_entry_version(op, args, premises.len > 0);

	mpw_array(b, premises.len > 0 ? 4 : needs > 1 ? 3 : 2);
	mpw_uint(b, op);
	buf_putspan(b, args);
	if (needs > 1)
		mpw_uint(b, needs);
	buf_putspan(b, premises);
}

void
fsm_entry_write(struct buf *b, uint16_t op, struct span args)
{
	fsm_entry_write_judged(b, op, args, SPAN_NONE);
}

/*
 * Not ours to apply: a server that passed over it would have another state than the servers that know it.  The batch is undone,
 * and the process stops; the entry is applied once a version runs that can.
 */
static void
beyond_us(struct fsm *f, uint16_t op, uint8_t needs)
{
	f->beyond.index = f->applied + 1;
	f->beyond.op = op;
	f->beyond.needs = needs;
	f->failed = ENOTSUP;
}

/* What an entry says behind its arguments, where r stands before them: the version that it needs, and its premises. */
static uint8_t
entry_needs(struct rd r, uint32_t fields, struct span *premises)
{
	uint8_t needs = 1;

	*premises = SPAN_NONE;
	if (fields <= 2)
		return needs;
	mpr_skip(&r);
	needs = (uint8_t)mpr_uint(&r, UINT8_MAX);
	if (fields > 3 && !mpr_nil(&r))
		*premises = mpr_value(&r);
	return needs;
}

void
apply_op(struct apply *p, struct span payload)
{
	struct rd r = rd_span_over(payload);
	struct fsm *f = p->f;
	const struct fsm_op *op;
	const struct op *desc;
	uint32_t fields = mpr_array(&r);
	uint16_t code = (uint16_t)mpr_uint(&r, UINT16_MAX);
	struct span premises;
	uint8_t needs = entry_needs(r, fields, &premises);
	void *args;

	if (fields < 2 || r.err != TV_OK) {
		apply_fail(p, TV_EFORMAT, "malformed entry");
		return;
	}
	op = fsm_op_find(code);
	desc = op_find(code);
	if (op == NULL || op->apply == NULL || desc == NULL || needs > f->opt.version) {
		beyond_us(f, code, needs);
		return;
	}
	p->needs = needs;
	if (needs > f->needs)
		f->needs = needs;
	args = arena_alloc(&f->work, desc->args->size);
	if (args == NULL || schema_unpack(desc->args, &r, &f->work, args) == TV_ENOMEM) {
		f->failed = ENOMEM;		/* ours alone: the others may well apply it */
		return;
	}
	for (uint32_t i = 2; i < fields && r.err == TV_OK; i++)
		mpr_skip(&r);
	if (rd_end(&r) != TV_OK) {
		apply_fail(p, TV_EFORMAT, "malformed arguments of %s", desc->name);
		return;
	}
	if (premises.len == 0 || premises_hold(p, premises))
		op->apply(p, args);
}

static void
apply_entry(struct fsm *f, const struct raft_entry *e, struct arena *a, struct fsm_result *res)
{
	struct apply p = { .f = f, .out = a, .res = res };

	*res = (struct fsm_result){ 0 };
	f->at = e->index + f->restored[FR_BASE];
	arena_reset(&f->work);
	if (e->type == RAFT_ENTRY_OP)
		apply_op(&p, span_of(e->payload, e->size));
	f->applied = e->index;
	f->applied_term = e->term;
	f->applied_entries++;
}

/* Lock held.  Berkeley DB's code. */
static int
apply_all(struct fsm *f, const struct raft_entry *entries, uint32_t count, struct arena *a, struct fsm_result *results)
{
	struct arena dropped = ARENA_INIT(1u << 20);
	struct fsm_result none;
	int ret;

	ret = tbl_begin(f);
	if (ret != 0)
		return ret;
	for (uint32_t i = 0; i < count && f->failed == 0; i++) {
		apply_entry(f, &entries[i], results != NULL ? a : &dropped, results != NULL ? &results[i] : &none);
		if (results == NULL)
			arena_reset(&dropped);
	}
	arena_done(&dropped);
	if (f->failed == 0)
		fsm_store_meta(f);
	ret = tbl_end(f);
	if (ret == 0)
		head_publish(f);		/* reads only what seldom changes */
	return ret != 0 ? ret : f->failed;
}

/* Those who wait for the end of a batch come first. */
static void
apply_lock(struct fsm *f)
{
	pthread_mutex_lock(&f->door);
	pthread_mutex_unlock(&f->door);
	pthread_mutex_lock(&f->lock);
}

enum tv_err
fsm_apply_batch(struct fsm *f, const struct raft_entry *entries, uint32_t count, struct arena *a,
    struct fsm_result *results, struct fsm_touches *t)
{
	bool alone = false;
	uint64_t reads;
	int ret;

	if (count == 0)
		return TV_OK;
	if (entries[0].index != f->applied + 1)
		return TV_EINVAL;
	warm_batch(f, entries, count);
	for (uint32_t i = 0; i < count && !alone; i++)
		alone = kv_is_large_tree(f, &entries[i]);
	views_wait(f, alone);
	apply_lock(f);
	f->touches = t;
	reads = store_page_reads();
	ret = apply_all(f, entries, count, a, results);
	warm_batch_read(f, store_page_reads() - reads);
	f->touches = &f->own_touches;
	if (ret != 0)
		f->failed = ret;		/* before a checkpoint takes what was not committed for applied */
	pthread_mutex_unlock(&f->lock);
	if (alone)
		views_admit(f);
	if (ret != 0) {
		enum tv_err err;

		if (f->beyond.index != 0)
			return TV_EINVAL;
		err = store_env_err(f->env, ret);
		return err == TV_ECORRUPT || err == TV_ENOSPACE ? err : TV_ESYS;
	}
	return TV_OK;
}

enum tv_err
fsm_apply(struct fsm *f, const struct raft_entry *entries, uint32_t count, struct arena *a, struct fsm_result *results)
{
	enum tv_err err = fsm_apply_batch(f, entries, count, a, results, &f->own_touches);

	if (err == TV_OK && count > 0)
		fsm_fire(f, &f->own_touches);
	return err;
}

/* -- preparing -- */

enum tv_err
fsm_prepare(struct fsm *f, uint16_t *code, struct span args, int64_t wall_now_ns, const char *new_uuid, struct buf *b,
    struct arena *a, struct span *error_text)
{
	struct prepare p = { .f = f, .op = *code, .a = a, .now = wall_now_ns, .uuid = new_uuid, .error_text = error_text };
	const struct fsm_op *op = fsm_op_find(*code);
	const struct op *desc = op_find(*code);
	struct rd r = rd_span_over(args);
	enum tv_err err = TV_OK;
	void *rec;
	size_t before = a->used;

	*error_text = SPAN_NONE;
	if (op == NULL || op->apply == NULL || desc == NULL)
		return prepare_fail(&p, "unknown operation %u", (unsigned)*code);
	rec = arena_alloc(a, desc->args->size);
	if (rec == NULL || schema_unpack(desc->args, &r, a, rec) != TV_OK || rd_end(&r) != TV_OK)
		return prepare_fail(&p, "malformed arguments of %s", desc->name);
	/* A reader of what is stored has a bound too, and would have to stop. */
	if (a->used - before > FSM_DECODED_MAX)
		return prepare_fail(&p, "too many parts in the arguments of %s", desc->name);
	if (op->prepare != NULL)
		err = op->prepare(&p, rec);
	if (err != TV_OK)
		return err;
	*code = p.op;
	schema_pack(desc->args, rec, b);
	return b->failed ? TV_ELIMIT : TV_OK;
}
