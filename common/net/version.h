/* Ranges of protocol versions: what two peers of different releases speak with each other. */
#ifndef TV_COMMON_NET_VERSION_H
#define TV_COMMON_NET_VERSION_H

#include <stdint.h>
#include <stdio.h>

/* Both included.  A peer that names one version only speaks that one. */
struct version_range {
	uint8_t lowest, highest;
};

/* The version that two peers use with each other: the highest of both ranges; 0: they have none in common. */
static inline uint8_t
version_common(struct version_range a, struct version_range b)
{
	uint8_t lowest = a.lowest > b.lowest ? a.lowest : b.lowest;
	uint8_t highest = a.highest < b.highest ? a.highest : b.highest;

	return lowest <= highest ? highest : 0;
}

/* "1", or "2 to 3"; returns dst. */
static inline const char *
version_text(struct version_range v, char dst[16])
{
	snprintf(dst, 16, v.lowest == v.highest ? "%u" : "%u to %u", v.lowest, v.highest);
	return dst;
}

#endif
