/* Berkeley DB's checksum, eight bytes at a time. */
#include <endian.h>
#include <string.h>

#include "raftd/store/bdb/store_sum.h"

#define P2 UINT32_C(1089)		/* 33 to the power of 2 */
#define P4 UINT32_C(1185921)
#define P8 UINT32_C(1954312449)		/* modulo 2^32 */

uint32_t
store_sum(const void *bytes, size_t n)
{
	const uint8_t *p = bytes;
	uint32_t h = 0;

	for (; n >= 8; n -= 8, p += 8) {
		uint64_t x;

		/* Neighbours are joined within the word: 8 bytes, then 4 sums of 16 bits, then 2 of 32.  None overflows. */
		memcpy(&x, p, 8);
		x = le64toh(x);
		x = (x & 0x00ff00ff00ff00ff) * 33 + (x >> 8 & 0x00ff00ff00ff00ff);
		x = (x & 0x0000ffff0000ffff) * P2 + (x >> 16 & 0x0000ffff0000ffff);
		h = h * P8 + (uint32_t)x * P4 + (uint32_t)(x >> 32);
	}
	while (n-- > 0)
		h = h * 33 + *p++;
	return h;
}
