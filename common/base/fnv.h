/*
 * FNV-1a of 64 bits: a quick hash for keys that come from our own configuration or state, and a stable number for a
 * text.  Its collisions can be chosen: where peers or clients choose the keys of a table, see map_hash() and
 * keyed_hash().  Source: draft-eastlake-fnv.
 */
#ifndef TV_COMMON_BASE_FNV_H
#define TV_COMMON_BASE_FNV_H

#include "common/base/rd.h"

#define FNV1A_START UINT64_C(0xcbf29ce484222325)
#define FNV1A_PRIME UINT64_C(0x100000001b3)

/* Goes on from `hash`, FNV1A_START at first: the hash of texts that follow each other is that of the whole. */
static inline uint64_t
fnv1a(uint64_t hash, struct span s)
{
	for (size_t i = 0; i < s.len; i++)
		hash = (hash ^ s.p[i]) * FNV1A_PRIME;
	return hash;
}

/* The same for all spellings that differ by the case of ASCII letters: that of the one in lower case. */
static inline uint64_t
fnv1a_nocase(uint64_t hash, struct span s)
{
	for (size_t i = 0; i < s.len; i++)
		hash = (hash ^ (s.p[i] >= 'A' && s.p[i] <= 'Z' ? s.p[i] | 0x20u : s.p[i])) * FNV1A_PRIME;
	return hash;
}

#endif
