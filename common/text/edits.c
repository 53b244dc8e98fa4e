/* Optimal string alignment, over the last three rows. */
#include <stddef.h>
#include <string.h>

#include "common/text/edits.h"

unsigned
edits_between(const char *a, const char *b)
{
	unsigned rows[3][EDITS_NAME_MAX + 1], *above = rows[0], *before = rows[1], *row = rows[2];
	size_t n = strlen(b);

	if (n > EDITS_NAME_MAX)
		return EDITS_NAME_MAX;
	for (size_t j = 0; j <= n; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; a[i - 1] != '\0'; i++) {
		unsigned *oldest = above;

		above = before;
		before = row;
		row = oldest;
		row[0] = (unsigned)i;
		for (size_t j = 1; j <= n; j++) {
			unsigned best = before[j - 1] + (a[i - 1] != b[j - 1]);

			if (before[j] + 1 < best)
				best = before[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && above[j - 2] + 1 < best)
				best = above[j - 2] + 1;
			row[j] = best;
		}
	}
	return row[n];
}

unsigned
edits_limit(const char *name)
{
	size_t len = strlen(name);
	unsigned limit = len <= 4 ? 1 : (unsigned)len / 3;

	return limit < 4 ? limit : 4;
}
