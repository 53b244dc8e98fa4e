/* Sources of connections, see source.h. */
#include <sodium.h>
#include <stdbool.h>

#include "common/net/source.h"

/* In the high half of an IPv4 source: ff00::/8 is multicast, so it is never the source of a connection. */
#define IPV4_MARK 0xff00000000000000u

static uint64_t
be(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < n; i++)
		v = v << 8 | p[i];
	return v;
}

uint64_t
source_of_ip(const struct addr *a)
{
	struct addr four = addr_unmapped(*a);

	return four.len == 4 ? IPV4_MARK | be(four.ip, 4) : four.len == 16 ? be(four.ip, 8) + 1 : 0;
}

uint64_t
source_of(const struct sockaddr *from)
{
	struct addr a = addr_of_sock(from);

	return source_of_ip(&a);
}

uint64_t
source_of_text(const char *ip)
{
	struct addr a;

	return addr_parse(ip, 0, &a) ? source_of_ip(&a) : 0;
}

uint64_t
keyed_hash(const void *bytes, size_t n)
{
	static uint8_t key[crypto_shorthash_KEYBYTES];
	static bool drawn;
	uint64_t h;

	if (!drawn) {
		randombytes_buf(key, sizeof(key));
		drawn = true;
	}
	crypto_shorthash((uint8_t *)&h, bytes, n, key);
	return h;
}
