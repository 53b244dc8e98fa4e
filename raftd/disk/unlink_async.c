/* A file's name goes at once, its blocks in a thread. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "raftd/disk/unlink_async.h"

static void *
thread_main(void *arg)
{
	(void)close((int)(intptr_t)arg);	/* nobody wants it any more */
	return NULL;
}

static bool
close_in_thread(int fd)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t thread;
	int ret;

	if (pthread_attr_init(&attr) != 0)
		return false;
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);			/* signals are the loop's */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(&thread, &attr, thread_main, (void *)(intptr_t)fd);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)pthread_attr_destroy(&attr);
	return ret == 0;
}

void
unlink_async(int fd, const char *path)
{
	if (fd < 0)
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	(void)unlink(path);
	if (fd >= 0 && !close_in_thread(fd))
		(void)close(fd);
}
