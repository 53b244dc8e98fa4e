/* Snapshots in the Raft core, one server at a time (S41 to S47, S89): exact outputs for exact inputs. */
#include "tests/unit/raft_kit.h"

static struct raft_msg
chunk(struct buf *config, uint64_t index, uint64_t offset, size_t len, uint64_t total)
{
	static const uint8_t bytes[1000];
	struct raft_config conf = config_of(3, 0);

	buf_reset(config);
	raft_config_write(config, &conf);
	return (struct raft_msg){ .type = RAFT_MSG_SNAPSHOT, .from = 2, .to = SELF, .term = 5, .log_index = index,
		.log_term = 4, .offset = offset, .total = total, .checksum = 77, .done = offset + len == total,
		.data = span_of(bytes, len), .config = buf_span(config) };
}

static void
stored(const struct raft_msg *m, uint64_t offset)
{
	feed((struct raft_input){ .type = RAFT_IN_SNAPSHOT_CHUNK, .msg = m, .offset = offset });
}

START_TEST(snapshot_replaces_the_log)
{
	struct buf b = BUF_INIT(16384);
	struct raft_msg m;

	bootstrap(3, 0);
	append(2, 5, 1, 1, 0, TERMS(2, 2, 2));
	m = chunk(&b, 3, 0, 100, 150);
	feed_msg(&m);
	ck_assert_ptr_eq(c.out.snapshot_chunk, &m);
	stored(&m, 100);
	ck_assert_uint_eq(sent(RAFT_MSG_SNAPSHOT_REPLY, 2)->msg.offset, 100);
	m = chunk(&b, 3, 0, 100, 150);			/* doubled: no second start */
	feed_msg(&m);
	ck_assert_ptr_null(c.out.snapshot_chunk);
	ck_assert_uint_eq(sent(RAFT_MSG_SNAPSHOT_REPLY, 2)->msg.offset, 100);
	m = chunk(&b, 3, 100, 50, 150);
	feed_msg(&m);
	ck_assert_ptr_nonnull(c.out.snapshot_chunk);
	append(2, 5, 4, 2, 4, TERMS(5));		/* the log is left alone while it is being replaced */
	ck_assert_uint_eq(c.out.append_count, 0);
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND_REPLY, 2)->msg.match, 0);
	m = chunk(&b, 3, 100, 50, 150);
	feed((struct raft_input){ .type = RAFT_IN_SNAPSHOT_INSTALLED, .msg = &m });
	ck_assert(sent(RAFT_MSG_SNAPSHOT_REPLY, 2)->msg.done);
	ck_assert_uint_eq(sent(RAFT_MSG_SNAPSHOT_REPLY, 2)->msg.match, 3);
	ck_assert_uint_eq(status().last_index, 3);
	ck_assert_uint_eq(status().last_term, 4);
	ck_assert_uint_eq(c.out.commit_index, 3);
	m = chunk(&b, 2, 0, 100, 150);			/* S42: an older one */
	feed_msg(&m);
	ck_assert_ptr_null(c.out.snapshot_chunk);
	ck_assert(sent(RAFT_MSG_SNAPSHOT_REPLY, 2)->msg.done);
	buf_done(&b);
	stop();
}
END_TEST

/* S89: the log begins after 10 and holds promises up to 13; only a snapshot of 10 or later is of use, and costs none. */
START_TEST(snapshot_for_a_lost_state)
{
	struct raft_restore from = { .term = 4, .snapshot_index = 10, .snapshot_term = 4, .applied = 10,
		.snapshot_config = config_of(3, 0), .stateless = true };
	struct buf b = BUF_INIT(16384);
	struct raft_msg m;

	start(&from);
	for (uint64_t i = 11; i <= 13; i++)
		ck_assert_int_eq(raft_restore_entry(c.r, &(struct raft_entry){ .index = i, .term = 4,
		    .type = RAFT_ENTRY_OP }), TV_OK);
	append(2, 5, 13, 4, 10, TERMS(5));
	ck_assert(sent(RAFT_MSG_APPEND_REPLY, 2)->msg.stateless);
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND_REPLY, 2)->msg.hint_index, 10);
	m = chunk(&b, 9, 0, 100, 100);
	feed_msg(&m);
	ck_assert_ptr_null(c.out.snapshot_chunk);
	ck_assert(sent(RAFT_MSG_SNAPSHOT_REPLY, 2)->msg.done);
	m = chunk(&b, 12, 0, 100, 100);
	feed_msg(&m);
	ck_assert_ptr_nonnull(c.out.snapshot_chunk);
	ck_assert(raft_keeps_log(c.r, 12, 4));
	feed((struct raft_input){ .type = RAFT_IN_SNAPSHOT_INSTALLED, .msg = &m });
	ck_assert(sent(RAFT_MSG_SNAPSHOT_REPLY, 2)->msg.done);
	ck_assert_uint_eq(c.out.commit_index, 12);
	ck_assert_uint_ge(status().last_index, 13);
	ck_assert_uint_eq(raft_term_at(c.r, 13), 4);
	buf_done(&b);
	stop();
}
END_TEST

START_TEST(snapshot_of_what_is_here)
{
	struct buf b = BUF_INIT(16384);
	struct raft_msg m;

	bootstrap(3, 0);
	append(2, 5, 1, 1, 0, TERMS(4, 4, 4));
	persist(4, 4);
	m = chunk(&b, 3, 0, 100, 150);
	feed_msg(&m);
	ck_assert_ptr_null(c.out.snapshot_chunk);
	ck_assert_uint_eq(c.out.commit_index, 3);
	ck_assert_uint_eq(status().last_index, 4);	/* S42: nothing is cut */
	buf_done(&b);
	stop();
}
END_TEST

START_TEST(snapshot_that_cannot_be_kept)
{
	struct buf b = BUF_INIT(16384);
	struct raft_msg m;

	bootstrap(3, 0);
	m = chunk(&b, 9, 0, 100, 100);
	feed_msg(&m);
	ck_assert_ptr_nonnull(c.out.snapshot_chunk);
	stored(&m, 0);					/* bad checksum, or no space */
	ck_assert(!sent(RAFT_MSG_SNAPSHOT_REPLY, 2)->msg.granted);
	ck_assert_uint_eq(sent(RAFT_MSG_SNAPSHOT_REPLY, 2)->msg.offset, 0);
	append(2, 5, 1, 1, 0, TERMS(5));		/* the log lives on */
	ck_assert_uint_eq(c.out.append_count, 1);
	m = chunk(&b, 9, 50, 100, 100);			/* chunk outside its snapshot */
	feed_msg(&m);
	ck_assert(noted(RAFT_NOTICE_VIOLATION, RAFT_VIOLATION_SNAPSHOT));
	buf_done(&b);
	stop();
}
END_TEST

/* The leader's side: asked for, sent in a window, resumed, finished. */
START_TEST(snapshot_is_sent)
{
	struct raft_msg m = { .type = RAFT_MSG_SNAPSHOT_REPLY, .from = 3, .to = SELF, .term = 2, .log_index = 12, .granted = true };
	unsigned chunks = 0;

	lead(3, 0);
	propose(10, 1);
	persist(12, 2);
	ack(2, 2, 12, 1);
	feed((struct raft_input){ .type = RAFT_IN_APPLIED, .index = 12 });
	feed((struct raft_input){ .type = RAFT_IN_COMPACTED, .index = 12 });
	feed((struct raft_input){ .type = RAFT_IN_UNREACHABLE, .to = 3 });
	feed((struct raft_input){ .type = RAFT_IN_REACHABLE, .to = 3 });
	ck_assert(noted(RAFT_NOTICE_NEED_SNAPSHOT, 0));
	feed((struct raft_input){ .type = RAFT_IN_SNAPSHOT_READY, .index = 12, .offset = 1000 });
	for (uint32_t i = 0; i < c.out.send_count; i++)
		chunks += c.out.sends[i].msg.type == RAFT_MSG_SNAPSHOT;
	ck_assert_uint_eq(chunks, 4);
	ck_assert_uint_eq(sent(RAFT_MSG_SNAPSHOT, 3)->msg.total, 1000);
	m.offset = 200;
	feed_msg(&m);
	ck_assert_uint_eq(sent(RAFT_MSG_SNAPSHOT, 3)->msg.offset, 400);
	feed((struct raft_input){ .type = RAFT_IN_UNREACHABLE, .to = 3 });
	feed((struct raft_input){ .type = RAFT_IN_REACHABLE, .to = 3 });
	ck_assert_uint_eq(sent(RAFT_MSG_SNAPSHOT, 3)->msg.offset, 200);	/* S47: from where it was */
	m.offset = 1000;
	feed_msg(&m);
	ck_assert_ptr_null(sent(RAFT_MSG_SNAPSHOT, 3));
	ck_assert(status().peers[1].snapshotting);	/* S45: stored is not installed; wait, do not start over */
	m.done = true;
	m.match = 12;
	feed_msg(&m);
	ck_assert_uint_eq(sent(RAFT_MSG_APPEND, 3)->msg.log_index, 12);
	ck_assert(!status().peers[1].snapshotting);
	stop();
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = {
		snapshot_for_a_lost_state, snapshot_replaces_the_log, snapshot_of_what_is_here,
		snapshot_that_cannot_be_kept, snapshot_is_sent,
	};

	return raft_kit_main("raft_snapshot", tests, sizeof(tests) / sizeof(tests[0]));
}
