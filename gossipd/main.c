/*
 * gossipd: who is there.  Keeps the LAN pool of the datacenter's nodes and, on servers, the WAN pool of
 * all servers, and tells raftd and rpcd of them.
 */
#include "config.h"

#ifdef HAVE_MALLOC_TRIM
#include <malloc.h>
#endif
#include <sodium.h>
#include <stdio.h>

#include "common/proc/daemon.h"
#include "common/proc/privdrop.h"
#include "gossipd/engine.h"

#define LARGE_BYTES (128 * 1024)

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
	err = engine_open(e, d, errbuf, cap);
	if (err != TV_OK)
		engine_stop(e);
	return err;
}

/* Ports at which addresses of the configuration listen. */
static void
allow_ports_of(struct sandbox_policy *p, const struct conf_list *list)
{
	char ip[CLUSTER_IP_BYTES];
	uint16_t port;

	for (size_t i = 0; i < list->count; i++) {
		bool known = !cluster_addr_parse(list->items[i], 0, ip, &port) || port == 0;

		for (unsigned k = 0; k < p->connect_port_count; k++)
			known = known || p->connect_ports[k] == port;
		if (!known && p->connect_port_count < SANDBOX_PORTS_MAX)
			sandbox_port(p, port);
	}
}

/* Gossip ports only.  A pool is meant to use one port on all its members; for others there is peer_ports. */
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

static enum tv_err
run(struct daemon_spec *d, struct ev_loop *loop)
{
	return engine_run(d->ctx, loop);
}

static void
stop(struct daemon_spec *d)
{
	engine_stop(d->ctx);
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

int
main(int argc, char **argv)
{
	struct cluster_conf cluster = { 0 };
	struct gossip_conf conf = { 0 };
	struct engine engine = { 0 };
	struct daemon_spec spec = {
		.name = "gossipd", .user = "_gossipd", .opts = gossip_opts, .opt_count = gossip_opt_count,
		.conf_size = sizeof(conf), .conf = &conf, .cluster = &cluster, .check = check, .open = open_engine,
		.listens = listens, .policy = policy, .run = run, .stop = stop, .ctx = &engine,
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
