/* Joins that nobody has to ask for; see join.h. */
#include "config.h"

#include <sodium.h>
#include <stdlib.h>

#include "common/log.h"
#include "gossipd/core/serfwire.h"
#include "gossipd/handlers.h"
#include "gossipd/join.h"
#include "gossipd/net.h"

#define REJOIN_AT_ONCE 8		/* remembered members asked together */
#define PATIENCE 3.0			/* longest wait of watchers for those from before a restart, in seconds */
#define FLOOD_SOON 0.5			/* after a server came, in seconds: others come with it */

struct pool_joins {
	struct joiner *joiner;
	enum gossip_pool kind;
	struct gaddr wanted[SWIM_JOIN_ADDRS_MAX];	/* retry_join without ourselves */
	unsigned wanted_count;
	bool asking;			/* a round of retry_join is under way */
	bool told;			/* success was logged */
	ev_timer retry;
	struct gaddr *known;		/* owned; from the snapshot, in random order */
	size_t known_count, known_at;
	bool rejoined;
	bool settled;			/* nothing more is to come from the rejoin */
	ev_timer rejoin;
};

struct joiner {
	struct engine *e;
	struct pool_joins pools[ENGINE_POOLS];
	bool flooding;
	ev_timer flood;
	bool settled;			/* the view is as good as after a start it gets at once */
	ev_timer patience;
};

/* -- retry_join ------------------------------------------------------------------------ */

static bool
shows_alive(const struct swim *core, const struct gaddr *addr)
{
	struct swim_member m;
	uint32_t cursor = 0;

	while (swim_member_next(core, &cursor, &m)) {
		struct sockaddr_storage sa;
		struct gaddr a = m.addr;

		if (net_sockaddr(&a, AF_INET, &sa) != 0)
			a = net_gaddr(&sa);	/* IPv4 in its short form */
		if (m.status == MEMBER_ALIVE && gaddr_eq(&a, addr))
			return true;
	}
	return false;
}

static bool
is_alone(const struct swim *core)
{
	struct swim_stats stats;

	swim_stats(core, &stats);
	return stats.alive <= 1;
}

/*
 * Asks those that are not members yet.  Going on after the first success brings parts of a cluster
 * together that formed apart, which happens when it starts during a network fault.
 */
static void
on_retry(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct pool_joins *pj = w->data;
	struct engine *e = pj->joiner->e;
	struct gaddr missing[SWIM_JOIN_ADDRS_MAX];
	unsigned count = 0;

	(void)loop;
	(void)revents;
	if (pj->asking || e->leaving)
		return;
	for (unsigned i = 0; i < pj->wanted_count; i++)
		if (!shows_alive(pool_core(e->pools[pj->kind]), &pj->wanted[i]))
			missing[count++] = pj->wanted[i];
	if (count == 0)
		return;
	if (is_alone(pool_core(e->pools[pj->kind])))
		log_info("serf", "retry_join: joining the %s pool through %u address%s", engine_pool_name(pj->kind),
		    count, count == 1 ? "" : "es");
	pj->asking = pool_join(e->pools[pj->kind], JOIN_TOKEN(JOIN_RETRY, 0), missing, count, false) == TV_OK;
}

static void
retry_ended(struct pool_joins *pj, const struct swim_join *r)
{
	struct engine *e = pj->joiner->e;
	char text[NET_TEXT_BYTES];

	pj->asking = false;
	if (r->contacted > 0 && !pj->told) {
		pj->told = true;
		log_info("serf", "retry_join: joined the %s pool by contacting %u nodes", engine_pool_name(pj->kind),
		    r->contacted);
	} else if (r->contacted == 0 && is_alone(pool_core(e->pools[pj->kind]))) {
		pj->told = false;
		log_warn("serf", "retry_join: nobody of the %s pool answered (last: %s: %s); trying again in %.0f s",
		    engine_pool_name(pj->kind), net_text(&r->error_addr, text), tv_strerror(r->error),
		    mono_seconds(e->cluster->retry_interval));
	}
}

/* Addresses were checked when the configuration was read. */
static void
read_wanted(struct pool_joins *pj, const struct conf_list *list, const struct gaddr *self)
{
	char ip[CLUSTER_IP_BYTES];
	uint16_t port;
	struct gaddr a;

	for (size_t i = 0; i < list->count && pj->wanted_count < SWIM_JOIN_ADDRS_MAX; i++)
		if (cluster_addr_parse(list->items[i], self->port, ip, &port) && net_parse(ip, port, &a) &&
		    !gaddr_eq(&a, self))
			pj->wanted[pj->wanted_count++] = a;
}

/* -- rejoin after a restart --------------------------------------------------------------- */

static void
on_rejoin(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct pool_joins *pj = w->data;
	struct engine *e = pj->joiner->e;
	size_t left = pj->known_count - pj->known_at;
	unsigned count = left < REJOIN_AT_ONCE ? (unsigned)left : REJOIN_AT_ONCE;
	const struct gaddr *from = &pj->known[pj->known_at];

	(void)loop;
	(void)revents;
	if (pj->rejoined || count == 0 || e->leaving)
		return;
	pj->known_at += count;
	/* retry_join goes on in any case. */
	(void)pool_join(e->pools[pj->kind], JOIN_TOKEN(JOIN_REJOIN, 0), from, count, true);
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
	if (j->e->handlers != NULL)
		handlers_settled(j->e->handlers);
}

static void
on_patience(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct joiner *j = w->data;

	(void)loop;
	(void)revents;
	for (int i = 0; i < ENGINE_POOLS; i++)
		j->pools[i].settled = true;
	settle(j);
}

bool
joiner_settled(const struct joiner *j)
{
	return j->settled;
}

static void
rejoin_ended(struct pool_joins *pj, const struct swim_join *r)
{
	pj->rejoined = r->contacted > 0;
	pj->settled = pj->rejoined || pj->known_at == pj->known_count;
	if (pj->rejoined)
		log_info("serf", "rejoined the %s pool: members from before the restart answered",
		    engine_pool_name(pj->kind));
	else if (pj->known_at < pj->known_count)
		ev_timer_start(pj->joiner->e->loop, &pj->rejoin);	/* the next ones; not from within a call back */
	else
		log_info("serf", "none of the %zu members known before the restart answered", pj->known_count);
	settle(pj->joiner);
}

static void
copy_known(struct pool_joins *pj, const struct snapshot_found *found)
{
	if (found->count == 0 || (pj->known = calloc(found->count, sizeof(*pj->known))) == NULL)
		return;
	for (size_t i = 0; i < found->count; i++)
		if (found->members[i].was_alive)
			pj->known[pj->known_count++] = found->members[i].restore.addr;
	for (size_t i = pj->known_count; i > 1; i--) {
		size_t k = randombytes_uniform((uint32_t)i);
		struct gaddr a = pj->known[i - 1];

		pj->known[i - 1] = pj->known[k];
		pj->known[k] = a;
	}
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
wan_addr(const struct swim_member *m, struct gaddr *out)
{
	char port[8], ip[CLUSTER_IP_BYTES];
	unsigned long n;

	if (!span_copy(tag_of(m->meta, "wan_port"), port, sizeof(port)))
		return false;
	n = strtoul(port, NULL, 10);
	*out = m->addr;
	out->port = (uint16_t)n;
	if (tag_of(m->meta, "wan_addr").len > 0 && (!span_copy(tag_of(m->meta, "wan_addr"), ip, sizeof(ip)) ||
	    !net_parse(ip, (uint16_t)n, out)))
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
on_flood(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct joiner *j = w->data;
	struct engine *e = j->e;
	struct gaddr missing[SWIM_JOIN_ADDRS_MAX];
	struct swim_member m;
	uint32_t cursor = 0;
	unsigned count = 0;

	(void)revents;
	w->repeat = mono_seconds(e->opts->flood_interval);
	ev_timer_again(loop, w);
	if (j->flooding || e->leaving)
		return;
	while (count < SWIM_JOIN_ADDRS_MAX && swim_member_next(pool_core(e->pools[POOL_LAN]), &cursor, &m))
		if (m.status == MEMBER_ALIVE && is_server(m.meta) &&
		    span_eqs(tag_of(m.meta, "dc"), e->cluster->datacenter) && !in_wan(e, m.name) &&
		    wan_addr(&m, &missing[count]))
			count++;
	if (count > 0)
		j->flooding = pool_join(e->pools[POOL_WAN], JOIN_TOKEN(JOIN_FLOOD, 0), missing, count, false) == TV_OK;
}

void
joiner_event(struct joiner *j, enum gossip_pool kind, const struct swim_event *ev)
{
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
		retry_ended(&j->pools[kind], r);
		break;
	case JOIN_REJOIN:
		rejoin_ended(&j->pools[kind], r);
		break;
	default:
		j->flooding = false;
	}
}

struct joiner *
joiner_new(struct engine *e)
{
	struct joiner *j = calloc(1, sizeof(*j));

	if (j == NULL)
		return NULL;
	j->e = e;
	for (int i = 0; i < ENGINE_POOLS; i++) {
		struct pool_joins *pj = &j->pools[i];

		pj->joiner = j;
		pj->kind = (enum gossip_pool)i;
		ev_timer_init(&pj->retry, on_retry, 0., mono_seconds(e->cluster->retry_interval));
		ev_timer_init(&pj->rejoin, on_rejoin, 0., 0.);
		pj->retry.data = pj->rejoin.data = pj;
	}
	ev_timer_init(&j->flood, on_flood, 0., FLOOD_SOON);
	ev_timer_init(&j->patience, on_patience, PATIENCE, 0.);
	j->flood.data = j->patience.data = j;
	j->pools[POOL_WAN].settled = !e->cluster->server;
	return j;
}

void
joiner_pool(struct joiner *j, enum gossip_pool kind, const struct gaddr *self, const struct snapshot_found *found)
{
	struct pool_joins *pj = &j->pools[kind];
	const struct cluster_conf *c = j->e->cluster;

	read_wanted(pj, kind == POOL_LAN ? &c->retry_join : &c->retry_join_wan, self);
	copy_known(pj, found);
	pj->settled = pj->known_count == 0;
	if (pj->known_count > 0) {
		ev_timer_start(j->e->loop, &pj->rejoin);
		ev_timer_start(j->e->loop, &j->patience);
	}
	settle(j);
	if (pj->wanted_count > 0)
		ev_timer_start(j->e->loop, &pj->retry);
	if (kind == POOL_WAN)
		ev_timer_again(j->e->loop, &j->flood);
}

void
joiner_free(struct joiner *j)
{
	if (j == NULL)
		return;
	for (int i = 0; i < ENGINE_POOLS; i++) {
		ev_timer_stop(j->e->loop, &j->pools[i].retry);
		ev_timer_stop(j->e->loop, &j->pools[i].rejoin);
		free(j->pools[i].known);
	}
	ev_timer_stop(j->e->loop, &j->flood);
	ev_timer_stop(j->e->loop, &j->patience);
	free(j);
}
