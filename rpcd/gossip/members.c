/* The pools of this node, and the servers among their members, see members.h. */
#include <stdlib.h>
#include <string.h>

#include "common/conf/keys.h"
#include "common/net/msg.h"
#include "common/record/mpack.h"
#include "rpcd/gossip/members.h"

struct members {
	struct members_conf conf;
	struct gossip_client gossip;
};

static void
on_change(void *ctx, struct member_slot *s UNUSED, uint8_t before UNUSED)
{
	struct members *v = ctx;

	if (v->conf.on_change != NULL && v->gossip.synced)
		v->conf.on_change(v->conf.ctx);
}

static enum tv_err
on_keys(struct members *v, struct span body)
{
	struct span keys[KEYRING_KEYS_MAX];
	struct rd r = rd_span_over(body);
	uint32_t fields = mpr_array(&r), count = mpr_array(&r);

	if (count > KEYRING_KEYS_MAX)
		return TV_EFORMAT;
	for (uint32_t i = 0; i < count; i++) {
		keys[i] = mpr_bytes(&r, KEY_BYTES);
		if (keys[i].len != KEY_BYTES)
			rd_fail(&r, TV_EFORMAT);
	}
	if (mpr_end(&r, fields, 1) != TV_OK)
		return TV_EFORMAT;
	if (v->conf.on_keys != NULL)
		v->conf.on_keys(v->conf.ctx, keys, count);
	return TV_OK;
}

static enum tv_err
on_frame(void *ctx, struct chan *c UNUSED, const struct frame *f)
{
	struct members *v = ctx;

	switch (f->type) {
	case MSG_GOSSIP_USER_EVENT:
		return v->conf.on_user_event == NULL ? TV_EFORMAT : v->conf.on_user_event(v->conf.ctx, f->body);
	case MSG_GOSSIP_HEARD:
		return v->conf.on_query == NULL ? TV_EFORMAT : v->conf.on_query(v->conf.ctx, f->body);
	case MSG_GOSSIP_KEYS:
		return on_keys(v, f->body);
	default:
		return TV_EFORMAT;
	}
}

static void
on_up(void *ctx, struct chan *c UNUSED)
{
	struct members *v = ctx;

	if (v->conf.on_subscribed != NULL)
		v->conf.on_subscribed(v->conf.ctx);
}

struct members *
members_new(const struct members_conf *conf)
{
	struct members *v = calloc(1, sizeof(*v));

	if (v == NULL)
		return NULL;
	v->conf = *conf;
	v->gossip = (struct gossip_client){
	    .daemon = { .chan.loop = conf->loop, .path = conf->path, .role = "rpcd", .node_id = conf->node_id,
	        .log_area = "rpc", .meanwhile = "continuing with the members known so far" },
	    .members_max = conf->members_max, .when_full = " in a pool: the rest is not shown; raise members_max",
	    .wan = true, .events = true, .on_up = on_up, .on_change = on_change, .on_frame = on_frame, .ctx = v };
	if (gossip_client_start(&v->gossip))
		return v;
	members_free(v);
	return NULL;
}

void
members_free(struct members *v)
{
	if (v != NULL)
		gossip_client_stop(&v->gossip);
	free(v);
}

struct daemon_client *
members_daemon(struct members *v)
{
	return &v->gossip.daemon;
}

/* -- questions ------------------------------------------------------------ */

unsigned
members_count(const struct members *v, enum gossip_pool pool)
{
	return v->gossip.pools[pool].count;
}

const struct member *
members_at(const struct members *v, enum gossip_pool pool, unsigned i)
{
	const struct member_table *t = &v->gossip.pools[pool];

	return i < t->count ? t->slots[i].m : NULL;
}

const struct member *
members_find(const struct members *v, enum gossip_pool pool, struct span name)
{
	const struct member_slot *s = member_table_find(&v->gossip.pools[pool], name);

	return s != NULL ? s->m : NULL;
}

static bool
is_server(const struct member *m)
{
	return span_eqs(member_tag(m, "role"), "server");
}

/* One that can be asked, of this datacenter, and not ourselves. */
static bool
is_askable(const struct members *v, const struct member *m, struct span dc)
{
	/* A fenced server (raftd/peers/fence.h) has nothing to say that counts. */
	return m->status == MEMBER_ALIVE && is_server(m) && member_tag_port(m, "rpc_port") != 0 &&
	    member_tag(m, "fenced").len == 0 && span_eq_nocase(member_tag(m, "dc"), dc) &&
	    !span_eqs(member_tag(m, "id"), v->conf.node_id);
}

unsigned
members_servers(const struct members *v, struct span dc, struct rng *rng, members_rank *rank, void *ctx,
    struct members_server *out, unsigned max)
{
	bool own = span_eq_nocase(dc, span_str(v->conf.datacenter));
	const struct member_table *p = &v->gossip.pools[own ? POOL_LAN : POOL_WAN];
	unsigned n = 0, seen = 0, best = MEMBERS_SKIP;

	for (unsigned i = 0; i < p->count; i++) {
		const struct member *m = p->slots[i].m;
		struct members_server s = { .member = m };
		unsigned at, how;

		if (!is_askable(v, m, dc))
			continue;
		s.rpc_port = member_tag_port(m, "rpc_port");
		member_ip(m, s.ip);
		how = rank(ctx, &s);
		if (how > best || how == MEMBERS_SKIP)
			continue;
		if (how < best) {
			best = how;
			n = seen = 0;
		}
		/* Reservoir sample, shuffled on the way. */
		at = (unsigned)rng_below(rng, ++seen);
		if (n < max) {
			out[n] = out[at];
			n++;
		} else if (at >= max) {
			continue;
		}
		out[at] = s;
	}
	return n;
}

bool
members_dc_known(const struct members *v, struct span dc)
{
	for (enum gossip_pool pool = POOL_LAN; pool <= POOL_WAN; pool++) {
		const struct member_table *p = &v->gossip.pools[pool];

		for (unsigned i = 0; i < p->count; i++)
			if (is_server(p->slots[i].m) && span_eq_nocase(member_tag(p->slots[i].m, "dc"), dc))
				return true;
	}
	return false;
}

/* Inserts into a sorted list without doubles. */
static unsigned
insert_sorted(struct span *out, unsigned from, unsigned n, unsigned max, struct span s)
{
	unsigned at = from;

	while (at < n && span_cmp(out[at], s) < 0)
		at++;
	if ((at < n && span_eq(out[at], s)) || n >= max)
		return n;
	memmove(&out[at + 1], &out[at], (n - at) * sizeof(*out));
	out[at] = s;
	return n + 1;
}

unsigned
members_datacenters(const struct members *v, struct span *out, unsigned max)
{
	const struct member_table *p = &v->gossip.pools[POOL_WAN];
	unsigned n = 0;

	if (max == 0)
		return 0;
	out[n++] = span_str(v->conf.datacenter);
	for (unsigned i = 0; i < p->count; i++) {
		const struct member *m = p->slots[i].m;
		struct span dc = member_tag(m, "dc");

		if (is_server(m) && m->status != MEMBER_LEFT && dc.len > 0 && !span_eq_nocase(dc, out[0]))
			n = insert_sorted(out, 1, n, max, dc);
	}
	return n;
}

const struct member *
members_server_by_id(const struct members *v, const char *id)
{
	const struct member_table *p = &v->gossip.pools[POOL_LAN];

	for (unsigned i = 0; i < p->count; i++)
		if (is_server(p->slots[i].m) && span_eqs(member_tag(p->slots[i].m, "id"), id))
			return p->slots[i].m;
	return NULL;
}
