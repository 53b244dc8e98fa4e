/* Connections per client: a map that holds only those with open connections. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/addr.h"
#include "common/base/assert.h"
#include "common/base/map.h"
#include "common/net/source.h"
#include "rpcd/http/client_limits.h"

struct client {
	struct map_node node;
	unsigned count;
	uint64_t bytes;
	uint8_t address[16];		/* IPv4 as v4-mapped; the last half of an IPv6 address is zero */
};

struct client_limits {
	struct map clients;
};

struct client_limits *
client_limits_new(void)
{
	return calloc(1, sizeof(struct client_limits));
}

void
client_limits_free(struct client_limits *c)
{
	if (c == NULL)
		return;
	TV_ASSERT(c->clients.count == 0);
	map_done(&c->clients);
	free(c);
}

struct client *
client_limits_take(struct client_limits *c, const struct sockaddr *from)
{
	struct addr a = addr_mapped(addr_of_sock(from));

	if (a.len == 0)
		return NULL;
	if (!addr_is_mapped(&a))
		memset(a.ip + 8, 0, 8);
	uint64_t hash = keyed_hash(a.ip, sizeof(a.ip));
	struct client *k;
	MAP_FOREACH_HASH(k, &c->clients, hash, node)
		if (memcmp(k->address, a.ip, sizeof(a.ip)) == 0)
			break;
	if (k == NULL && (k = calloc(1, sizeof(*k))) != NULL) {
		memcpy(k->address, a.ip, sizeof(a.ip));
		map_add(&c->clients, &k->node, hash);
	}
	if (k != NULL)
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
	map_remove(&c->clients, &k->node);
	free(k);
}
