/* Opening the data, see opening.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/proc/daemon.h"
#include "common/proc/jobs.h"
#include "raftd/disk/space.h"
#include "raftd/engine/engine.h"
#include "raftd/fsm/fsm.h"
#include "raftd/login/method_config.h"
#include "raftd/opening.h"
#include "raftd/peers/identity.h"
#include "raftd/snapshot/snapshot_recv.h"

#define RETRY 1.0			/* seconds between looks whether there is room */
#define TELL 10.0			/* and between lines about an opening that takes long */
#define STOP_PATIENCE MONO_S(1)
#define PATH_BYTES 512

struct opening {
	struct raftd *d;
	const struct opening_events *events;
	ev_timer retry, tell;
	bool has_log;			/* what runs, or is tried next, is the state */
	bool stopping, said_no_room;
	struct raftd_conf conf;		/* as it was at the start */
	char log_dir[PATH_BYTES], state_dir[PATH_BYTES];
	struct fsm_options options;

	/* The thread's while it runs; before the log is there d->log, d->meta, d->id and d->fsm are too. */
	enum tv_err err;
	char errbuf[1024];
	struct fsm *fsm;
	struct raft *core;
};

/* -- in the thread -- */

static enum tv_err
open_state(struct opening *o, struct fsm **out)
{
	enum tv_err err = fsm_open(&o->options, out, o->errbuf, sizeof(o->errbuf));

	if (err != TV_ECORRUPT)
		return err;
	/* All of it can be had again: from the log, or from the leader (engine_start.c: judge_state). */
	log_err("raft", "%s", o->errbuf);
	err = fsm_set_aside(o->state_dir);
	if (err == TV_OK)
		err = fsm_open(&o->options, out, o->errbuf, sizeof(o->errbuf));
	if (err == TV_OK)
		log_warn("raft", "the damaged state was moved to %s.damaged and is rebuilt", o->state_dir);
	return err;
}

/* What the state is known to hold must be in the log (S101); engine_state_open() looks again, when it is known exactly. */
static enum tv_err
check_reach(struct opening *o)
{
	const struct log_meta *m = &o->d->meta;
	uint64_t last = m->last > m->snapshot_index ? m->last : m->snapshot_index;
	uint64_t reached = state_mark_read(o->state_dir);

	if (reached <= last)
		return TV_OK;
	engine_log_too_short(o->d, reached, o->errbuf, sizeof(o->errbuf));
	return TV_ECORRUPT;
}

/* The identity of this server by its log. */
static void
find_identity(struct raftd *d)
{
	struct identity *id = &d->id;

	memcpy(id->store_id, d->meta.store_id, sizeof(id->store_id));
	memcpy(id->cluster_id, d->meta.cluster_id, sizeof(id->cluster_id));
	id->generation = generation_found(&d->meta);
	id->self = raft_id_of(id->uuid, id->store_id);
}

static void
log_work(void *ctx)
{
	struct opening *o = ctx;
	struct raftd *d = o->d;
	struct log_options lo = { .dir = o->log_dir, .spares = true, .goes_on = true };

	o->err = log_open(&lo, &d->log, &d->meta, o->errbuf, sizeof(o->errbuf));
	if (o->err == TV_OK)
		o->err = check_reach(o);
	if (o->err == TV_OK && ((d->meta.last == 0 && d->meta.snapshot_index == 0) || snapshot_recv_interrupted(d)))
		o->err = open_state(o, &d->fsm);
	if (o->err == TV_OK)
		o->err = snapshot_recv_recover(d, o->errbuf, sizeof(o->errbuf));
	if (o->err != TV_OK)
		return;
	find_identity(d);
	o->core = engine_core(d, &o->conf, o->errbuf, sizeof(o->errbuf));
	if (o->core == NULL)
		o->err = TV_ECORRUPT;
}

static void
state_work(void *ctx)
{
	struct opening *o = ctx;

	o->err = open_state(o, &o->fsm);
}

/* -- on the loop -- */

static void
fatal(struct opening *o)
{
	log_err("raftd", "%s%s", o->errbuf[0] != '\0' ? o->errbuf : tv_strerror(o->err), o->has_log ? "; stopping" : "");
	daemon_quit(1);
}

static enum tv_err begin_state(struct opening *o);

/* As if nothing had been opened yet. */
static void
close_all(struct raftd *d)
{
	fsm_close(d->fsm);
	log_close(d->log);
	d->fsm = NULL;
	d->log = NULL;
	memset(&d->meta, 0, sizeof(d->meta));
}

/* A disk that is full empties again; a process that gave up would have to be started again by hand. */
static void
wait_for_room(struct opening *o)
{
	char text[800];

	if (!o->said_no_room) {
		space_text(o->d->space, text, sizeof(text));
		log_err("raft", "%s; not enough space to open the data: waiting for it", text);
		daemon_ready(o->has_log ? "serving: the state waits for disk space" : "waiting for disk space");
	}
	o->said_no_room = true;
	o->d->start.status = START_NO_ROOM;
	ev_timer_again(o->d->loop, &o->retry);
}

static void
tell_later(struct opening *o)
{
	ev_now_update(o->d->loop);
	ev_timer_again(o->d->loop, &o->tell);
}

static void
log_done(void *ctx)
{
	struct opening *o = ctx;
	struct raftd *d = o->d;
	enum tv_err err;

	ev_timer_stop(d->loop, &o->tell);
	if (o->stopping)
		return;
	if (o->err == TV_ENOSPACE) {
		close_all(d);
		space_too_little(d->space);
		wait_for_room(o);
		return;
	}
	if (o->err != TV_OK) {
		fatal(o);
		return;
	}
	o->has_log = true;
	err = o->events->log_open(d, o->core);
	o->core = NULL;
	if (err == TV_OK)
		err = d->fsm != NULL ? o->events->state_open(d) : begin_state(o);
	if (err != TV_OK)
		daemon_quit(1);
}

static void
state_done(void *ctx)
{
	struct opening *o = ctx;
	struct raftd *d = o->d;

	ev_timer_stop(d->loop, &o->tell);
	if (o->stopping)
		return;
	if (o->err == TV_ENOSPACE) {
		space_state_refused(d->space);
		wait_for_room(o);
		return;
	}
	if (o->err != TV_OK) {
		fatal(o);
		return;
	}
	d->fsm = o->fsm;
	o->fsm = NULL;
	if (o->events->state_open(d) != TV_OK)
		daemon_quit(1);
}

static enum tv_err
begin_log(struct opening *o)
{
	if (!space_may_open(o->d->space)) {
		wait_for_room(o);
		return TV_OK;
	}
	ev_timer_stop(o->d->loop, &o->retry);
	o->d->start.status = START_LOG;
	tell_later(o);
	return jobs_add_only(o->d->worker, log_work, log_done, o);
}

static enum tv_err
begin_state(struct opening *o)
{
	enum tv_err err = jobs_add_only(o->d->worker, state_work, state_done, o);

	if (err != TV_OK)
		return err;
	ev_timer_stop(o->d->loop, &o->retry);
	o->d->start.status = START_STATE;
	tell_later(o);
	return TV_OK;
}

static void
on_retry(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct opening *o = w->data;
	enum tv_err err;

	if (o->has_log && !space_may_retry(o->d->space))
		return;
	err = o->has_log ? begin_state(o) : begin_log(o);
	if (err != TV_OK && err != TV_EAGAIN)	/* else the thread is taken: next time */
		daemon_quit(1);
}

static void
on_tell(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct opening *o = w->data;
	long long s = (long long)mono_ms(mono_sub(clock_mono(), o->d->start.since)) / 1000;

	if (o->has_log)
		log_info("raft", "the state is being opened, for %lld s by now; this server votes and stores meanwhile", s);
	else
		log_info("raft", "the log is being read, for %lld s by now", s);
}

enum tv_err
opening_start(struct opening *o)
{
	o->d->start.since = clock_mono();
	return begin_log(o);
}

struct opening *
opening_new(struct raftd *d, const struct opening_events *events)
{
	struct opening *o = calloc(1, sizeof(*o));

	if (o == NULL)
		return NULL;
	o->d = d;
	o->events = events;
	o->conf = d->conf;
	snprintf(o->log_dir, sizeof(o->log_dir), "%s/raftd/log", d->cluster.data_dir);
	snprintf(o->state_dir, sizeof(o->state_dir), "%s/raftd/state", d->cluster.data_dir);
	o->options = (struct fsm_options){
		.dir = o->state_dir, .cache_bytes = d->conf.state_cache, .datacenter = d->cluster.datacenter,
		.session_ttl_min_ns = d->conf.session_ttl_min.ns, .session_ttl_max_ns = d->conf.session_ttl_max.ns,
		.sync = FSM_SYNC_THREAD, .relieved = events->relieved, .ctx = d, .wall_now = clock_wall_ns,
		.acl_default_allow = d->cluster.acl_default == ACL_DEFAULT_ALLOW, .acl_key_list = d->cluster.acl_key_list,
		.check_method = login_check_method,
		.acl_primary = cluster_acl_primary(&d->cluster),
	};
	ev_timer_init(&o->retry, on_retry, RETRY, RETRY);
	ev_timer_init(&o->tell, on_tell, TELL, TELL);
	o->retry.data = o->tell.data = o;
	return o;
}

bool
opening_stop(struct opening *o)
{
	if (o == NULL)
		return true;
	o->stopping = true;
	ev_timer_stop(o->d->loop, &o->retry);
	ev_timer_stop(o->d->loop, &o->tell);
	return o->d->start.status == START_DONE || o->d->start.status == START_NO_ROOM ||
	    jobs_end_within(o->d->worker, STOP_PATIENCE);
}

bool
opening_holds_log(const struct opening *o)
{
	return !o->has_log;
}

void
opening_free(struct opening *o)
{
	if (o == NULL)
		return;
	fsm_close(o->fsm);
	raft_free(o->core);
	free(o);
}
