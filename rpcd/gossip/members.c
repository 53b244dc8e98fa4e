/*
 * The pools as gossipd tells them, see view.h.
 *
 * Two sorted arrays of member copies.  A fresh watch starts with a full listing: members that were not told again
 * by MSG_GOSSIP_SYNCED are dropped then, so that nothing stale survives a restart of gossipd, and nothing
 * is missing while it is away.
 */
#include <stdlib.h>
#include <string.h>

#include "common/net/dial.h"
#include "common/net/greet.h"
#include "common/conf/keys.h"
#include "common/base/log.h"
#include "common/record/mpack.h"
#include "common/net/msg.h"
#include "rpcd/gossip/members.h"

#define VIEW_FRAME_BYTES_MAX (4u << 20)	/* an info answer, the largest */
#define VIEW_CALLS_MAX 64
#define DOWN_WARN_AFTER 6	/* attempts, about a second: daemons start and stop together */

struct slot {
	struct member *m;	/* owned */
	uint64_t round;		/* of the watch that told it last */
};

struct pool {
	struct slot *slots;	/* sorted by name */
	unsigned count, cap;
};

struct view {
	struct view_conf conf;
	struct dialer *dialer;
	struct calls *calls;
	struct pool pools[2];
	struct arena scratch;
	uint64_t round, overflow;
	bool greeted, synced;
	bool mute;		/* a question was not answered in time, and nothing came since */
	unsigned failures;	/* to connect, in a row */
};

/* -- table ---------------------------------------------------------------- */

/* Where the name is, or where it would go. */
static unsigned
pool_at(const struct pool *p, struct span name, bool *found)
{
	unsigned lo = 0, hi = p->count;

	*found = false;
	while (lo < hi) {
		unsigned mid = lo + (hi - lo) / 2;
		int d = span_cmp(p->slots[mid].m->name, name);

		if (d == 0) {
			*found = true;
			return mid;
		}
		if (d < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void
pool_remove(struct pool *p, unsigned at)
{
	free(p->slots[at].m);
	memmove(&p->slots[at], &p->slots[at + 1], (p->count - at - 1) * sizeof(*p->slots));
	p->count--;
}

static bool
pool_grow(struct pool *p)
{
	unsigned cap = p->cap == 0 ? 16 : p->cap * 2;
	struct slot *slots = realloc(p->slots, cap * sizeof(*slots));

	if (slots == NULL)
		return false;
	p->slots = slots;
	p->cap = cap;
	return true;
}

static enum tv_err
pool_put(struct view *v, struct pool *p, const struct member *m)
{
	struct member *copy;
	bool found;
	unsigned at = pool_at(p, m->name, &found);

	if (!found && p->count >= v->conf.members_max) {
		if (v->overflow++ == 0)
			log_warn("rpc", "more than %u members in a pool: the rest is not shown; raise members_max",
			    v->conf.members_max);
		return TV_OK;
	}
	copy = member_clone(m);
	if (copy == NULL)
		return TV_ENOMEM;
	if (found) {
		free(p->slots[at].m);
	} else {
		if (p->count == p->cap && !pool_grow(p)) {
			free(copy);
			return TV_ENOMEM;
		}
		memmove(&p->slots[at + 1], &p->slots[at], (p->count - at) * sizeof(*p->slots));
		p->count++;
	}
	p->slots[at] = (struct slot){ copy, v->round };
	return TV_OK;
}

/* Drops what the newest listing did not tell. */
static void
pool_sweep(struct pool *p, uint64_t round)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < p->count; i++) {
		if (p->slots[i].round == round)
			p->slots[kept++] = p->slots[i];
		else
			free(p->slots[i].m);
	}
	p->count = kept;
}

/* -- channel -------------------------------------------------------------- */

static void
changed(struct view *v)
{
	if (v->conf.on_change != NULL && v->synced)
		v->conf.on_change(v->conf.ctx);
}

static enum tv_err
on_member(struct view *v, struct span body)
{
	struct rd r = rd_span_over(body);
	struct member m;
	uint64_t pool, event;
	enum tv_err err;
	bool found;
	unsigned at;

	if (mpr_array(&r) != 3)
		return TV_EFORMAT;
	pool = mpr_uint(&r, POOL_WAN);
	event = mpr_uint(&r, GOSSIP_EV_REAP);
	arena_reset(&v->scratch);
	err = member_unpack(&r, &v->scratch, &m);
	if (err == TV_OK)
		err = rd_end(&r);
	if (err != TV_OK)
		return err;
	if (event == GOSSIP_EV_REAP) {
		at = pool_at(&v->pools[pool], m.name, &found);
		if (found)
			pool_remove(&v->pools[pool], at);
	} else {
		err = pool_put(v, &v->pools[pool], &m);
	}
	changed(v);
	return err;
}

static enum tv_err
on_keys(struct view *v, struct span body)
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
	struct view *v = ctx;

	(void)c;
	v->mute = false;
	if (!v->greeted) {
		v->greeted = greet_check(f) == TV_OK;
		return v->greeted ? TV_OK : TV_EFORMAT;
	}
	if (f->flags & FRAME_REPLY)
		return calls_frame(v->calls, f);
	switch (f->type) {
	case MSG_GOSSIP_MEMBER:
		return on_member(v, f->body);
	case MSG_GOSSIP_SYNCED:
		pool_sweep(&v->pools[POOL_LAN], v->round);
		pool_sweep(&v->pools[POOL_WAN], v->round);
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
	struct view *v = ctx;

	greet_send(c, "rpcd", v->conf.node_id);
	subscribe(c, MSG_GOSSIP_WATCH);
	if (v->conf.on_user_event != NULL && v->conf.on_query != NULL)
		subscribe(c, MSG_GOSSIP_EVENTS);
	if (v->conf.on_subscribed != NULL)
		v->conf.on_subscribed(v->conf.ctx);
	v->greeted = v->synced = false;
	v->round++;
	if (v->failures >= DOWN_WARN_AFTER)
		log_info("rpc", "connected to gossipd again");
	v->failures = 0;
}

static void
on_down(void *ctx, enum tv_err why)
{
	struct view *v = ctx;

	if (why != TV_ETIMEOUT)
		v->mute = false;
	v->greeted = false;
	if (++v->failures == DOWN_WARN_AFTER)
		log_warn("rpc", "no connection to gossipd at %s (%s); going on with the members known so far",
		    v->conf.path, tv_strerror(why));
	v->synced = false;
	calls_fail_all(v->calls, TV_ECLOSED);
}

static const struct chan_events view_events = { .on_frame = on_frame };

struct view *
view_new(const struct view_conf *conf)
{
	struct view *v = calloc(1, sizeof(*v));
	struct dialer_conf d = {
		.chan = {
			.loop = conf->loop, .events = &view_events, .ctx = v, .name = "gossipd.sock",
			.body_max = VIEW_FRAME_BYTES_MAX, .out_max = VIEW_FRAME_BYTES_MAX, .initiator = true,
		},
		.unix_path = conf->path, .on_up = on_up, .on_down = on_down,
	};

	if (v == NULL)
		return NULL;
	v->conf = *conf;
	v->scratch = ARENA_INIT(1u << 20);
	v->calls = calls_new(conf->loop, VIEW_CALLS_MAX, VIEW_FRAME_BYTES_MAX);
	v->dialer = v->calls == NULL ? NULL : dialer_new(&d);
	if (v->dialer == NULL) {
		calls_free(v->calls);
		free(v);
		return NULL;
	}
	return v;
}

void
view_free(struct view *v)
{
	if (v == NULL)
		return;
	dialer_free(v->dialer);
	calls_free(v->calls);
	for (int i = 0; i < 2; i++) {
		pool_sweep(&v->pools[i], v->round + 1);
		free(v->pools[i].slots);
	}
	arena_done(&v->scratch);
	free(v);
}

const char *
view_state(const struct view *v)
{
	if (v->mute || (dialer_chan(v->dialer) != NULL && !v->greeted))
		return "silent";
	return view_is_up(v) ? "connected" : "away";
}

void
view_missed(struct view *v)
{
	v->mute = true;
}

bool
view_is_up(const struct view *v)
{
	return v->synced;
}

uint64_t
view_call(struct view *v, uint16_t type, struct span body, struct mono timeout,
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
view_cancel(struct view *v, uint64_t id)
{
	calls_cancel(v->calls, dialer_chan(v->dialer), id);
}

/* -- questions ------------------------------------------------------------ */

unsigned
view_count(const struct view *v, enum gossip_pool pool)
{
	return v->pools[pool].count;
}

const struct member *
view_at(const struct view *v, enum gossip_pool pool, unsigned i)
{
	return i < v->pools[pool].count ? v->pools[pool].slots[i].m : NULL;
}

const struct member *
view_find(const struct view *v, enum gossip_pool pool, struct span name)
{
	bool found;
	unsigned at = pool_at(&v->pools[pool], name, &found);

	return found ? v->pools[pool].slots[at].m : NULL;
}

static bool
is_server(const struct member *m)
{
	return span_eqs(member_tag(m, "role"), "server");
}

/* One that can be asked, of this datacenter, and not ourselves. */
static bool
is_askable(const struct view *v, const struct member *m, struct span dc)
{
	/* A fenced server (raftd/peers/fence.h) has nothing to say that counts. */
	return m->status == MEMBER_ALIVE && is_server(m) && member_tag_port(m, "rpc_port") != 0 &&
	    member_tag(m, "fenced").len == 0 && span_eq(member_tag(m, "dc"), dc) &&
	    !span_eqs(member_tag(m, "id"), v->conf.node_id);
}

unsigned
view_servers(const struct view *v, struct span dc, struct rng *rng, view_rank *rank, void *ctx,
    struct view_server *out, unsigned max)
{
	bool own = span_eqs(dc, v->conf.datacenter);
	const struct pool *p = &v->pools[own ? POOL_LAN : POOL_WAN];
	unsigned n = 0, seen = 0, best = VIEW_SKIP;

	for (unsigned i = 0; i < p->count; i++) {
		const struct member *m = p->slots[i].m;
		struct view_server s = { .member = m };
		unsigned at, how;

		if (!is_askable(v, m, dc))
			continue;
		s.rpc_port = member_tag_port(m, "rpc_port");
		member_ip(m, s.ip);
		how = rank(ctx, &s);
		if (how > best || how == VIEW_SKIP)
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
view_dc_known(const struct view *v, struct span dc)
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
view_datacenters(const struct view *v, struct span *out, unsigned max)
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
view_server_by_id(const struct view *v, const char *id)
{
	const struct pool *p = &v->pools[POOL_LAN];

	for (unsigned i = 0; i < p->count; i++)
		if (is_server(p->slots[i].m) && span_eqs(member_tag(p->slots[i].m, "id"), id))
			return p->slots[i].m;
	return NULL;
}
