/* The table of internal messages, and reading bodies by it. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/frame.h"
#include "common/net/msg.h"
#include "common/record/mpack.h"
#include "common/record/records.h"

#define ARENA_MAX (64u << 10)

/* A record of `s` as a body, with `extra` fields of a newer version behind its own. */
static void
write_body(const struct schema *s, unsigned extra, struct buf *out)
{
	void *rec = calloc(1, s->size);

	ck_assert_ptr_nonnull(rec);
	mpw_array(out, s->count + extra);
	schema_pack_fields(s, rec, out);
	for (unsigned i = 0; i < extra; i++) {
		mpw_array(out, 1);
		mpw_cstr(out, "new");
	}
	ck_assert(!out->failed);
	free(rec);
}

static enum tv_err
read_body(const struct schema *s, struct span body)
{
	struct arena a = ARENA_INIT(ARENA_MAX);
	void *rec = calloc(1, s->size);
	enum tv_err err = msg_read(s, body, &a, rec);

	free(rec);
	arena_done(&a);
	return err;
}

static unsigned
fields_first(const struct schema *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->count; i++) {
		ck_assert_msg(n == i || s->fields[i].flags & SF_LATER, "%s: a field that all send behind one that not all do", s->name);
		n += !(s->fields[i].flags & SF_LATER);
	}
	return n;
}

START_TEST(table)
{
	for (unsigned i = 0; i < msgs_count; i++) {
		const struct msg *m = &msgs_all[i];

		ck_assert_ptr_eq(msg_find(m->type), m);
		ck_assert_uint_eq(msg_body_max(m->type, 0), m->question.max);
		ck_assert_uint_eq(msg_body_max(m->type, FRAME_REPLY), m->reply.max);
		ck_assert_uint_eq(msg_body_max(m->type, FRAME_REPLY | FRAME_MORE), m->reply.max);
		ck_assert_msg(m->question.max > 0 || m->reply.max > 0, "%s", m->name);
		for (const struct msg_body *b = &m->question; b != NULL; b = b == &m->question ? &m->reply : NULL) {
			ck_assert_msg((b->max > 0) == (b->by_hand || b->answer || b->record != NULL), "%s", m->name);
			ck_assert_uint_le(b->max, FRAME_BODY_BYTES_MAX);
		}
	}
	ck_assert_ptr_null(msg_find(0));
	ck_assert_uint_eq(msg_body_max(0xdead, 0), FRAME_BODY_BYTES_MAX);
	ck_assert_int_eq(MSG_RAFT_HELLO, 64);
	ck_assert_str_eq(msg_find(MSG_GOSSIP_JOIN)->name, "GOSSIP_JOIN");
}
END_TEST

/* A body above what its type may have is refused by the frame's head, whatever the channel takes. */
START_TEST(caps)
{
	struct buf b = BUF_INIT(FRAME_BODY_BYTES_MAX + FRAME_HEAD_BYTES);
	struct frame f;

	for (unsigned i = 0; i < msgs_count; i++)
		for (uint16_t flags = 0; flags <= FRAME_REPLY; flags++) {
			size_t max = msg_body_max(msgs_all[i].type, flags);
			uint8_t *head;

			buf_reset(&b);
			frame_close(&b, frame_open(&b, msgs_all[i].type, flags, 7));
			head = b.data;
			for (int byte = 0; byte < 4; byte++)
				head[byte] = (uint8_t)(max >> 8 * byte);
			ck_assert_int_eq(frame_read(buf_span(&b), SIZE_MAX, &f), max == 0 ? FRAME_HEAD_BYTES : 0);
			ck_assert_int_eq(frame_read(buf_span(&b), max > 0 ? max - 1 : 0, &f), max > 0 ? TV_ELIMIT : FRAME_HEAD_BYTES);
			for (int byte = 0; byte < 4; byte++)
				head[byte] = (uint8_t)((max + 1) >> 8 * byte);
			ck_assert_int_eq(frame_read(buf_span(&b), SIZE_MAX, &f), TV_ELIMIT);
			ck_assert(f.type == msgs_all[i].type && f.flags == flags);
		}
	buf_done(&b);
}
END_TEST

/* Each record of the table: as we write it, longer ones of newer versions, those of older ones, and torn ones. */
START_TEST(bodies)
{
	unsigned seen = 0;

	for (unsigned i = 0; i < 2 * msgs_count; i++) {
		const struct msg_body *m = i % 2 ? &msgs_all[i / 2].reply : &msgs_all[i / 2].question;
		const struct schema *s = m->record;
		struct buf b = BUF_INIT(4096);

		if (s == NULL || m->answer)
			continue;
		seen++;
		write_body(s, 0, &b);
		ck_assert_uint_le(b.len, m->max);
		ck_assert_int_eq(read_body(s, buf_span(&b)), TV_OK);
		for (size_t n = 0; n < b.len; n++)
			ck_assert_int_ne(read_body(s, span_of(b.data, n)), TV_OK);
		buf_u8(&b, 0xc0);
		ck_assert_int_ne(read_body(s, buf_span(&b)), TV_OK);		/* bytes behind the array */
		buf_reset(&b);
		write_body(s, 3, &b);
		ck_assert_int_eq(read_body(s, buf_span(&b)), TV_OK);
		buf_reset(&b);
		mpw_array(&b, fields_first(s));
		for (unsigned k = 0; k < fields_first(s); k++) {
			struct schema one = *s;
			void *rec = calloc(1, s->size);

			one.fields = &s->fields[k];
			one.count = 1;
			schema_pack_fields(&one, rec, &b);
			free(rec);
		}
		ck_assert_int_eq(read_body(s, buf_span(&b)), TV_OK);		/* without those that came later */
		if (fields_first(s) > 0) {
			buf_reset(&b);
			mpw_array(&b, 0);
			ck_assert_int_eq(read_body(s, buf_span(&b)), TV_EFORMAT);
		}
		buf_done(&b);
	}
	ck_assert_uint_gt(seen, 20);
	ck_assert_int_eq(read_body(&empty_schema, MSG_EMPTY), TV_OK);
	ck_assert_int_ne(read_body(&empty_schema, SPAN_NONE), TV_OK);
	ck_assert_int_ne(read_body(&empty_schema, span_str("\x80")), TV_OK);	/* a map */
}
END_TEST

/* A count is not believed, and a list does not outgrow its arena. */
START_TEST(hostile)
{
	struct buf b = BUF_INIT(1u << 20);
	struct msg_bootstrap q = { .expect = 0 };
	struct arena a = ARENA_INIT(4096);

	ck_assert_int_ne(read_body(&msg_join_schema, span_of("\x92\x00\xdd\xff\xff\xff\xff", 7)), TV_OK);
	ck_assert_int_ne(read_body(&msg_join_schema, span_of("\xdd\xff\xff\xff\xff", 5)), TV_OK);
	mpw_array(&b, 3);
	mpw_cstr(&b, "");
	mpw_uint(&b, 3);
	mpw_array(&b, 100000);
	for (int i = 0; i < 100000; i++)
		mpw_array(&b, 0);
	ck_assert_int_eq(msg_read(&msg_bootstrap_schema, buf_span(&b), &a, &q), TV_ENOMEM);
	ck_assert_uint_eq(q.servers.n, 0);
	arena_done(&a);
	buf_done(&b);
}
END_TEST

START_TEST(answers)
{
	struct msg_log_state log = { .last_index = 7, .leader_last = 9 }, got = { .last_index = 0 };
	struct msg_answer a;
	struct buf b = BUF_INIT(4096);

	msg_answer_write(&b, TV_ECONFLICT, "no", NULL, NULL);
	ck_assert_int_eq(msg_answer_read(buf_span(&b), &a, NULL, NULL, NULL), TV_OK);
	ck_assert(a.err == TV_ECONFLICT && span_eqs(a.text, "no") && a.value.len == 0);
	/* What belongs to success may be missing in a refusal, and nowhere else. */
	ck_assert_int_eq(msg_answer_read(buf_span(&b), &a, &msg_log_state_schema, NULL, &got), TV_OK);
	buf_reset(&b);
	msg_answer_write(&b, TV_OK, "", NULL, NULL);
	ck_assert_int_eq(msg_answer_read(buf_span(&b), &a, &msg_log_state_schema, NULL, &got), TV_EFORMAT);

	buf_reset(&b);
	msg_answer_write(&b, TV_OK, "", &msg_log_state_schema, &log);
	ck_assert_int_eq(msg_answer_read(buf_span(&b), &a, &msg_log_state_schema, NULL, &got), TV_OK);
	ck_assert(a.err == TV_OK && got.last_index == 7 && got.leader_last == 9 && a.value.len == 1);
	ck_assert_int_eq(msg_answer_read(buf_span(&b), &a, NULL, NULL, NULL), TV_OK);	/* an older reader */
	for (size_t n = 0; n < b.len; n++)
		ck_assert_int_ne(msg_answer_read(span_of(b.data, n), &a, &msg_log_state_schema, NULL, &got), TV_OK);
	buf_u8(&b, 0xc0);
	ck_assert_int_ne(msg_answer_read(buf_span(&b), &a, NULL, NULL, NULL), TV_OK);

	buf_reset(&b);
	msg_answer_head(&b, 1, TV_OK, "t");
	mpw_nil(&b);
	ck_assert_int_eq(msg_answer_read(buf_span(&b), &a, NULL, NULL, NULL), TV_OK);
	ck_assert(span_eqs(a.text, "t") && a.value.len == 0);
	ck_assert_int_ne(msg_answer_read(span_of("\x91\x00", 2), &a, NULL, NULL, NULL), TV_OK);
	ck_assert_int_ne(msg_answer_read(span_of("\x92\xcd\x01\x00\xa0", 5), &a, NULL, NULL, NULL), TV_OK);	/* no u8 */
	buf_done(&b);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("msg");
	TCase *t = tcase_create("msg");

	tcase_add_test(t, table);
	tcase_add_test(t, caps);
	tcase_add_test(t, bodies);
	tcase_add_test(t, hostile);
	tcase_add_test(t, answers);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
