/* Reading, with a token or without, and what a read waits on. */
#include "raftd/fsm/acl/acl.h"
#include "raftd/fsm/ops.h"
#include "raftd/fsm/read/read.h"

#define UNKNOWN_TOKEN "ACL not found"

/* What went wrong while reading. */
static void
judge_failure(struct reading *r)
{
	struct fsm *f = r->f;
	int ret = f->failed;

	if (f->owner != NULL && reader_may_retry(ret)) {
		read_fail(r, TV_EAGAIN, "not in the cache");
		reader_renew(f);
	} else if (ret != 0) {
		read_fail(r, store_env_err(f->env, ret), "the state cannot be read");
	}
}

static void
look_up(struct reading *r, const struct fsm_op *row, const void *rec)
{
	if (!row->one)
		view_need(r->f);
	if (r->f->failed == 0)
		row->read(r, rec);
}

/* The end of a read: what failed of the state is its error; at: where its answer begins. */
static void
read_ended(struct reading *r, size_t at)
{
	struct fsm *f = r->f;
	struct fsm_answer *ans = r->ans;

	/* Not by a restore either does an index go back: what was restored counts as changed then (S104). */
	if (ans->index < f->restored[FR_FLOOR])
		ans->index = f->restored[FR_FLOOR];
	if (ans->index == 0)
		ans->index = 1;
	if (f->failed != 0)
		judge_failure(r);
	else if (r->out->failed && ans->err == TV_OK)
		read_fail(r, TV_ELIMIT, "the answer is too large");
	if (ans->err != TV_OK && r->out->len > at)
		r->out->len = at;
}

/* The whole of a read whose f, a, out, ans and who are set. */
static void
read_with(struct reading *r, const struct op *op, struct span args)
{
	const struct fsm_op *row = fsm_op_find(op->code);
	struct rd in = rd_span_over(args);
	size_t at = r->out->len;
	void *rec = arena_alloc(r->a, op->args->size);

	if (row == NULL || row->read == NULL)
		read_fail(r, TV_EINVAL, "unknown read %u", (unsigned)op->code);
	else if (rec == NULL || schema_unpack(op->args, &in, r->a, rec) != TV_OK || rd_end(&in) != TV_OK)
		read_fail(r, TV_EFORMAT, "malformed arguments of %s", op->name);
	else if (may_ask(r, op, rec))
		look_up(r, row, rec);
	read_ended(r, at);
}

void
fsm_read(struct fsm *f, const struct op *op, struct span args, struct arena *a, struct buf *out, struct fsm_answer *ans)
{
	struct reading r = { .f = f, .a = a, .out = out, .ans = ans };

	*ans = (struct fsm_answer){ .err = TV_OK, .index = 1 };
	read_with(&r, op, args);
}

/* -- with a token -- */

/* False: the read has failed. */
static bool
take_rights(struct reading *r, struct span token, const struct fsm_rights **rights)
{
	enum tv_err err = fsm_rights_get(r->f, token, fsm_wall_now(r->f), rights);

	if (err == TV_OK) {
		r->who = *rights == NULL ? NULL : fsm_rights_set(*rights);
		return true;
	}
	if (err == TV_ENOENT)
		read_fail(r, TV_EPERM, UNKNOWN_TOKEN);
	else if (err == TV_EAGAIN)
		read_fail(r, TV_EAGAIN, "not in the cache");
	else
		read_fail(r, err, "the rights of this token cannot be made out: %s", tv_strerror(err));
	return false;
}

/* Has access control begun, or changed, since?  Then what was read may be newer than what it was judged by. */
static bool
is_outdated(const struct fsm *f, const struct fsm_rights *rights)
{
	return rights == NULL ? fsm_acl_since(f) != 0 : fsm_acl_index(f) > fsm_rights_index(rights);
}

/* Comparisons are judged first; then what may not be seen is left out. */
static void
read_txn_as(struct reading *r, const struct op *op, struct span args, const struct fsm_rights *rights)
{
	struct buf filtered = BUF_INIT(FSM_ANSWER_BYTES_MAX);
	size_t at = r->out->len;
	const char *why;
	enum tv_err err = TV_OK;

	if (rights != NULL && fsm_may(r->f, op, args, rights, r->out, NULL, &why) == TV_EPERM && r->out->len > at)
		return;
	read_with(r, op, args);
	if (r->ans->err == TV_OK && rights != NULL) {
		err = fsm_txn_filter(rights, span_of(r->out->data + at, r->out->len - at), &filtered);
		r->out->len = at;
		buf_putspan(r->out, buf_span(&filtered));
	}
	if (err != TV_OK || filtered.failed)
		read_fail(r, TV_ELIMIT, "the answer is too large");
	buf_done(&filtered);
}

void
fsm_read_as(struct fsm *f, const struct op *op, struct span args, struct span token, struct arena *a, struct buf *out,
    struct fsm_answer *ans, const struct fsm_rights **rights)
{
	struct reading r = { .f = f, .a = a, .out = out, .ans = ans };
	size_t at = out->len;

	*ans = (struct fsm_answer){ .err = TV_OK, .index = 1 };
	*rights = NULL;
	if (op->access.scope != OP_NONE || op->code == OP_TXN_READ || op->code == OP_QUERY_EXECUTE || op->code == OP_QUERY_REMOTE)
		if (!take_rights(&r, token, rights))
			return;
	if (op->code == OP_TXN_READ) {
		read_txn_as(&r, op, args, *rights);
		return;
	}
	read_with(&r, op, args);
	/* A client without a token could find out by filters what there is. */
	ans->hidden = ans->hidden && token.len > 0;
	/* With a view all is of one index, and nothing is newer. */
	if (ans->err == TV_OK && f->owner != NULL && f->view == NULL && op->access.scope != OP_NONE && is_outdated(f, *rights)) {
		out->len = at;
		read_fail(&r, TV_EAGAIN, "access control has just changed");
	}
}

void
fsm_judge(struct fsm *f, const struct op *op, struct span args, struct span token, struct arena *a, struct buf *out,
    struct fsm_answer *ans, const struct fsm_rights **rights)
{
	struct reading r = { .f = f, .a = a, .out = out, .ans = ans };
	struct buf premises = BUF_INIT(PREMISES_BYTES_MAX);
	const char *why = ACL_DENIED;
	size_t at = out->len;
	enum tv_err err;

	*ans = (struct fsm_answer){ .err = TV_OK, .index = 1 };
	*rights = NULL;
	if (!take_rights(&r, token, rights))
		return;
	err = fsm_may(f, op, args, *rights, out, &premises, &why);
	ans->refused = err == TV_EPERM && out->len > at;
	if (ans->refused)
		err = TV_OK;			/* the reply says it */
	if (err == TV_OK && !ans->refused)
		buf_putspan(out, buf_span(&premises));
	buf_done(&premises);
	if (err != TV_OK)
		read_fail(&r, err, "%s", why);
	read_ended(&r, at);
	if (ans->err == TV_OK && f->owner != NULL && f->view == NULL && is_outdated(f, *rights)) {
		out->len = at;
		read_fail(&r, TV_EAGAIN, "access control has just changed");
	}
}

/* -- watching -- */

struct fsm_watch *
fsm_watch(struct fsm *f, const struct op *op, struct span args, fsm_watch_fn *fn, void *ctx)
{
	const struct watch_row *row = watch_row_of(op);
	struct arena a = ARENA_INIT(FSM_RECORD_MEMORY);
	struct rd in = rd_span_over(args);
	struct fsm_watch *w = NULL;
	struct span what;
	uint64_t tables;
	void *rec = arena_alloc(&a, op->args->size);

	if (row->kind != WK_NOTHING && rec != NULL && schema_unpack(op->args, &in, &a, rec) == TV_OK &&
	    watch_subject(row, rec, &a, &what, &tables))
		w = watches_add(f->watches, row->kind, what, tables, fn, ctx);
	arena_done(&a);
	return w;
}

void
fsm_unwatch(struct fsm *f, struct fsm_watch *w)
{
	if (w != NULL)
		watches_remove(f->watches, w);
}

unsigned
fsm_watch_count(const struct fsm *f)
{
	return watches_count(f->watches);
}
