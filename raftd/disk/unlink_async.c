/* A file's name goes at once, its blocks in a thread. */
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include "common/proc/thread.h"
#include "raftd/disk/unlink_async.h"

static void *
thread_main(void *arg)
{
	(void)close((int)(intptr_t)arg);	/* its last use: an error changes nothing */
	return NULL;
}

void
unlink_async(int fd, const char *path)
{
	if (fd < 0)
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	(void)unlink(path);
	if (fd >= 0 && thread_start_detached("unlink", 0, thread_main, (void *)(intptr_t)fd) != 0)
		(void)close(fd);
}
