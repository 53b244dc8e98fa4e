/* Small files, see keep.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rpcd/acl/keep.h"

enum tv_err
keep_read(const char *path, struct buf *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	enum tv_err err = TV_OK;
	ssize_t n = 1;

	if (fd < 0)
		return errno == ENOENT ? TV_ENOENT : TV_ESYS;
	while (n > 0) {
		uint8_t *to = buf_room(out, 4096);

		n = to == NULL ? 0 : read(fd, to, 4096);
		if (n > 0)
			out->len += (size_t)n;
		else if (to == NULL)
			err = TV_ELIMIT;
		else if (n < 0)
			err = TV_ESYS;
	}
	close(fd);
	return err;
}

static void
sync_folder(const char *path)
{
	char dir[PATH_MAX];
	const char *slash = strrchr(path, '/');

	if (slash == NULL || !span_copy(span_of(path, (size_t)(slash - path)), dir, sizeof(dir)))
		return;
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)fsync(fd);	/* the file itself is safe; at worst the old one comes back */
	close(fd);
}

enum tv_err
keep_write(const char *path, struct span text)
{
	char temp[PATH_MAX];
	int n = snprintf(temp, sizeof(temp), "%s.new", path), fd;
	bool good;

	if (n < 0 || (size_t)n >= sizeof(temp))
		return TV_ELIMIT;
	(void)unlink(temp);		/* what a crash left may have another mode */
	fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return TV_ESYS;
	good = write(fd, text.p, text.len) == (ssize_t)text.len && fsync(fd) == 0;
	if (close(fd) != 0 || !good || rename(temp, path) != 0)
		return TV_ESYS;
	sync_folder(path);
	return TV_OK;
}

enum tv_err
keep_remove(const char *path)
{
	if (unlink(path) != 0 && errno != ENOENT)
		return TV_ESYS;
	sync_folder(path);
	return TV_OK;
}
