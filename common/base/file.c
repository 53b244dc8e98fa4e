/* Whole files; see file.h. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"

#define STEP_BYTES 16384u
#define TEMP_BYTES 16		/* of what makes a name another one */

bool
write_all(int fd, const void *bytes, size_t len)
{
	const char *p = bytes;

	while (len > 0) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

/* Nothing where it is -1. */
static void
close_quietly(int fd)
{
	int saved = errno;

	if (fd >= 0)
		(void)close(fd);
	errno = saved;
}

/* -- reading -- */

enum tv_err
file_read_fd(int fd, struct buf *out)
{
	for (;;) {
		size_t left = out->max - out->len;
		uint8_t beyond, *to = &beyond;		/* at the cap, one byte more is too much */
		ssize_t n;

		if (left > 0 && (to = buf_room(out, left < STEP_BYTES ? left : STEP_BYTES)) == NULL)
			return TV_ENOMEM;
		n = read(fd, to, left == 0 ? 1 : left < STEP_BYTES ? left : STEP_BYTES);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0 ? TV_OK : TV_ESYS;
		if (left == 0) {
			out->failed = true;
			return TV_ELIMIT;
		}
		out->len += (size_t)n;
	}
}

enum tv_err
file_read(const char *path, struct buf *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	enum tv_err err = TV_ESYS;
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? TV_ENOENT : TV_ESYS;
	if (fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
		err = file_read_fd(fd, out);		/* which refuses a folder */
	else
		errno = EINVAL;
	close_quietly(fd);
	return err;
}

/* -- folders -- */

/* Some file systems sync no folders, since their names need none, or cannot be saved so. */
static bool
sync_folder(int fd)
{
	return fd >= 0 && (fsync(fd) == 0 || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP);
}

/* Syncs a folder that was opened, if it was, and closes it. */
static enum tv_err
sync_and_close(int fd)
{
	bool synced = sync_folder(fd);

	close_quietly(fd);
	return synced ? TV_OK : TV_ESYS;
}

static int
open_dir(int dir, const char *path)
{
	return openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The folder that holds path, and the name in it; there is room for more behind path. */
static int
open_parent(int dir, const char *path, const char **name)
{
	const char *slash = strrchr(path, '/');
	char parent[PATH_MAX];

	*name = slash != NULL ? slash + 1 : path;
	if (strlen(path) + TEMP_BYTES > sizeof(parent)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	snprintf(parent, sizeof(parent), "%.*s", (int)(*name - path), path);
	return open_dir(dir, slash == NULL ? "." : parent);
}

enum tv_err
file_sync_dir(const char *dir)
{
	return sync_and_close(open_dir(AT_FDCWD, dir));
}

enum tv_err
file_sync_parent(const char *path)
{
	const char *name;

	return sync_and_close(open_parent(AT_FDCWD, path, &name));
}

/* -- names -- */

enum tv_err
file_rename(const char *from, const char *to)
{
	const char *name;
	int parent = open_parent(AT_FDCWD, to, &name);

	if (parent >= 0 && rename(from, to) == 0)
		return sync_and_close(parent);
	close_quietly(parent);
	return TV_ESYS;
}

enum tv_err
file_remove(const char *path)
{
	return unlink(path) == 0 || errno == ENOENT ? file_sync_parent(path) : TV_ESYS;
}

static void
unlink_quietly(int at, const char *name)
{
	int saved = errno;

	(void)unlinkat(at, name, 0);
	errno = saved;
}

/* A whole file under another name, open to append; -1: there is none. */
static int
write_beside(int dir, const char *temp, struct span bytes, mode_t mode)
{
	int fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0 || (write_all(fd, bytes.p, bytes.len) && fchmod(fd, mode) == 0 && fsync(fd) == 0))
		return fd;
	unlink_quietly(dir, temp);
	close_quietly(fd);
	return -1;
}

/* *fd: as file_replace_open(). */
static enum tv_err
replace_open(int dir, const char *path, struct span bytes, mode_t mode, int *fd)
{
	char temp[PATH_MAX];
	const char *name;
	int parent = open_parent(dir, path, &name);

	*fd = -1;
	if (parent < 0)
		return TV_ESYS;
	snprintf(temp, sizeof(temp), "%s.new", path);
	unlink_quietly(dir, temp);		/* it may have another mode, or be a link */
	*fd = write_beside(dir, temp, bytes, mode);
	if (*fd >= 0 && renameat(dir, temp, dir, path) == 0)
		return sync_and_close(parent);
	if (*fd >= 0)
		unlink_quietly(dir, temp);
	close_quietly(*fd);
	close_quietly(parent);
	*fd = -1;
	return TV_ESYS;
}

enum tv_err
file_replace(int dir, const char *path, struct span bytes, mode_t mode)
{
	int fd;
	enum tv_err err = replace_open(dir, path, bytes, mode, &fd);

	close_quietly(fd);
	return err;
}

enum tv_err
file_replace_open(const char *path, struct span bytes, int *fd)
{
	return replace_open(AT_FDCWD, path, bytes, 0600, fd);
}

enum tv_err
file_create(int dir, const char *path, struct span bytes, mode_t mode)
{
	char temp[PATH_MAX];
	const char *name;
	int parent = open_parent(dir, path, &name), fd = -1;
	bool made, there;
	unsigned number;

	if (parent >= 0 && getrandom(&number, sizeof(number), 0) == sizeof(number)) {
		snprintf(temp, sizeof(temp), "%.*s.%s.%08x", (int)(name - path), path, name, number);
		fd = write_beside(dir, temp, bytes, mode);
	}
	made = fd >= 0 && linkat(dir, temp, dir, path, 0) == 0;
	there = fd >= 0 && !made && errno == EEXIST;
	if (fd >= 0)
		unlink_quietly(dir, temp);
	close_quietly(fd);
	if ((made || there) && sync_folder(parent)) {
		close_quietly(parent);
		return made ? TV_OK : TV_EEXIST;
	}
	if (made)
		unlink_quietly(dir, path);
	close_quietly(parent);
	return TV_ESYS;
}
