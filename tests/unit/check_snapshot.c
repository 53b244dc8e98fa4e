/* The memory of a pool on disk: what is read back, from whole, cut, foreign and grown files. */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
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
	ck_assert_int_eq(rmdir(dir), 0);	/* and nothing else is left behind */
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

START_TEST(a_file_that_is_not_ours_is_named)
{
	write_file("");
	ck_assert_int_eq(truncate(path, 1 << 30), 0);
	errno = 0;
	ck_assert_ptr_null(snapshot_open(path, span_str("me"), 100, &found));
	ck_assert_int_eq(errno, EFBIG);
}
END_TEST

START_TEST(what_was_written_comes_back)
{
	struct snapshot *s = reopen();
	struct swim_member a = member("a", MEMBER_ALIVE), b = member("b with blanks", MEMBER_FAILED),
	    c = member("c", MEMBER_LEFT), me = member("me", MEMBER_ALIVE);

	c.addr = (struct addr){ .ip = { 0xfd, [15] = 1 }, .len = 16, .port = 8301 };
	c.meta = SPAN_NONE;
	ck_assert(!snapshot_dirty(s));
	snapshot_member(s, &a, 1000);
	snapshot_member(s, &b, 2000);
	snapshot_member(s, &c, 3000);
	snapshot_member(s, &me, 4000);
	snapshot_clocks(s, &(struct swim_clocks){ 5, 6, 7, 8 });
	ck_assert(snapshot_dirty(s));
	snapshot_close(s, NULL);
	s = reopen();
	ck_assert_uint_eq(found.count, 3);
	ck_assert(span_eqs(found.members[0].restore.name, "a") && found.members[0].was_alive);
	ck_assert(span_eq(found.members[0].restore.meta, a.meta));
	ck_assert(addr_eq(&found.members[0].restore.addr, &a.addr));
	ck_assert_uint_eq(found.members[0].restore.status_ltime, 12);
	ck_assert_int_eq(memcmp(found.members[0].restore.vsn, one_vsn, 6), 0);
	ck_assert(span_eqs(found.members[1].restore.name, "b with blanks") && !found.members[1].was_alive);
	ck_assert_int_eq(found.members[1].restore.status, MEMBER_FAILED);
	ck_assert_int_eq(found.members[1].since, 2000);
	ck_assert_int_eq(found.members[2].restore.status, MEMBER_LEFT);
	ck_assert(addr_eq(&found.members[2].restore.addr, &c.addr));
	ck_assert_uint_eq(found.members[2].restore.meta.len, 0);
	ck_assert(found.clocks.clock == 5 && found.clocks.event_clock == 6 && found.clocks.query_clock == 7);
	ck_assert_uint_eq(found.clocks.incarnation, 8);
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
	snapshot_clocks(s, &(struct swim_clocks){ 9, 0, 0, 3 });
	snapshot_clocks(s, &(struct swim_clocks){ 4, 0, 0, 3 });		/* clocks do not go back */
	snapshot_close(s, NULL);
	s = reopen();
	ck_assert_uint_eq(found.count, 1);
	ck_assert(!found.members[0].was_alive);
	ck_assert_uint_eq(found.clocks.clock, 9);
	snapshot_close(s, NULL);
}
END_TEST

START_TEST(leave_forgets)
{
	struct snapshot *s = reopen();
	struct swim_member a = member("a", MEMBER_ALIVE);

	snapshot_member(s, &a, 1);
	snapshot_clocks(s, &(struct swim_clocks){ 9, 0, 0, 3 });
	snapshot_leave(s);
	snapshot_member(s, &a, 2);		/* heard while leaving */
	snapshot_close(s, NULL);
	s = reopen();
	ck_assert_uint_eq(found.count, 0);
	ck_assert_uint_eq(found.clocks.clock, 0);
	ck_assert_uint_eq(found.clocks.incarnation, 3);		/* others still hold the old one against us */
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
	ck_assert_uint_eq(found.clocks.clock, 0);
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
	snapshot_clocks(s, &(struct swim_clocks){ 3, 2, 1, 1 });
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
	ck_assert_uint_eq(found.clocks.clock, 3);
	snapshot_close(s, NULL);
	one_done(&o);
}
END_TEST

#define CHURN 3000

/* Members come and go for ever: the file stays near its content, however long the tags are. */
START_TEST(churn_has_a_bound)
{
	static uint8_t tags[NODE_META_BYTES_MAX];
	struct one o;
	struct snapshot *s = reopen();
	struct stat st;
	off_t most = 0;
	ino_t last = 0;
	unsigned fresh = 0;

	memset(tags, 't', sizeof(tags));
	one_init(&o);
	one_start(&o);
	for (unsigned i = 0; i < CHURN; i++) {
		char name[24];
		struct swim_member m = member(name, MEMBER_ALIVE);

		snprintf(name, sizeof(name), "m%u", i);
		m.name = span_str(name);
		m.meta = span_of(tags, sizeof(tags));
		snapshot_member(s, &m, i);
		snapshot_gone(s, m.name);
		if (i < 100) {
			struct addr at = one_addr(i + 2);

			(void)one_alive_at(&o, name, 1, &at, m.meta);
		}
		ck_assert(snapshot_flush(s, o.s));
		ck_assert_int_eq(stat(path, &st), 0);
		most = st.st_size > most ? st.st_size : most;
		fresh += st.st_ino != last;
		last = st.st_ino;
	}
	ck_assert_int_lt(most, 2 * 110 * 1100 + 2000);		/* twice of what 100 such members take */
	ck_assert_uint_lt(fresh, CHURN / 20);			/* and it is not always written anew */
	snapshot_close(s, o.s);
	one_done(&o);
}
END_TEST

/* -- torn and garbled files ----------------------------------------------------------------- */

static char whole[4096];
static size_t whole_len;

static void
write_whole(void)
{
	struct snapshot *s = reopen();
	struct swim_member a = member("a", MEMBER_ALIVE), b = member("b with blanks", MEMBER_FAILED),
	    c = member("c", MEMBER_LEFT);
	int fd;

	snapshot_clocks(s, &(struct swim_clocks){ 1200, 34, 5, 67 });
	snapshot_member(s, &a, 1000);
	(void)snapshot_flush(s, NULL);
	snapshot_member(s, &b, 2000);
	snapshot_gone(s, span_str("a"));
	snapshot_clocks(s, &(struct swim_clocks){ 1300, 34, 5, 68 });
	snapshot_member(s, &c, 3000);
	snapshot_close(s, NULL);
	fd = open(path, O_RDONLY);
	ck_assert_int_ge(fd, 0);
	whole_len = (size_t)read(fd, whole, sizeof(whole));
	ck_assert_uint_gt(whole_len, 200);
	close(fd);
}

static void
put_back(const char *bytes, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, bytes, len), (ssize_t)len);
	close(fd);
}

/* What is found was written once: no name, address or clock that never was. */
static void
only_what_was_written(void)
{
	for (size_t i = 0; i < found.count; i++) {
		struct span name = found.members[i].restore.name;

		ck_assert(span_eqs(name, "a") || span_eqs(name, "b with blanks") || span_eqs(name, "c") ||
		    span_eqs(name, "later"));
		ck_assert_uint_eq(found.members[i].restore.addr.ip[3], 7);
	}
	ck_assert(found.clocks.clock == 0 || found.clocks.clock == 1200 || found.clocks.clock == 1300);
	ck_assert(found.clocks.incarnation == 0 || found.clocks.incarnation == 67 || found.clocks.incarnation == 68);
}

/* Cut anywhere: the lines before count, the torn one never does, also not after more was written behind it. */
START_TEST(cut_at_each_byte)
{
	struct swim_member later = member("later", MEMBER_ALIVE);

	write_whole();
	for (size_t cut = 0; cut <= whole_len; cut++) {
		size_t lines = 0, members;
		struct snapshot *s;

		for (size_t i = 0; i < cut; i++)
			lines += whole[i] == '\n';
		put_back(whole, cut);
		s = reopen();
		only_what_was_written();
		members = found.count;
		ck_assert(lines > 0 || members == 0);
		snapshot_member(s, &later, 1);
		snapshot_close(s, NULL);
		s = reopen();
		only_what_was_written();
		ck_assert_msg(found.count == members + 1, "cut at %zu", cut);
		snapshot_close(s, NULL);
	}
}
END_TEST

static const uint8_t garbage[] = { 0x00, '\n', 0xff, ' ', '9', 0x1b };

/* A byte turned into another one anywhere: it reads, within bounds, and can be gone on with. */
START_TEST(garbled_at_each_byte)
{
	struct swim_member later = member("later", MEMBER_ALIVE);
	char bytes[sizeof(whole)];

	write_whole();
	for (size_t at = 0; at < whole_len; at++) {
		struct snapshot *s;
		bool back = false;

		memcpy(bytes, whole, whole_len);
		bytes[at] = (char)garbage[_i];
		put_back(bytes, whole_len);
		s = reopen();
		ck_assert_uint_le(found.count, 4);
		snapshot_member(s, &later, 1);
		snapshot_close(s, NULL);
		s = reopen();
		for (size_t i = 0; i < found.count; i++)
			back = back || span_eqs(found.members[i].restore.name, "later");
		ck_assert_msg(back, "garbled at %zu", at);
		snapshot_close(s, NULL);
	}
}
END_TEST

START_TEST(bad_lines_are_named)
{
	char log[2048] = "";
	FILE *err = tmpfile();
	int saved = dup(STDERR_FILENO);
	struct snapshot *s;

	ck_assert_ptr_nonnull(err);
	write_file("# a comment\n" GOOD "nonsense \x1b[31m\n\nmember: alive\n");
	log_init("check_snapshot", LOG_LVL_WARN, LOG_TO_STDERR);
	ck_assert_int_ge(dup2(fileno(err), STDERR_FILENO), 0);
	s = reopen();
	ck_assert_int_ge(dup2(saved, STDERR_FILENO), 0);
	close(saved);
	rewind(err);
	ck_assert_uint_gt(fread(log, 1, sizeof(log) - 1, err), 0);
	fclose(err);
	ck_assert_ptr_nonnull(strstr(log, "lan.snapshot:3: malformed line skipped"));
	ck_assert_ptr_nonnull(strstr(log, "lan.snapshot:5: malformed line skipped"));
	ck_assert_ptr_null(strchr(log, '\x1b'));
	ck_assert_uint_eq(found.count, 1);
	snapshot_close(s, NULL);
}
END_TEST

/* -- a disk that fails -------------------------------------------------------------------------- */

static void
limit_files(rlim_t bytes)
{
	struct rlimit r;

	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &r), 0);
	r.rlim_cur = bytes;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &r), 0);
}

/* Full in the middle of a line, full for a while, then with room again: nothing that the core knows is missing. */
START_TEST(a_full_disk_is_survived)
{
	struct one o;
	struct snapshot *s = reopen();
	struct swim_member a = member("a", MEMBER_ALIVE);
	struct stat before, after;

	(void)signal(SIGXFSZ, SIG_IGN);
	one_init(&o);
	one_start(&o);
	(void)one_alive(&o, "a", 1);
	snapshot_member(s, &a, 1);
	ck_assert(snapshot_flush(s, o.s));
	ck_assert_int_eq(stat(path, &before), 0);
	limit_files((rlim_t)before.st_size + 20);	/* cuts the next line */
	(void)one_alive(&o, "b", 1);
	a.name = span_str("b");
	snapshot_member(s, &a, 1);
	ck_assert(!snapshot_flush(s, o.s));
	ck_assert(snapshot_dirty(s));
	ck_assert_uint_ge(snapshot_errors(s), 1);
	ck_assert_int_eq(stat(path, &after), 0);
	ck_assert_int_eq(after.st_size, before.st_size);	/* the torn part went */
	(void)one_alive(&o, "c", 1);
	limit_files(10);
	ck_assert(!snapshot_flush(s, o.s));
	limit_files(RLIM_INFINITY);
	ck_assert(snapshot_flush(s, o.s));
	ck_assert(!snapshot_dirty(s));
	snapshot_close(s, o.s);
	s = reopen();
	ck_assert_uint_eq(found.count, 3);
	snapshot_close(s, NULL);
	one_done(&o);
}
END_TEST

/* A leave that did not get onto the disk at first does so later: else the restart would join again. */
START_TEST(a_leave_on_a_full_disk)
{
	struct snapshot *s = reopen();
	struct swim_member a = member("a", MEMBER_ALIVE);

	(void)signal(SIGXFSZ, SIG_IGN);
	snapshot_member(s, &a, 1);
	snapshot_clocks(s, &(struct swim_clocks){ 5, 6, 7, 8 });
	ck_assert(snapshot_flush(s, NULL));
	limit_files(10);
	snapshot_leave(s);
	ck_assert(!snapshot_flush(s, NULL));
	limit_files(RLIM_INFINITY);
	ck_assert(snapshot_flush(s, NULL));
	snapshot_close(s, NULL);
	s = reopen();
	ck_assert_uint_eq(found.count, 0);
	ck_assert_uint_eq(found.clocks.incarnation, 8);
	snapshot_close(s, NULL);
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
	tcase_add_test(t, a_file_that_is_not_ours_is_named);
	tcase_add_test(t, what_was_written_comes_back);
	tcase_add_test(t, the_last_word_counts);
	tcase_add_test(t, leave_forgets);
	tcase_add_loop_test(t, odd_files, 0, sizeof(files) / sizeof(files[0]));
	tcase_add_test(t, members_are_limited);
	tcase_add_test(t, a_grown_file_is_written_afresh);
	tcase_add_test(t, churn_has_a_bound);
	tcase_add_test(t, cut_at_each_byte);
	tcase_add_loop_test(t, garbled_at_each_byte, 0, sizeof(garbage));
	tcase_add_test(t, bad_lines_are_named);
	tcase_add_test(t, a_full_disk_is_survived);
	tcase_add_test(t, a_leave_on_a_full_disk);
	tcase_add_test(t, a_link_is_refused);
	tcase_set_timeout(t, 60);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
