/*
 * The pools as gossipd tells them, see members.h.
 *
 * Two sorted arrays of member copies.  A fresh watch starts with a full listing: members that were not told again
 * by MSG_GOSSIP_SYNCED are dropped then, so that nothing stale survives a restart of gossipd, and nothing
 * is missing while it is away.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/conf/keys.h"
#include "common/net/dial.h"
#include "common/net/greet.h"
#include "common/net/msg.h"
#include "common/record/mpack.h"
#include "rpcd/gossip/members.h"

#define MEMBERS_FRAME_BYTES_MAX (4u << 20)	/* an info answer, the largest */
#define MEMBERS_CALLS_MAX 64
#define DOWN_WARN_AFTER 6	/* attempts, about a second: daemons start and stop together */

struct members {
	struct members_conf conf;
	struct dialer *dialer;
	struct calls *calls;
	struct member_table pools[2];
	struct arena scratch;
	bool greeted, synced;
	bool mute;		/* a question was not answered in time, and nothing came since */
	unsigned failures;	/* to connect, in a row */
};

/* -- channel -------------------------------------------------------------- */

static void
changed(struct members *v)
{
	if (v->conf.on_change != NULL && v->synced)
		v->conf.on_change(v->conf.ctx);
}

static enum tv_err
on_member(struct members *v, struct span body)
{
	enum gossip_event event;
	enum gossip_pool pool;
	struct member_table *t;
	struct member_slot *s;
	struct member m;
	enum tv_err err;

	arena_reset(&v->scratch);
	err = member_event_read(body, &v->scratch, &pool, &event, &m);
	if (err != TV_OK)
		return err;
	t = &v->pools[pool];
	if (event == GOSSIP_EV_REAP) {
		if ((s = member_table_find(t, m.name)) != NULL)
			member_table_remove(t, s);
	} else if (member_table_put(t, &m, &err) == NULL && err == TV_ELIMIT) {
		if (v->pools[POOL_LAN].refused + v->pools[POOL_WAN].refused == 1)
			log_warn("rpc", "more than %u members in a pool: the rest is not shown; raise members_max",
			    t->max);
		err = TV_OK;
	}
	changed(v);
	return err;
}

static enum tv_err
on_keys(struct members *v, struct span body)
{
	struct span keys[KEYRING_KEYS_MAX];
	struct rd r = rd_span_over(body);
	uint32_t fields = mpr_array(&r), count = mpr_array(&r);

	if (fields != 1 || count > KEYRING_KEYS_MAX)
		return TV_EFORMAT;
	for (uint32_t i = 0; i < count; i++) {
		keys[i] = mpr_bytes(&r, KEY_BYTES);
		if (keys[i].len != KEY_BYTES)
			rd_fail(&r, TV_EFORMAT);
	}
	if (rd_end(&r) != TV_OK)
		return TV_EFORMAT;
	if (v->conf.on_keys != NULL)
		v->conf.on_keys(v->conf.ctx, keys, count);
	return TV_OK;
}

static enum tv_err
on_frame(void *ctx, struct chan *c, const struct frame *f)
{
	struct members *v = ctx;

	v->mute = false;
	if (!v->greeted) {
		v->greeted = greet_check(c, f) == TV_OK;
		return v->greeted ? TV_OK : TV_EFORMAT;
	}
	if (f->flags & FRAME_REPLY)
		return calls_frame(v->calls, f);
	switch (f->type) {
	case MSG_GOSSIP_MEMBER:
		return on_member(v, f->body);
	case MSG_GOSSIP_SYNCED:
		member_table_sweep(&v->pools[POOL_LAN]);
		member_table_sweep(&v->pools[POOL_WAN]);
		v->synced = true;
		changed(v);
		return TV_OK;
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

/* A question without arguments, and without an answer. */
static void
subscribe(struct chan *c, uint16_t type)
{
	struct buf *b = chan_begin(c, type, 0, 0);

	if (b == NULL)
		return;
	mpw_array(b, 0);
	(void)chan_end(c);		/* on_down follows */
}

static void
on_up(void *ctx, struct chan *c)
{
	struct members *v = ctx;

	greet_send(c, "rpcd", v->conf.node_id);
	subscribe(c, MSG_GOSSIP_WATCH);
	if (v->conf.on_user_event != NULL && v->conf.on_query != NULL)
		subscribe(c, MSG_GOSSIP_EVENTS);
	if (v->conf.on_subscribed != NULL)
		v->conf.on_subscribed(v->conf.ctx);
	v->greeted = v->synced = false;
	v->pools[POOL_LAN].round++;
	v->pools[POOL_WAN].round++;
	if (v->failures >= DOWN_WARN_AFTER)
		log_info("rpc", "connected to gossipd again");
	v->failures = 0;
}

static void
on_down(void *ctx, enum tv_err why)
{
	struct members *v = ctx;

	if (why != TV_ETIMEOUT)
		v->mute = false;
	v->greeted = false;
	if (++v->failures == DOWN_WARN_AFTER)
		log_warn("rpc", "no connection to gossipd at %s (%s); continuing with the members known so far",
		    v->conf.path, tv_strerror(why));
	v->synced = false;
	calls_fail_all(v->calls, TV_ECLOSED);
}

static const struct chan_events gossipd_events = { .on_frame = on_frame };

struct members *
members_new(const struct members_conf *conf)
{
	struct members *v = calloc(1, sizeof(*v));
	struct dialer_conf d = {
		.chan = {
			.loop = conf->loop, .events = &gossipd_events, .ctx = v, .name = "gossipd.sock",
			.body_max = MEMBERS_FRAME_BYTES_MAX, .out_max = MEMBERS_FRAME_BYTES_MAX, .initiator = true,
			.secret = true,
		},
		.unix_path = conf->path, .on_up = on_up, .on_down = on_down,
	};

	if (v == NULL)
		return NULL;
	v->conf = *conf;
	v->pools[POOL_LAN].max = v->pools[POOL_WAN].max = conf->members_max;
	v->scratch = ARENA_INIT(1u << 20);
	v->calls = calls_new(conf->loop, MEMBERS_CALLS_MAX, MEMBERS_FRAME_BYTES_MAX);
	v->dialer = v->calls == NULL ? NULL : dialer_new(&d);
	if (v->dialer == NULL) {
		calls_free(v->calls);
		free(v);
		return NULL;
	}
	return v;
}

void
members_free(struct members *v)
{
	if (v == NULL)
		return;
	dialer_free(v->dialer);
	calls_free(v->calls);
	for (int i = 0; i < 2; i++)
		member_table_done(&v->pools[i]);
	arena_done(&v->scratch);
	free(v);
}

const char *
members_state(const struct members *v)
{
	if (v->mute || (dialer_chan(v->dialer) != NULL && !v->greeted))
		return "silent";
	return members_is_up(v) ? "connected" : "away";
}

void
members_missed(struct members *v)
{
	v->mute = true;
}

bool
members_is_up(const struct members *v)
{
	return v->synced;
}

uint64_t
members_call(struct members *v, uint16_t type, struct span body, struct mono timeout,
    calls_done *done, void *ctx, enum tv_err *err)
{
	struct chan *c = dialer_chan(v->dialer);
	uint64_t id;

	if (c == NULL) {
		*err = TV_EUNREACH;
		return 0;
	}
	id = calls_start(v->calls, c, type, body, timeout, done, ctx, err);
	if (id == 0 && *err == TV_ECLOSED)
		*err = TV_EUNREACH;
	return id;
}

void
members_cancel(struct members *v, uint64_t id)
{
	calls_cancel(v->calls, dialer_chan(v->dialer), id);
}

/* -- questions ------------------------------------------------------------ */

unsigned
members_count(const struct members *v, enum gossip_pool pool)
{
	return v->pools[pool].count;
}

const struct member *
members_at(const struct members *v, enum gossip_pool pool, unsigned i)
{
	return i < v->pools[pool].count ? v->pools[pool].slots[i].m : NULL;
}

const struct member *
members_find(const struct members *v, enum gossip_pool pool, struct span name)
{
	const struct member_slot *s = member_table_find(&v->pools[pool], name);

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
	    member_tag(m, "fenced").len == 0 && span_eq(member_tag(m, "dc"), dc) &&
	    !span_eqs(member_tag(m, "id"), v->conf.node_id);
}

unsigned
members_servers(const struct members *v, struct span dc, struct rng *rng, members_rank *rank, void *ctx,
    struct members_server *out, unsigned max)
{
	bool own = span_eqs(dc, v->conf.datacenter);
	const struct member_table *p = &v->pools[own ? POOL_LAN : POOL_WAN];
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
	for (int p = 0; p < 2; p++)
		for (unsigned i = 0; i < v->pools[p].count; i++)
			if (is_server(v->pools[p].slots[i].m) && span_eq(member_tag(v->pools[p].slots[i].m, "dc"), dc))
				return true;
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
	unsigned n = 0;

	if (max == 0)
		return 0;
	out[n++] = span_str(v->conf.datacenter);
	for (unsigned i = 0; i < v->pools[POOL_WAN].count; i++) {
		const struct member *m = v->pools[POOL_WAN].slots[i].m;
		struct span dc = member_tag(m, "dc");

		if (is_server(m) && m->status != MEMBER_LEFT && dc.len > 0 && !span_eq(dc, out[0]))
			n = insert_sorted(out, 1, n, max, dc);
	}
	return n;
}

const struct member *
members_server_by_id(const struct members *v, const char *id)
{
	const struct member_table *p = &v->pools[POOL_LAN];

	for (unsigned i = 0; i < p->count; i++)
		if (is_server(p->slots[i].m) && span_eqs(member_tag(p->slots[i].m, "id"), id))
			return p->slots[i].m;
	return NULL;
}
