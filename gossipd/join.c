/* Joins that gossipd begins by itself; see join.h. */
#include "config.h"

#include <sodium.h>
#include <stdlib.h>

#include "common/base/array.h"
#include "common/base/log.h"
#include "gossipd/core/wire/serfwire.h"
#include "gossipd/join.h"
#include "gossipd/retry.h"

#define REJOIN_AT_ONCE 8		/* remembered members asked together */
#define KNOWN_MAX 65536		/* remembered addresses */
#define PATIENCE 3.0			/* longest wait of watchers for those from before a restart, in seconds */
#define FLOOD_SOON 0.5			/* after a server came, in seconds: others come with it */

struct pool_joins {
	struct joiner *joiner;
	enum gossip_pool kind;
	struct retry *retry;		/* retry_join; NULL until the pool is open */
	struct addr *known;		/* owned; from before a restart: those that lived first */
	size_t known_count, known_cap, known_at;
	unsigned open;			/* of them asked and not heard of yet */
	bool settled;			/* each was asked once, or one has answered */
	struct mono rejoin_wait;
	ev_timer rejoin;		/* one-shot, started anew by retry_wait_longer() */
};

struct joiner {
	struct engine *e;
	struct pool_joins pools[ENGINE_POOLS];
	bool flooding;
	ev_timer flood;
	bool settled;			/* the view is as good as after a start it gets at once */
	ev_timer patience;
	void (*on_settled)(struct engine *e);
};

/* -- rejoin after a restart --------------------------------------------------------------- */

/* A member forgotten while no other was there is remembered here: the way back to the pool leads through it. */
static void
remember_addr(struct pool_joins *pj, const struct addr *addr)
{
	if (pj->known_count >= KNOWN_MAX ||
	    !array_reserve(&pj->known, &pj->known_cap, pj->known_count + 1, sizeof(struct addr)))
		return;
	for (size_t i = 0; i < pj->known_count; i++)
		if (addr_eq(&pj->known[i], addr))
			return;
	pj->known[pj->known_count++] = *addr;
}

/* The next ones, each by a join of its own: the first that answers is enough. */
static void
on_rejoin(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct pool_joins *pj = w->data;
	struct engine *e = pj->joiner->e;

	if (e->leaving || (pj->settled && !engine_is_alone(e, pj->kind)))
		return;
	if (pj->known_at == pj->known_count)
		pj->known_at = 0;
	while (pj->open < REJOIN_AT_ONCE && pj->known_at < pj->known_count) {
		const struct addr *to = &pj->known[pj->known_at++];

		pj->open++;		/* before: some end at once */
		if (pool_join(e->pools[pj->kind], JOIN_TOKEN(JOIN_REJOIN, 0), to, 1, true) != TV_OK)
			pj->open--;
	}
}

/* Once both pools have asked those from before the restart, or took too long: our view may be shown. */
static void
settle(struct joiner *j)
{
	for (int i = 0; i < ENGINE_POOLS; i++)
		if (!j->pools[i].settled)
			return;
	ev_timer_stop(j->e->loop, &j->patience);
	if (j->settled)
		return;
	j->settled = true;
	j->on_settled(j->e);
}

static void
on_patience(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct joiner *j = w->data;

	for (int i = 0; i < ENGINE_POOLS; i++)
		j->pools[i].settled = true;
	settle(j);
}

bool
joiner_settled(const struct joiner *j)
{
	return j->settled;
}

/* No member answered in a whole round: asked again and again while no other is there. */
static void
round_over(struct pool_joins *pj)
{
	bool alone = engine_is_alone(pj->joiner->e, pj->kind);

	if (!pj->settled)
		log_warn("serf", "none of the %zu members of the %s pool known before the restart answered%s",
		    pj->known_count, engine_pool_name(pj->kind), alone ? "; still trying" : "");
	pj->settled = true;
	if (alone)
		retry_wait_longer(pj->joiner->e, &pj->rejoin, &pj->rejoin_wait);
}

static void
rejoin_ended(struct pool_joins *pj, const struct swim_join *r)
{
	pj->open--;
	if (r->contacted > 0) {
		if (!pj->settled || pj->rejoin_wait.ns != RETRY_WAIT_FIRST.ns)
			log_info("serf", "rejoined the %s pool through a member known before the restart",
			    engine_pool_name(pj->kind));
		pj->settled = true;
		pj->rejoin_wait = RETRY_WAIT_FIRST;
		pj->known_at = pj->known_count;
		ev_timer_stop(pj->joiner->e->loop, &pj->rejoin);
	} else if (pj->known_at < pj->known_count) {
		ev_timer_set(&pj->rejoin, 0., 0.);	/* the next ones; not from within a call back */
		ev_timer_start(pj->joiner->e->loop, &pj->rejoin);
	} else if (pj->open == 0) {
		round_over(pj);
	}
	settle(pj->joiner);
}

static void
shuffle(struct addr *addrs, size_t count)
{
	for (size_t i = count; i > 1; i--) {
		size_t k = randombytes_uniform((uint32_t)i);
		struct addr a = addrs[i - 1];

		addrs[i - 1] = addrs[k];
		addrs[k] = a;
	}
}

/* Those that lived, in random order, then those that had failed: they may be back, and the others gone. */
static void
copy_known(struct pool_joins *pj, const struct addr *self, const struct snapshot_found *found)
{
	size_t lived;

	if (found->count == 0 || (pj->known = calloc(found->count, sizeof(*pj->known))) == NULL)
		return;
	pj->known_cap = found->count;
	for (size_t i = 0; i < found->count; i++)
		if (found->members[i].was_alive && !addr_eq(&found->members[i].restore.addr, self))
			pj->known[pj->known_count++] = found->members[i].restore.addr;
	lived = pj->known_count;
	for (size_t i = 0; i < found->count; i++)
		if (!found->members[i].was_alive && found->members[i].restore.status == MEMBER_FAILED &&
		    !addr_eq(&found->members[i].restore.addr, self))
			pj->known[pj->known_count++] = found->members[i].restore.addr;
	shuffle(pj->known, lived);
	shuffle(pj->known + lived, pj->known_count - lived);
}

/* -- flooding the WAN ----------------------------------------------------------------------- */

static struct span
tag_of(struct span meta, const char *want)
{
	struct serf_tags it = serf_meta_tags(meta);
	struct span name, value;

	while (serf_tags_next(&it, &name, &value) == TV_OK)
		if (span_eqs(name, want))
			return value;
	return SPAN_NONE;
}

static bool
is_server(struct span meta)
{
	return span_eqs(tag_of(meta, "role"), "server");
}

/* Where a server of our datacenter is in the WAN pool. */
static bool
wan_addr(const struct swim_member *m, struct addr *out)
{
	char port[8];
	unsigned long n;

	if (!span_copy(tag_of(m->meta, "wan_port"), port, sizeof(port)))
		return false;
	n = strtoul(port, NULL, 10);
	*out = m->addr;
	out->port = (uint16_t)n;
	if (tag_of(m->meta, "wan_addr").len > 0 && !addr_parse_span(tag_of(m->meta, "wan_addr"), (uint16_t)n, out))
		return false;
	return n > 0 && n <= UINT16_MAX;
}

/* Is this LAN member in the WAN pool already, as "name.datacenter"? */
static bool
in_wan(const struct engine *e, struct span lan_name)
{
	char name[NODE_NAME_BYTES_MAX * 2 + 2];
	struct swim_member m;
	int n;

	if (lan_name.len > NODE_NAME_BYTES_MAX)
		return true;
	memcpy(name, lan_name.p, lan_name.len);
	n = snprintf(name + lan_name.len, sizeof(name) - lan_name.len, ".%s", e->cluster->datacenter);
	return swim_member_find(pool_core(e->pools[POOL_WAN]), span_of(name, lan_name.len + (size_t)n), &m) &&
	    m.status == MEMBER_ALIVE;
}

static void
on_flood(struct ev_loop *loop, ev_timer *w, int revents UNUSED)
{
	struct joiner *j = w->data;
	struct engine *e = j->e;
	struct addr missing[SWIM_JOIN_ADDRS_MAX];
	struct swim_member m;
	uint32_t cursor = 0;
	unsigned count = 0;

	w->repeat = mono_seconds(e->opts->flood_interval);
	ev_timer_again(loop, w);
	if (j->flooding || e->leaving)
		return;
	while (count < SWIM_JOIN_ADDRS_MAX && swim_member_next(pool_core(e->pools[POOL_LAN]), &cursor, &m))
		if (m.status == MEMBER_ALIVE && is_server(m.meta) &&
		    span_eq_nocase(tag_of(m.meta, "dc"), span_str(e->cluster->datacenter)) && !in_wan(e, m.name) &&
		    wan_addr(&m, &missing[count]))
			count++;
	if (count > 0)
		j->flooding = pool_join(e->pools[POOL_WAN], JOIN_TOKEN(JOIN_FLOOD, 0), missing, count, false) == TV_OK;
}

/* Forgotten while no other is there: without its address nothing would lead back to the pool. */
static void
note_reaped(struct joiner *j, enum gossip_pool kind, const struct swim_event *ev)
{
	struct pool_joins *pj = &j->pools[kind];

	if (ev->member.status != MEMBER_FAILED || !engine_is_alone(j->e, kind))
		return;
	remember_addr(pj, &ev->member.addr);
	if (pj->open == 0 && !ev_is_active(&pj->rejoin))
		retry_wait_longer(pj->joiner->e, &pj->rejoin, &pj->rejoin_wait);
}

void
joiner_event(struct joiner *j, enum gossip_pool kind, const struct swim_event *ev)
{
	if (ev->type == GOSSIP_EV_REAP)
		note_reaped(j, kind, ev);
	if (kind != POOL_LAN || ev->type != GOSSIP_EV_JOIN || j->e->pools[POOL_WAN] == NULL ||
	    !is_server(ev->member.meta))
		return;
	j->flood.repeat = FLOOD_SOON;
	ev_timer_again(j->e->loop, &j->flood);
}

/* -- life -------------------------------------------------------------------------------------- */

void
joiner_joined(struct joiner *j, enum gossip_pool kind, const struct swim_join *r)
{
	switch (JOIN_ORIGIN(r->token)) {
	case JOIN_RETRY:
		retry_joined(j->pools[kind].retry, r);
		break;
	case JOIN_REJOIN:
		rejoin_ended(&j->pools[kind], r);
		break;
	default:
		j->flooding = false;
	}
}

struct joiner *
joiner_new(struct engine *e, void (*settled)(struct engine *e))
{
	struct joiner *j = calloc(1, sizeof(*j));

	if (j == NULL)
		return NULL;
	j->e = e;
	j->on_settled = settled;
	for (int i = 0; i < ENGINE_POOLS; i++) {
		struct pool_joins *pj = &j->pools[i];

		pj->joiner = j;
		pj->kind = (enum gossip_pool)i;
		pj->rejoin_wait = RETRY_WAIT_FIRST;
		ev_timer_init(&pj->rejoin, on_rejoin, 0., 0.);
		pj->rejoin.data = pj;
	}
	ev_timer_init(&j->flood, on_flood, 0., FLOOD_SOON);
	ev_timer_init(&j->patience, on_patience, PATIENCE, 0.);
	j->flood.data = j->patience.data = j;
	j->pools[POOL_WAN].settled = !e->cluster->server;
	return j;
}

enum tv_err
joiner_pool(struct joiner *j, enum gossip_pool kind, const struct addr *self, const struct snapshot_found *found)
{
	struct pool_joins *pj = &j->pools[kind];
	const struct cluster_conf *c = j->e->cluster;

	pj->retry = retry_new(j->e, kind, kind == POOL_LAN ? &c->retry_join : &c->retry_join_wan, self);
	if (pj->retry == NULL)
		return TV_ENOMEM;
	copy_known(pj, self, found);
	pj->settled = pj->known_count == 0;
	if (pj->known_count > 0) {
		ev_timer_start(j->e->loop, &pj->rejoin);
		ev_timer_start(j->e->loop, &j->patience);
	}
	settle(j);
	if (kind == POOL_WAN)
		ev_timer_again(j->e->loop, &j->flood);
	return TV_OK;
}

bool
joiner_wants(const struct joiner *j, enum gossip_pool kind, uint64_t source)
{
	return j->pools[kind].retry != NULL && retry_wants(j->pools[kind].retry, source);
}

void
joiner_free(struct joiner *j)
{
	if (j == NULL)
		return;
	for (int i = 0; i < ENGINE_POOLS; i++) {
		retry_free(j->pools[i].retry);
		ev_timer_stop(j->e->loop, &j->pools[i].rejoin);
		free(j->pools[i].known);
	}
	ev_timer_stop(j->e->loop, &j->flood);
	ev_timer_stop(j->e->loop, &j->patience);
	free(j);
}
