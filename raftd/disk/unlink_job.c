/* Files that go, by the loop. */
#include <stdio.h>
#include <stdlib.h>

#include "common/proc/jobs.h"
#include "raftd/disk/unlink_async.h"

struct unlinking {
	int fd;
	char path[512];
};

static void
unlink_work(void *ctx)
{
	struct unlinking *u = ctx;

	unlink_async(u->fd, u->path);
}

void
unlink_job(struct jobs *files, int fd, const char *path)
{
	struct unlinking *u = malloc(sizeof(*u));

	if (u != NULL)
		*u = (struct unlinking){ .fd = fd };
	if (u == NULL || snprintf(u->path, sizeof(u->path), "%s", path) >= (int)sizeof(u->path) ||
	    jobs_add(files, unlink_work, free, u) != TV_OK) {
		unlink_async(fd, path);
		free(u);
	}
}
