/* Members as gossipd tells them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/gossip_client.h"
#include "common/net/msg.h"
#include "common/proc/daemon.h"
#include "common/record/mpack.h"
#include "raftd/engine/engine.h"
#include "raftd/peers/gossip.h"
#include "raftd/peers/identity.h"

#define ASK_AFTER MONO_S(2)
#define PATIENCE MONO_S(5)

struct gossip {
	struct raftd *d;
	const struct gossip_hooks *hooks;
	struct gossip_client client;
	struct daemon_client *daemon;	/* of the client */
	struct member_table *table;	/* of the LAN pool; `server` marks those that are one by their tags: few among many */
	char *path;
	bool announcing;		/* that we lead, and gossipd has not confirmed it */
	struct log_limit twins;
	uint64_t announcement;		/* the newest one's call, once made */
	struct silence silence;		/* of gossipd */
	bool silent;			/* and it was too long */
	struct mono well;		/* when it was last found there */
	struct mono whole;		/* since when the members are known, while synced */
};

/* -- servers -- */

static bool
has_tags_of_server(const struct gossip *g, const struct member *m)
{
	return span_eqs(member_tag(m, "role"), "server") &&
	    span_eq_nocase(member_tag(m, "dc"), span_str(g->d->cluster.datacenter));
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

	for (size_t i = 0; i < g->table->count; i++)
		if (as_server(&g->table->slots[i], &s))
			fn(ctx, &s);
}

bool
gossip_find_server(struct gossip *g, const char *uuid, struct gossip_server *out)
{
	struct gossip_server s;
	bool found = false;

	for (size_t i = 0; i < g->table->count; i++) {
		if (!as_server(&g->table->slots[i], &s) || strcmp(s.uuid, uuid) != 0)
			continue;
		if (!found || s.status == MEMBER_ALIVE)
			*out = s;
		found = true;
		if (s.status == MEMBER_ALIVE)
			break;
	}
	return found;
}

bool
gossip_id_is_clients(struct gossip *g, const struct gossip_server *s)
{
	const struct member_slot *own = member_table_find(g->table, span_str(s->name));

	if (own == NULL || (!own->refused && !own->dirty))
		return false;
	for (size_t i = 0; i < g->table->count; i++) {
		const struct member_slot *e = &g->table->slots[i];

		if (!e->gone && (e->m->status == MEMBER_ALIVE || e->m->status == MEMBER_LEAVING) &&
		    span_eqs(member_tag(e->m, "role"), "client") && span_eqs(member_tag(e->m, "dc"), g->d->cluster.datacenter) &&
		    span_eq_nocase(member_tag(e->m, "id"), span_str(s->uuid)))
			return true;
	}
	return false;
}

uint32_t
gossip_count(const struct gossip *g)
{
	return g->table->count;
}

bool
gossip_settled(struct gossip *g, struct mono time)
{
	const struct raft_config *c = engine_config(g->d->engine);
	struct gossip_server s;
	unsigned known = 0;

	if (!g->client.synced || mono_before(mono_sub(clock_mono(), g->whole), time))
		return false;
	for (unsigned i = 0; i < c->count; i++)
		known += c->servers[i].voter && gossip_find_server(g, c->servers[i].uuid, &s);
	return known > raft_config_voters(c) / 2;
}

bool
gossip_next(struct gossip *g, size_t *cursor, struct gossip_member *out)
{
	struct member_slot *e;

	if (*cursor >= g->table->count)
		return false;
	e = &g->table->slots[(*cursor)++];
	*out = (struct gossip_member){ e->m, e->gone, &e->dirty, &e->refused };
	return true;
}

bool
gossip_look_up(struct gossip *g, struct span name, struct gossip_member *out)
{
	struct member_slot *e = member_table_find(g->table, name);

	if (e != NULL)
		*out = (struct gossip_member){ e->m, e->gone, &e->dirty, &e->refused };
	return e != NULL;
}

void
gossip_forget(struct gossip *g, const struct member *m)
{
	struct member_slot *e = member_table_find(g->table, m->name);

	if (e != NULL && e->gone)
		member_table_remove(g->table, e);
}

const struct member *
gossip_find(struct gossip *g, struct span name)
{
	struct member_slot *e = member_table_find(g->table, name);

	return e == NULL || e->gone ? NULL : e->m;
}

void
gossip_mark_all(struct gossip *g)
{
	for (size_t i = 0; i < g->table->count; i++)
		g->table->slots[i].dirty = true;
}

/* -- events -- */

/* Two members that live have one node id (S62): said here, on both sides and everywhere else. */
static void
look_for_twin(struct gossip *g, const struct member_slot *e, const struct gossip_server *s)
{
	struct gossip_server other;
	char name[128], twin[128];

	for (size_t i = 0; i < g->table->count; i++) {
		if (&g->table->slots[i] == e || !as_server(&g->table->slots[i], &other) || other.status != MEMBER_ALIVE ||
		    strcmp(other.uuid, s->uuid) != 0 || !log_allow(&g->twins, "raftd"))
			continue;
		log_err("raftd", "members %s (%s) and %s (%s) have the same node id %s: a data directory or a machine's image was "
		    "copied, or is used by both; stop the daemons of the copy, give it an empty data directory of its own (data_dir) "
		    "and start them",
		    log_safe(span_str(s->name), name, sizeof(name)), s->addr,
		    log_safe(span_str(other.name), twin, sizeof(twin)), other.addr, s->uuid);
	}
}

/* -- the leader -- */

/* Without an answer it is said again when gossipd is back. */
static void
on_announced(void *ctx, enum tv_err failed, struct span body)
{
	struct gossip *g = ctx;
	struct msg_answer a;
	char safe[256];

	if (failed != TV_OK)
		return;
	if (msg_answer_read(body, &a, NULL, NULL, NULL) != TV_OK)
		a = (struct msg_answer){ TV_EFORMAT, .text = span_str("malformed reply from gossipd") };
	if (a.err != TV_OK)
		log_warn("raftd", "the change of leader could not be announced: %s",
		    log_safe(a.text, safe, sizeof(safe)));
	g->announcing = false;
}

/*
 * Not before gossipd has found the others again: its clock of events is from before it went, and they may take what it fires by
 * that for old.
 */
static void
announce(struct gossip *g)
{
	struct buf b = BUF_INIT(1024);
	enum tv_err err;

	if (!g->client.synced)
		return;			/* when gossipd is back */
	schema_pack(&msg_fire_schema, &(struct msg_fire){ POOL_LAN, span_str("consul:new-leader"),
	    span_str(g->d->cluster.node_name), false }, &b);
	daemon_client_cancel(g->daemon, g->announcement);
	g->announcement = daemon_client_call(g->daemon, MSG_GOSSIP_FIRE, buf_span(&b), MONO_NEVER, on_announced, g, &err);
	buf_done(&b);
}

void
gossip_announce(struct gossip *g)
{
	g->announcing = true;
	announce(g);
}

void
gossip_calm(struct gossip *g)
{
	g->announcing = false;
}

/* -- members -- */

/* Members that the catalog refuses because of this one's name or id (NULL: of any) may get in now. */
static void
mark_refused(struct gossip *g, const struct member *m)
{
	struct span id = m == NULL ? SPAN_NONE : member_tag(m, "id");

	for (size_t i = 0; i < g->table->count; i++) {
		struct member_slot *e = &g->table->slots[i];

		if (e->refused && (m == NULL || span_eq_nocase(e->m->name, m->name) || span_eq_nocase(member_tag(e->m, "id"), id)))
			e->dirty = true;
	}
}

/* The list is complete, or a member came, changed or went. */
static void
on_change(void *ctx, struct member_slot *e, uint8_t before)
{
	struct gossip *g = ctx;
	struct gossip_server s;

	if (e != NULL && !e->gone) {
		e->server = has_tags_of_server(g, e->m);
		if (e->m->status == MEMBER_LEFT && before == MEMBER_FAILED)
			e->forced = true;
		else if (e->m->status != MEMBER_LEFT)
			e->forced = false;
		if (e->m->status == MEMBER_ALIVE && as_server(e, &s)) {
			look_for_twin(g, e, &s);
			if (g->client.synced)
				g->hooks->server_alive(g->d, s.uuid);
		}
	}
	mark_refused(g, e == NULL ? NULL : e->m);
	g->hooks->members_changed(g->d);
	if (g->client.synced && (e == NULL || e->server))
		g->hooks->servers_changed(g->d);
	if (e == NULL)
		g->whole = clock_mono();
	if (e == NULL && g->announcing)
		announce(g);
}

/* -- does it answer? -- */

static void
on_life(void *ctx, enum tv_err err, struct span body)
{
	(void)ctx, (void)err, (void)body;	/* that it answered is seen by chan_signs() */
}

static void
ask_for_life(struct gossip *g)
{
	enum tv_err err;

	(void)daemon_client_call(g->daemon, MSG_INFO, MSG_EMPTY, MONO_NEVER, on_life, NULL, &err);
}

void
gossip_look(struct gossip *g)
{
	struct silence_conf conf = { ASK_AFTER, PATIENCE,
	    .gap = mono_add(mono_mul(g->d->conf.member_interval, 2), MONO_S(1)) };
	struct chan *c = daemon_client_chan(g->daemon);

	if (c == NULL) {
		g->silence = (struct silence){ 0 };
		g->silent = false;
		return;
	}
	if (g->client.synced && !g->silent)
		g->well = clock_mono();
	switch (silence_look(&g->silence, &conf, clock_mono(), chan_signs(c))) {
	case SILENCE_ASK:
		ask_for_life(g);
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
	return g->silent ? DAEMON_SILENT : g->client.synced ? DAEMON_ANSWERS : DAEMON_AWAY;
}

enum daemon_state
gossip_daemon_lasting(const struct gossip *g)
{
	enum daemon_state now = gossip_daemon(g);

	return now == DAEMON_AWAY && mono_before(mono_sub(clock_mono(), g->well), PATIENCE) ? DAEMON_ANSWERS : now;
}

void
gossip_prune(struct gossip *g, struct span name)
{
	struct buf b = BUF_INIT(1024);
	enum tv_err err;

	schema_pack(&msg_force_leave_schema, &(struct msg_force_leave){ name, true }, &b);
	(void)daemon_client_call(g->daemon, MSG_GOSSIP_FORCE_LEAVE, buf_span(&b), MONO_NEVER, on_life, NULL, &err);
	buf_done(&b);
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
 * Fresh servers find out by `expect` which others wait to form a cluster of that size.  `gen` and `fenced` are for people,
 * and for rpcds that choose a server to ask: after a recovery they tell the two sides apart.
 */
static void
send_tags(struct gossip *g, struct chan *c)
{
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

void
gossip_tell_identity(struct gossip *g)
{
	send_tags(g, daemon_client_chan(g->daemon));
}

static void
on_up(void *ctx, struct chan *c)
{
	send_tags(ctx, c);
	log_debug("raftd", "connected to gossipd");
}

static void
on_down(void *ctx, enum tv_err why, unsigned failures UNUSED)
{
	struct gossip *g = ctx;

	if (g->d->left) {
		log_info("triumvir", "server has left");
		daemon_quit(0);
	} else if (g->client.synced) {
		log_warn("raftd", "no connection to gossipd (%s); continuing with the members known", tv_strerror(why));
	}
}

struct gossip *
gossip_new(struct raftd *d, const struct gossip_hooks *hooks)
{
	struct gossip *g = calloc(1, sizeof(*g));

	if (g == NULL || asprintf(&g->path, "%s/gossipd.sock", d->cluster.run_dir) < 0) {
		free(g);
		return NULL;
	}
	g->d = d;
	g->hooks = hooks;
	g->well = clock_mono();
	g->twins = (struct log_limit){ .burst = 4, .period = MONO_S(60) };
	g->client = (struct gossip_client){
	    .daemon = { .chan.loop = d->loop, .path = g->path, .role = "raftd", .node_id = d->id.uuid,
	        .log_area = "raftd", .backoff_max = MONO_S(1) },
	    .members_max = GOSSIP_MEMBERS_MAX, .when_full = ": the catalog leaves out the rest", .keep_gone = true,
	    .on_up = on_up, .on_change = on_change, .on_down = on_down, .ctx = g };
	g->daemon = &g->client.daemon;
	g->table = &g->client.pools[POOL_LAN];
	if (gossip_client_start(&g->client))
		return g;
	gossip_free(g);
	return NULL;
}

void
gossip_free(struct gossip *g)
{
	if (g == NULL)
		return;
	gossip_client_stop(&g->client);
	free(g->path);
	free(g);
}
