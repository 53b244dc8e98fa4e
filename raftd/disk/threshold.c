/* Amounts of space. */
#include <stdio.h>

#include "raftd/disk/threshold.h"

bool
threshold_short(uint64_t available, uint64_t reserve, uint64_t want, bool was_short)
{
	return available < reserve + want + (was_short ? reserve / 8 : 0);
}

const char *
threshold_bytes(uint64_t bytes, char dst[24])
{
	static const char units[] = "kMGTPE";
	double v = (double)bytes / 1024;
	unsigned at = 0;

	while (v >= 1024 && at + 1 < sizeof(units) - 1) {
		v /= 1024;
		at++;
	}
	snprintf(dst, 24, "%.1f %cB", v, units[at]);
	return dst;
}
