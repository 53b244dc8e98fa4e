/* Members as gossipd tells them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/net/greet.h"
#include "common/net/dial.h"
#include "common/base/log.h"
#include "common/proc/daemon.h"
#include "common/record/mpack.h"
#include "common/net/msg.h"
#include "common/net/silence.h"
#include "raftd/peers/gossip.h"
#include "raftd/peers/identity.h"

#define BODY_MAX (1u << 20)
#define ASK_AFTER MONO_S(2)
#define PATIENCE MONO_S(5)

struct gossip {
	struct raftd *d;
	const struct gossip_hooks *hooks;
	struct dialer *dialer;
	char *path;
	struct member_table table;	/* of the LAN pool; `server` marks those that are one by their tags: few among many */
	struct arena scratch;
	bool synced;
	bool announcing;		/* that we lead, and gossipd has not confirmed it */
	struct log_limit twins;
	uint64_t announcements;		/* also the id of the newest one's frame */
	struct silence silence;		/* of gossipd */
	uint64_t questions;		/* whether it answers */
	bool silent;			/* and it was too long */
	struct mono well;		/* when it was last found there */
};

/* -- servers -- */

static bool
has_tags_of_server(const struct gossip *g, const struct member *m)
{
	return span_eqs(member_tag(m, "role"), "server") && span_eqs(member_tag(m, "dc"), g->d->cluster.datacenter);
}

static bool
as_server(const struct member_slot *e, struct gossip_server *out)
{
	char ip[46], expect[24];
	uint16_t port;

	if (!e->server)
		return false;
	*out = (struct gossip_server){ .status = e->m->status, .forced = e->forced };
	port = member_tag_port(e->m, "raft_port");
	if (e->gone || port == 0)
		return false;
	if (!span_copy(member_tag(e->m, "id"), out->uuid, sizeof(out->uuid)) || strlen(out->uuid) != 36 ||
	    !span_copy(e->m->name, out->name, sizeof(out->name)))
		return false;
	addr_join(member_ip(e->m, ip), port, out->addr, sizeof(out->addr));
	if (!span_copy(member_tag(e->m, "build"), out->build, sizeof(out->build)))
		out->build[0] = '\0';
	if (span_copy(member_tag(e->m, "expect"), expect, sizeof(expect)))
		out->expect = strtoul(expect, NULL, 10);
	return true;
}

void
gossip_each_server(struct gossip *g, void (*fn)(void *ctx, const struct gossip_server *s), void *ctx)
{
	struct gossip_server s;

	for (size_t i = 0; i < g->table.count; i++)
		if (as_server(&g->table.slots[i], &s))
			fn(ctx, &s);
}

bool
gossip_find_server(struct gossip *g, const char *uuid, struct gossip_server *out)
{
	for (size_t i = 0; i < g->table.count; i++)
		if (as_server(&g->table.slots[i], out) && strcmp(out->uuid, uuid) == 0)
			return true;
	return false;
}

bool
gossip_own(struct gossip *g, struct gossip_server *out)
{
	return gossip_find_server(g, g->d->id.uuid, out);
}

bool
gossip_synced(const struct gossip *g)
{
	return g->synced;
}

bool
gossip_next(struct gossip *g, size_t *cursor, struct gossip_member *out)
{
	struct member_slot *e;

	if (*cursor >= g->table.count)
		return false;
	e = &g->table.slots[(*cursor)++];
	*out = (struct gossip_member){ e->m, e->gone, &e->dirty };
	return true;
}

void
gossip_forget(struct gossip *g, const struct member *m)
{
	struct member_slot *e = member_table_find(&g->table, m->name);

	if (e != NULL && e->gone)
		member_table_remove(&g->table, e);
}

const struct member *
gossip_find(struct gossip *g, struct span name)
{
	struct member_slot *e = member_table_find(&g->table, name);

	return e == NULL || e->gone ? NULL : e->m;
}

void
gossip_mark_all(struct gossip *g)
{
	for (size_t i = 0; i < g->table.count; i++)
		g->table.slots[i].dirty = true;
}

/* -- events -- */

static void
changed(struct gossip *g, bool server)
{
	g->hooks->members_changed(g->d);
	if (!server || !g->synced)
		return;
	g->hooks->servers_changed(g->d);
}

static void
member_gone(struct gossip *g, struct member_slot *e)
{
	e->gone = true;
	e->dirty = true;
	(void)g;
}

/* Two members that live have one node id (S62): said here, on both sides and everywhere else. */
static void
look_for_twin(struct gossip *g, const struct member_slot *e, const struct gossip_server *s)
{
	struct gossip_server other;
	char name[128], twin[128];

	for (size_t i = 0; i < g->table.count; i++) {
		if (&g->table.slots[i] == e || !as_server(&g->table.slots[i], &other) || other.status != MEMBER_ALIVE ||
		    strcmp(other.uuid, s->uuid) != 0 || !log_allow(&g->twins, "raftd"))
			continue;
		log_err("raftd", "members %s (%s) and %s (%s) have the same node id %s: a data directory or a machine's image was "
		    "copied, or is used by both; stop the daemons of the copy, give it an empty data directory of its own (data_dir) "
		    "and start them",
		    log_safe(span_str(s->name), name, sizeof(name)), s->addr,
		    log_safe(span_str(other.name), twin, sizeof(twin)), other.addr, s->uuid);
	}
}

static void
member_told(struct gossip *g, uint8_t event, const struct member *m)
{
	struct member_slot *e = member_table_find(&g->table, m->name);
	struct gossip_server s;
	uint8_t before = e != NULL && !e->gone ? e->m->status : MEMBER_NONE;
	enum tv_err err;
	bool server;

	if (event == GOSSIP_EV_REAP) {
		if (e == NULL)
			return;
		server = as_server(e, &s);
		member_gone(g, e);
		changed(g, server);
		return;
	}
	e = member_table_put(&g->table, m, &err);
	if (e == NULL) {
		if (err == TV_ELIMIT && g->table.refused == 1)
			log_warn("raftd", "more than %d members: the catalog leaves out the rest", GOSSIP_MEMBERS_MAX);
		return;
	}
	e->server = has_tags_of_server(g, e->m);
	e->dirty = true;
	e->gone = false;
	if (m->status == MEMBER_LEFT && before == MEMBER_FAILED)
		e->forced = true;
	else if (m->status != MEMBER_LEFT)
		e->forced = false;
	server = as_server(e, &s);
	if (server && m->status == MEMBER_ALIVE)
		look_for_twin(g, e, &s);
	if (server && m->status == MEMBER_ALIVE && g->synced)
		g->hooks->server_alive(g->d, s.uuid);
	changed(g, server);
}

static enum tv_err
take_member(struct gossip *g, struct span body)
{
	enum gossip_event event;
	enum gossip_pool pool;
	struct member m;
	enum tv_err err;

	arena_reset(&g->scratch);
	err = member_event_read(body, &g->scratch, &pool, &event, &m);
	if (err == TV_OK && pool == POOL_LAN)
		member_told(g, event, &m);
	return err;
}

/* -- who leads -- */

/*
 * Not before gossipd has found the others again: its clock of events is from before it went, and they may take what it fires by
 * that for old.
 */
static void
announce(struct gossip *g)
{
	struct chan *c = g->synced ? dialer_chan(g->dialer) : NULL;
	struct buf *b = c == NULL ? NULL : chan_begin(c, MSG_GOSSIP_FIRE, 0, g->announcements);

	if (b == NULL)
		return;			/* when gossipd is back */
	mpw_array(b, 4);
	mpw_uint(b, POOL_LAN);
	mpw_cstr(b, "consul:new-leader");
	mpw_bin(b, span_str(g->d->cluster.node_name));
	mpw_bool(b, false);
	(void)chan_end(c);
}

void
gossip_announce(struct gossip *g)
{
	g->announcing = true;
	g->announcements++;
	announce(g);
}

void
gossip_calm(struct gossip *g)
{
	g->announcing = false;
}

/* [u8 err, str text, u64 ltime] */
static enum tv_err
take_announced(struct gossip *g, const struct frame *f)
{
	struct rd r = rd_span_over(f->body);
	struct span text;
	uint64_t err;
	char safe[256];

	if (mpr_array(&r) != 3)
		rd_fail(&r, TV_EFORMAT);
	err = mpr_uint(&r, UINT8_MAX);
	text = mpr_bytes(&r, UINT16_MAX);
	(void)mpr_uint(&r, UINT64_MAX);
	if (rd_end(&r) != TV_OK)
		return r.err;
	if (err != 0)
		log_warn("raftd", "the change of leader could not be announced: %s", log_safe(text, safe, sizeof(safe)));
	if (f->id == g->announcements)
		g->announcing = false;
	return TV_OK;
}

static enum tv_err
take_synced(struct gossip *g)
{
	g->synced = true;
	for (size_t i = 0; i < g->table.count; i++)
		if (g->table.slots[i].round != g->table.round)
			member_gone(g, &g->table.slots[i]);
	changed(g, true);
	if (g->announcing)
		announce(g);
	return TV_OK;
}

static enum tv_err
on_frame(void *ctx, struct chan *c, const struct frame *f)
{
	struct gossip *g = ctx;

	if (f->type == MSG_INFO)
		return f->flags & FRAME_REPLY ? TV_OK : TV_EFORMAT;	/* it lives: that was the question */
	if (f->flags & FRAME_REPLY)
		return f->type == MSG_GOSSIP_FIRE ? take_announced(g, f) : TV_EFORMAT;
	switch (f->type) {
	case MSG_HELLO:
		return greet_check(c, f);
	case MSG_GOSSIP_MEMBER:
		return take_member(g, f->body);
	case MSG_GOSSIP_SYNCED:
		return take_synced(g);
	default:
		return TV_EFORMAT;
	}
}

/* -- does it answer? -- */

static void
ask_for_life(struct gossip *g, struct chan *c)
{
	struct buf *b = chan_begin(c, MSG_INFO, 0, ++g->questions);

	if (b == NULL)
		return;			/* on_down follows */
	mpw_array(b, 0);
	(void)chan_end(c);
}

void
gossip_look(struct gossip *g)
{
	struct silence_conf conf = { ASK_AFTER, PATIENCE,
	    .gap = mono_add(mono_mul(g->d->conf.member_interval, 2), MONO_S(1)) };
	struct chan *c = dialer_chan(g->dialer);

	if (c == NULL) {
		g->silence = (struct silence){ 0 };
		g->silent = false;
		return;
	}
	if (g->synced && !g->silent)
		g->well = clock_mono();
	switch (silence_look(&g->silence, &conf, clock_mono(), chan_signs(c))) {
	case SILENCE_ASK:
		ask_for_life(g, c);
		break;
	case SILENCE_DEAD:
		g->silent = true;
		break;
	default:
		g->silent = false;
		break;
	}
}

enum daemon_state
gossip_daemon(const struct gossip *g)
{
	return g->silent ? DAEMON_SILENT : g->synced ? DAEMON_ANSWERS : DAEMON_AWAY;
}

enum daemon_state
gossip_daemon_lasting(const struct gossip *g)
{
	enum daemon_state now = gossip_daemon(g);

	return now == DAEMON_AWAY && mono_before(mono_sub(clock_mono(), g->well), PATIENCE) ? DAEMON_ANSWERS : now;
}

static void
put_tag(struct buf *b, const char *name, uint64_t value)
{
	char text[24] = "";

	if (value > 0)
		snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	mpw_cstr(b, name);
	mpw_cstr(b, text);		/* "" removes it */
}

/*
 * Fresh servers find out by `expect` who else waits to form a cluster of that size.  `gen` and `fenced` are for people,
 * and for those who choose a server to ask: after a recovery they tell the two sides apart.
 */
void
gossip_tell_identity(struct gossip *g)
{
	struct chan *c = dialer_chan(g->dialer);
	struct buf *b = c == NULL ? NULL : chan_begin(c, MSG_GOSSIP_TAGS, 0, 0);
	uint64_t number = generation_number(g->d->id.generation);

	if (b == NULL)
		return;			/* when gossipd is back */
	mpw_array(b, 1);
	mpw_map(b, 3);
	put_tag(b, "expect", g->d->conf.bootstrap_expect);
	put_tag(b, "gen", number > 1 ? number : 0);
	put_tag(b, "fenced", generation_number(g->d->fenced));
	(void)chan_end(c);
}

static void
on_up(void *ctx, struct chan *c)
{
	struct gossip *g = ctx;
	struct buf *b;

	greet_send(c, "raftd", g->d->id.uuid);
	gossip_tell_identity(g);
	b = chan_begin(c, MSG_GOSSIP_WATCH, 0, 0);
	if (b != NULL) {
		mpw_array(b, 0);
		(void)chan_end(c);
	}
	g->table.round++;
	log_debug("raftd", "connected to gossipd");
}

static void
on_down(void *ctx, enum tv_err why)
{
	struct gossip *g = ctx;

	if (g->d->left) {
		log_info("triumvir", "server has left");
		daemon_quit(0);
		return;
	}
	if (g->synced)
		log_warn("raftd", "no connection to gossipd (%s); continuing with the members known", tv_strerror(why));
	g->synced = false;
}

struct gossip *
gossip_new(struct raftd *d, const struct gossip_hooks *hooks)
{
	static const struct chan_events events = { on_frame, NULL, NULL };
	struct gossip *g = calloc(1, sizeof(*g));
	struct dialer_conf conf = {
		.chan = { .loop = d->loop, .events = &events, .name = "gossipd.sock",
		    .body_max = BODY_MAX, .out_max = BODY_MAX },
		.on_up = on_up, .on_down = on_down, .backoff_max = MONO_S(1),
	};

	if (g == NULL || asprintf(&g->path, "%s/gossipd.sock", d->cluster.run_dir) < 0) {
		free(g);
		return NULL;
	}
	g->d = d;
	g->hooks = hooks;
	g->table.max = GOSSIP_MEMBERS_MAX;
	g->scratch = ARENA_INIT(1u << 20);
	g->well = clock_mono();
	g->twins = (struct log_limit){ .burst = 4, .period = MONO_S(60) };
	conf.chan.ctx = g;
	conf.unix_path = g->path;
	g->dialer = dialer_new(&conf);
	if (g->dialer == NULL) {
		gossip_free(g);
		return NULL;
	}
	return g;
}

void
gossip_free(struct gossip *g)
{
	if (g == NULL)
		return;
	dialer_free(g->dialer);
	member_table_done(&g->table);
	arena_done(&g->scratch);
	free(g->path);
	free(g);
}
