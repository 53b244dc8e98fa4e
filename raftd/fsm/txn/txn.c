/*
 * Transactions: up to 64 operations on keys, nodes, services and checks, of which all are carried out or none.
 * Source: http-api, section 3.
 *
 * Each operation is that of its area, by the same functions as a request of its own.  All are tried, also after one has failed, so that
 * each error has its place in the answer; then either all of it stays, or nothing (group.c).  What only reads is no entry of the log:
 * it is a read of the state as of one index.
 */
#include <errno.h>
#include <stdarg.h>

#include "common/record/mpack.h"
#include "common/record/txn.h"
#include "common/text/json_text.h"
#include "raftd/fsm/catalog/catalog.h"
#include "raftd/fsm/group.h"
#include "raftd/fsm/kv/kv.h"
#include "raftd/fsm/read/read.h"
#include "raftd/fsm/table/meta.h"
#include "raftd/fsm/txn/txn.h"

#define ERRORS_BYTES_MAX (64u << 20)	/* more than a request may have, quoted: four bytes for each of its own */

/* -- what operations answer -- */

static void
add_error(struct txn_run *t, struct span what)
{
	mpw_array(&t->errors, 2);
	mpw_uint(&t->errors, t->at);
	mpw_str(&t->errors, what);
	t->error_count++;
	if (t->errors.failed)
		t->f->failed = ENOMEM;		/* ours alone */
}

void
txn_fail(struct txn_run *t, const char *before, const struct span *name, const char *behind)
{
	struct buf text = BUF_INIT(ERRORS_BYTES_MAX);

	buf_puts(&text, before);
	if (name != NULL)
		text_quote(*name, &text);
	buf_puts(&text, behind);
	add_error(t, buf_span(&text));
	buf_done(&text);
}

void
txn_failf(struct txn_run *t, const char *fmt, ...)
{
	struct buf text = BUF_INIT(ERRORS_BYTES_MAX);
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	add_error(t, buf_span(&text));
	buf_done(&text);
}

void
txn_fail_as(struct txn_run *t, struct span text, const char *unless)
{
	size_t n = strlen(unless);

	if (span_starts(text, span_str(unless)))
		text = span_of(text.p + n, text.len - n);
	add_error(t, text);
}

/* One more of so many bytes; they count the same on all servers.  False: that is too much. */
static bool
result_fits(struct txn_run *t, size_t bytes)
{
	if (bytes > t->answer_bytes) {
		if (t->reads)
			txn_failf(t, "the results are larger than an answer may be: read them in several transactions");
		else
			txn_failf(t, "the results are larger than this transaction may have, since it writes: read so much in "
			    "one that only reads");
		return false;
	}
	t->answer_bytes -= bytes;
	t->result_count++;
	return true;
}

void
txn_result(struct txn_run *t, const struct txn_result *r)
{
	struct buf packed = BUF_INIT(FSM_ANSWER_BYTES_MAX);

	schema_pack(&txn_result_schema, r, &packed);
	if (packed.failed)
		t->f->failed = ENOMEM;		/* ours alone */
	else if (result_fits(t, packed.len))
		buf_putspan(t->results, buf_span(&packed));
	buf_done(&packed);
}

void
txn_result_stored(struct txn_run *t, struct span kv)
{
	if (!result_fits(t, kv.len + 4))
		return;
	mpw_array(t->results, 4);
	buf_putspan(t->results, kv);
	for (int i = 0; i < 3; i++)
		mpw_nil(t->results);
}

/* -- carrying out -- */

static void
run_one(struct txn_run *t, const struct txn_op *op)
{
	if (op->has_kv)
		txn_kv_run(t, &op->KV);
	else if (op->has_node)
		txn_node_run(t, &op->Node);
	else if (op->has_service)
		txn_service_run(t, &op->Service);
	else
		txn_check_run(t, &op->Check);
	arena_done(&t->one);
}

static void
run_all(struct txn_run *t, const struct txn *q)
{
	const struct txn_op *ops = q->Ops.v;

	for (t->at = 0; t->at < q->Ops.n && t->f->failed == 0; t->at++)
		run_one(t, &ops[t->at]);
}

/* What is wrong with operations whatever the state is; then none is tried. */
static bool
refused(struct txn_run *t, const struct txn *q)
{
	const struct txn_op *ops = q->Ops.v;

	for (t->at = 0; t->at < q->Ops.n; t->at++) {
		const struct txn_op *op = &ops[t->at];

		if (op->Refused.len > 0)
			txn_fail_as(t, op->Refused, "");
		else if (op->has_kv + op->has_node + op->has_service + op->has_check != 1)
			txn_failf(t, "an operation has exactly one of KV, Node, Service and Check");
		else if (op->has_kv)
			(void)txn_kv_refused(t, &op->KV);
	}
	return t->error_count > 0;
}

/* Behind the head of a txn_reply and its list of results: those, or the errors instead.  at: where the head begins. */
static void
reply_end(struct txn_run *t, struct buf *out, size_t at)
{
	if (t->error_count == 0) {
		list_end(out, at + 1, t->result_count);
		mpw_nil(out);
		return;
	}
	out->len = at;
	mpw_array(out, 2);
	mpw_nil(out);
	list_end(out, list_begin(out), t->error_count);
	buf_putspan(out, buf_span(&t->errors));
}

static size_t
reply_begin(struct buf *out)
{
	size_t at = out->len;

	mpw_array(out, 2);
	(void)list_begin(out);
	return at;
}

/* -- those that write -- */

/* All or nothing. */
static void
carry_out(struct txn_run *t, const struct txn *q)
{
	struct fsm_group g;

	fsm_group_begin(t->f, &g);
	run_all(t, q);
	if (t->error_count == 0)
		fsm_group_commit(t->f, &g);
	else
		fsm_group_fail(t->f, &g);
}

static void
apply_txn(struct apply *p, const void *rec)
{
	const struct txn *q = rec;
	struct buf out = BUF_INIT(FSM_ANSWER_BYTES_MAX + ERRORS_BYTES_MAX);
	struct txn_run t = { .f = p->f, .texts = p->out, .one = ARENA_INIT(2 * FSM_RECORD_MEMORY), .now = q->Now,
	    .or_empty = p->needs >= FSM_OR_EMPTY_SINCE, .tree_keys = q->TreeKeys, .tree_bytes = q->TreeBytes, .answer_bytes = q->AnswerBytes, .results = &out,
	    .errors = BUF_INIT(ERRORS_BYTES_MAX) };
	size_t at = reply_begin(&out);

	if (q->Ops.n > TXN_OPS_MAX) {
		apply_fail(p, TV_ELIMIT, "Transaction contains too many operations (%u > %d)", q->Ops.n, TXN_OPS_MAX);
		buf_done(&out);
		return;
	}
	if (!refused(&t, q))
		carry_out(&t, q);
	if (t.error_count == 0)
		p->f->txns++;
	else
		p->f->txns_undone++;
	reply_end(&t, &out, at);
	p->res->value = out.failed ? SPAN_NONE : arena_copy(p->out, buf_span(&out));
	if (p->res->value.p == NULL)
		apply_fail(p, TV_EUNKNOWN, "the transaction was carried out, but there is no memory for its answer");
	buf_done(&t.errors);
	buf_done(&out);
}

/* What a registration of its own would have been refused for, or completed with. */
static void
prepare_one(struct prepare *p, struct txn_op *op)
{
	struct span text = SPAN_NONE;
	struct prepare one = *p;
	enum tv_err err = TV_OK;

	one.error_text = &text;
	op->Refused = SPAN_NONE;
	if (op->has_node && !span_eqs(op->Node.Verb, "get")) {
		err = op->Node.Node.Node.len == 0 ? prepare_fail(&one, "Must provide node") :
		    catalog_prepare_node_id(&one, op->Node.Node.ID);
	} else if (op->has_service && !span_eqs(op->Service.Verb, "get")) {
		err = catalog_prepare_service(&one, &op->Service.Service);
	} else if (op->has_check && !span_eqs(op->Check.Verb, "get")) {
		err = catalog_prepare_check(&one, SPAN_NONE, &op->Check.Check);
	}
	if (err != TV_OK)
		op->Refused = text;
}

static enum tv_err
prepare_txn(struct prepare *p, void *rec)
{
	struct txn *q = rec;
	struct txn_op *ops = q->Ops.v;

	if (q->Ops.n > TXN_OPS_MAX)
		return prepare_fail(p, "Transaction contains too many operations (%u > %d)", q->Ops.n, TXN_OPS_MAX);
	for (uint32_t i = 0; i < q->Ops.n; i++)
		prepare_one(p, &ops[i]);
	q->Now = p->now;
	q->TreeKeys = TXN_TREE_KEYS_MAX;
	q->TreeBytes = TXN_TREE_BYTES_MAX;
	q->AnswerBytes = TXN_ANSWER_BYTES_MAX;
	return TV_OK;
}

/* Looks at what an operation will look at first. */
static void
warm_one(struct fsm *r, const struct txn_op *op)
{
	bool tree = op->has_kv && (span_eqs(op->KV.Verb, "delete-tree") || span_eqs(op->KV.Verb, "get-tree"));
	struct service s;
	struct check c;
	struct node n;

	if (op->has_kv)
		kv_warm(r, &(struct kv_apply){ .Verb = tree ? KV_DELETE_TREE : KV_SET, .Key = op->KV.Key,
		    .Session = op->KV.Session });
	else if (op->has_node)
		(void)catalog_node(r, op->Node.Node.Node, &r->work, &n);
	else if (op->has_service)
		(void)catalog_service(r, op->Service.Node, op->Service.Service.ID, &r->work, &s);
	else if (op->has_check)
		(void)catalog_check(r, op->Check.Check.Node, op->Check.Check.CheckID, &r->work, &c);
}

static void
warm_txn(struct fsm *r, const void *rec)
{
	const struct txn *q = rec;
	const struct txn_op *ops = q->Ops.v;

	for (uint32_t i = 0; i < q->Ops.n && i < TXN_OPS_MAX && !warm_enough(r); i++)
		warm_one(r, &ops[i]);
}

/* Is it this one of keys?  r stands before the operation, and kv before the key then. */
static bool
is_verb(struct rd *r, const char *verb, struct rd *kv)
{
	struct rd op = rd_span_over(mpr_value(r));
	uint32_t fields = mpr_array(&op);

	if (fields == 0 || mpr_nil(&op))
		return false;
	*kv = op;
	fields = mpr_array(kv);
	return fields >= 2 && span_eqs(mpr_bytes_or_nil(kv, SCHEMA_TEXT_BYTES_MAX), verb) && kv->err == TV_OK;
}

/* The prefix, if the operation deletes a tree; r stands before it. */
static bool
tree_of(struct rd *r, struct span *prefix)
{
	struct rd kv;

	if (!is_verb(r, "delete-tree", &kv))
		return false;
	*prefix = mpr_bytes_or_nil(&kv, SCHEMA_TEXT_BYTES_MAX);
	return kv.err == TV_OK;
}

/* Is it one of a check?  Then r stands before that. */
static bool
check_of(struct rd *r)
{
	struct rd op = rd_span_over(mpr_value(r));
	uint32_t fields = mpr_array(&op);

	for (int i = 0; i < 3 && fields > 3; i++)
		mpr_skip(&op);			/* KV, Node, Service */
	if (fields <= 3 || mpr_nil(&op) || mpr_array(&op) < 2)
		return false;
	mpr_skip(&op);				/* its verb */
	*r = op;
	return op.err == TV_OK;
}

static uint8_t
txn_needs(struct span args)
{
	struct rd r = rd_span_over(args), kv;
	uint32_t ops = mpr_array(&r) > 0 && !mpr_nil(&r) ? mpr_array(&r) : 0;

	for (uint32_t i = 0; i < ops && i < TXN_OPS_MAX && r.err == TV_OK; i++) {
		struct rd op = r;

		if (is_verb(&r, "get-or-empty", &kv))
			return FSM_OR_EMPTY_SINCE;
		if (check_of(&op) && catalog_check_needs(&op) > 0)
			return FSM_CHECK_FIELDS_SINCE;
	}
	return 0;
}

uint32_t
txn_trees(const struct raft_entry *e, struct span *prefixes)
{
	struct rd r = rd_over(e->payload, e->size);
	struct span prefix;
	uint32_t n = 0, ops = 0;

	(void)mpr_array(&r);
	if (mpr_uint(&r, UINT16_MAX) == OP_TXN_APPLY && mpr_array(&r) > 0 && !mpr_nil(&r))
		ops = mpr_array(&r);
	for (uint32_t i = 0; i < ops && i < TXN_OPS_MAX && r.err == TV_OK; i++)
		if (tree_of(&r, &prefix)) {
			if (prefixes != NULL)
				prefixes[n] = prefix;
			n++;
		}
	return n;
}

/* -- those that only read -- */

static void
read_txn(struct reading *r, const void *rec)
{
	static const enum fsm_index tables[] = { FX_KV, FX_NODES, FX_SERVICES, FX_CHECKS };
	const struct txn *q = rec;
	struct txn_run t = { .f = r->f, .reads = true, .or_empty = true, .texts = r->a, .one = ARENA_INIT(2 * FSM_RECORD_MEMORY),
	    .answer_bytes = FSM_ANSWER_BYTES_MAX, .results = r->out, .errors = BUF_INIT(ERRORS_BYTES_MAX) };
	size_t at = reply_begin(r->out);

	if (q->Ops.n > TXN_OPS_MAX)
		read_fail(r, TV_ELIMIT, "Transaction contains too many operations (%u > %d)", q->Ops.n, TXN_OPS_MAX);
	else if (txn_writes(q))
		read_fail(r, TV_EINVAL, "a transaction that writes is no read");
	else if (!refused(&t, q))
		run_all(&t, q);
	reply_end(&t, r->out, at);
	for (unsigned i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		if (fsm_index_of(r->f, tables[i]) > r->ans->index)
			r->ans->index = fsm_index_of(r->f, tables[i]);
	buf_done(&t.errors);
}

const struct fsm_op txn_ops[] = {
	{ OP_TXN_APPLY, .since = 4, .needs = txn_needs, .prepare = prepare_txn, .apply = apply_txn, .warm = warm_txn },
	{ OP_TXN_READ, .read = read_txn },
	{ 0 },
};
