/* Whole files: what is there after each step that can fail. */
#include "config.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/file.h"
#include "tests/unit/scratch.h"

static unsigned
names_in(const char *dir)
{
	DIR *d = opendir(dir);
	unsigned n = 0;

	ck_assert_ptr_nonnull(d);
	for (struct dirent *e; (e = readdir(d)) != NULL;)
		n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	closedir(d);
	return n;
}

static mode_t
mode_of(const char *name)
{
	struct stat st;

	ck_assert_int_eq(lstat(scratch_path(name), &st), 0);
	return st.st_mode;
}

static enum tv_err
replace(const char *name, const char *text)
{
	return file_replace(AT_FDCWD, scratch_path(name), span_str(text), 0600);
}

/* The old file is all there is. */
static void
expect_old(const char *dir)
{
	ck_assert_str_eq(scratch_read("kept"), "old");
	ck_assert_uint_eq(names_in(dir), 1);
}

START_TEST(a_file_is_replaced)
{
	const char *dir = scratch_open();
	struct stat before, after;

	scratch_write("kept", "old", 0644);
	ck_assert_int_eq(stat(scratch_path("kept"), &before), 0);
	umask(0277);
	ck_assert_int_eq(file_replace(AT_FDCWD, scratch_path("kept"), span_str("new"), 0640), TV_OK);
	ck_assert_int_eq(file_replace(AT_FDCWD, scratch_path("made"), SPAN_NONE, 0600), TV_OK);
	umask(022);
	ck_assert_str_eq(scratch_read("kept"), "new");
	ck_assert_str_eq(scratch_read("made"), "");
	ck_assert_int_eq(stat(scratch_path("kept"), &after), 0);
	ck_assert_uint_ne(before.st_ino, after.st_ino);		/* a reader of the old one still has all of it */
	ck_assert_uint_eq(mode_of("kept"), S_IFREG | 0640);
	ck_assert_uint_eq(mode_of("made"), S_IFREG | 0600);
	ck_assert_uint_eq(names_in(dir), 2);
	scratch_close();
}
END_TEST

/* What a crash left may be longer, of another mode, a link to a file of others, or one with a second name. */
START_TEST(what_a_crash_left_does_no_harm)
{
	const char *dir = scratch_open();

	scratch_write("kept", "old", 0600);
	scratch_write("other", "theirs", 0600);
	scratch_write("kept.new", "much longer than the new one", 0666);
	ck_assert_int_eq(replace("kept", "1"), TV_OK);
	ck_assert_str_eq(scratch_read("kept"), "1");
	ck_assert_uint_eq(mode_of("kept"), S_IFREG | 0600);
	ck_assert_int_eq(symlink(scratch_path("other"), scratch_path("kept.new")), 0);
	ck_assert_int_eq(replace("kept", "2"), TV_OK);
	ck_assert_int_eq(link(scratch_path("other"), scratch_path("kept.new")), 0);
	ck_assert_int_eq(replace("kept", "3"), TV_OK);
	ck_assert_str_eq(scratch_read("kept"), "3");
	ck_assert_str_eq(scratch_read("other"), "theirs");
	ck_assert_uint_eq(names_in(dir), 2);
	/* A folder of that name is nothing that we left. */
	ck_assert_int_eq(mkdir(scratch_path("kept.new"), 0700), 0);
	ck_assert_int_eq(replace("kept", "4"), TV_ESYS);
	ck_assert_int_eq(errno, EEXIST);
	ck_assert_str_eq(scratch_read("kept"), "3");
	scratch_close();
}
END_TEST

/* A write of less than all, and then none: as on a full disk. */
START_TEST(a_full_disk_leaves_the_old_file)
{
	const char *dir = scratch_open();
	struct rlimit small = { 5, RLIM_INFINITY }, none = { RLIM_INFINITY, RLIM_INFINITY };
	int fd;

	scratch_write("kept", "old", 0600);
	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	ck_assert_int_eq(replace("kept", "longer"), TV_ESYS);
	ck_assert_int_eq(errno, EFBIG);
	ck_assert_int_eq(file_replace_open(scratch_path("kept"), span_str("longer"), &fd), TV_ESYS);
	ck_assert_int_eq(fd, -1);
	ck_assert_int_eq(file_create(AT_FDCWD, scratch_path("made"), span_str("longer"), 0600), TV_ESYS);
	ck_assert_int_eq(errno, EFBIG);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
	expect_old(dir);
	scratch_close();
}
END_TEST

/* The process may not write there: its user has no right to, or the file system takes no writes. */
static void
expect_refused(int error, const char *path)
{
	int fd;

	ck_assert_int_eq(file_replace(AT_FDCWD, path, span_str("new"), 0600), TV_ESYS);
	ck_assert_int_eq(errno, error);
	ck_assert_int_eq(file_replace_open(path, span_str("new"), &fd), TV_ESYS);
	ck_assert_int_eq(errno, error);
	ck_assert_int_eq(fd, -1);
	ck_assert_int_eq(file_create(AT_FDCWD, path, span_str("new"), 0600), TV_ESYS);
	ck_assert_int_eq(errno, error);
}

START_TEST(odd_places_are_errors)
{
	const char *dir = scratch_open();
	char name[300], path[9000];

	scratch_write("kept", "old", 0600);
	expect_refused(ENOENT, scratch_path("no/such"));
	expect_refused(ENOTDIR, scratch_path("kept/below"));
	memset(name, 'n', sizeof(name) - 1);
	name[255] = '\0';
	expect_refused(ENAMETOOLONG, scratch_path(name));	/* it has no room for what is beside it */
	memset(path, '/', sizeof(path));
	memcpy(path + sizeof(path) - 2, "x", 2);
	expect_refused(ENAMETOOLONG, path);
	ck_assert_int_eq(file_sync_parent(path), TV_ESYS);
	/* One as long as the system takes, for which a longer one beside it has no room: never itself. */
	ck_assert_int_eq(snprintf(path, sizeof(path), "%s/", dir), (int)strlen(dir) + 1);
	while (strlen(path) + 2 + strlen("kept") <= PATH_MAX - 1)
		strcat(path, "./");
	strcat(path, strlen(path) + strlen("kept") < PATH_MAX - 1 ? "/kept" : "kept");
	ck_assert_uint_eq(strlen(path), PATH_MAX - 1);
	ck_assert_int_eq(access(path, F_OK), 0);
	expect_refused(ENAMETOOLONG, path);
	ck_assert_int_eq(file_sync_dir(scratch_path("kept")), TV_ESYS);
	ck_assert_int_eq(errno, ENOTDIR);
	expect_old(dir);
	/* A folder is not replaced by a file. */
	ck_assert_int_eq(mkdir(scratch_path("folder"), 0700), 0);
	ck_assert_int_eq(replace("folder", "new"), TV_ESYS);
	ck_assert_int_eq(errno, EISDIR);
	ck_assert_uint_eq(names_in(dir), 2);
	scratch_close();
}
END_TEST

START_TEST(a_folder_that_may_not_be_written_is_left_alone)
{
	const char *dir = scratch_open();
	int status;
	pid_t child;

	scratch_write("kept", "old", 0644);
	ck_assert_int_eq(chmod(dir, 0555), 0);
	child = fork();
	if (child == 0) {
		if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
			_exit(2);
		expect_refused(EACCES, scratch_path("kept"));
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(chmod(dir, 0755), 0);
	expect_old(dir);
	scratch_close();
}
END_TEST

START_TEST(names_are_seen_from_the_folder)
{
	const char *dir = scratch_open();
	int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	ck_assert_int_ge(at, 0);
	ck_assert_int_eq(mkdir(scratch_path("sub"), 0755), 0);
	ck_assert_int_eq(file_replace(at, "a \n%s", span_str("1"), 0600), TV_OK);
	ck_assert_int_eq(file_replace(at, "sub/b", span_str("2"), 0600), TV_OK);
	ck_assert_int_eq(file_create(at, "sub/c", span_str("3"), 0644), TV_OK);
	ck_assert_str_eq(scratch_read("a \n%s"), "1");
	ck_assert_str_eq(scratch_read("sub/b"), "2");
	ck_assert_str_eq(scratch_read("sub/c"), "3");
	ck_assert_uint_eq(names_in(dir), 2);
	ck_assert_uint_eq(names_in(scratch_path("sub")), 2);
	ck_assert_int_eq(fchdir(at), 0);
	ck_assert_int_eq(file_replace(AT_FDCWD, "here", span_str("4"), 0600), TV_OK);
	ck_assert_str_eq(scratch_read("here"), "4");
	ck_assert_int_eq(chdir("/"), 0);
	close(at);
	scratch_close();
}
END_TEST

START_TEST(one_of_several_makes_it)
{
	const char *dir = scratch_open();
	int status, won = 0;
	char text[16];

	for (int i = 0; i < 8; i++) {
		if (fork() == 0) {
			snprintf(text, sizeof(text), "%d", i);
			_exit(file_create(AT_FDCWD, scratch_path("made"), span_str(text), 0644) == TV_OK ? i + 1 : 0);
		}
	}
	while (wait(&status) > 0) {
		if (status == 0)
			continue;
		ck_assert_int_eq(won, 0);
		won = WEXITSTATUS(status);
	}
	snprintf(text, sizeof(text), "%d", won - 1);
	ck_assert_str_eq(scratch_read("made"), text);
	ck_assert_int_eq(file_create(AT_FDCWD, scratch_path("made"), span_str("late"), 0600), TV_EEXIST);
	ck_assert_str_eq(scratch_read("made"), text);
	ck_assert_uint_eq(mode_of("made"), S_IFREG | 0644);
	ck_assert_int_eq(symlink("nowhere", scratch_path("link")), 0);
	ck_assert_int_eq(file_create(AT_FDCWD, scratch_path("link"), span_str("late"), 0600), TV_EEXIST);
	ck_assert_uint_eq(names_in(dir), 2);
	scratch_close();
}
END_TEST

START_TEST(a_new_file_can_be_continued)
{
	int fd;

	scratch_open();
	scratch_write("kept", "old", 0644);
	ck_assert_int_eq(file_replace_open(scratch_path("kept"), span_str("new"), &fd), TV_OK);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, 2), 0);
	ck_assert(write_all(fd, "xt", 2));
	close(fd);
	ck_assert_str_eq(scratch_read("kept"), "next");
	ck_assert_uint_eq(mode_of("kept"), S_IFREG | 0600);
	scratch_close();
}
END_TEST

START_TEST(names_change_and_go)
{
	const char *dir = scratch_open();

	scratch_write("kept", "old", 0600);
	scratch_write("other", "new", 0600);
	ck_assert_int_eq(file_rename(scratch_path("none"), scratch_path("kept")), TV_ESYS);
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_str_eq(scratch_read("kept"), "old");
	ck_assert_int_eq(file_rename(scratch_path("other"), scratch_path("kept")), TV_OK);
	ck_assert_str_eq(scratch_read("kept"), "new");
	ck_assert_int_eq(file_remove(scratch_path("kept")), TV_OK);
	ck_assert_int_eq(file_remove(scratch_path("kept")), TV_OK);
	ck_assert_int_eq(file_remove(scratch_path("no/such")), TV_ESYS);
	ck_assert_int_eq(mkdir(scratch_path("folder"), 0700), 0);
	ck_assert_int_eq(file_remove(scratch_path("folder")), TV_ESYS);
	ck_assert_int_eq(file_rename(scratch_path("folder"), scratch_path("moved")), TV_OK);
	ck_assert_uint_eq(names_in(dir), 1);
	scratch_close();
}
END_TEST

START_TEST(a_file_is_read_under_a_cap)
{
	struct buf b = BUF_INIT(100000);
	char *text = calloc(1, 100001 + 1);
	int ends[2];

	scratch_open();
	ck_assert_ptr_nonnull(text);
	ck_assert_int_eq(file_read(scratch_path("none"), &b), TV_ENOENT);
	for (size_t n = 99999; n <= 100001; n++) {
		memset(text, 'x', n);
		scratch_write("big", text, 0600);
		buf_reset(&b);
		ck_assert_int_eq(file_read(scratch_path("big"), &b), n <= 100000 ? TV_OK : TV_ELIMIT);
		ck_assert_uint_eq(b.len, n <= 100000 ? n : 100000);
		ck_assert_int_eq(b.failed, n > 100000);
		ck_assert_mem_eq(b.data, text, b.len);
	}
	scratch_write("empty", "", 0600);
	buf_reset(&b);
	ck_assert_int_eq(file_read(scratch_path("empty"), &b), TV_OK);
	ck_assert_uint_eq(b.len, 0);
	ck_assert_int_eq(symlink("empty", scratch_path("link")), 0);
	ck_assert_int_eq(file_read(scratch_path("link"), &b), TV_ESYS);
	ck_assert_int_eq(errno, ELOOP);
	ck_assert_int_eq(file_read(scratch_path("."), &b), TV_ESYS);
	ck_assert_int_eq(errno, EISDIR);
	/* Without a wait for the other end. */
	ck_assert_int_eq(mkfifo(scratch_path("fifo"), 0600), 0);
	ck_assert_int_eq(file_read(scratch_path("fifo"), &b), TV_ESYS);
	ck_assert_int_eq(errno, EINVAL);
	/* Behind what is there, and in pieces. */
	buf_puts(&b, "a");
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);	/* a read ends with its message */
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(write(ends[1], "bc", 2), 2);
	close(ends[1]);
	ck_assert_int_eq(file_read_fd(ends[0], &b), TV_OK);
	ck_assert_str_eq(buf_cstr(&b), "abcbcbc");
	close(ends[0]);
	buf_done(&b);
	free(text);
	scratch_close();
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("file");
	TCase *t = tcase_create("file");
	SRunner *sr;
	int failed;

	tcase_add_test(t, a_file_is_replaced);
	tcase_add_test(t, what_a_crash_left_does_no_harm);
	tcase_add_test(t, a_full_disk_leaves_the_old_file);
	tcase_add_test(t, odd_places_are_errors);
	tcase_add_test(t, a_folder_that_may_not_be_written_is_left_alone);
	tcase_add_test(t, names_are_seen_from_the_folder);
	tcase_add_test(t, one_of_several_makes_it);
	tcase_add_test(t, a_new_file_can_be_continued);
	tcase_add_test(t, names_change_and_go);
	tcase_add_test(t, a_file_is_read_under_a_cap);
	suite_add_tcase(s, t);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? 0 : 1;
}
