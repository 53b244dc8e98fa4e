/* A .tar.gz that grows, see tarball.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "ctl/tarball.h"
#include "raftd/fsm/copy/archive.h"

#define NAME_BYTES_MAX 100
#define ZLIB_BYTES_MAX (1u << 30)	/* in one call, which takes an unsigned int */

struct tarball {
	gzFile gz;
	int fd;			/* a second descriptor, for what zlib does not tell */
	int failed;		/* errno; 0: good */
	char path[PATH_MAX], folder[NAME_BYTES_MAX / 2];
};

struct tarball *
tarball_new(const char *path, const char *folder)
{
	struct tarball *t = calloc(1, sizeof(*t));
	int fd = -1;

	if (t == NULL || strlen(path) >= sizeof(t->path)) {
		errno = t == NULL ? ENOMEM : ENAMETOOLONG;
		free(t);
		return NULL;
	}
	snprintf(t->path, sizeof(t->path), "%s", path);
	snprintf(t->folder, sizeof(t->folder), "%s", folder);
	t->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (t->fd >= 0 && (fd = dup(t->fd)) >= 0 && (t->gz = gzdopen(fd, "wb")) != NULL)
		return t;
	int why = errno != 0 ? errno : ENOMEM;
	if (fd >= 0)
		close(fd);
	if (t->fd >= 0) {
		close(t->fd);
		(void)unlink(path);
	}
	free(t);
	errno = why;
	return NULL;
}

static void
put_bytes(struct tarball *t, const uint8_t *p, size_t n)
{
	while (n > 0 && t->failed == 0) {
		unsigned part = n < ZLIB_BYTES_MAX ? (unsigned)n : ZLIB_BYTES_MAX;

		errno = 0;
		if (gzwrite(t->gz, p, part) != (int)part)
			t->failed = errno != 0 ? errno : EIO;
		p += part;
		n -= part;
	}
}

bool
tarball_add(struct tarball *t, const char *name, struct span bytes)
{
	static const uint8_t zeros[ARCHIVE_TAR_BLOCK];
	uint8_t head[ARCHIVE_TAR_BLOCK];
	char full[NAME_BYTES_MAX];
	size_t rest = bytes.len % ARCHIVE_TAR_BLOCK;

	snprintf(full, sizeof(full), "%s/%s", t->folder, name);
	archive_head(head, full, bytes.len);
	put_bytes(t, head, sizeof(head));
	put_bytes(t, bytes.p, bytes.len);
	put_bytes(t, zeros, rest > 0 ? ARCHIVE_TAR_BLOCK - rest : 0);
	errno = t->failed;
	return t->failed == 0;
}

bool
tarball_end(struct tarball *t, uint64_t *bytes)
{
	static const uint8_t end[2 * ARCHIVE_TAR_BLOCK];
	struct stat st;
	int why;

	put_bytes(t, end, sizeof(end));
	errno = 0;
	if (gzclose(t->gz) != Z_OK && t->failed == 0)
		t->failed = errno != 0 ? errno : EIO;
	if (t->failed == 0 && (fsync(t->fd) < 0 || fstat(t->fd, &st) < 0))
		t->failed = errno;
	why = t->failed;
	if (why == 0)
		*bytes = (uint64_t)st.st_size;
	else
		(void)unlink(t->path);
	close(t->fd);
	free(t);
	errno = why;
	return why == 0;
}
