/* A folder of its own for each test. */
#include "config.h"

#include <check.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/scratch.h"

static char dir[256];

const char *
scratch_open(void)
{
	const char *base = getenv("TMPDIR");

	snprintf(dir, sizeof(dir), "%s/triumvir-check.XXXXXX", base != NULL && base[0] == '/' ? base : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(chmod(dir, 0755), 0);
	return dir;
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void
scratch_close(void)
{
	ck_assert_int_eq(nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

const char *
scratch_path(const char *name)
{
	static char paths[8][512];
	static unsigned at;

	at = (at + 1) % 8;
	ck_assert_int_lt(snprintf(paths[at], sizeof(paths[at]), "%s/%s", dir, name), (int)sizeof(paths[at]));
	return paths[at];
}

const char *
scratch_write(const char *name, const char *text, mode_t mode)
{
	const char *path = scratch_path(name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	ck_assert_int_eq(fchmod(fd, mode), 0);
	close(fd);
	return path;
}

const char *
scratch_read(const char *name)
{
	static char text[16384];
	int fd = open(scratch_path(name), O_RDONLY | O_CLOEXEC);
	ssize_t n;

	ck_assert_int_ge(fd, 0);
	n = read(fd, text, sizeof(text) - 1);
	ck_assert_int_ge(n, 0);
	text[n] = '\0';
	close(fd);
	return text;
}
