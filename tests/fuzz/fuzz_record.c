/*
 * Records as they are stored and sent: first byte chooses what the rest is.
 * A record that reads, writes bytes that read to the same record and give the same JSON.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/net/msg.h"
#include "common/record/member.h"
#include "common/record/mpack.h"
#include "common/record/ops.h"
#include "common/record/records.h"
#include "common/text/json_text.h"

#define BYTES_MAX (8u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads a record of a schema from in and writes it to out. */
static enum tv_err
repack(const struct schema *s, struct span in, struct buf *out)
{
	struct arena a = ARENA_INIT(BYTES_MAX);
	struct rd r = rd_span_over(in);
	void *rec = calloc(1, s->size > 0 ? s->size : 1);
	enum tv_err err;

	TV_ASSERT(rec != NULL);
	err = schema_unpack(s, &r, &a, rec);
	if (err == TV_OK)
		schema_pack(s, rec, out);
	free(rec);
	arena_done(&a);
	return err;
}

static void
record(const struct schema *s, struct span in)
{
	struct buf once = BUF_INIT(BYTES_MAX), twice = BUF_INIT(BYTES_MAX);
	struct buf json = BUF_INIT(BYTES_MAX), again = BUF_INIT(BYTES_MAX);
	struct rd r = rd_span_over(in);
	enum tv_err err = schema_json(s, &r, &json), read = repack(s, in, &once);

	if (read == TV_OK && !once.failed) {
		TV_ASSERT(repack(s, buf_span(&once), &twice) == TV_OK);
		TV_ASSERT(span_eq(buf_span(&once), buf_span(&twice)));
		r = rd_span_over(buf_span(&once));
		TV_ASSERT(schema_json(s, &r, &again) == TV_OK && rd_end(&r) == TV_OK);
		TV_ASSERT(err != TV_OK || json.failed || again.failed || span_eq(buf_span(&json), buf_span(&again)));
		json_pretty(buf_span(&again), &json);
	}
	buf_done(&once);
	buf_done(&twice);
	buf_done(&json);
	buf_done(&again);
}

static void
envelopes(struct span in)
{
	struct op_request q;
	struct op_reply a;
	struct buf b = BUF_INIT(BYTES_MAX);
	struct span args = SPAN_NONE;

	if (op_request_read(in, &q) == TV_OK) {
		struct op_request back;

		args = q.args;
		op_request_write(&b, &q);
		TV_ASSERT(!b.failed && op_request_read(buf_span(&b), &back) == TV_OK);
		TV_ASSERT(back.op == q.op && back.index == q.index);
		TV_ASSERT(span_eq(back.args, args) && span_eq(back.token, q.token));
	}
	buf_reset(&b);
	if (op_reply_read(in, &a) == TV_OK) {
		struct op_reply back;

		op_reply_write(&b, &a);
		TV_ASSERT(!b.failed && op_reply_read(buf_span(&b), &back) == TV_OK);
		TV_ASSERT(back.err == a.err && back.index == a.index && span_eq(back.value, a.value));
	}
	buf_done(&b);
}

/* The body of each message that has a record, and each answer. */
static void
message(const struct msg_body *m, struct span in)
{
	struct arena a = ARENA_INIT(1 << 20);
	const struct schema *s = m->record != NULL ? m->record : &empty_schema;
	void *rec = calloc(1, s->size);
	struct buf b = BUF_INIT(BYTES_MAX);
	struct msg_answer ans;

	TV_ASSERT(rec != NULL);
	if (m->answer) {
		if (msg_answer_read(in, &ans, m->record, &a, rec) == TV_OK)
			TV_ASSERT(ans.text.len <= UINT16_MAX && ans.value.len < in.len);
	} else if (!m->by_hand && m->max > 0 && msg_read(s, in, &a, rec) == TV_OK) {
		schema_pack(s, rec, &b);
		memset(rec, 0, s->size);
		TV_ASSERT(b.failed || msg_read(s, buf_span(&b), &a, rec) != TV_EFORMAT);
	}
	free(rec);
	arena_done(&a);
	buf_done(&b);
}

static void
member(struct span in)
{
	struct arena a = ARENA_INIT(1 << 20), a2 = ARENA_INIT(1 << 20);
	struct buf one = BUF_INIT(BYTES_MAX), two = BUF_INIT(BYTES_MAX);
	struct rd r = rd_span_over(in);
	struct member m, back, *copy;
	char ip[46];

	if (member_unpack(&r, &a, &m) == TV_OK) {
		member_pack(&one, &m);
		r = rd_span_over(buf_span(&one));
		TV_ASSERT(member_unpack(&r, &a2, &back) == TV_OK && rd_end(&r) == TV_OK);
		copy = member_clone(&back);
		TV_ASSERT(copy != NULL);
		member_pack(&two, copy);
		TV_ASSERT(span_eq(buf_span(&one), buf_span(&two)));
		TV_ASSERT(member_ip(copy, ip)[0] != '\0');
		(void)member_tag_port(copy, "raft_port");
		free(copy);
	}
	arena_done(&a);
	arena_done(&a2);
	buf_done(&one);
	buf_done(&two);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct span in;
	unsigned what;

	if (size < 1 || size > (1u << 16))
		return 0;
	in = span_of(data + 1, size - 1);
	what = data[0] % (2 * ops_count + 2);
	if (what == 2 * ops_count) {
		envelopes(in);
		for (unsigned i = 0; i < msgs_count; i++) {
			message(&msgs_all[i].question, in);
			message(&msgs_all[i].reply, in);
		}
	} else if (what == 2 * ops_count + 1)
		member(in);
	else
		record(what % 2 == 0 ? ops_all[what / 2].args : ops_all[what / 2].answer, in);
	return 0;
}
