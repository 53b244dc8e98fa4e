/* The pause after a name was lost; see conflict_pause.h. */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "gossipd/conflict_pause.h"

#define FORGOTTEN_NS (INT64_C(900) * 1000000000)
#define COUNT_MAX 1000
#define TEXT_BYTES 64

/* "COUNT NANOSECONDS" of the last loss. */
static unsigned
read_count(int dir, int64_t wall_ns)
{
	char text[TEXT_BYTES] = "", *end;
	unsigned long count;
	long long at;
	int fd = openat(dir, CONFLICT_PAUSE_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return 0;
	count = strtoul(text, &end, 10);
	at = strtoll(end, NULL, 10);
	/* A clock that went back counts as a new beginning, too. */
	return count <= COUNT_MAX && at <= wall_ns && wall_ns - at < FORGOTTEN_NS ? (unsigned)count : 0;
}

static void
write_count(int dir, unsigned count, int64_t wall_ns)
{
	char text[TEXT_BYTES];
	int fd = openat(dir, CONFLICT_PAUSE_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
	    0600);

	if (fd < 0)
		return;
	snprintf(text, sizeof(text), "%u %lld\n", count, (long long)wall_ns);
	(void)write_all(fd, text, strlen(text));	/* then the next pause is shorter, no more */
	close(fd);
}

struct mono
conflict_pause(const char *dir, int64_t wall_ns, unsigned *count)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct mono pause = { 0 };

	*count = 1;
	if (fd < 0)
		return pause;
	*count += read_count(fd, wall_ns);
	write_count(fd, *count <= COUNT_MAX ? *count : COUNT_MAX, wall_ns);
	close(fd);
	if (*count > 1)
		pause = *count - 1 < 9 ? MONO_S(1 << (*count - 1)) : CONFLICT_PAUSE_MAX;
	return mono_min(pause, CONFLICT_PAUSE_MAX);
}
