/* The memory of a pool on disk: what is read back, from whole, cut, foreign and grown files. */
#include "config.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "gossipd/snapshot.h"
#include "tests/unit/gossip_one.h"

static char dir[64], path[128];
static struct snapshot_found found;

static void
setup(void)
{
	snprintf(dir, sizeof(dir), "/tmp/tv-snapshot-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/lan.snapshot", dir);
	log_init("check_snapshot", LOG_LVL_ERR, LOG_TO_STDERR);
}

static void
teardown(void)
{
	snapshot_found_done(&found);
	(void)unlink(path);
	(void)rmdir(dir);
}

static struct snapshot *
reopen(void)
{
	struct snapshot *s;

	snapshot_found_done(&found);
	s = snapshot_open(path, span_str("me"), 100, &found);
	ck_assert_ptr_nonnull(s);
	return s;
}

static void
write_file(const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static struct swim_member
member(const char *name, enum member_status status)
{
	return (struct swim_member){ .name = span_str(name), .meta = span_str("\xff\x81\xa1k\xa1v"),
		.addr = one_addr(7), .status = status, .vsn = one_vsn, .status_ltime = 12 };
}

START_TEST(what_was_written_comes_back)
{
	struct snapshot *s = reopen();
	struct swim_member a = member("a", MEMBER_ALIVE), b = member("b with blanks", MEMBER_FAILED),
	    c = member("c", MEMBER_LEFT), me = member("me", MEMBER_ALIVE);

	c.addr = (struct gaddr){ .ip = { 0xfd, [15] = 1 }, .len = 16, .port = 8301 };
	c.meta = SPAN_NONE;
	ck_assert(!snapshot_dirty(s));
	snapshot_member(s, &a, 1000);
	snapshot_member(s, &b, 2000);
	snapshot_member(s, &c, 3000);
	snapshot_member(s, &me, 4000);
	snapshot_clocks(s, 5, 6, 7);
	ck_assert(snapshot_dirty(s));
	snapshot_close(s, NULL);
	s = reopen();
	ck_assert_uint_eq(found.count, 3);
	ck_assert(span_eqs(found.members[0].restore.name, "a") && found.members[0].was_alive);
	ck_assert(span_eq(found.members[0].restore.meta, a.meta));
	ck_assert(gaddr_eq(&found.members[0].restore.addr, &a.addr));
	ck_assert_uint_eq(found.members[0].restore.status_ltime, 12);
	ck_assert_int_eq(memcmp(found.members[0].restore.vsn, one_vsn, 6), 0);
	ck_assert(span_eqs(found.members[1].restore.name, "b with blanks") && !found.members[1].was_alive);
	ck_assert_int_eq(found.members[1].restore.status, MEMBER_FAILED);
	ck_assert_int_eq(found.members[1].since, 2000);
	ck_assert_int_eq(found.members[2].restore.status, MEMBER_LEFT);
	ck_assert(gaddr_eq(&found.members[2].restore.addr, &c.addr));
	ck_assert_uint_eq(found.members[2].restore.meta.len, 0);
	ck_assert(found.clock == 5 && found.event_clock == 6 && found.query_clock == 7);
	snapshot_close(s, NULL);
}
END_TEST

START_TEST(the_last_word_counts)
{
	struct snapshot *s = reopen();
	struct swim_member a = member("a", MEMBER_ALIVE), b = member("b", MEMBER_ALIVE);

	snapshot_member(s, &a, 1);
	snapshot_member(s, &b, 1);
	a.status = MEMBER_FAILED;
	snapshot_member(s, &a, 2);
	snapshot_gone(s, span_str("b"));
	snapshot_clocks(s, 9, 0, 0);
	snapshot_clocks(s, 4, 0, 0);		/* clocks do not go back */
	snapshot_close(s, NULL);
	s = reopen();
	ck_assert_uint_eq(found.count, 1);
	ck_assert(!found.members[0].was_alive);
	ck_assert_uint_eq(found.clock, 9);
	snapshot_close(s, NULL);
}
END_TEST

START_TEST(leave_forgets)
{
	struct snapshot *s = reopen();
	struct swim_member a = member("a", MEMBER_ALIVE);

	snapshot_member(s, &a, 1);
	snapshot_clocks(s, 9, 0, 0);
	snapshot_leave(s);
	snapshot_member(s, &a, 2);		/* heard while leaving */
	snapshot_close(s, NULL);
	s = reopen();
	ck_assert_uint_eq(found.count, 0);
	ck_assert_uint_eq(found.clock, 0);
	snapshot_close(s, NULL);
}
END_TEST

#define GOOD "member: alive 5 3 010502020505 - 10.0.0.7:7946 good\n"

static const struct {
	const char *text;
	unsigned count;
} files[] = {
	{ GOOD, 1 },
	{ GOOD "member: alive 5 3 010502020505 - 10.0.0.7:79", 1 },	/* cut by a crash */
	{ GOOD "member: alive", 1 },
	{ GOOD "# a comment\n\nunknown: 5\n", 1 },
	{ "member: asleep 5 3 010502020505 - 10.0.0.7:7946 x\n" GOOD, 1 },
	{ "member: alive -5 3 010502020505 - 10.0.0.7:7946 x\n" GOOD, 1 },
	{ "member: alive 5 3 0105 zz 10.0.0.7:7946 x\n" GOOD, 1 },
	{ "member: alive 5 3 - 0 10.0.0.7:7946 x\n" GOOD, 1 },
	{ "member: alive 5 3 - - 10.0.0.7:0 x\n" GOOD, 1 },
	{ "member: alive 5 3 - - 10.0.0.7:70000 x\n" GOOD, 1 },
	{ "member: alive 5 3 - - ten:7946 x\n" GOOD, 1 },
	{ "member: alive 5 3 - - 10.0.0.7:7946 \n" GOOD, 1 },
	{ "clock: 99999999999999999999999\nclock: -1\nclock: x\n" GOOD, 1 },
	{ "\n\n\n", 0 },
	{ "", 0 },
};

START_TEST(odd_files)
{
	struct snapshot *s;
	struct swim_member a = member("a", MEMBER_ALIVE);

	write_file(files[_i].text);
	s = reopen();
	ck_assert_uint_eq(found.count, files[_i].count);
	ck_assert_uint_eq(found.clock, 0);
	snapshot_member(s, &a, 1);		/* and it can be gone on with */
	snapshot_close(s, NULL);
	s = reopen();
	ck_assert_uint_eq(found.count, files[_i].count + 1);
	snapshot_close(s, NULL);
}
END_TEST

START_TEST(members_are_limited)
{
	struct buf b = BUF_INIT(1 << 20);
	struct snapshot *s;

	for (int i = 0; i < 300; i++)
		buf_printf(&b, "member: alive 5 3 010502020505 - 10.0.0.7:7946 m%d\n", i);
	write_file(buf_cstr(&b));
	buf_done(&b);
	s = reopen();
	ck_assert_uint_eq(found.count, 100);
	snapshot_close(s, NULL);
}
END_TEST

START_TEST(a_grown_file_is_written_afresh)
{
	struct one o;
	struct snapshot *s = reopen();
	struct swim_member a = member("a", MEMBER_ALIVE);
	struct stat st;

	one_init(&o);
	one_start(&o);
	(void)one_alive(&o, "x", 1);
	snapshot_clocks(s, 3, 2, 1);
	for (int i = 0; i < 4000; i++)
		snapshot_member(s, &a, i);
	snapshot_flush(s, o.s);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_lt(st.st_size, 1000);
	ck_assert_int_eq(st.st_mode & 0777, 0600);
	snapshot_member(s, &a, 7);
	snapshot_close(s, o.s);
	s = reopen();
	ck_assert_uint_eq(found.count, 2);	/* x from the core, a from after it */
	ck_assert_uint_eq(found.clock, 3);
	snapshot_close(s, NULL);
	one_done(&o);
}
END_TEST

START_TEST(a_link_is_refused)
{
	ck_assert_int_eq(symlink("/dev/null", path), 0);
	ck_assert_ptr_null(snapshot_open(path, span_str("me"), 100, &found));
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("snapshot");
	TCase *t = tcase_create("file");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, what_was_written_comes_back);
	tcase_add_test(t, the_last_word_counts);
	tcase_add_test(t, leave_forgets);
	tcase_add_loop_test(t, odd_files, 0, sizeof(files) / sizeof(files[0]));
	tcase_add_test(t, members_are_limited);
	tcase_add_test(t, a_grown_file_is_written_afresh);
	tcase_add_test(t, a_link_is_refused);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
