/* The keyed hash of map.h, apart from it: who has another one needs no libsodium. */
#include <sodium.h>

#include "common/base/map.h"

_Static_assert(MAP_KEY_BYTES == crypto_shorthash_KEYBYTES, "hash key");
_Static_assert(crypto_shorthash_BYTES == sizeof(uint64_t), "a hash is a number");

uint64_t
map_hash(const uint8_t key[MAP_KEY_BYTES], struct span bytes)
{
	uint64_t hash;

	(void)crypto_shorthash((uint8_t *)&hash, bytes.p, bytes.len, key);	/* cannot fail */
	return hash;
}
