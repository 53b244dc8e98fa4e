/* Space held in reserve. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "raftd/disk/reserve.h"

void
reserve_open(struct reserve *b, const char *dir)
{
	char path[600];
	struct stat st;

	*b = (struct reserve){ .fd = -1 };
	if (snprintf(path, sizeof(path), "%s/ballast", dir) >= (int)sizeof(path))
		return;
	b->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (b->fd < 0 || fstat(b->fd, &st) != 0 || (uint64_t)st.st_blocks * 512 < (uint64_t)st.st_size)
		return;			/* a file with holes holds nothing */
	b->bytes = (uint64_t)st.st_size;
}

void
reserve_close(struct reserve *b)
{
	if (b->fd >= 0)
		(void)close(b->fd);
	b->fd = -1;
}

void
reserve_take(struct reserve *b, uint64_t bytes)
{
	if (b->fd < 0 || b->bytes >= bytes)
		return;
	/* Not posix_fallocate: where it had to write, it would cost more than it is worth. */
	if (fallocate(b->fd, 0, 0, (off_t)bytes) == 0)
		b->bytes = bytes;
	else
		(void)!ftruncate(b->fd, (off_t)b->bytes);
}

uint64_t
reserve_give(struct reserve *b, uint64_t bytes)
{
	uint64_t given = bytes < b->bytes ? bytes : b->bytes;

	if (b->fd < 0 || given == 0 || ftruncate(b->fd, (off_t)(b->bytes - given)) != 0)
		return 0;
	b->bytes -= given;
	return given;
}
