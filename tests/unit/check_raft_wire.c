/* Bytes of raft messages and configurations: there and back, cut short, and malformed. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raftd/core/raft.h"

#define ENTRIES 8

static struct raft_config
sample_config(unsigned count)
{
	struct raft_config c = { .index = 77, .count = count };

	for (unsigned i = 0; i < count; i++) {
		struct raft_server_conf *s = &c.servers[i];

		snprintf(s->uuid, sizeof(s->uuid), "0b9dd6e5-0000-4000-8000-%012u", i);
		snprintf(s->store_id, sizeof(s->store_id), "7c1f3a52-0000-4000-8000-%012u", i);
		memset(s->name, 'a' + (int)i, sizeof(s->name) - 1);
		snprintf(s->addr, sizeof(s->addr), "[2001:db8::%u]:8300", i);
		s->id = raft_id_of(s->uuid, s->store_id);
		s->voter = i % 2 == 0;
	}
	return c;
}

static const uint8_t payload[] = "payload of an entry";
static struct raft_entry entries[3] = {
	{ .index = 43, .term = 5, .type = RAFT_ENTRY_NOOP, .size = 0, .payload = payload },
	{ .index = 44, .term = 5, .type = RAFT_ENTRY_OP, .size = sizeof(payload), .payload = payload },
	{ .index = 45, .term = 6, .type = RAFT_ENTRY_OP | RAFT_ENTRY_IGNORABLE, .size = 3, .payload = payload },
};

/* A message of each type with all its fields set. */
static struct raft_msg
sample(enum raft_msg_type type)
{
	struct raft_msg m = { .type = type, .from = 0x1122334455667788, .to = 9, .term = 6 };

	switch (type) {
	case RAFT_MSG_APPEND:
		m.log_index = 42;
		m.log_term = 5;
		m.commit = 40;
		m.leader_last = 99;
		m.seq = 1234567;
		m.entries = entries;
		m.entry_count = 3;
		break;
	case RAFT_MSG_APPEND_REPLY:
		m.granted = true;
		m.log_index = 42;
		m.seq = 3;
		m.match = 41;
		m.hint_index = 7;
		m.hint_term = 2;
		break;
	case RAFT_MSG_SNAPSHOT:
		m.log_index = 42;
		m.log_term = 5;
		m.offset = 100;
		m.total = 100 + sizeof(payload);
		m.checksum = 0xfeedfacecafebeef;
		m.done = true;
		m.data = span_of(payload, sizeof(payload));
		m.config = span_of(payload, 4);
		break;
	case RAFT_MSG_SNAPSHOT_REPLY:
		m.log_index = 42;
		m.offset = 100;
		m.match = 3;
		m.granted = true;
		break;
	case RAFT_MSG_READ_INDEX:
	case RAFT_MSG_READ_INDEX_REPLY:
		m.seq = 0x123456789abcdef;
		break;
	default:
		m.log_index = type == RAFT_MSG_VOTE || type == RAFT_MSG_PRE_VOTE || type == RAFT_MSG_TIMEOUT_NOW ? 42 : 0;
		m.transfer = type == RAFT_MSG_VOTE;
		break;
	}
	return m;
}

static void
ck_same(const struct raft_msg *a, const struct raft_msg *b)
{
	ck_assert_int_eq(a->type, b->type);
	ck_assert_uint_eq(a->from, b->from);
	ck_assert_uint_eq(a->to, b->to);
	ck_assert_uint_eq(a->term, b->term);
	ck_assert_uint_eq(a->log_index, b->log_index);
	ck_assert_uint_eq(a->log_term, b->log_term);
	ck_assert_uint_eq(a->commit, b->commit);
	ck_assert_uint_eq(a->leader_last, b->leader_last);
	ck_assert_uint_eq(a->seq, b->seq);
	ck_assert_int_eq(a->granted, b->granted);
	ck_assert_int_eq(a->transfer, b->transfer);
	ck_assert_int_eq(a->done, b->done);
	ck_assert_int_eq(a->went_back, b->went_back);
	ck_assert_uint_eq(a->match, b->match);
	ck_assert_uint_eq(a->hint_index, b->hint_index);
	ck_assert_uint_eq(a->hint_term, b->hint_term);
	ck_assert_uint_eq(a->offset, b->offset);
	ck_assert_uint_eq(a->total, b->total);
	ck_assert_uint_eq(a->checksum, b->checksum);
	ck_assert(span_eq(a->data, b->data));
	ck_assert(span_eq(a->config, b->config));
	ck_assert_uint_eq(a->entry_count, b->entry_count);
	for (uint32_t i = 0; i < a->entry_count; i++) {
		const struct raft_entry *x = &a->entries[i], *y = &b->entries[i];

		ck_assert_uint_eq(x->index, y->index);
		ck_assert_uint_eq(x->term, y->term);
		ck_assert_uint_eq(x->type, y->type);
		ck_assert(span_eq(span_of(x->payload, x->size), span_of(y->payload, y->size)));
	}
}

START_TEST(there_and_back)
{
	struct raft_msg m = sample((enum raft_msg_type)_i), got;
	struct raft_entry room[ENTRIES];
	struct buf b = BUF_INIT(4096);

	raft_msg_write(&b, &m);
	ck_assert(!b.failed);
	ck_assert_int_eq(raft_msg_read(buf_span(&b), &got, room, ENTRIES), TV_OK);
	ck_same(&m, &got);
	/* Every shorter prefix and every longer text is refused. */
	for (size_t n = 0; n < b.len; n++) {
		uint8_t *cut = malloc(n + 1);	/* exact size, so that sanitizers see a read past the end */

		memcpy(cut, b.data, n);
		ck_assert_int_ne(raft_msg_read(span_of(cut, n), &got, room, ENTRIES), TV_OK);
		free(cut);
	}
	buf_u8(&b, 0);
	ck_assert_int_eq(raft_msg_read(buf_span(&b), &got, room, ENTRIES), TV_EFORMAT);
	buf_done(&b);
}
END_TEST

/* By a flag that older servers take for another one, which they do not look at in these. */
START_TEST(disks_that_went_back)
{
	static const enum raft_msg_type types[] = { RAFT_MSG_APPEND, RAFT_MSG_APPEND_REPLY };

	for (unsigned i = 0; i < 4; i++) {
		struct raft_msg m = sample(types[i / 2]), got;
		struct raft_entry room[ENTRIES];
		struct buf b = BUF_INIT(4096);

		m.went_back = i % 2 != 0;
		raft_msg_write(&b, &m);
		ck_assert_uint_eq((b.data[2] & 4) != 0, m.went_back);
		ck_assert_int_eq(raft_msg_read(buf_span(&b), &got, room, ENTRIES), TV_OK);
		ck_same(&m, &got);
		buf_done(&b);
	}
}
END_TEST

START_TEST(bad_head)
{
	struct raft_msg m = sample(RAFT_MSG_VOTE), got;
	struct buf b = BUF_INIT(4096);
	static const struct {
		size_t at;
		uint8_t value;
	} bad[] = { { 0, 0 }, { 0, 2 }, { 1, 0 }, { 1, 12 }, { 1, 255 }, { 2, 32 }, { 2, 0xff } };

	raft_msg_write(&b, &m);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint8_t was = b.data[bad[i].at];

		b.data[bad[i].at] = bad[i].value;
		ck_assert_int_eq(raft_msg_read(buf_span(&b), &got, NULL, 0), TV_EFORMAT);
		b.data[bad[i].at] = was;
	}
	buf_done(&b);
}
END_TEST

START_TEST(too_many_entries)
{
	struct raft_msg m = sample(RAFT_MSG_APPEND), got;
	struct raft_entry room[2];
	struct buf b = BUF_INIT(4096);

	raft_msg_write(&b, &m);
	ck_assert_int_eq(raft_msg_read(buf_span(&b), &got, room, 2), TV_ELIMIT);
	ck_assert_ptr_null(got.entries);
	buf_done(&b);
}
END_TEST

START_TEST(unknown_type_is_not_written)
{
	struct raft_msg m = { .type = (enum raft_msg_type)99 };
	struct buf b = BUF_INIT(4096);

	raft_msg_write(&b, &m);
	ck_assert(b.failed);
	buf_done(&b);
}
END_TEST

START_TEST(config_there_and_back)
{
	struct raft_config c = sample_config((unsigned)_i), got;
	struct buf b = BUF_INIT(16384);

	raft_config_write(&b, &c);
	ck_assert(!b.failed);
	ck_assert_int_eq(raft_config_read(buf_span(&b), &got), TV_OK);
	ck_assert_uint_eq(got.index, 77);
	ck_assert_uint_eq(got.count, c.count);
	for (unsigned i = 0; i < c.count; i++) {
		ck_assert_uint_eq(got.servers[i].id, c.servers[i].id);
		ck_assert_str_eq(got.servers[i].uuid, c.servers[i].uuid);
		ck_assert_str_eq(got.servers[i].store_id, c.servers[i].store_id);
		ck_assert_str_eq(got.servers[i].name, c.servers[i].name);
		ck_assert_str_eq(got.servers[i].addr, c.servers[i].addr);
		ck_assert_int_eq(got.servers[i].voter, c.servers[i].voter);
	}
	for (size_t n = 0; n < b.len; n++)
		ck_assert_int_ne(raft_config_read(span_of(b.data, n), &got), TV_OK);
	buf_done(&b);
}
END_TEST

START_TEST(config_that_makes_no_sense)
{
	struct raft_config c = sample_config(3), got;
	struct buf b = BUF_INIT(16384);

	c.servers[2].id = c.servers[0].id;	/* twice the same server */
	raft_config_write(&b, &c);
	ck_assert_int_eq(raft_config_read(buf_span(&b), &got), TV_EFORMAT);
	c = sample_config(2);
	c.servers[0].voter = false;		/* no voter */
	buf_reset(&b);
	raft_config_write(&b, &c);
	ck_assert_int_eq(raft_config_read(buf_span(&b), &got), TV_EFORMAT);
	c = sample_config(2);
	c.servers[1].id = 0;			/* nobody */
	buf_reset(&b);
	raft_config_write(&b, &c);
	ck_assert_int_eq(raft_config_read(buf_span(&b), &got), TV_EFORMAT);
	c = sample_config(1);
	buf_reset(&b);
	raft_config_write(&b, &c);
	b.data[9] = 200;			/* more servers than there may be */
	ck_assert_int_eq(raft_config_read(buf_span(&b), &got), TV_ELIMIT);
	ck_assert_uint_eq(got.count, 0);
	buf_done(&b);
}
END_TEST

START_TEST(ids)
{
	raft_id a = raft_id_of("u", "s");

	ck_assert_uint_ne(a, 0);
	ck_assert_uint_eq(a, raft_id_of("u", "s"));
	ck_assert_uint_ne(a, raft_id_of("u", "t"));	/* another disk is another server (S61) */
	ck_assert_uint_ne(a, raft_id_of("us", ""));
	/* The number is in every log: it must never change.  FNV-1a of "u/s". */
	ck_assert_uint_eq(a, 0x4d8aa6193ed55a7au);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("raft_wire");
	TCase *t = tcase_create("wire");
	SRunner *sr;
	int failed;

	tcase_add_loop_test(t, there_and_back, RAFT_MSG_PRE_VOTE, RAFT_MSG_READ_INDEX_REPLY + 1);
	tcase_add_test(t, disks_that_went_back);
	tcase_add_test(t, bad_head);
	tcase_add_test(t, too_many_entries);
	tcase_add_test(t, unknown_type_is_not_written);
	tcase_add_loop_test(t, config_there_and_back, 1, RAFT_SERVERS_MAX + 1);
	tcase_add_test(t, config_that_makes_no_sense);
	tcase_add_test(t, ids);
	suite_add_tcase(s, t);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? 0 : 1;
}
