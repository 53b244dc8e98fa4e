/* The pause after a name was lost; see conflict_pause.h. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/file.h"
#include "gossipd/conflict_pause.h"

#define FORGOTTEN_NS (INT64_C(900) * 1000000000)
#define COUNT_MAX 1000
#define TEXT_BYTES 64

/* "COUNT NANOSECONDS" of the last loss. */
static unsigned
read_count(const char *path, int64_t wall_ns)
{
	struct buf text = BUF_INIT(TEXT_BYTES);
	unsigned long count = 0;
	long long at = 0;
	char *end;

	if (file_read(path, &text) == TV_OK && text.len > 0) {
		count = strtoul(buf_cstr(&text), &end, 10);
		at = strtoll(end, NULL, 10);
	}
	buf_done(&text);
	/* A clock that went back counts as a new beginning, too. */
	return count <= COUNT_MAX && at <= wall_ns && wall_ns - at < FORGOTTEN_NS ? (unsigned)count : 0;
}

struct mono
conflict_pause(const char *dir, int64_t wall_ns, unsigned *count)
{
	struct mono pause = { 0 };
	char path[4096 + 32], text[TEXT_BYTES];
	int n;

	snprintf(path, sizeof(path), "%s/" CONFLICT_PAUSE_NAME, dir);
	*count = 1 + read_count(path, wall_ns);
	n = snprintf(text, sizeof(text), "%u %lld\n", *count <= COUNT_MAX ? *count : COUNT_MAX, (long long)wall_ns);
	/* Without it the next pause is shorter, no more. */
	(void)file_replace(AT_FDCWD, path, span_of(text, (size_t)n), 0600);
	if (*count > 1)
		pause = *count - 1 < 9 ? MONO_S(1 << (*count - 1)) : CONFLICT_PAUSE_MAX;
	return mono_min(pause, CONFLICT_PAUSE_MAX);
}
