/* The table of messages, and reading their bodies. */
#include "common/net/frame.h"
#include "common/net/msg.h"
#include "common/record/mpack.h"

#define NONE
#define HAND			.by_hand = true
#define REC(record_)		.record = &record_##_schema
#define ANSWER			.answer = true
#define ANSWER_AND(record_)	.answer = true, .record = &record_##_schema

const struct msg msgs_all[] = {
#define M(type_, name_, channel_, who_, question_max_, question_, answer_max_, answer_) \
	{ (type_), #name_, { .max = (question_max_), question_ }, { .max = (answer_max_), answer_ } },
	MSGS(M)
#undef M
};
const unsigned msgs_count = sizeof(msgs_all) / sizeof(msgs_all[0]);

const struct msg *
msg_find(uint16_t type)
{
	for (unsigned i = 0; i < msgs_count; i++)
		if (msgs_all[i].type == type)
			return &msgs_all[i];
	return NULL;
}

size_t
msg_body_max(uint16_t type, uint16_t flags)
{
	switch (type) {
#define M(type_, name_, channel_, who_, question_max_, question_, answer_max_, answer_) \
	case type_: \
		return flags & FRAME_REPLY ? (answer_max_) : (question_max_);
	MSGS(M)
#undef M
	}
	return FRAME_BODY_BYTES_MAX;
}

/* Fields that every version sends. */
static uint32_t
fields_min(const struct schema *s)
{
	uint32_t n = 0;

	while (n < s->count && !(s->fields[n].flags & SF_LATER))
		n++;
	return n;
}

enum tv_err
msg_read(const struct schema *record, struct span body, struct arena *a, void *rec)
{
	struct rd r = rd_span_over(body);
	uint32_t fields = mpr_array(&r);

	if (fields < fields_min(record))
		rd_fail(&r, TV_EFORMAT);
	schema_unpack_fields(record, fields, &r, a, rec);
	return rd_end(&r);
}

enum tv_err
msg_answer_read(struct span body, struct msg_answer *ans, const struct schema *record, struct arena *a, void *rec)
{
	struct rd r = rd_span_over(body), third;
	uint32_t fields = mpr_array(&r);

	*ans = (struct msg_answer){ .err = (enum tv_err)-(int)mpr_uint(&r, UINT8_MAX) };
	ans->text = mpr_bytes(&r, UINT16_MAX);
	if (fields < 2 || (record != NULL && ans->err == TV_OK && fields - 2 < fields_min(record)))
		rd_fail(&r, TV_EFORMAT);
	third = r;
	if (fields > 2 && !mpr_nil(&third))
		ans->value = mpr_value(&third);
	schema_unpack_fields(record == NULL ? &empty_schema : record, r.err == TV_OK ? fields - 2 : 0, &r, a, rec);
	return rd_end(&r);
}

void
msg_answer_head(struct buf *b, uint32_t more, enum tv_err err, const char *text)
{
	mpw_array(b, 2 + more);
	mpw_uint(b, (uint64_t)-(int)err);
	mpw_cstr(b, text);
}

void
msg_answer_write(struct buf *b, enum tv_err err, const char *text, const struct schema *record, const void *rec)
{
	msg_answer_head(b, record == NULL ? 0 : record->count, err, text);
	if (record != NULL)
		schema_pack_fields(record, rec, b);
}
