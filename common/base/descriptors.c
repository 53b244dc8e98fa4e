/* Descriptors of this process, see descriptors.h. */
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/descriptors.h"

static uint64_t scarce_from = UINT64_MAX;	/* set once, before there are connections */

uint64_t
descriptors_raise(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) != 0)
		return UINT64_MAX;
	if (r.rlim_cur < r.rlim_max) {
		rlim_t was = r.rlim_cur;

		r.rlim_cur = r.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &r) != 0)
			r.rlim_cur = was;	/* the old limit serves too, for fewer connections */
	}
	if (r.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	scarce_from = r.rlim_cur - (r.rlim_cur / 4 < DESCRIPTORS_RESERVED ? r.rlim_cur / 4 : DESCRIPTORS_RESERVED);
	return r.rlim_cur;
}

bool
descriptors_scarce(int fd)
{
	return fd >= 0 && (uint64_t)fd >= scarce_from;
}

int
descriptors_lower(int fd)
{
	int lower = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	close(fd);
	if (!descriptors_scarce(lower))
		return lower;
	close(lower);
	return -1;
}
