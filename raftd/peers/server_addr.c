/* Which addresses servers have, see server_addr.h. */
#include <string.h>

#include "common/net/source.h"
#include "raftd/engine/engine.h"
#include "raftd/peers/gossip.h"
#include "raftd/peers/server_addr.h"

struct look {
	uint64_t source;
	bool found;
};

/* The source of "address:port". */
static uint64_t
source_of_addr(const char *addr)
{
	struct addr a;

	return addr_parse_text(span_str(addr), &a) ? source_of_ip(&a) : 0;
}

static void
look_at(void *ctx, const struct gossip_server *s)
{
	struct look *k = ctx;

	k->found = k->found || source_of_addr(s->addr) == k->source;
}

bool
server_addr_known(const struct raftd *d, uint64_t source)
{
	const struct raft_config *conf = engine_config(d->engine);
	struct look k = { source, false };

	for (unsigned i = 0; i < conf->count && !k.found; i++)
		k.found = source_of_addr(conf->servers[i].addr) == source;
	if (!k.found)
		gossip_each_server(d->gossip, look_at, &k);
	return k.found;
}

struct owner {
	const struct raft_server_conf *seat;
	bool here;
};

static void
look_for_owner(void *ctx, const struct gossip_server *s)
{
	struct owner *o = ctx;

	o->here |= s->status == MEMBER_ALIVE && strcmp(s->uuid, o->seat->uuid) == 0 && strcmp(s->addr, o->seat->addr) == 0;
}

bool
server_addr_is_copy(const struct raftd *d, const char *uuid, const char *addr)
{
	const struct raft_config *conf = engine_config(d->engine);
	struct owner o = { NULL, false };

	for (unsigned i = 0; i < conf->count && o.seat == NULL; i++)
		if (strcmp(conf->servers[i].uuid, uuid) == 0)
			o.seat = &conf->servers[i];
	if (o.seat == NULL || strcmp(o.seat->addr, addr) == 0)
		return false;
	gossip_each_server(d->gossip, look_for_owner, &o);
	return o.here;
}
