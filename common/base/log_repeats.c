/* Repeated log lines, see log_repeats.h. */
#include <limits.h>
#include <stddef.h>

#include "common/base/log_repeats.h"

static struct log_repeat *
find_line(struct log_repeats *r, uint64_t key)
{
	for (unsigned i = 0; i < LOG_REPEATS_MAX; i++)
		if (r->lines[i].used && r->lines[i].key == key)
			return &r->lines[i];
	return NULL;
}

/* A free place, or that of the line that was logged longest ago. */
static struct log_repeat *
make_place(struct log_repeats *r)
{
	struct log_repeat *oldest = &r->lines[0];

	for (unsigned i = 0; i < LOG_REPEATS_MAX; i++) {
		if (!r->lines[i].used)
			return &r->lines[i];
		if (mono_before(r->lines[i].logged, oldest->logged))
			oldest = &r->lines[i];
	}
	return oldest;
}

bool
log_repeats_due(struct log_repeats *r, uint64_t key, struct mono now)
{
	struct log_repeat *line = find_line(r, key);

	if (line == NULL || !mono_before(mono_sub(now, line->logged), r->period))
		return true;
	if (line->suppressed < UINT_MAX)
		line->suppressed++;
	return false;
}

unsigned
log_repeats_logged(struct log_repeats *r, uint64_t key, struct mono now)
{
	struct log_repeat *line = find_line(r, key);
	unsigned suppressed = line == NULL ? 0 : line->suppressed;

	if (line == NULL)
		line = make_place(r);
	*line = (struct log_repeat){ .key = key, .used = true, .logged = now };
	return suppressed;
}
