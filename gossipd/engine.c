/* gossipd as a whole; see engine.h. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/chan.h"
#include "common/proc/daemon.h"
#include "gossipd/engine.h"
#include "gossipd/handlers.h"
#include "gossipd/join.h"
#include "gossipd/keyquery.h"
#include "gossipd/net.h"

#define PROTOCOL_VSN "1"		/* of our own messages between the nodes, for mixed versions */
#define QUIT_AFTER 0.1			/* the answers to a leave must get out first */

const char *
engine_pool_name(enum gossip_pool pool)
{
	return pool == POOL_LAN ? "LAN" : "WAN";
}

static uint16_t
pool_port(const struct engine *e, enum gossip_pool pool)
{
	return pool == POOL_LAN ? e->cluster->lan_port : e->cluster->wan_port;
}

/* Clients stay out of the WAN pool. */
static bool
has_pool(const struct engine *e, enum gossip_pool pool)
{
	return pool == POOL_LAN || e->cluster->server;
}

/* -- with privileges ---------------------------------------------------------------- */

static enum tv_err
load_keys(struct engine *e, char *errbuf, size_t cap)
{
	e->keys = kring_new();
	if (e->keys == NULL) {
		snprintf(errbuf, cap, "no locked memory for the keys (see LimitMEMLOCK)");
		return TV_ENOMEM;
	}
	return e->cluster->have_keys ? kring_seed(e->keys, e->cluster->cluster_key, errbuf, cap) : TV_OK;
}

static enum tv_err
bind_pool(struct engine *e, enum gossip_pool pool, char *errbuf, size_t cap)
{
	uint16_t port = pool_port(e, pool);

	e->udp_fds[pool] = net_listen_udp(e->cluster->bind, port);
	if (e->udp_fds[pool] >= 0)
		e->tcp_fds[pool] = listen_tcp(e->cluster->bind, port);
	if (e->tcp_fds[pool] >= 0)
		return TV_OK;
	snprintf(errbuf, cap, "cannot listen on %s:%u (%s, gossip of the %s): %s", e->cluster->bind, port,
	    e->udp_fds[pool] < 0 ? "UDP" : "TCP", engine_pool_name(pool), strerror(errno));
	return TV_ESYS;
}

enum tv_err
engine_open(struct engine *e, const struct daemon_spec *spec, char *errbuf, size_t cap)
{
	char path[4096];
	enum tv_err err;

	e->client_fd = -1;
	for (int i = 0; i < ENGINE_POOLS; i++)
		e->udp_fds[i] = e->tcp_fds[i] = -1;
	err = load_keys(e, errbuf, cap);
	for (enum gossip_pool pool = POOL_LAN; pool <= POOL_WAN && err == TV_OK; pool++)
		if (has_pool(e, pool))
			err = bind_pool(e, pool, errbuf, cap);
	if (err != TV_OK)
		return err;
	snprintf(path, sizeof(path), "%s/gossipd.sock", e->cluster->run_dir);
	e->client_fd = daemon_socket(spec, path);
	if (e->client_fd >= 0)
		return TV_OK;
	snprintf(errbuf, cap, "%s: %s", path, strerror(errno));
	return TV_ESYS;
}

/* -- own tags -------------------------------------------------------------------------- */

static enum tv_err
put_port(struct tagset *t, const char *name, uint16_t port)
{
	char text[8];

	snprintf(text, sizeof(text), "%u", port);
	return tagset_puts(t, name, text);
}

static enum tv_err
first_tags(struct engine *e)
{
	const struct cluster_conf *c = e->cluster;
	struct tagset *t = &e->tags;
	enum tv_err err = TV_OK;

	if ((err = tagset_puts(t, "role", c->server ? "server" : "client")) != TV_OK ||
	    (err = tagset_puts(t, "dc", c->datacenter)) != TV_OK || (err = tagset_puts(t, "id", c->node_id)) != TV_OK ||
	    (err = tagset_puts(t, "build", TV_VERSION)) != TV_OK ||
	    (err = tagset_puts(t, "vsn", PROTOCOL_VSN)) != TV_OK)
		return err;
	if (c->have_keys && (err = tagset_puts(t, "enc", cluster_encryption_name(c->encryption))) != TV_OK)
		return err;
	if (!c->server)
		return TV_OK;
	if (strcmp(c->advertise, c->advertise_wan) != 0 &&
	    (err = tagset_puts(t, "wan_addr", c->advertise_wan)) != TV_OK)
		return err;
	if ((err = put_port(t, "raft_port", c->raft_port)) != TV_OK ||
	    (err = put_port(t, "rpc_port", c->rpc_port)) != TV_OK)
		return err;
	return put_port(t, "wan_port", c->wan_port);
}

enum tv_err
engine_tags(struct engine *e, const struct member_tag *changes, uint32_t count)
{
	struct tagset fresh;
	struct buf meta = BUF_INIT(TAGSET_META_ROOM);
	enum tv_err err = tagset_copy(&e->tags, &fresh);

	if (err != TV_OK)
		return err;
	for (uint32_t i = 0; i < count && err == TV_OK; i++)
		err = tagset_put(&fresh, changes[i].name, changes[i].value);
	if (err == TV_OK)
		err = tagset_meta(&fresh, &meta);	/* does it fit? */
	buf_done(&meta);
	for (int i = 0; i < ENGINE_POOLS && err == TV_OK; i++)
		if (e->pools[i] != NULL)
			err = pool_set_tags(e->pools[i], &fresh);
	if (err != TV_OK) {
		tagset_done(&fresh);
		return err;
	}
	tagset_done(&e->tags);
	e->tags = fresh;
	return TV_OK;
}

/* -- pools -------------------------------------------------------------------------------- */

static void
on_event(void *ctx, struct pool *p, const struct swim_event *ev)
{
	struct engine *e = ctx;

	if (e->handlers != NULL)
		handlers_event(e->handlers, pool_kind(p), ev);
	if (e->joiner != NULL)
		joiner_event(e->joiner, pool_kind(p), ev);
}

static void
on_join(void *ctx, struct pool *p, const struct swim_join *j)
{
	struct engine *e = ctx;

	if (JOIN_ORIGIN(j->token) == JOIN_CLIENT)
		handlers_joined(e->handlers, j);
	else
		joiner_joined(e->joiner, pool_kind(p), j);
}

static void
on_left(void *ctx, struct pool *p)
{
	struct engine *e = ctx;

	e->left |= 1u << pool_kind(p);
	log_info("serf", "left the %s pool", engine_pool_name(pool_kind(p)));
	for (int i = 0; i < ENGINE_POOLS; i++)
		if (e->pools[i] != NULL && !(e->left & 1u << i))
			return;
	handlers_left(e->handlers);
	ev_timer_start(e->loop, &e->quit);
}

static void
on_user_event(void *ctx, struct pool *p, const struct swim_user_event *ev)
{
	struct engine *e = ctx;

	if (e->handlers != NULL)
		handlers_user_event(e->handlers, pool_kind(p), ev);
}

static void
on_query(void *ctx, struct pool *p, const struct swim_query *q)
{
	struct engine *e = ctx;

	if (q->kind != SWIM_QUERY_USER)
		keyquery_heard(e, p, q);
	else if (e->handlers != NULL)
		handlers_heard(e->handlers, pool_kind(p), q);
}

static void
on_response(void *ctx, struct pool *p, const struct swim_response *r)
{
	struct engine *e = ctx;

	if (e->handlers != NULL && ASK_ORIGIN(r->token) == ASK_CLIENT)
		handlers_response(e->handlers, p, r);
	else if (e->handlers != NULL)
		handlers_key_response(e->handlers, p, r);
}

/* Two nodes that answer to one name are worse than one node less; systemd's restart asks the pool again. */
static void
on_conflict_lost(void *ctx, struct pool *p, bool copy)
{
	const struct cluster_conf *c = ((struct engine *)ctx)->cluster;

	if (copy)
		log_err("serf", "another node of the %s pool has our name %s and our node id %s, and answers: stopping "
		    "without leaving. Was the data directory, or the machine's image, copied? Stop the daemons here, "
		    "give this node an empty data_dir and a node_name of its own, and start them",
		    engine_pool_name(pool_kind(p)),
		    c->node_name, c->node_id);
	else
		log_err("serf", "most of the %s pool knows another node by our name %s: stopping without leaving. Give "
		    "this node another node_name; if it replaces the other one, start it once that one is shown as "
		    "failed or left",
		    engine_pool_name(pool_kind(p)), c->node_name);
	daemon_quit(1);
}

static void
on_opened(void *ctx, unsigned key)
{
	struct engine *e = ctx;

	kring_opened(e->keys, key);
}

static bool
is_configured(void *ctx, struct pool *p, uint64_t source)
{
	const struct engine *e = ctx;

	return e->joiner != NULL && joiner_wants(e->joiner, pool_kind(p), source);
}

static void
on_unreadable(void *ctx, const struct gaddr *from)
{
	struct engine *e = ctx;
	char text[NET_TEXT_BYTES];

	kring_unreadable(e->keys, net_text(from, text), clock_mono());
}

static void
on_quit(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)loop;
	(void)w;
	(void)revents;
	daemon_quit(0);
}

static enum tv_err
start_pool(struct engine *e, enum gossip_pool kind)
{
	const struct cluster_conf *c = e->cluster;
	const char *ip = kind == POOL_LAN ? c->advertise : c->advertise_wan;
	char name[NODE_NAME_BYTES_MAX + 1], path[4096];
	struct snapshot_found found;
	struct pool_conf pc = { .loop = e->loop, .kind = kind, .opts = e->opts, .udp_fd = e->udp_fds[kind],
		.tcp_fd = e->tcp_fds[kind], .tags = &e->tags, .ring = kring_ring(e->keys),
		.accept_plain = cluster_takes_clear(c), .send_plain = !cluster_seals(c), .on_opened = on_opened,
		.on_unreadable = on_unreadable, .ctx = e, .on_event = on_event,
		.on_join = on_join, .on_left = on_left, .on_user_event = on_user_event, .on_query = on_query,
		.on_response = on_response, .on_conflict_lost = on_conflict_lost,
		.is_configured = is_configured };

	snprintf(name, sizeof(name), kind == POOL_LAN ? "%s" : "%s.%s", c->node_name, c->datacenter);
	snprintf(path, sizeof(path), "%s/gossipd/%s.snapshot", c->data_dir, kind == POOL_LAN ? "lan" : "wan");
	pc.name = span_str(name);
	pc.dc = kind == POOL_LAN ? span_str(c->datacenter) : SPAN_NONE;
	pc.snapshot_path = e->opts->snapshot ? path : NULL;
	if (!net_parse(ip, pool_port(e, kind), &pc.self)) {
		log_err("serf", "advertise: %s is not an address", ip);
		return TV_EINVAL;
	}
	e->udp_fds[kind] = e->tcp_fds[kind] = -1;
	e->pools[kind] = pool_new(&pc, &found);
	if (e->pools[kind] == NULL) {
		snapshot_found_done(&found);
		return TV_ENOMEM;
	}
	joiner_pool(e->joiner, kind, &pc.self, &found);
	snapshot_found_done(&found);
	return TV_OK;
}

static void
on_keys(void *ctx)
{
	struct engine *e = ctx;

	if (e->handlers != NULL)
		handlers_keys(e->handlers);
}

static enum tv_err
open_keys(struct engine *e)
{
	char dir[4096], errbuf[8192];
	enum tv_err err;

	snprintf(dir, sizeof(dir), "%s/gossipd", e->cluster->data_dir);
	err = kring_open(e->keys, dir, e->cluster->plaintext_wanted, errbuf, sizeof(errbuf));
	if (err != TV_OK)
		log_err("keyring", "%s", errbuf);
	return err;
}

enum tv_err
engine_run(struct engine *e, struct ev_loop *loop)
{
	enum tv_err err;

	e->loop = loop;
	ev_timer_init(&e->quit, on_quit, QUIT_AFTER, 0.);
	err = open_keys(e);
	if (err == TV_OK)
		err = first_tags(e);
	if (err == TV_OK && (e->joiner = joiner_new(e)) == NULL)
		err = TV_ENOMEM;
	for (enum gossip_pool kind = POOL_LAN; kind <= POOL_WAN && err == TV_OK; kind++)
		if (has_pool(e, kind))
			err = start_pool(e, kind);
	if (err == TV_OK && (e->handlers = handlers_new(e, e->client_fd)) == NULL)
		err = TV_ENOMEM;
	kring_on_change(e->keys, on_keys, e);
	e->client_fd = -1;
	if (err == TV_OK)
		daemon_ready("gossiping");
	return err;
}

void
engine_stop(struct engine *e)
{
	if (e->loop != NULL)
		ev_timer_stop(e->loop, &e->quit);
	handlers_free(e->handlers);
	joiner_free(e->joiner);
	e->handlers = NULL;
	e->joiner = NULL;
	for (int i = 0; i < ENGINE_POOLS; i++) {
		pool_free(e->pools[i]);
		e->pools[i] = NULL;
		if (e->udp_fds[i] >= 0)
			close(e->udp_fds[i]);
		if (e->tcp_fds[i] >= 0)
			close(e->tcp_fds[i]);
		e->udp_fds[i] = e->tcp_fds[i] = -1;
	}
	if (e->client_fd >= 0)
		close(e->client_fd);
	e->client_fd = -1;
	tagset_done(&e->tags);
	kring_free(e->keys);
	e->keys = NULL;
}

/* -- orders ----------------------------------------------------------------------------------- */

enum tv_err
engine_leave(struct engine *e)
{
	if (e->leaving)
		return TV_EEXIST;
	e->leaving = true;
	log_info("serf", "leaving %s", e->pools[POOL_WAN] != NULL ? "the LAN and WAN pools" : "the LAN pool");
	for (int i = ENGINE_POOLS - 1; i >= 0; i--)
		if (e->pools[i] != NULL)
			(void)pool_leave(e->pools[i]);	/* cannot have begun */
	return TV_OK;
}

enum tv_err
engine_force_leave(struct engine *e, struct span name, bool prune)
{
	char wan[NODE_NAME_BYTES_MAX * 2 + 2];
	enum tv_err lan_err = pool_force_leave(e->pools[POOL_LAN], name, prune), wan_err = TV_ENOENT;

	if (e->pools[POOL_WAN] != NULL) {
		wan_err = pool_force_leave(e->pools[POOL_WAN], name, prune);
		if (wan_err == TV_ENOENT && name.len <= NODE_NAME_BYTES_MAX) {
			int n = snprintf(wan, sizeof(wan), "%.*s.%s", (int)name.len, (const char *)name.p,
			    e->cluster->datacenter);

			wan_err = pool_force_leave(e->pools[POOL_WAN], span_of(wan, (size_t)n), prune);
		}
	}
	if (lan_err == TV_OK || wan_err == TV_OK)
		return TV_OK;
	return lan_err != TV_ENOENT ? lan_err : wan_err;
}
