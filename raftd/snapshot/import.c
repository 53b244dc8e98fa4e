/* A client's archive on its way into the state, see import.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/proc/jobs.h"
#include "raftd/disk/space.h"
#include "raftd/engine/engine.h"
#include "raftd/engine/propose.h"
#include "raftd/engine/statethread.h"
#include "raftd/fsm/fsm.h"
#include "raftd/leader/leader.h"
#include "raftd/snapshot/import.h"
#include "raftd/snapshot/import_leader.h"
#include "raftd/snapshot/snapshots.h"

#define LOOK 0.05			/* seconds between looks while something is under way */
#define RETRY MONO_S(5)

struct import {
	struct raftd *d;
	ev_timer timer;			/* while something is under way */
	bool staged;
	struct fsm_stage stage;

	/* loading, in the worker */
	bool loading, unloading, completing, tidying;
	bool untidy;			/* the state that was replaced is still there */
	char load_id[37];
	enum tv_err err;
	char errbuf[256];
	_Atomic uint64_t done;
	struct mono started, retry;	/* not again before */
	char bad_id[37];		/* its archive is bad; not to be tried again unless it is committed */
	bool broken;
	uint64_t state_max;		/* what there is room for; the leader has let pass its size as such */

	bool swapping;			/* the state, in the applying thread */
	uint64_t swapped;		/* it was tried for this index, and err says how that went; 0: no */
	struct mono swap_begun;
	bool pausing;		/* before commit_index, unless a snapshot of a later index came: import_pausing() */
	uint64_t commit_index, commit_term;
	struct proposal abort;
	bool aborting;
};

/* -- loading -- */

static void
load_work(void *ctx)
{
	struct import *r = ctx;

	r->err = fsm_stage_load(r->d->fsm, r->load_id, r->state_max, &r->done, r->errbuf, sizeof(r->errbuf));
}

/* Not the archive's fault: another try may do. */
static void
load_failed_here(struct import *r)
{
	enum tv_err err;

	if (r->err == TV_ELIMIT)
		snprintf(r->errbuf, sizeof(r->errbuf), "disk full: %s/raftd has no space for the restored state "
		    "beside the old one",
		    r->d->cluster.data_dir);
	log_err("raft", "loading a restored state failed, the old one stays; trying again in 5 s: %s", r->errbuf);
	r->retry = mono_add(clock_mono(), RETRY);
	/* Committed is committed; a server that can load it had better lead. */
	if (import_pausing(r) && engine_is_leader(r->d->engine) && (err = engine_transfer(r->d->engine, 0)) != TV_OK)
		log_warn("raft", "leadership stays here although the restored state cannot be loaded: %s", tv_strerror(err));
}

static void
load_done(void *ctx)
{
	struct import *r = ctx;

	r->loading = false;
	if (r->d->stopping)
		return;
	if (r->err == TV_OK) {
		log_info("raft", "the staged archive is loaded beside the state, in %lld ms",
		    (long long)mono_ms(mono_sub(clock_mono(), r->started)));
		r->pausing = false;
	} else if (r->err == TV_ENOENT) {
		r->pausing = false;		/* it was given up */
	} else if (r->err == TV_ECORRUPT && import_pausing(r)) {
		/* The leader had what was announced, or it would not have committed it. */
		fsm_found_damaged(r->d->fsm, r->errbuf);
		r->broken = true;
		r->pausing = false;
	} else if ((r->err == TV_EFORMAT || r->err == TV_ECORRUPT) && !import_pausing(r)) {
		log_err("raft", "a staged archive cannot be restored, the state stays: %s", r->errbuf);
		snprintf(r->bad_id, sizeof(r->bad_id), "%s", r->load_id);
	} else {
		load_failed_here(r);
	}
	if (r->err != TV_OK && r->err != TV_ENOENT)
		import_leader_fail(r->d->import_leader, r->load_id, r->errbuf);
	engine_wake(r->d->engine);
}

/* Or another thread is, where this works: a snapshot that is being installed is loaded to the same place. */
static bool
is_working(const struct import *r)
{
	return r->loading || r->unloading || r->completing || r->tidying || r->swapping ||
	    snapshots_installing(r->d->snapshots);
}

static void
load(struct import *r)
{
	if (is_working(r) || strcmp(r->bad_id, r->stage.id) == 0 || r->broken ||
	    fsm_stage_loaded(r->d->fsm, r->stage.id) || mono_before(clock_mono(), r->retry))
		return;
	memcpy(r->load_id, r->stage.id, sizeof(r->load_id));
	r->errbuf[0] = '\0';
	r->done = 0;
	r->state_max = import_leader_fit(space_room(r->d->space));
	r->started = clock_mono();
	r->loading = jobs_add_only(r->d->worker, load_work, load_done, r) == TV_OK;	/* else the next look tries */
}

static void
unload_work(void *ctx)
{
	struct import *r = ctx;

	fsm_stage_unload(r->d->fsm);
}

static void
unload_done(void *ctx)
{
	struct import *r = ctx;

	r->unloading = false;
	r->load_id[0] = '\0';
}

/* What was loaded for a restore that was given up. */
static void
unload(struct import *r)
{
	if (r->load_id[0] == '\0' || is_working(r))
		return;
	if (!fsm_stage_loaded(r->d->fsm, r->load_id)) {
		r->load_id[0] = '\0';
		return;
	}
	r->unloading = jobs_add_only(r->d->worker, unload_work, unload_done, r) == TV_OK;
}

static void
complete_work(void *ctx)
{
	struct import *r = ctx;

	r->err = fsm_stage_complete(r->d->fsm, r->load_id, r->commit_index, r->commit_term, r->errbuf, sizeof(r->errbuf));
}

static void
complete_done(void *ctx)
{
	struct import *r = ctx;

	r->completing = false;
	if (r->d->stopping)
		return;
	if (r->err == TV_ECORRUPT) {
		log_err("raft", "%s", r->errbuf);
		r->broken = true;
		r->pausing = false;
	} else if (r->err != TV_OK) {
		load_failed_here(r);
	}
	engine_wake(r->d->engine);
}

static void
tidy_work(void *ctx)
{
	struct import *r = ctx;

	fsm_restore_tidy(r->d->fsm);
}

static void
tidy_done(void *ctx)
{
	struct import *r = ctx;

	r->tidying = false;
}

/* What takes long and has no hurry. */
static void
tidy(struct import *r)
{
	if (!r->untidy || is_working(r))
		return;
	r->tidying = jobs_add_only(r->d->worker, tidy_work, tidy_done, r) == TV_OK;
	r->untidy = !r->tidying;
}

/* -- what is not needed any more -- */

static void
abort_done(struct proposal *p, enum tv_err err, const struct fsm_result *result UNUSED)
{
	struct import *r = (struct import *)((char *)p - offsetof(struct import, abort));

	(void)err;				/* the next look tries again */
	r->aborting = false;
}

static void
abort_staged(struct import *r)
{
	struct restore_step args = { .ID = span_str(r->stage.id) };

	r->aborting = propose_record(r->d, &r->abort, OP_RESTORE_ABORT, &args, abort_done, NULL, 0) == TV_OK;
}

/* -- the turn -- */

void
import_turn(struct import *r)
{
	if (engine_opening(r->d->engine))
		return;
	if (fsm_stage_changed(r->d->fsm))
		r->staged = fsm_staged(r->d->fsm, &r->stage);
	if (!r->staged && !import_leader_busy(r->d->import_leader) && r->load_id[0] == '\0' && !r->untidy) {
		ev_timer_stop(r->d->loop, &r->timer);
		return;
	}
	if (!ev_is_active(&r->timer))
		ev_timer_again(r->d->loop, &r->timer);
	if (r->staged && !r->stage.aborting && r->stage.received == r->stage.bytes)
		load(r);
	else
		unload(r);
	tidy(r);
	/* Once nothing is under way the engine asks again; not while the thread is taken, or the loop would not sleep. */
	if (r->pausing && !is_working(r) && !jobs_busy(r->d->worker) && fsm_stage_loaded(r->d->fsm, r->stage.id)) {
		r->pausing = false;
		engine_wake(r->d->engine);
	}
	import_leader_turn(r->d->import_leader, r->staged ? &r->stage : NULL, r->done);
	/* What an earlier leader left behind, or what failed. */
	if (r->staged && !r->aborting && leader_active(r->d->leader) && !import_leader_owns(r->d->import_leader, r->stage.id))
		abort_staged(r);
}

static void
on_timer(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	(void)w;				/* its only purpose: another turn */
}

/* -- the commit -- */

static bool
is_there(struct import *r, const char *id)
{
	const struct fsm_stage *st = &r->stage;

	r->staged = fsm_staged(r->d->fsm, &r->stage);
	return r->staged && strcmp(st->id, id) == 0 && !st->aborting && st->received == st->bytes;
}

static enum restore_verdict
wait_for_it(struct import *r, uint64_t index, uint64_t term)
{
	/* Its leader had loaded it: a server that cannot (an older version, no memory) waits, or its state would be another one. */
	r->bad_id[0] = '\0';
	r->pausing = true;
	r->commit_index = index;
	r->commit_term = term;
	if (!is_working(r) && fsm_stage_loaded(r->d->fsm, r->stage.id)) {
		memcpy(r->load_id, r->stage.id, sizeof(r->load_id));
		r->completing = jobs_add_only(r->d->worker, complete_work, complete_done, r) == TV_OK;
	}
	return RESTORE_WAIT;			/* the turn of the loop sees to what could not be begun */
}

/* Nothing is applied meanwhile: the engine waits. */
static void
swap_work(struct fsm *f, void *ctx)
{
	struct import *r = ctx;

	r->err = fsm_stage_take(f, r->load_id, r->commit_index, r->commit_term, r->errbuf, sizeof(r->errbuf));
}

static void
swap_done(void *ctx)
{
	struct import *r = ctx;

	r->swapping = false;
	r->swapped = r->commit_index;
	if (r->err == TV_OK)
		fsm_fire_all(r->d->fsm);
	engine_wake(r->d->engine);
}

static enum restore_verdict
swapped(struct import *r)
{
	uint64_t index = r->swapped;

	r->swapped = 0;
	if (r->err != TV_OK) {
		log_err("raft", "%s", r->errbuf);
		return RESTORE_BROKEN;
	}
	log_info("raft", "the state was replaced by a restored one at index %llu, in %lld ms", (unsigned long long)index,
	    (long long)mono_ms(mono_sub(clock_mono(), r->swap_begun)));
	r->load_id[0] = '\0';
	r->untidy = true;
	snapshots_restored(r->d->snapshots, index);
	leader_restored(r->d->leader);
	return RESTORE_TAKEN;
}

enum restore_verdict
import_commit(struct raftd *d, const char *id, uint64_t index, uint64_t term)
{
	struct import *r = d->import;

	if (r->swapping)
		return RESTORE_WAIT;
	r->pausing = false;
	if (r->broken)
		return RESTORE_BROKEN;
	if (r->swapped == index && r->err != TV_EINVAL)
		return swapped(r);
	r->swapped = 0;				/* a snapshot was loaded in its place: once more */
	if (!is_there(r, id))
		return RESTORE_ENTRY;
	if (is_working(r) || !fsm_stage_completed(r->d->fsm, id, index))
		return wait_for_it(r, index, term);
	r->commit_index = index;
	r->commit_term = term;
	memcpy(r->load_id, r->stage.id, sizeof(r->load_id));
	r->swap_begun = clock_mono();
	r->swapping = statethread_between(d->state, swap_work, swap_done, r) == TV_OK;
	return RESTORE_WAIT;			/* what could not be begun is tried with the next look */
}

bool
import_pausing(const struct import *r)
{
	return r->swapping || (r->pausing && fsm_applied(r->d->fsm) + 1 == r->commit_index);
}

void
import_info(struct import *r, figure_fn *fn, void *ctx)
{
	char id[37];
	uint64_t index;

	fn(ctx, "restore", r->pausing ? "waiting for the loaded state" : r->loading ? "loading" : r->staged ? "staged" :
	    "none");
	if (r->staged)
		figure_put(fn, ctx, "restore_staged_bytes", r->stage.received);
	if (r->d->fsm != NULL && fsm_last_restore(r->d->fsm, id, &index))
		figure_put(fn, ctx, "last_restore_index", index);
}

struct import *
import_new(struct raftd *d)
{
	struct import *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	r->d = d;
	ev_timer_init(&r->timer, on_timer, 0., LOOK);
	return r;
}

void
import_free(struct import *r)
{
	if (r == NULL)
		return;
	ev_timer_stop(r->d->loop, &r->timer);
	free(r);
}
