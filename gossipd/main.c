/*
 * gossipd: who is there.  Keeps the LAN pool of the datacenter's nodes and, on servers, the WAN pool of
 * all servers, and tells raftd and rpcd of them.
 */
#include "config.h"

#ifdef HAVE_MALLOC_TRIM
#include <malloc.h>
#endif
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/chan.h"
#include "common/proc/daemon.h"
#include "common/proc/privdrop.h"
#include "gossipd/conflict_pause.h"
#include "gossipd/handlers.h"
#include "gossipd/join.h"
#include "gossipd/keyquery.h"
#include "gossipd/net.h"
#include "gossipd/resolver.h"

#define LARGE_BYTES (128 * 1024)
#define PROTOCOL_VSN "1"		/* of our own messages between the nodes, for mixed versions */
#define QUIT_AFTER 0.1			/* the answers to a leave must get out first */

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
	if (e->keys == NULL)
		return tv_fail(errbuf, cap, TV_ENOMEM, "no locked memory for the keys (see LimitMEMLOCK)");
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
	return tv_fail(errbuf, cap, TV_ESYS, "cannot listen on %s:%u (%s, gossip of the %s): %s", e->cluster->bind,
	    port, e->udp_fds[pool] < 0 ? "UDP" : "TCP", engine_pool_name(pool), strerror(errno));
}

static enum tv_err
open_all(struct engine *e, const struct daemon_spec *spec, char *errbuf, size_t cap)
{
	char path[4096];
	enum tv_err err;

	e->client_fd = -1;
	for (int i = 0; i < ENGINE_POOLS; i++)
		e->udp_fds[i] = e->tcp_fds[i] = -1;
	/* Before any key is read: it forks. */
	if ((e->resolver = resolver_open(e->cluster)) == NULL)
		return tv_fail(errbuf, cap, TV_ENOMEM, "%s", tv_strerror(TV_ENOMEM));
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
	return tv_fail(errbuf, cap, TV_ESYS, "%s: %s", path, strerror(errno));
}

/* -- without privileges ---------------------------------------------------------------- */

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
on_settled(struct engine *e)
{
	if (e->handlers != NULL)
		handlers_settled(e->handlers);
}

static void
on_join(void *ctx, struct pool *p, const struct swim_join *j)
{
	struct engine *e = ctx;

	if (JOIN_ORIGIN(j->token) == JOIN_CLIENT)
		handlers_joined(e->handlers, pool_kind(p), j);
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

static void close_all(struct engine *e);

static void
on_pause_over(struct ev_loop *loop UNUSED, ev_timer *w UNUSED, int revents UNUSED)
{
	daemon_quit(1);
}

/* Out of the pools, and of the reach of clients, before the pause: two nodes of one name are worse than one less. */
static void
on_name_lost(struct ev_loop *loop, ev_timer *w, int revents UNUSED)
{
	struct engine *e = w->data;
	unsigned count;
	struct mono pause = conflict_pause(e->state_dir, clock_wall_ns(), &count);
	char text[64];

	close_all(e);
	if (pause.ns > 0) {
		log_warn("serf", "the name was lost %u times in succession: ending in %lld s, so that a start after "
		    "that asks the pool again; once it is free, systemctl restart gossipd asks at once", count,
		    (long long)(mono_ms(pause) / 1000));
		snprintf(text, sizeof(text), "name conflict: out of the pool for %lld s",
		    (long long)(mono_ms(pause) / 1000));
		daemon_ready(text);
	}
	ev_timer_init(w, on_pause_over, mono_seconds(pause), 0.);
	ev_timer_start(loop, w);
}

static void
on_conflict_lost(void *ctx, struct pool *p, struct span name, bool copy)
{
	struct engine *e = ctx;
	const struct cluster_conf *c = e->cluster;
	char other[4 * NODE_NAME_BYTES_MAX + 64] = "", safe[4 * NODE_NAME_BYTES_MAX + 1];

	if (name.len > 0)
		snprintf(other, sizeof(other), " (as %s: names are compared without case)",
		    log_safe(name, safe, sizeof(safe)));
	if (copy)
		log_err("serf", "another node of the %s pool has our name %s and our node id %s, and answers: stopping "
		    "without leaving. Was the data directory, or the machine's image, copied? Stop the daemons here, "
		    "give this node an empty data_dir and a node_name of its own, and start them",
		    engine_pool_name(pool_kind(p)),
		    c->node_name, c->node_id);
	else
		log_err("serf", "most of the %s pool knows another node by our name %s%s: stopping without leaving. "
		    "Give this node another node_name; if it replaces the other one, start it once that one is shown "
		    "as failed or left", engine_pool_name(pool_kind(p)), c->node_name, other);
	/* Not here: the pool is in the middle of its output.  The other pool may have lost the name as well. */
	ev_timer_start(e->loop, &e->lost);
}

static void
on_opened(void *ctx, const struct addr *from, unsigned key)
{
	struct engine *e = ctx;

	kring_opened(e->keys, key);
	kring_understood(e->keys, from, clock_mono());
}

static bool
is_configured(void *ctx, struct pool *p, uint64_t source)
{
	const struct engine *e = ctx;

	return e->joiner != NULL && joiner_wants(e->joiner, pool_kind(p), source);
}

static void
on_unreadable(void *ctx, struct pool *p, const struct addr *from, bool dialled)
{
	struct engine *e = ctx;
	struct mono now = clock_mono();
	enum key_peer peer = KEY_PEER_STRANGER;

	if (dialled)
		peer = KEY_PEER_DIALLED;
	else if (kring_may_judge(e->keys, now) && pool_has_member_at(p, from))
		peer = KEY_PEER_MEMBER;
	kring_unreadable(e->keys, from, peer, now);
}

static void
on_quit(struct ev_loop *loop UNUSED, ev_timer *w UNUSED, int revents UNUSED)
{
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
	if (!addr_parse(ip, pool_port(e, kind), &pc.self)) {
		log_err("serf", "advertise: %s is not an address", ip);
		return TV_EINVAL;
	}
	e->udp_fds[kind] = e->tcp_fds[kind] = -1;
	e->pools[kind] = pool_new(&pc, &found);
	if (e->pools[kind] == NULL) {
		snapshot_found_done(&found);
		return TV_ENOMEM;
	}
	enum tv_err err = joiner_pool(e->joiner, kind, &pc.self, &found);

	snapshot_found_done(&found);
	return err;
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
	char errbuf[8192];
	enum tv_err err;

	snprintf(e->state_dir, sizeof(e->state_dir), "%s/gossipd", e->cluster->data_dir);
	err = kring_open(e->keys, e->state_dir, e->cluster->plaintext_wanted, errbuf, sizeof(errbuf));
	if (err != TV_OK)
		log_err("keyring", "%s", errbuf);
	return err;
}

static enum tv_err
run_gossipd(struct daemon_spec *d, struct ev_loop *loop)
{
	struct engine *e = d->ctx;
	enum tv_err err;

	e->loop = loop;
	resolver_run(e->resolver, loop);
	ev_timer_init(&e->quit, on_quit, QUIT_AFTER, 0.);
	ev_timer_init(&e->lost, on_name_lost, 0., 0.);
	e->lost.data = e;
	err = open_keys(e);
	if (err == TV_OK)
		err = first_tags(e);
	if (err == TV_OK && (e->joiner = joiner_new(e, on_settled)) == NULL)
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

static void
close_all(struct engine *e)
{
	if (e->loop != NULL) {
		ev_timer_stop(e->loop, &e->quit);
		ev_timer_stop(e->loop, &e->lost);
	}
	handlers_free(e->handlers);
	joiner_free(e->joiner);
	resolver_free(e->resolver);
	e->resolver = NULL;
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

/* -- the daemon --------------------------------------------------------------------------- */

static enum tv_err
check(struct daemon_spec *d, char *errbuf, size_t cap)
{
	return gossip_conf_check(d->conf, errbuf, cap);
}

static enum tv_err
open_engine(struct daemon_spec *d, char *errbuf, size_t cap)
{
	struct engine *e = d->ctx;
	enum tv_err err;

	e->cluster = d->cluster;
	e->opts = d->conf;
	err = open_all(e, d, errbuf, cap);
	if (err != TV_OK)
		close_all(e);
	return err;
}

/* Ports that are written in the configuration. */
static void
allow_ports_of(struct sandbox_policy *p, const struct conf_list *list)
{
	struct dial_target t;

	for (size_t i = 0; i < list->count; i++) {
		bool known = target_parse(span_str(list->items[i]), 0, &t, NULL) != TV_OK || !t.has_port;

		for (unsigned k = 0; k < p->connect_port_count; k++)
			known = known || p->connect_ports[k] == t.port;
		if (!known && p->connect_port_count < SANDBOX_PORTS_MAX)
			sandbox_port(p, t.port);
	}
}

/*
 * Gossip ports only.  A pool is meant to use one port on all its members; for others, those that SRV records and files
 * have included, there is peer_ports.
 */
static void
policy(struct daemon_spec *d, struct sandbox_policy *p)
{
	const struct gossip_conf *conf = d->conf;

	p->inet = true;
	sandbox_port(p, d->cluster->lan_port);
	sandbox_port(p, d->cluster->wan_port);
	for (size_t i = 0; i < conf->peer_ports.count; i++)
		sandbox_port(p, gossip_conf_port(conf->peer_ports.items[i]));
	allow_ports_of(p, &d->cluster->retry_join);
	allow_ports_of(p, &d->cluster->retry_join_wan);
}

static void
listens(const struct daemon_spec *d, struct buf *out)
{
	const struct cluster_conf *c = d->cluster;

	daemon_put_addr(out, c->bind, c->lan_port);
	buf_puts(out, " (LAN)");
	if (c->server) {
		daemon_put_addr(out, c->bind, c->wan_port);
		buf_puts(out, " (WAN)");
	}
	buf_printf(out, ", %s/gossipd.sock", c->run_dir);
}

static void
reload(struct daemon_spec *d)
{
	struct engine *e = d->ctx;

	resolver_reload(e->resolver, log_enabled(LOG_LVL_DEBUG) ? LOG_LVL_DEBUG : e->cluster->log_level);
}

static void
stop_gossipd(struct daemon_spec *d)
{
	close_all(d->ctx);
}

/*
 * An exchange in a large pool takes megabytes for some milliseconds.  Pieces of that size are to come from the system
 * and go back to it at once; glibc would otherwise move its limit up to them and keep them.
 */
static void
keep_small(void)
{
#ifdef HAVE_MALLOC_TRIM		/* glibc */
	(void)mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);	/* then it keeps more, which is no error */
#endif
}

#define OWN_DESCRIPTORS 64	/* files, sockets, and those of its own exchanges, which are few at a time */

static uint64_t
descriptors(const struct daemon_spec *d)
{
	const struct gossip_conf *c = d->conf;

	return OWN_DESCRIPTORS + c->streams_max * ENGINE_POOLS + c->clients_max;
}

int
main(int argc, char **argv)
{
	struct cluster_conf cluster = { 0 };
	struct gossip_conf conf = { 0 };
	struct engine engine = { 0 };
	struct daemon_spec spec = {
		.name = "gossipd", .user = "_gossipd", .opts = gossip_opts, .opt_count = gossip_opt_count,
		.conf_size = sizeof(conf), .conf = &conf, .cluster = &cluster, .check = check, .open = open_engine,
		.descriptors = descriptors, .descriptor_keys = "limits.streams and limits.clients",
		.listens = listens, .policy = policy, .run = run_gossipd, .reload = reload, .stop = stop_gossipd,
		.ctx = &engine,
		.without_data = "Members and new keys of the cluster are no longer saved: a restart would lose them. "
		    "If the folder was moved, move it back; if it is lost, restart gossipd to create it again",
		.socket_users = { "_rpcd", "_raftd" }, .socket_group = DAEMON_GROUP,
	};

	keep_small();
	if (sodium_init() < 0) {
		fprintf(stderr, "gossipd: libsodium cannot start\n");
		return 1;
	}
	return daemon_main(&spec, argc, argv);
}
