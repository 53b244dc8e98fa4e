/* Files behind the walls that are other ones by now, see sandbox_stale() in sandbox.h. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/proc/sandbox_parts.h"

#define PATH_BYTES 128

/* What Landlock's rule holds.  Open, so that no other file gets its number; -1: there was none. */
static struct mark {
	char path[PATH_BYTES];
	int fd;
} marks[SANDBOX_PATHS_MAX];
static unsigned mark_count;

void
sandbox_mark(const struct sandbox_policy *p)
{
	for (; mark_count > 0; mark_count--)
		if (marks[mark_count - 1].fd >= 0)
			close(marks[mark_count - 1].fd);
	for (unsigned i = 0; i < p->path_count && p->notice_replaced; i++) {
		struct mark *m = &marks[mark_count];

		if (p->paths[i].access != SANDBOX_READ ||
		    snprintf(m->path, sizeof(m->path), "%s", p->paths[i].path) >= (int)sizeof(m->path))
			continue;
		m->fd = open(m->path, O_PATH | O_CLOEXEC);
		mark_count++;
	}
}

static bool
same_file(const struct mark *m)
{
	struct stat was, is;

	if (stat(m->path, &is) != 0)
		return true;		/* gone: nothing is there to be read */
	return m->fd >= 0 && fstat(m->fd, &was) == 0 && was.st_ino == is.st_ino && was.st_dev == is.st_dev;
}

static bool
refused(const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd < 0 && errno == EACCES;
}

const char *
sandbox_stale(void)
{
	for (unsigned i = 0; i < mark_count; i++)
		if (!same_file(&marks[i]) && refused(marks[i].path))
			return marks[i].path;
	return NULL;
}
