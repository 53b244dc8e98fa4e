/* Members: packing, every truncation, tags, ports, addresses, copies. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/record/member_table.h"
#include "common/record/mpack.h"

static struct member_tag tags[] = {
	{ { (const uint8_t *)"role", 4 }, { (const uint8_t *)"server", 6 } },
	{ { (const uint8_t *)"raft_port", 9 }, { (const uint8_t *)"8300", 4 } },
	{ { (const uint8_t *)"empty", 5 }, { (const uint8_t *)"", 0 } },
};

static struct member
sample(void)
{
	return (struct member){
		.name = span_str("n1"), .addr = { 127, 0, 0, 1 }, .addr_len = 4, .port = 8301,
		.status = MEMBER_ALIVE, .vsn = { 1, 5, 2, 2, 5, 4 }, .tags = tags, .tag_count = 3,
	};
}

static void
same(const struct member *a, const struct member *b)
{
	ck_assert(span_eq(a->name, b->name));
	ck_assert_uint_eq(a->addr_len, b->addr_len);
	ck_assert_mem_eq(a->addr, b->addr, sizeof(a->addr));
	ck_assert_uint_eq(a->port, b->port);
	ck_assert_uint_eq(a->status, b->status);
	ck_assert_mem_eq(a->vsn, b->vsn, sizeof(a->vsn));
	ck_assert_uint_eq(a->tag_count, b->tag_count);
	for (uint32_t i = 0; i < a->tag_count; i++) {
		ck_assert(span_eq(a->tags[i].name, b->tags[i].name));
		ck_assert(span_eq(a->tags[i].value, b->tags[i].value));
	}
}

START_TEST(round_trip)
{
	struct buf b = BUF_INIT(4096);
	struct arena a = ARENA_INIT(4096);
	struct member m = sample(), back;
	struct rd r;

	member_pack(&b, &m);
	r = rd_span_over(buf_span(&b));
	ck_assert_int_eq(member_unpack(&r, &a, &back), TV_OK);
	ck_assert_int_eq(rd_end(&r), TV_OK);
	same(&m, &back);
	arena_done(&a);
	buf_done(&b);
}
END_TEST

START_TEST(every_truncation)
{
	struct buf b = BUF_INIT(4096);
	struct member m = sample(), back;

	member_pack(&b, &m);
	for (size_t n = 0; n < b.len; n++) {
		struct arena a = ARENA_INIT(4096);
		struct rd r = rd_over(b.data, n);

		ck_assert_int_ne(member_unpack(&r, &a, &back), TV_OK);
		ck_assert_uint_eq(back.tag_count, 0);
		arena_done(&a);
	}
	buf_done(&b);
}
END_TEST

/* Packs m, unpacks with a given arena cap, returns the error. */
static enum tv_err
try(const struct member *m, size_t arena_max)
{
	struct buf b = BUF_INIT(1 << 20);
	struct arena a = ARENA_INIT(arena_max);
	struct member back;
	struct rd r;
	enum tv_err err;

	member_pack(&b, m);
	ck_assert(!b.failed);
	r = rd_span_over(buf_span(&b));
	err = member_unpack(&r, &a, &back);
	arena_done(&a);
	buf_done(&b);
	return err;
}

START_TEST(limits)
{
	static uint8_t long_name[MEMBER_NAME_BYTES_MAX + 1];
	struct member_tag many[MEMBER_TAGS_MAX + 1];
	struct member m = sample();

	ck_assert_int_eq(try(&m, 16), TV_ENOMEM);
	m.name = span_of(long_name, MEMBER_NAME_BYTES_MAX);
	ck_assert_int_eq(try(&m, 4096), TV_OK);
	m.name.len++;
	ck_assert_int_eq(try(&m, 4096), TV_ELIMIT);
	m = sample();
	m.addr_len = 5;
	ck_assert_int_eq(try(&m, 4096), TV_EFORMAT);
	m = sample();
	m.status = MEMBER_FAILED + 1;
	ck_assert_int_ne(try(&m, 4096), TV_OK);
	m = sample();
	for (size_t i = 0; i <= MEMBER_TAGS_MAX; i++)
		many[i] = tags[0];
	m.tags = many;
	m.tag_count = MEMBER_TAGS_MAX;
	ck_assert_int_eq(try(&m, 1 << 16), TV_OK);
	m.tag_count++;
	ck_assert_int_eq(try(&m, 1 << 16), TV_ELIMIT);
}
END_TEST

START_TEST(tags_and_ports)
{
	static const struct { const char *text; unsigned port; } cases[] = {
		{ "8300", 8300 }, { "1", 1 }, { "65535", 65535 }, { "65536", 0 }, { "0", 0 }, { "", 0 }, { "99999", 0 },
		{ "123456", 0 }, { "-1", 0 }, { "8300 ", 0 }, { "0x10", 0 },
	};
	struct member m = sample();
	struct member_tag tag = { span_str("p"), SPAN_NONE };

	ck_assert(span_eqs(member_tag(&m, "role"), "server"));
	ck_assert_ptr_nonnull(member_tag(&m, "empty").p);
	ck_assert_ptr_null(member_tag(&m, "rol").p);
	ck_assert_ptr_null(member_tag(&m, "roles").p);
	m.tags = &tag;
	m.tag_count = 1;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tag.value = span_str(cases[i].text);
		ck_assert_msg(member_tag_port(&m, "p") == cases[i].port, "%s", cases[i].text);
	}
	ck_assert_uint_eq(member_tag_port(&m, "q"), 0);
}
END_TEST

START_TEST(addresses)
{
	struct member m = sample();
	char dst[46];

	ck_assert_str_eq(member_ip(&m, dst), "127.0.0.1");
	m = (struct member){ .addr_len = 16, .addr = { [15] = 1 } };
	ck_assert_str_eq(member_ip(&m, dst), "::1");
	m.addr_len = 0;
	ck_assert_str_eq(member_ip(&m, dst), "");
}
END_TEST

START_TEST(clones)
{
	struct member m = sample(), none = { .addr_len = 4 };
	struct member *copy = member_clone(&m);

	same(&m, copy);
	ck_assert_ptr_ne(copy->name.p, m.name.p);
	ck_assert_ptr_ne(copy->tags, m.tags);
	free(copy);
	copy = member_clone(&none);
	same(&none, copy);
	free(copy);
}
END_TEST

static struct member_slot *
put(struct member_table *t, const char *name, uint8_t status)
{
	struct member m = sample();
	enum tv_err err;
	struct member_slot *s;

	m.name = span_str(name);
	m.status = status;
	s = member_table_put(t, &m, &err);
	ck_assert_int_eq(err, s != NULL ? TV_OK : TV_ELIMIT);
	return s;
}

START_TEST(table_is_sorted_and_bounded)
{
	struct member_table t = { .max = 40 };
	char name[8];

	for (unsigned i = 0; i < 41; i++) {
		snprintf(name, sizeof(name), "%02u", i * 7 % 41);
		ck_assert((put(&t, name, MEMBER_ALIVE) != NULL) == (i < 40));
	}
	ck_assert_uint_eq(t.count, 40);
	ck_assert_uint_eq(t.refused, 1);
	for (uint32_t i = 1; i < t.count; i++)
		ck_assert_int_lt(span_cmp(t.slots[i - 1].m->name, t.slots[i].m->name), 0);
	put(&t, "07", MEMBER_FAILED)->dirty = true;	/* a full table takes news of a member that it has */
	ck_assert_uint_eq(member_table_find(&t, span_str("07"))->m->status, MEMBER_FAILED);
	ck_assert(put(&t, "07", MEMBER_LEFT)->dirty);	/* marks stay */
	member_table_remove(&t, member_table_find(&t, span_str("07")));
	ck_assert_ptr_null(member_table_find(&t, span_str("07")));
	ck_assert_uint_eq(t.count, 39);
	ck_assert(!put(&t, "07", MEMBER_ALIVE)->dirty);
	member_table_done(&t);
}
END_TEST

START_TEST(listing_sweeps_the_rest)
{
	struct member_table t = { .max = 10 };

	(void)put(&t, "a", MEMBER_ALIVE);
	(void)put(&t, "b", MEMBER_ALIVE);
	t.round++;
	(void)put(&t, "b", MEMBER_ALIVE);
	(void)put(&t, "c", MEMBER_ALIVE);
	member_table_sweep(&t);
	ck_assert_uint_eq(t.count, 2);
	ck_assert_ptr_null(member_table_find(&t, span_str("a")));
	ck_assert_ptr_nonnull(member_table_find(&t, span_str("b")));
	member_table_done(&t);
	ck_assert_uint_eq(t.count, 0);
	ck_assert_ptr_nonnull(put(&t, "a", MEMBER_ALIVE));
	member_table_done(&t);
}
END_TEST

START_TEST(events_of_members)
{
	struct buf b = BUF_INIT(4096);
	struct arena a = ARENA_INIT(4096);
	struct member m = sample(), back;
	enum gossip_event event;
	enum gossip_pool pool;

	mpw_array(&b, 3);
	mpw_uint(&b, POOL_WAN);
	mpw_uint(&b, GOSSIP_EV_FAILED);
	member_pack(&b, &m);
	ck_assert_int_eq(member_event_read(buf_span(&b), &a, &pool, &event, &back), TV_OK);
	ck_assert_int_eq(pool, POOL_WAN);
	ck_assert_int_eq(event, GOSSIP_EV_FAILED);
	same(&m, &back);
	for (size_t n = 0; n < b.len; n++)
		ck_assert_int_ne(member_event_read(span_of(b.data, n), &a, &pool, &event, &back), TV_OK);
	b.data[1] = POOL_WAN + 1;
	ck_assert_int_ne(member_event_read(buf_span(&b), &a, &pool, &event, &back), TV_OK);
	arena_done(&a);
	buf_done(&b);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("member");
	TCase *t = tcase_create("member");
	SRunner *r;
	int failed;

	tcase_add_test(t, round_trip);
	tcase_add_test(t, every_truncation);
	tcase_add_test(t, limits);
	tcase_add_test(t, tags_and_ports);
	tcase_add_test(t, addresses);
	tcase_add_test(t, clones);
	tcase_add_test(t, table_is_sorted_and_bounded);
	tcase_add_test(t, listing_sweeps_the_rest);
	tcase_add_test(t, events_of_members);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
