/* The table of operations, and the bodies of MSG_OP questions and answers. */
#include "common/record/mpack.h"
#include "common/record/ops.h"
#include "common/record/records.h"

#define READ_TRAITS (OP_REPEATABLE | OP_STALE_OK)
#define SERVER_TRAITS (OP_REPEATABLE | OP_STALE_OK)
#define VIEW_TRAITS OP_REPEATABLE
#define GOSSIP_SERVER_TRAITS OP_REPEATABLE
#define GOSSIP_TRAITS 0
#define WRITE_TRAITS 0
#define LEADER_TRAITS 0

#define ACCESS(...) ACCESS_(__VA_ARGS__)
#define ACCESS_(args_, scope_, ...) ACCESS_##scope_(args_, __VA_ARGS__)
#define ACCESS_OBJECT(args_, resource_, right_, field_) \
	{ OP_OBJECT, OP_RES_##resource_, OP_MAY_##right_, offsetof(struct args_, field_), NULL }
#define ACCESS_FILTER(args_, resource_) { OP_FILTER, OP_RES_##resource_, OP_MAY_READ, 0, NULL }
#define ACCESS_ALL(args_, resource_, right_) { OP_ALL, OP_RES_##resource_, OP_MAY_##right_, 0, NULL }
#define ACCESS_VERB(args_, resource_, field_) \
	{ OP_VERB, OP_RES_##resource_, OP_MAY_WRITE, offsetof(struct args_, field_), NULL }
#define ACCESS_NONE(args_, because_) { .scope = OP_NONE, .because = (because_) }

const struct op ops_all[] = {
#define X(code_, name_, text_, kind_, args_, answer_, answers_, traits_, access_, watch_) \
	{ (code_), (text_), OP_##kind_, &(args_##_schema), &(answer_##_schema), OP_##answers_, \
	  kind_##_TRAITS | (traits_), ACCESS(args_, OP_PARTS access_) },
	OPS(X)
#undef X
};
const unsigned ops_count = sizeof(ops_all) / sizeof(ops_all[0]);

enum {
#define X(code_, name_, ...) ROW_##name_,
	OPS(X)
#undef X
};

const struct op *
op_find(uint16_t code)
{
	static const uint8_t rows[] = {		/* by code, plus one */
#define X(code_, name_, ...) [code_] = ROW_##name_ + 1,
		OPS(X)
#undef X
	};

	return code < sizeof(rows) && rows[code] != 0 ? &ops_all[rows[code] - 1] : NULL;
}

bool
op_trim(const struct op *op, struct span args, struct arena *a, struct buf *out)
{
	struct rd in = rd_span_over(args);
	void *rec = arena_alloc(a, op->args->size);

	if (rec == NULL || schema_unpack(op->args, &in, a, rec) != TV_OK || rd_end(&in) != TV_OK)
		return false;
	schema_pack(op->args, rec, out);
	return !out->failed;
}

#define REQUEST_FIELDS 8
#define REPLY_FIELDS 6
#define REPLY_WALK_BYTES (64u << 10)	/* of a value: a longer one is not looked into */
#define VALUE_BYTES_MAX (64u << 20)	/* the frame's own limit */

void
op_request_write(struct buf *b, const struct op_request *q)
{
	mpw_array(b, REQUEST_FIELDS);
	mpw_uint(b, q->op);
	mpw_str(b, q->dc);
	mpw_uint(b, q->mode);
	mpw_uint(b, q->index);
	mpw_uint(b, q->wait_ms);
	mpw_uint(b, q->max_stale_ms);
	mpw_str(b, q->token);
	buf_putspan(b, q->args);
}

enum tv_err
op_request_read(struct span body, struct op_request *q)
{
	struct rd r = rd_span_over(body);
	uint32_t fields = mpr_array(&r);

	q->op = (uint16_t)mpr_uint(&r, UINT16_MAX);
	q->dc = mpr_bytes(&r, OP_NAME_BYTES_MAX);
	q->mode = (uint8_t)mpr_uint(&r, OP_STALE);
	q->index = mpr_uint(&r, UINT64_MAX);
	q->wait_ms = mpr_uint(&r, UINT64_MAX);
	if (q->wait_ms > OP_WAIT_MS_MAX)	/* a peer's word: timers are made of it */
		q->wait_ms = OP_WAIT_MS_MAX;
	q->max_stale_ms = mpr_uint(&r, UINT64_MAX);
	q->token = mpr_bytes(&r, OP_NAME_BYTES_MAX);
	q->args = mpr_value(&r);
	return mpr_end(&r, fields, REQUEST_FIELDS);
}

void
op_reply_begin(struct buf *b, const struct op_reply *a)
{
	mpw_array(b, REPLY_FIELDS);
	mpw_uint(b, (uint64_t)-(int)a->err);
	mpw_str(b, a->text);
	mpw_uint(b, a->index);
	mpw_bool(b, a->known_leader);
	mpw_uint(b, a->last_contact_ms);
}

void
op_reply_write(struct buf *b, const struct op_reply *a)
{
	op_reply_begin(b, a);
	if (a->value.len == 0)
		mpw_nil(b);
	else
		buf_putspan(b, a->value);
}

enum tv_err
op_reply_read(struct span body, struct op_reply *a)
{
	struct rd r = rd_span_over(body);
	uint32_t fields = mpr_array(&r);

	a->err = (enum tv_err)-(int)mpr_uint(&r, UINT8_MAX);
	a->text = mpr_bytes(&r, VALUE_BYTES_MAX);
	a->index = mpr_uint(&r, UINT64_MAX);
	a->known_leader = mpr_bool(&r);
	a->last_contact_ms = mpr_uint(&r, UINT64_MAX);
	if (fields == REPLY_FIELDS && rd_left(&r) > REPLY_WALK_BYTES) {
		a->value = span_of(r.p, rd_left(&r));
		return r.err;
	}
	a->value = mpr_nil(&r) ? SPAN_NONE : mpr_value(&r);
	return mpr_end(&r, fields, REPLY_FIELDS);
}
