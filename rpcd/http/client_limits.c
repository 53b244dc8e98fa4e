/* Connections per client: a hash table that holds only those with open connections. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/addr.h"
#include "common/base/assert.h"
#include "common/net/source.h"
#include "rpcd/http/client_limits.h"

#define BUCKETS 1024			/* a power of two */

struct client {
	struct client *next;
	unsigned bucket, count;
	uint64_t bytes;
	uint8_t address[16];		/* IPv4 as v4-mapped; the last half of an IPv6 address is zero */
};

struct client_limits {
	struct client *buckets[BUCKETS];
	unsigned used;
};

struct client_limits *
client_limits_new(void)
{
	return calloc(1, sizeof(struct client_limits));
}

void
client_limits_free(struct client_limits *c)
{
	TV_ASSERT(c == NULL || c->used == 0);
	free(c);
}

bool
client_limits_address(const struct sockaddr *from, uint8_t out[16])
{
	struct addr a = addr_mapped(addr_of_sock(from));

	memcpy(out, a.ip, 16);
	return a.len > 0;
}

static unsigned
bucket_of(const uint8_t address[16])
{
	return (unsigned)keyed_hash(address, 16) & (BUCKETS - 1);
}

void
client_limits_print(const uint8_t address[16], char *text, size_t cap)
{
	struct addr a = addr_unmapped(addr_of_bytes(address, 16));
	char ip[ADDR_IP_BYTES];

	snprintf(text, cap, "%s", addr_ip(&a, ip));
}

struct client *
client_limits_take(struct client_limits *c, const struct sockaddr *from)
{
	uint8_t address[16];

	if (!client_limits_address(from, address))
		return NULL;
	struct addr a = addr_of_bytes(address, 16);
	if (!addr_is_mapped(&a))
		memset(address + 8, 0, 8);
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

uint64_t *
client_bytes(struct client *k)
{
	return &k->bytes;
}

void
client_limits_release(struct client_limits *c, struct client *k)
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
