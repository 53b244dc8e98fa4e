/* raftd: the replicated log and the state.  Life cycle; what each part does stands in raftd.h. */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/chan.h"
#include "common/proc/daemon.h"
#include "common/proc/jobs.h"
#include "raftd/disk/space.h"
#include "raftd/engine/engine.h"
#include "raftd/engine/loop_time.h"
#include "raftd/engine/statethread.h"
#include "raftd/fsm/fsm.h"
#include "raftd/leader/leader.h"
#include "raftd/login/jwt.h"
#include "raftd/login/serve/key_fetch.h"
#include "raftd/members/autopilot.h"
#include "raftd/members/bootstrap.h"
#include "raftd/members/handover.h"
#include "raftd/members/membership.h"
#include "raftd/members/recover.h"
#include "raftd/members/rpcd_peers.h"
#include "raftd/opening.h"
#include "raftd/peers/fence.h"
#include "raftd/peers/gossip.h"
#include "raftd/peers/identity.h"
#include "raftd/peers/links.h"
#include "raftd/peers/state_version.h"
#include "raftd/request/request.h"
#include "raftd/serve/clients.h"
#include "raftd/serve/info.h"
#include "raftd/serve/rpcd_watch.h"
#include "raftd/serve/token_watch.h"
#include "raftd/snapshot/export.h"
#include "raftd/snapshot/import.h"
#include "raftd/snapshot/import_leader.h"
#include "raftd/snapshot/snapshots.h"

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
	if (d->link_fd < 0)
		return tv_fail(errbuf, cap, TV_ESYS, "cannot listen on %s port %u: %s", d->cluster.bind,
		    d->cluster.raft_port, strerror(errno));
	snprintf(path, sizeof(path), "%s/raftd.sock", d->cluster.run_dir);
	if (d->conf.socket_path != NULL)
		snprintf(path, sizeof(path), "%s", d->conf.socket_path);
	d->socket_fd = daemon_socket(d->spec, path);
	if (d->socket_fd < 0)
		return tv_fail(errbuf, cap, TV_ESYS, "cannot listen on %s: %s", path, strerror(errno));
	return TV_OK;
}

/* What is known of it without the log. */
static void
fill_identity(struct raftd *d)
{
	struct identity *id = &d->id;

	snprintf(id->uuid, sizeof(id->uuid), "%s", d->cluster.node_id);
	snprintf(id->name, sizeof(id->name), "%s", d->cluster.node_name);
	addr_join(d->cluster.advertise != NULL ? d->cluster.advertise : d->cluster.bind, d->cluster.raft_port,
	    id->addr, sizeof(id->addr));
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
go_on_applying(struct ev_loop *loop UNUSED, ev_async *w, int revents UNUSED)
{
	struct raftd *d = w->data;

	if (d->engine != NULL && !d->stopping)
		engine_wake(d->engine);
}

static enum tv_err
raftd_open(struct daemon_spec *spec, char *errbuf, size_t cap)
{
	struct raftd *d = spec->ctx;
	enum tv_err err;

	key_fetch_open(d);
	err = jwt_begin() ? load_psks(d, errbuf, cap) : tv_fail(errbuf, cap, TV_ENOMEM, "%s", tv_strerror(TV_ENOMEM));
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
	/* The others remember that our disk went back until they hear that it is made up for: a restart before that would say so again. */
	if (n->type == RAFT_NOTICE_REGAINED && n->id == d->id.self)
		links_identity_changed(d->links);
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

/* The log is there: this server votes, follows and stores. */
static enum tv_err
log_opened(struct raftd *d, struct raft *core)
{
	d->state = statethread_new(d->loop);
	if (d->state == NULL) {
		raft_free(core);
		return TV_ENOMEM;
	}
	d->engine = engine_new(d, &engine_hooks, core);
	if (d->engine == NULL)
		return TV_ENOMEM;
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
	d->token_watch = token_watch_new(d);
	d->requests = requests_new(d);
	d->key_fetch = key_fetch_new(d);
	d->info = info_new(d);
	d->clients = clients_new(d);
	if (d->exports == NULL || d->import == NULL || d->import_leader == NULL || d->autopilot == NULL ||
	    d->recover == NULL || d->leader == NULL || d->members == NULL || d->rpcd_watch == NULL || d->rpcd_peers == NULL ||
	    d->snapshots == NULL || d->gossip == NULL || d->token_watch == NULL || d->requests == NULL || d->key_fetch == NULL || d->info == NULL ||
	    d->clients == NULL || d->loop_time == NULL ||
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
	log_info("raft", "node %s at %s, log from %llu to %llu", d->id.name, d->id.addr,
	    (unsigned long long)d->meta.first, (unsigned long long)d->meta.last);
	daemon_ready("serving: the state is being opened");
	return TV_OK;
}

/* And so is the state: it goes on where it was, and serves. */
static enum tv_err
state_open(struct raftd *d)
{
	char errbuf[1024] = "";

	d->start.took = mono_sub(clock_mono(), d->start.since);
	fsm_session_limits(d->fsm, d->conf.session_ttl_min.ns, d->conf.session_ttl_max.ns);
	if (statethread_open(d->state, d->fsm, d->log) != TV_OK)
		return TV_ENOMEM;
	if (engine_state_open(d->engine, errbuf, sizeof(errbuf)) != TV_OK) {
		log_err("raftd", "%s", errbuf);
		return TV_ECORRUPT;
	}
	d->start.status = START_DONE;
	if (fsm_needs(d->fsm) > 1)		/* what was said before did not count that */
		links_identity_changed(d->links);
	membership_wake(d->members);
	log_info("raft", "log and state are open %lld ms after the start: state at %llu", (long long)mono_ms(d->start.took),
	    (unsigned long long)fsm_applied(d->fsm));
	daemon_ready("serving");
	return TV_OK;
}

static const struct opening_events opening_events = {
	.relieved = on_relieved, .log_open = log_opened, .state_open = state_open,
};

/* Everything that parses stored or received bytes starts behind the walls. */
static enum tv_err
raftd_run(struct daemon_spec *spec, struct ev_loop *loop)
{
	struct raftd *d = spec->ctx;

	d->loop = loop;
	d->worker = jobs_new(loop, "work");
	d->files = jobs_new(loop, "files");
	if (d->worker == NULL || d->files == NULL)
		return TV_ENOMEM;
	ev_async_init(&d->relieved, go_on_applying);
	d->relieved.data = d;
	ev_async_start(loop, &d->relieved);
	fill_identity(d);
	d->space = space_new(d);
	d->opening = opening_new(d, &opening_events);
	if (d->space == NULL || d->opening == NULL)
		return TV_ENOMEM;
	return opening_start(d->opening);
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

	if (d->start.status == START_DONE)
		fsm_session_limits(d->fsm, d->conf.session_ttl_min.ns, d->conf.session_ttl_max.ns);
	key_fetch_reload(d);
}

/* Up to where the log must reach: exact, after an end in order. */
static void
mark_state(const struct raftd *d)
{
	char dir[512];

	snprintf(dir, sizeof(dir), "%s/raftd/state", d->cluster.data_dir);
	if (d->start.status == START_DONE)
		state_mark_write(dir, fsm_applied(d->fsm));
}

/*
 * Opening the state may take the disk longer than a service manager waits for the end of a process.  The log is brought to
 * its end; the state is left as a crash leaves it, for the next start to open.
 */
static void __attribute__((noreturn))
leave_opening(struct raftd *d)
{
	log_info("raftd", "stopping before the %s is open: the next start begins with it again",
	    opening_holds_log(d->opening) ? "log" : "state");
	if (d->engine != NULL) {
		engine_drain(d->engine);
		engine_free(d->engine);
	}
	if (!opening_holds_log(d->opening))
		log_close(d->log);
	_exit(daemon_status());
}

static void
raftd_stop(struct daemon_spec *spec)
{
	struct raftd *d = spec->ctx;

	d->stopping = true;
	handover_free(d->handover);
	if (d->data_lost)
		_exit(1);	/* closing the data bases in order would write by names that another process may have by now */
	if (!opening_stop(d->opening))
		leave_opening(d);
	if (d->engine != NULL)
		engine_drain(d->engine);
	jobs_stop(d->worker);
	jobs_stop(d->files);
	statethread_stop(d->state);
	key_fetch_free(d->key_fetch);	/* pending requests are answered while their channels are still there */
	clients_free(d->clients);
	info_free(d->info);
	token_watch_free(d->token_watch);
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
	opening_free(d->opening);
	mark_state(d);
	fsm_close(d->fsm);
	ev_async_stop(d->loop, &d->relieved);
	log_close(d->log);
	if (d->link_fd >= 0)
		(void)close(d->link_fd);
	if (d->socket_fd >= 0)
		(void)close(d->socket_fd);
	if (d->fetch_fd >= 0)
		(void)close(d->fetch_fd);
	jobs_free(d->worker);
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

#define OWN_DESCRIPTORS 192	/* files of Berkeley DB and of snapshots, channels to daemons and processes */

static uint64_t
descriptors(const struct daemon_spec *d)
{
	const struct raftd_conf *c = d->conf;

	return OWN_DESCRIPTORS + PEERS_MAX + c->links_max + c->clients_max;
}

int
main(int argc, char **argv)
{
	struct raftd d = { .link_fd = -1, .socket_fd = -1, .fetch_fd = -1, .notices = { .burst = 1, .period = MONO_S(60) } };
	struct daemon_spec spec = {
		.name = "raftd", .user = "_raftd", .servers_only = true,
		.socket_users = { "_rpcd" }, .socket_group = "_rpcd", .asks_gossipd = true,
		.opts = raftd_opts, .opt_count = raftd_opt_count, .conf_size = sizeof(d.conf),
		.conf = &d.conf, .cluster = &d.cluster,
		.descriptors = descriptors, .descriptor_keys = "links_max and clients_max",
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
