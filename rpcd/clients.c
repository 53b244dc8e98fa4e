/* Connections per client address: a hash table that holds only addresses with open connections. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "common/source.h"
#include "rpcd/clients.h"

#define BUCKETS 1024			/* a power of two */

struct client {
	struct client *next;
	unsigned bucket, count;
	uint8_t address[16];		/* IPv4 as v4-mapped */
	char ip[INET6_ADDRSTRLEN];
};

struct clients {
	struct client *buckets[BUCKETS];
	unsigned used;
};

struct clients *
clients_new(void)
{
	return calloc(1, sizeof(struct clients));
}

void
clients_free(struct clients *c)
{
	TV_ASSERT(c == NULL || c->used == 0);
	free(c);
}

static bool
address_of(const struct sockaddr *from, uint8_t out[16])
{
	static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

	if (from->sa_family == AF_INET) {
		memcpy(out, mapped, sizeof(mapped));
		memcpy(out + 12, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
		return true;
	}
	if (from->sa_family != AF_INET6)
		return false;
	memcpy(out, &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr, 16);
	return true;
}

static unsigned
bucket_of(const uint8_t address[16])
{
	return (unsigned)keyed_hash(address, 16) & (BUCKETS - 1);
}

static void
print_ip(const struct sockaddr *from, char ip[INET6_ADDRSTRLEN])
{
	const void *address = from->sa_family == AF_INET ?
	    (const void *)&((const struct sockaddr_in *)(const void *)from)->sin_addr :
	    (const void *)&((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;

	(void)inet_ntop(from->sa_family, address, ip, INET6_ADDRSTRLEN);
}

struct client *
clients_take(struct clients *c, const struct sockaddr *from)
{
	uint8_t address[16];

	if (!address_of(from, address))
		return NULL;
	unsigned b = bucket_of(address);
	struct client *k = c->buckets[b];
	while (k != NULL && memcmp(k->address, address, sizeof(address)) != 0)
		k = k->next;
	if (k == NULL) {
		k = calloc(1, sizeof(*k));
		if (k == NULL)
			return NULL;
		memcpy(k->address, address, sizeof(address));
		k->bucket = b;
		print_ip(from, k->ip);
		k->next = c->buckets[b];
		c->buckets[b] = k;
		c->used++;
	}
	k->count++;
	return k;
}

unsigned
client_count(const struct client *k)
{
	return k->count;
}

const char *
client_ip(const struct client *k)
{
	return k->ip;
}

void
clients_release(struct clients *c, struct client *k)
{
	if (--k->count > 0)
		return;
	struct client **at = &c->buckets[k->bucket];
	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	c->used--;
	free(k);
}
