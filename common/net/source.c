/* Sources of connections, see source.h. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stdbool.h>
#include <string.h>

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

static uint64_t
source_of_ip6(const struct in6_addr *a)
{
	return IN6_IS_ADDR_V4MAPPED(a) ? IPV4_MARK | be(a->s6_addr + 12, 4) : be(a->s6_addr, 8) + 1;
}

uint64_t
source_of(const struct sockaddr *from)
{
	if (from->sa_family == AF_INET)
		return IPV4_MARK | ntohl(((const struct sockaddr_in *)(const void *)from)->sin_addr.s_addr);
	if (from->sa_family == AF_INET6)
		return source_of_ip6(&((const struct sockaddr_in6 *)(const void *)from)->sin6_addr);
	return 0;
}

uint64_t
source_of_bytes(const uint8_t *ip, size_t len)
{
	struct in6_addr six;

	if (len == 4)
		return IPV4_MARK | be(ip, 4);
	if (len != sizeof(six))
		return 0;
	memcpy(&six, ip, sizeof(six));
	return source_of_ip6(&six);
}

uint64_t
source_of_fd(int fd)
{
	struct sockaddr_storage from = { 0 };
	socklen_t len = sizeof(from);

	return getpeername(fd, (struct sockaddr *)&from, &len) == 0 ? source_of((struct sockaddr *)&from) : 0;
}

uint64_t
source_of_text(const char *ip)
{
	struct in_addr four;
	struct in6_addr six;

	if (inet_pton(AF_INET, ip, &four) == 1)
		return IPV4_MARK | ntohl(four.s_addr);
	return inet_pton(AF_INET6, ip, &six) == 1 ? source_of_ip6(&six) : 0;
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
