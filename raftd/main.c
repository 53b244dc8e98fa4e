/* raftd: the replicated log and the state.  Life cycle; what each part does stands in raftd.h. */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/net/chan.h"
#include "common/proc/daemon.h"
#include "common/proc/jobs.h"
#include "raftd/disk/space.h"
#include "raftd/engine/engine.h"
#include "raftd/engine/loop_time.h"
#include "raftd/engine/statethread.h"
#include "raftd/engine/worker.h"
#include "raftd/fsm/fsm.h"
#include "raftd/leader/leader.h"
#include "raftd/members/autopilot.h"
#include "raftd/members/bootstrap.h"
#include "raftd/members/handover.h"
#include "raftd/members/membership.h"
#include "raftd/members/recover.h"
#include "raftd/members/rpcd_peers.h"
#include "raftd/peers/fence.h"
#include "raftd/peers/gossip.h"
#include "raftd/peers/identity.h"
#include "raftd/peers/links.h"
#include "raftd/peers/state_version.h"
#include "raftd/request/request.h"
#include "raftd/serve/clients.h"
#include "raftd/serve/info.h"
#include "raftd/serve/rpcd_watch.h"
#include "raftd/snapshot/export.h"
#include "raftd/snapshot/import.h"
#include "raftd/snapshot/import_leader.h"
#include "raftd/snapshot/snapshot_recv.h"
#include "raftd/snapshot/snapshots.h"

#define START_RETRY 1.0			/* seconds between looks whether there is room to start */

static enum tv_err
raftd_check(struct daemon_spec *spec, char *errbuf, size_t cap)
{
	return raftd_conf_check(spec->conf, errbuf, cap);
}

static enum tv_err
load_psks(struct raftd *d, char *errbuf, size_t cap)
{
	if (!d->cluster.have_keys)
		return TV_OK;
	return server_keys_load(d->cluster.server_key, d->cluster.server_pub, SERVER_RAFT, &d->keys, errbuf, cap);
}

static enum tv_err
bind_sockets(struct raftd *d, char *errbuf, size_t cap)
{
	char path[512];

	d->link_fd = listen_tcp(d->cluster.bind, d->cluster.raft_port);
	if (d->link_fd < 0) {
		snprintf(errbuf, cap, "cannot listen on %s port %u: %s", d->cluster.bind, d->cluster.raft_port,
		    strerror(errno));
		return TV_ESYS;
	}
	snprintf(path, sizeof(path), "%s/raftd.sock", d->cluster.run_dir);
	if (d->conf.socket_path != NULL)
		snprintf(path, sizeof(path), "%s", d->conf.socket_path);
	d->socket_fd = daemon_socket(d->spec, path);
	if (d->socket_fd < 0) {
		snprintf(errbuf, cap, "cannot listen on %s: %s", path, strerror(errno));
		return TV_ESYS;
	}
	return TV_OK;
}

static void
fill_identity(struct raftd *d)
{
	struct identity *id = &d->id;

	snprintf(id->uuid, sizeof(id->uuid), "%s", d->cluster.node_id);
	snprintf(id->name, sizeof(id->name), "%s", d->cluster.node_name);
	addr_join(d->cluster.advertise != NULL ? d->cluster.advertise : d->cluster.bind, d->cluster.raft_port,
	    id->addr, sizeof(id->addr));
	memcpy(id->store_id, d->meta.store_id, sizeof(id->store_id));
	memcpy(id->cluster_id, d->meta.cluster_id, sizeof(id->cluster_id));
	id->generation = d->meta.generation;
	id->self = raft_id_of(id->uuid, id->store_id);
	/* The first entry was written, but a crash came before the cluster id was: it is a member all the same. */
	if (id->generation == 0 && id->cluster_id[0] != '\0' && d->meta.last > 0)
		id->generation = 1;
}

/* From the state's thread. */
static void
on_relieved(void *ctx)
{
	struct raftd *d = ctx;

	ev_async_send(d->loop, &d->relieved);
}

/* Applying may have waited for the disk. */
static void
go_on_applying(struct ev_loop *loop, ev_async *w, int revents)
{
	struct raftd *d = w->data;

	(void)loop;
	(void)revents;
	if (d->engine != NULL && !d->stopping)
		engine_wake(d->engine);
}

static enum tv_err
open_state(struct raftd *d, char *errbuf, size_t cap)
{
	char log_dir[512], state_dir[512];
	struct log_options lo = { .dir = log_dir, .spares = true, .goes_on = true };
	struct fsm_options fo = {
		.dir = state_dir, .cache_bytes = d->conf.state_cache, .datacenter = d->cluster.datacenter,
		.session_ttl_min_ns = d->conf.session_ttl_min.ns, .session_ttl_max_ns = d->conf.session_ttl_max.ns,
		.sync = FSM_SYNC_THREAD, .relieved = on_relieved, .ctx = d,
	};
	enum tv_err err;

	snprintf(log_dir, sizeof(log_dir), "%s/raftd/log", d->cluster.data_dir);
	snprintf(state_dir, sizeof(state_dir), "%s/raftd/state", d->cluster.data_dir);
	err = log_open(&lo, &d->log, &d->meta, errbuf, cap);
	if (err == TV_OK)
		err = fsm_open(&fo, &d->fsm, errbuf, cap);
	if (err == TV_ECORRUPT && d->log != NULL) {
		/* All of it can be had again: from the log, or from the leader (engine.c: judge_state). */
		log_err("raft", "%s", errbuf);
		err = fsm_set_aside(state_dir);
		if (err == TV_OK)
			err = fsm_open(&fo, &d->fsm, errbuf, cap);
		if (err == TV_OK)
			log_warn("raft", "the damaged state was moved to %s.damaged and is rebuilt", state_dir);
	}
	if (err == TV_OK)
		err = snapshot_recv_recover(d, errbuf, cap);
	return err;
}

/* As if nothing had been opened yet. */
static void
close_state(struct raftd *d)
{
	fsm_close(d->fsm);
	log_close(d->log);
	d->fsm = NULL;
	d->log = NULL;
	memset(&d->meta, 0, sizeof(d->meta));
}

static enum tv_err
raftd_open(struct daemon_spec *spec, char *errbuf, size_t cap)
{
	struct raftd *d = spec->ctx;
	enum tv_err err;

	err = load_psks(d, errbuf, cap);
	if (err == TV_OK)
		err = bind_sockets(d, errbuf, cap);
	return err;
}

static void
raftd_listens(const struct daemon_spec *spec, struct buf *out)
{
	daemon_put_addr(out, spec->cluster->bind, spec->cluster->raft_port);
	buf_printf(out, ", %s/raftd.sock", spec->cluster->run_dir);
}

static void
raftd_policy(struct daemon_spec *spec, struct sandbox_policy *p)
{
	struct raftd *d = spec->ctx;

	sandbox_path(p, d->cluster.run_dir, SANDBOX_CONNECT);
	sandbox_port(p, d->cluster.raft_port);
	p->inet = true;
	p->unix_stream = true;
	p->threads = true;
}

/* -- what the engine asks of the folders above it -- */

static void
on_notice(struct raftd *d, const struct raft_notice *n)
{
	membership_notice(d->members, n);
	if (n->type == RAFT_NOTICE_NEED_SNAPSHOT)
		snapshots_needed(d->snapshots, n->id, n->index);
}

static bool
holds_state(struct raftd *d)
{
	return snapshots_installing(d->snapshots) || import_pausing(d->import);
}

static bool
is_waiting(struct raftd *d)
{
	return clients_waiting(d->clients) || links_waiting(d->links);
}

static void
end_turn(struct raftd *d)
{
	import_turn(d->import);
	leader_turn(d->leader);
}

static const struct engine_hooks engine_hooks = {
	.send = links_send, .flush = links_flush, .chunk = snapshots_chunk, .notice = on_notice, .applied = leader_applied,
	.all_apply = state_version_all, .restore = import_commit, .holds_state = holds_state, .serve = clients_turn,
	.waiting = is_waiting, .turn = end_turn,
};

/* -- and peers/ -- */

static void
wake_membership(struct raftd *d)
{
	membership_wake(d->members);
}

static const struct links_hooks links_hooks = {
	.heard = bootstrap_heard, .proven = wake_membership, .accepts = bootstrap_accepts, .send_chunk = snapshots_send,
};

static void
servers_changed(struct raftd *d)
{
	links_sync(d->links);
	membership_wake(d->members);
	bootstrap_wake(d->bootstrap);
}

static void
server_alive(struct raftd *d, const char *uuid)
{
	links_wake(d->links, uuid);
}

static const struct gossip_hooks gossip_hooks = { leader_members_changed, servers_changed, server_alive };

/* The state is open: everything else. */
static enum tv_err
begin(struct raftd *d)
{
	char errbuf[1024] = "";

	fill_identity(d);
	d->state = statethread_new(d->loop, d->fsm, d->log);
	if (d->state == NULL)
		return TV_ENOMEM;
	d->engine = engine_new(d, &engine_hooks, errbuf, sizeof(errbuf));
	if (d->engine == NULL) {
		log_err("raftd", "%s", errbuf);
		return TV_ESYS;
	}
	d->loop_time = loop_time_new(d);
	d->links = links_new(d, &links_hooks);
	if (d->links == NULL)
		return TV_ENOMEM;
	d->leader = leader_new(d);
	d->autopilot = autopilot_new(d);
	d->recover = recover_new(d);
	d->members = membership_new(d);
	d->rpcd_watch = rpcd_watch_new(d);
	d->rpcd_peers = rpcd_peers_new(d);
	d->snapshots = snapshots_new(d);
	d->exports = export_new(d);
	d->import = import_new(d);
	d->import_leader = import_leader_new(d);
	d->gossip = gossip_new(d, &gossip_hooks);
	d->requests = requests_new(d);
	d->info = info_new(d);
	d->clients = clients_new(d);
	if (d->exports == NULL || d->import == NULL || d->import_leader == NULL || d->autopilot == NULL ||
	    d->recover == NULL || d->leader == NULL || d->members == NULL || d->rpcd_watch == NULL || d->rpcd_peers == NULL ||
	    d->snapshots == NULL || d->gossip == NULL || d->requests == NULL || d->info == NULL || d->clients == NULL || d->loop_time == NULL ||
	    engine_start(d->engine) != TV_OK)
		return TV_ENOMEM;
	d->bootstrap = bootstrap_new(d);
	if (d->bootstrap == NULL)
		return TV_ENOMEM;
	if (d->id.generation != d->meta.generation &&
	    logthread_cluster(engine_log(d->engine), d->id.cluster_id, d->id.generation, NULL, NULL) != TV_OK)
		return TV_ENOMEM;
	fence_begin(d);
	links_sync(d->links);
	membership_wake(d->members);
	space_start(d->space, engine_disk_space);
	log_info("raft", "node %s at %s, log from %llu to %llu, state at %llu", d->id.name, d->id.addr,
	    (unsigned long long)d->meta.first, (unsigned long long)d->meta.last,
	    (unsigned long long)fsm_applied(d->fsm));
	daemon_ready("serving");
	return TV_OK;
}

/* Opens and begins; TV_ENOSPACE: the disk has no room for that yet. */
static enum tv_err
try_start(struct raftd *d)
{
	char errbuf[1024] = "";
	enum tv_err err;

	if (!space_may_open(d->space))
		return TV_ENOSPACE;
	err = open_state(d, errbuf, sizeof(errbuf));
	if (err == TV_OK)
		return begin(d);
	if (err != TV_ENOSPACE) {
		log_err("raftd", "%s", errbuf);
		return TV_ESYS;
	}
	close_state(d);
	space_too_little(d->space);
	return err;
}

static void
on_retry(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct raftd *d = w->data;
	enum tv_err err = try_start(d);

	(void)revents;
	if (err == TV_ENOSPACE)
		return;
	ev_timer_stop(loop, w);
	if (err != TV_OK)
		daemon_quit(1);
}

/* Everything that parses stored or received bytes starts behind the walls. */
static enum tv_err
raftd_run(struct daemon_spec *spec, struct ev_loop *loop)
{
	struct raftd *d = spec->ctx;
	char text[800];
	enum tv_err err;

	d->loop = loop;
	worker_init(d->worker, loop);
	d->files = jobs_new(loop);
	if (d->files == NULL)
		return TV_ENOMEM;
	ev_async_init(&d->relieved, go_on_applying);
	d->relieved.data = d;
	ev_async_start(loop, &d->relieved);
	d->space = space_new(d);
	if (d->space == NULL)
		return TV_ENOMEM;
	ev_timer_init(&d->retry, on_retry, START_RETRY, START_RETRY);
	d->retry.data = d;
	err = try_start(d);
	if (err != TV_ENOSPACE)
		return err;
	/* A disk that is full empties again; a process that gave up would have to be started by somebody. */
	space_text(d->space, text, sizeof(text));
	log_err("raft", "%s; not enough space to open the data: waiting for it", text);
	daemon_ready("waiting for disk space");
	ev_timer_start(loop, &d->retry);
	return TV_OK;
}

static bool
raftd_wind_down(struct daemon_spec *spec)
{
	return handover_begin(spec->ctx);
}

/*
 * What we write from now on is gone with the last descriptor, so this server is no server any more: the others take over
 * in order, where they can, and nothing else is acknowledged.
 */
static void
raftd_data_lost(struct daemon_spec *spec)
{
	struct raftd *d = spec->ctx;

	d->data_lost = true;
	if (d->handover == NULL && !handover_begin(d))
		daemon_quit(1);
}

/* The others read their values from d->conf when they need them. */
static void
raftd_reload(struct daemon_spec *spec)
{
	struct raftd *d = spec->ctx;

	if (d->fsm != NULL)
		fsm_session_limits(d->fsm, d->conf.session_ttl_min.ns, d->conf.session_ttl_max.ns);
}

static void
raftd_stop(struct daemon_spec *spec)
{
	struct raftd *d = spec->ctx;

	d->stopping = true;
	handover_free(d->handover);
	if (d->data_lost)
		_exit(1);	/* closing the data bases in order would write by names that may be somebody else's now */
	ev_timer_stop(d->loop, &d->retry);
	if (d->engine != NULL)
		engine_drain(d->engine);
	worker_stop(d->worker);
	jobs_stop(d->files);
	statethread_stop(d->state);
	clients_free(d->clients);
	info_free(d->info);
	requests_free(d->requests);
	links_free(d->links);		/* its pending questions end with their askers still there */
	bootstrap_free(d->bootstrap);
	gossip_free(d->gossip);
	membership_free(d->members);
	rpcd_watch_free(d->rpcd_watch);
	rpcd_peers_free(d->rpcd_peers);
	recover_free(d->recover);
	autopilot_free(d->autopilot);
	leader_free(d->leader);
	import_free(d->import);
	import_leader_free(d->import_leader);
	export_free(d->exports);
	snapshots_free(d->snapshots);
	space_free(d->space);
	loop_time_free(d->loop_time);
	engine_free(d->engine);
	statethread_free(d->state);
	fsm_close(d->fsm);
	ev_async_stop(d->loop, &d->relieved);
	log_close(d->log);
	if (d->link_fd >= 0)
		(void)close(d->link_fd);
	if (d->socket_fd >= 0)
		(void)close(d->socket_fd);
	jobs_free(d->files);
	server_keys_wipe(&d->keys);
}

static const char *const keeps[] = { "log", "log/durable", "state", "state/state.db", NULL };

/* glibc gives each thread memory of its own to allocate from, which it keeps: with two pieces for all they seldom meet. */
#define ARENAS 2

static void
keep_small(void)
{
#ifdef HAVE_MALLOC_TRIM		/* glibc */
	(void)mallopt(M_ARENA_MAX, ARENAS);	/* then it keeps more, which is no error */
#endif
}

int
main(int argc, char **argv)
{
	struct worker worker = { 0 };
	struct raftd d = { .worker = &worker, .link_fd = -1, .socket_fd = -1, .notices = { .burst = 1, .period = MONO_S(60) } };
	struct daemon_spec spec = {
		.name = "raftd", .user = "_raftd", .servers_only = true,
		.socket_users = { "_rpcd" }, .socket_group = "_rpcd", .asks_gossipd = true,
		.opts = raftd_opts, .opt_count = raftd_opt_count, .conf_size = sizeof(d.conf),
		.conf = &d.conf, .cluster = &d.cluster,
		.check = raftd_check, .open = raftd_open, .listens = raftd_listens, .policy = raftd_policy,
		.run = raftd_run, .reload = raftd_reload,
		.wind_down = raftd_wind_down, .stop = raftd_stop, .looks_beside = true, .keeps = keeps, .data_lost = raftd_data_lost,
		.without_data = "Further writes would be lost: stopping. If the folder was moved, move it back and "
		    "start raftd; if it is lost, start raftd, and this server receives the data from the others",
		.ctx = &d,
	};

	keep_small();
	d.spec = &spec;
	return daemon_main(&spec, argc, argv);
}
