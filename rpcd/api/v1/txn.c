/* /v1/txn: several operations, of which all are carried out or none.  Those that only read are a read of their own. */
#include <inttypes.h>

#include "common/record/mpack.h"
#include "common/record/txn.h"
#include "common/text/json_text.h"
#include "rpcd/api/api.h"

/* Values have the limit that they have elsewhere; false: answered. */
static bool
values_fit(struct request *r, const struct txn *t)
{
	uint64_t max = r->api->conf->kv_max_value_size;
	const struct txn_op *ops = t->Ops.v;

	for (uint32_t i = 0; i < t->Ops.n; i++) {
		struct buf key = BUF_INIT(REQUEST_ARENA_MAX);

		if (!ops[i].has_kv || ops[i].KV.Value.len <= max)
			continue;
		text_quote(ops[i].KV.Key, &key);
		answer_text(r, 413, "Value for key %s is too large (%zu > %" PRIu64 " bytes)", buf_cstr(&key),
		    ops[i].KV.Value.len, max);
		buf_done(&key);
		return false;
	}
	return true;
}

/* Names that were stored before such were refused can be read and removed all the same. */
static bool
keeps_name(struct span verb)
{
	return span_eqs(verb, "set") || span_eqs(verb, "cas") || span_eqs(verb, "lock");
}

static bool
names_clean(struct request *r, const struct txn *t)
{
	const struct txn_op *ops = t->Ops.v;
	bool fit = true;

	for (uint32_t i = 0; i < t->Ops.n && fit; i++) {
		const struct txn_op *op = &ops[i];
		struct span verb = op->has_kv ? op->KV.Verb : op->has_node ? op->Node.Verb :
		    op->has_service ? op->Service.Verb : op->Check.Verb;

		if (keeps_name(verb))
			fit = api_names_clean(r, &txn_op_schema, op);
	}
	return fit;
}

/* The body; false: answered. */
static bool
take_body(struct request *r, struct txn *t)
{
	char why[512];
	enum tv_err err;

	if (api_too_large(r, "txn_max_req_len"))
		return false;
	err = txn_from_json(buf_span(&r->body), &r->arena, t, why, sizeof(why));
	if (err == TV_OK)
		return values_fit(r, t) && names_clean(r, t);
	if (err == TV_ELIMIT)
		answer_text(r, 413, "%s", why);
	else
		answer_text(r, err == TV_ENOMEM ? 500 : 400, "Failed to parse body: %s", why);
	return false;
}

static void
answer_errors(struct request *r, struct rd *in, struct span end)
{
	struct buf *out = &r->answer.body;
	uint32_t n = mpr_array(in);

	buf_puts(out, "{\"Results\":null,\"Errors\":[");
	for (uint32_t i = 0; i < n && in->err == TV_OK; i++) {
		buf_puts(out, i > 0 ? "," : "");
		(void)schema_json(&txn_error_schema, in, out);	/* the reader keeps the error */
	}
	buf_u8(out, ']');
	buf_putspan(out, end);
	if (in->err != TV_OK)
		api_malformed(r);
	else
		answer_json_status(r, 409);
}

static void
answer_results(struct request *r, struct span list, struct span end)
{
	struct buf after = BUF_INIT(REQUEST_ARENA_MAX);

	buf_puts(&after, ",\"Errors\":null");
	buf_putspan(&after, end);
	buf_puts(&r->answer.body, "{\"Results\":");
	api_render_list_before(r, &txn_result_shown_schema, list, r->op.dc, &after);
	buf_done(&after);
}

static void
finish_txn(struct request *r, const struct op_reply *reply)
{
	struct rd in = rd_span_over(reply->value);
	struct buf end = BUF_INIT(4096);
	struct span results;

	if (api_failed(r, reply))
		return;
	if (r->op.op == OP_TXN_READ) {
		api_contact_headers(r, reply);
		api_put_query_meta(r, reply, "", &end);
	}
	buf_u8(&end, '}');
	results = mpr_array(&in) < 2 ? SPAN_NONE : mpr_value(&in);
	if (in.err != TV_OK || results.len == 0)
		api_malformed(r);
	else if (mpr_nil(&in))
		answer_results(r, results, buf_span(&end));
	else
		answer_errors(r, &in, buf_span(&end));
	buf_done(&end);
}

static void
run_txn(struct request *r)
{
	struct txn t;
	bool writes;

	if (!take_body(r, &t))
		return;
	writes = txn_writes(&t);
	if (writes)
		api_query_dc(r);
	else if (!api_query(r, false))
		return;
	r->op.index = 0;		/* it does not block */
	api_start(r, writes ? OP_TXN_APPLY : OP_TXN_READ, &t, finish_txn);
}

const struct endpoint api_txn[] = {
	{ "/v1/txn", "PUT", ACCESS_OP, NULL, OP_TXN_APPLY, BODY_TXN, .run = run_txn },
	{ .path = NULL },
};
