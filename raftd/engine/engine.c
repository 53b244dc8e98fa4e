/* The shell of the Raft core. */
#include <stdlib.h>
#include <string.h>
#include <sodium.h>

#include "common/base/assert.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/proc/daemon.h"
#include "raftd/disk/space.h"
#include "raftd/engine/engine_int.h"
#include "raftd/engine/entrycache.h"
#include "raftd/engine/loop_time.h"
#include "raftd/fsm/fsm.h"

#define PROPOSE_BYTES_MAX (64u << 20)	/* queued for one turn */
#define TURN_ROUNDS_MAX 4		/* work done before the loop looks at its events again */
#define TURN_TIME_MAX MONO_MS(10)	/* spent on them, and on reads besides: a heartbeat may be due */
#define COMPACT_LOOK 1.0
#define COMPACT_STEP 0.02		/* a step takes half a millisecond */
#define LONG_WORK (1u << 20)		/* of an entry that keeps the state busy: reads that it does not touch go on */
#define ENTRY_OVERHEAD 64		/* bytes on disk beside the payload */

/* -- messages that wait for the disk -- */

static void
release_held(struct engine *e, struct pending_sends *r, uint64_t done)
{
	struct raft_send s;

	while (pending_sends_take(r, done, &s))
		e->hooks->send(e->d, &s);
}

/* -- carrying out an output -- */

static void
store(struct engine *e, const struct raft_output *o)
{
	if (e->generation != 0 && o->append_count > 0)
		logthread_generation(e->log, e->generation);
	if (o->hard_changed)
		logthread_hard(e->log, o->term, o->vote);
	if (o->truncate_from != 0) {
		logthread_truncate(e->log, o->truncate_from);
		entrycache_truncate(e->cache, o->truncate_from);
		proposals_truncated(e->proposals, o->truncate_from);
	}
	for (uint32_t i = 0; i < o->append_count; i++) {
		const struct raft_entry *kept = entrycache_append(e->cache, &o->append[i], logthread_seq(e->log));

		/* Without memory for the log there is no safe way on. */
		TV_ASSERT(kept != NULL);
		e->stored_bytes += kept->size + ENTRY_OVERHEAD;
		TV_ASSERT(logthread_append(e->log, kept, o->write_epoch) == TV_OK);
	}
}

static void
send_all(struct engine *e, const struct raft_output *o)
{
	uint64_t done = logthread_done(e->log);
	uint64_t hard = logthread_hard_barrier(e->log), all = logthread_barrier(e->log);

	for (uint32_t i = 0; i < o->send_count; i++) {
		const struct raft_send *s = &o->sends[i];

		if (s->after_append && all > done)
			(void)pending_sends_add(&e->held_append, all, s);
		else if (s->after_hard && hard > done)
			(void)pending_sends_add(&e->held_hard, hard, s);
		else
			e->hooks->send(e->d, s);
	}
}

static void
keep_notice(struct engine *e, const struct raft_notice *n)
{
	if (e->notice_count < NOTICES_MAX)
		e->notices[e->notice_count++] = *n;
}

static void
carry_out(struct engine *e, const struct raft_output *o)
{
	e->term = o->term;
	store(e, o);
	send_all(e, o);
	if (o->commit_index > e->commit)
		e->commit = o->commit_index;
	for (uint32_t i = 0; i < o->read_count; i++)
		reads_answer(&e->reads, o->reads[i].ctx, o->reads[i].ok, o->reads[i].index);
	for (uint32_t i = 0; i < o->notice_count; i++)
		keep_notice(e, &o->notices[i]);
	e->deadline = o->deadline;
}

/* The core is fed no more. */
void
engine_stop(struct engine *e)
{
	e->corrupt = true;
	daemon_quit(1);
}

/* After the output, so that a listener may feed the core again. */
static void
tell_notices(struct engine *e)
{
	if (e->telling)
		return;
	e->telling = true;
	for (unsigned i = 0; i < e->notice_count; i++) {
		struct raft_notice n = e->notices[i];

		if (n.type == RAFT_NOTICE_READ_ONLY_CORRUPT) {
			log_err("raft", "the log would lose a committed entry; stopping to keep the data as it is");
			engine_stop(e);
		}
		if (n.type == RAFT_NOTICE_LEADER || n.type == RAFT_NOTICE_ROLE)
			reads_retry(&e->reads, clock_mono(), e->d->conf.election_timeout);
		core_notices_log(e, &n);
		e->hooks->notice(e->d, &n);
	}
	e->notice_count = 0;
	e->telling = false;
}

enum tv_err
engine_feed(struct engine *e, struct raft_input in)
{
	struct raft_output out = { 0 };
	const struct raft_msg *chunk;
	bool was_leader = e->status.role == RAFT_LEADER;

	TV_ASSERT(!e->feeding);
	if (e->corrupt)
		return TV_OK;
	e->feeding = true;
	in.now = clock_mono();
	raft_feed(e->core, &in, &out);
	e->status_fresh = false;
	carry_out(e, &out);
	chunk = out.snapshot_chunk;
	e->feeding = false;
	if (was_leader && engine_status(e)->role != RAFT_LEADER) {
		e->heard = in.now;
		e->led = true;
		proposals_hurry(e->proposals, mono_add(in.now, mono_mul(e->d->conf.election_timeout, 6)));
	}
	if (chunk != NULL)
		e->hooks->chunk(e->d, chunk);
	tell_notices(e);
	return out.err;
}

/* -- inputs -- */

static bool
propose_queued(struct engine *e)
{
	uint32_t count;
	struct raft_input in = { .type = RAFT_IN_PROPOSE };
	struct raft_output out = { 0 };

	in.entries = proposals_next(e->proposals, PROPOSE_ENTRIES_MAX, &count);
	if (count == 0 || e->corrupt)
		return false;
	in.entry_count = count;
	in.now = clock_mono();
	TV_ASSERT(!e->feeding);
	e->feeding = true;
	raft_feed(e->core, &in, &out);
	e->status_fresh = false;
	carry_out(e, &out);		/* copies the payloads; accepting gives them back */
	if (out.err == TV_OK)
		TV_ASSERT(out.append_count >= count && proposals_accepted(e->proposals, out.append, count) == TV_OK);
	e->feeding = false;
	if (out.err != TV_OK && out.err != TV_EAGAIN)
		proposals_refuse(e->proposals, out.err);
	tell_notices(e);
	return out.err == TV_OK;
}

void
engine_message(struct engine *e, const struct raft_msg *m)
{
	(void)engine_feed(e, (struct raft_input){ .type = RAFT_IN_MSG, .msg = m });
}

struct raft_entry *
engine_scratch(struct engine *e, uint32_t *count)
{
	*count = ENTRIES_SCRATCH;
	return e->scratch;
}

void
engine_reachable(struct engine *e, raft_id id, bool up)
{
	(void)engine_feed(e, (struct raft_input){ .type = up ? RAFT_IN_REACHABLE : RAFT_IN_UNREACHABLE, .to = id });
}

void
engine_gone(struct engine *e, raft_id id)
{
	(void)engine_feed(e, (struct raft_input){ .type = RAFT_IN_GONE, .to = id });
}

enum tv_err
engine_change(struct engine *e, const struct raft_change *change)
{
	/* In the order of the calls: what removes a leader, itself perhaps, wrote first that it stays away. */
	while (propose_queued(e))
		;
	return engine_feed(e, (struct raft_input){ .type = RAFT_IN_CHANGE, .change = change });
}

enum tv_err
engine_transfer(struct engine *e, raft_id to)
{
	return engine_feed(e, (struct raft_input){ .type = RAFT_IN_TRANSFER, .to = to });
}

enum tv_err
engine_bootstrap(struct engine *e, const struct raft_config *config)
{
	return engine_feed(e, (struct raft_input){ .type = RAFT_IN_BOOTSTRAP, .config = config });
}

enum tv_err
engine_recover(struct engine *e, const struct raft_config *config, uint64_t generation, logthread_job_done *done,
    void *ctx)
{
	enum tv_err err;

	if (e->corrupt)
		return TV_ECORRUPT;
	e->generation = generation;
	err = engine_feed(e, (struct raft_input){ .type = RAFT_IN_RECOVER, .config = config });
	e->generation = 0;
	if (err != TV_OK)
		return err;
	/* What comes behind the batch in the log's order is done after it.  There is no way back from the batch. */
	TV_ASSERT(logthread_cluster(e->log, e->d->id.cluster_id, generation, done, ctx) == TV_OK);
	return TV_OK;
}

void
engine_fence(struct engine *e)
{
	(void)engine_feed(e, (struct raft_input){ .type = RAFT_IN_RETIRE });
}

void
engine_snapshot_ready(struct engine *e, uint64_t index, uint64_t bytes)
{
	(void)engine_feed(e, (struct raft_input){ .type = RAFT_IN_SNAPSHOT_READY, .index = index, .offset = bytes });
}

void
engine_snapshot_stored(struct engine *e, const struct raft_msg *m, uint64_t offset)
{
	(void)engine_feed(e, (struct raft_input){ .type = RAFT_IN_SNAPSHOT_CHUNK, .msg = m, .offset = offset });
}

void
engine_snapshot_installed(struct engine *e, const struct raft_msg *m)
{
	if (!raft_keeps_log(e->core, m->log_index, m->log_term))
		entrycache_clear(e->cache);
	TV_ASSERT(statethread_applying(e->d->state) == 0);
	e->stateless = false;
	e->applied = e->handed = m->log_index;
	e->restore.index = 0;
	if (e->commit < e->applied)
		e->commit = e->applied;
	proposals_skipped(e->proposals, e->applied);
	(void)engine_feed(e, (struct raft_input){ .type = RAFT_IN_SNAPSHOT_INSTALLED, .msg = m });
	engine_wake(e);
}

void
engine_compacted(struct engine *e, uint64_t index, uint64_t snapshot_index)
{
	(void)engine_feed(e, (struct raft_input){ .type = RAFT_IN_COMPACTED, .index = index,
	    .snapshot_index = snapshot_index });
}

bool
engine_all_apply(struct engine *e, uint16_t op, struct span args, bool premises, char *why, size_t cap)
{
	uint8_t needs = fsm_entry_version(op, args, premises);

	return needs <= fsm_needs(e->d->fsm) || e->hooks->all_apply(e->d, needs, why, cap);
}

enum tv_err
engine_propose(struct engine *e, struct proposal *p, uint16_t op, struct span args, struct span premises)
{
	const struct raft_status *st = engine_status(e);

	if (st->role != RAFT_LEADER)
		return st->leader != 0 ? TV_ENOTLEADER : TV_ENOLEADER;
	if (engine_no_space(e))		/* a voter with room is about to lead: the client's next attempt finds it */
		return space_full(e->d->space) && engine_voter_with_room(e) != 0 ? TV_ENOTLEADER : TV_ENOSPACE;
	p->begun = clock_mono();
	return proposals_add(e->proposals, p, op, args, premises, mono_add(p->begun, e->d->conf.write_timeout));
}

void
engine_read(struct engine *e, struct read_wait *w)
{
	w->deadline = mono_add(clock_mono(), e->d->conf.read_timeout);
	reads_add(&e->reads, w);
}

/* -- the turn -- */

static void
ask_reads(struct engine *e)
{
	uint64_t ctx = reads_round(&e->reads, clock_mono());

	if (ctx != 0)
		(void)engine_feed(e, (struct raft_input){ .type = RAFT_IN_READ, .ctx = ctx });
}

/* Does this turn leave anything that needs no event to go on? */
static bool
work_left(struct engine *e)
{
	return reads_ready(&e->reads, e->applied) || e->hooks->waiting(e->d);
}

static bool
touches(void *ctx, uint64_t index, struct span key)
{
	struct engine *e = ctx;
	const struct raft_entry *entry = entrycache_get(e->cache, index);

	return entry == NULL || fsm_may_touch(entry, key);
}

/* Is an entry being applied that takes long? */
static bool
is_long(struct engine *e)
{
	const struct raft_entry *entry = e->applied < e->commit ? entrycache_get(e->cache, e->applied + 1) : NULL;

	return entry != NULL && fsm_entry_work(entry) > LONG_WORK;
}

/* At least one, so that reads go on whatever else there is to do. */
static void
serve_reads(struct engine *e, struct mono until)
{
	while (reads_serve(&e->reads, e->applied) && mono_before(clock_mono(), until))
		;
	if (is_long(e))
		reads_serve_early(&e->reads, e->applied, e->commit, touches, e);
}

static void
set_tick(struct engine *e)
{
	struct mono now = clock_mono();
	double after;

	/* A timer that rings too early rings again: cheaper than moving it at every message. */
	if (ev_is_active(&e->tick) && e->tick_due.ns <= e->deadline.ns)
		return;
	ev_timer_stop(e->d->loop, &e->tick);
	if (e->deadline.ns == MONO_NEVER.ns || e->retired)
		return;
	after = mono_seconds(mono_sub(e->deadline, now));
	e->tick_due = e->deadline;
	ev_now_update(e->d->loop);
	ev_timer_set(&e->tick, after > 0.0 ? after : 0.0, 0.0);
	ev_timer_start(e->d->loop, &e->tick);
}

static void
watch_space(struct engine *e)
{
	space_written(e->d->space, e->stored_bytes);
	e->stored_bytes = 0;
	if (space_full(e->d->space))
		reads_refuse(&e->reads, engine_status(e)->last_index);
}

static void
turn(struct engine *e)
{
	struct mono until = mono_add(clock_mono(), TURN_TIME_MAX), reads_until = until;
	bool busy = true;

	statethread_collect(e->d->state);
	watch_space(e);
	for (unsigned i = 0; busy && i < TURN_ROUNDS_MAX && (i == 0 || mono_before(clock_mono(), until)); i++) {
		busy = propose_queued(e);
		ask_reads(e);
		/* Peers and disks work while we apply.  Peers first: theirs is the longer way. */
		e->hooks->flush(e->d);
		logthread_flush(e->log);
		busy |= engine_apply(e);
		if (i == 0)			/* reads go on however long that took */
			reads_until = mono_add(clock_mono(), TURN_TIME_MAX);
		serve_reads(e, reads_until);
		busy |= e->hooks->serve(e->d, reads_until);
	}
	if (busy)
		(void)propose_queued(e);	/* by a callback that came last: no event will call for it */
	statethread_flush(e->d->state, !engine_in_no_hurry(e) || statethread_applying(e->d->state) == STATE_BATCHES);
	logthread_flush(e->log);
	e->hooks->turn(e->d);
	if (work_left(e))
		ev_idle_start(e->d->loop, &e->idle);
	else
		ev_idle_stop(e->d->loop, &e->idle);
	set_tick(e);
}

static void
on_prepare(struct ev_loop *loop UNUSED, ev_prepare *w, int revents UNUSED)
{
	turn(w->data);
}

static void
on_idle(struct ev_loop *loop, ev_idle *w, int revents UNUSED)
{
	ev_idle_stop(loop, w);		/* its only purpose: the loop does not sleep */
}

void
engine_wake(struct engine *e)
{
	ev_idle_start(e->d->loop, &e->idle);
}

static void
on_tick(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct engine *e = w->data;

	(void)engine_status(e);			/* for e->heard: the core may be about to forget its leader */
	if (clock_mono().ns >= e->deadline.ns && !e->retired)
		(void)engine_feed(e, (struct raft_input){ .type = RAFT_IN_TICK });
}

static void
watch_disk(struct engine *e, struct mono now)
{
	struct mono busy = logthread_busy(e->log, now), slowest = logthread_slowest(e->log);
	struct mono pause = loop_time_pause(e->d->loop_time, now);

	/* What was under way while this process did not run lasted at least as long, and the disk is not to blame. */
	if (busy.ns >= pause.ns)
		busy = mono_sub(busy, pause);
	if (slowest.ns >= pause.ns)
		slowest = mono_sub(slowest, pause);
	if (slowest.ns > e->d->conf.slow_sync.ns)
		log_warn("raft", "slow disk: a log write took %lld ms", (long long)mono_ms(slowest));
	if (busy.ns <= e->d->conf.disk_stuck_timeout.ns) {
		e->stuck = false;
		return;
	}
	if (!e->stuck)
		log_err("raft", "disk stuck: a log write has been waiting for %lld ms", (long long)mono_ms(busy));
	e->stuck = true;
	(void)engine_feed(e, (struct raft_input){ .type = RAFT_IN_DISK_STUCK });
}

static void
on_housekeeping(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct engine *e = w->data;
	struct mono now = clock_mono();
	enum tv_err err;

	/* A read may be what meets the damage. */
	if (!e->corrupt && !e->opening && (err = fsm_trouble(e->d->fsm)) != TV_OK)
		engine_apply_failed(e, err);
	watch_disk(e, now);
	engine_hand_over_full(e);
	proposals_expire(e->proposals, now);
	reads_retry(&e->reads, now, mono_mul(e->d->conf.election_timeout, 2));
	reads_expire(&e->reads, now);
}

/* In the thread that applies. */
static void
compact_step(struct fsm *f, void *ctx)
{
	((struct engine *)ctx)->more_to_compact = fsm_compact(f);
}

/* Trouble is seen by the housekeeping. */
static void
on_compacted(void *ctx)
{
	struct engine *e = ctx;

	e->compacting = false;
	e->compact.repeat = e->more_to_compact ? COMPACT_STEP : COMPACT_LOOK;
	ev_timer_again(e->d->loop, &e->compact);
}

static void
on_compact(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct engine *e = w->data;

	w->repeat = COMPACT_LOOK;
	if (!e->compacting && !engine_must_not_apply(e) && !space_full(e->d->space))
		e->compacting = statethread_between(e->d->state, compact_step, on_compacted, e) == TV_OK;
}

/* -- the log thread's answers -- */

static void
on_written(void *ctx, uint64_t seq, uint64_t index, uint64_t term, uint64_t epoch)
{
	struct engine *e = ctx;

	entrycache_written(e->cache, seq);
	release_held(e, &e->held_hard, seq);
	release_held(e, &e->held_append, seq);
	if (index != 0)
		(void)engine_feed(e, (struct raft_input){ .type = RAFT_IN_PERSISTED, .index = index, .term = term,
		    .ctx = epoch });
}

static void
on_failed(void *ctx, enum tv_err err, int sys)
{
	struct engine *e = ctx;

	log_err("raft", "writing the log in %s/raftd/log failed: %s; stopping, since what the disk holds is no longer "
	    "certain: the next start recovers what was acknowledged%s", e->d->cluster.data_dir,
	    err == TV_ESYS ? strerror(sys) : tv_strerror(err), err != TV_ENOSPACE ? "" :
	    ", and waits for space: free some there, or raise the quota (of files, too)");
	engine_stop(e);
}

static const struct logthread_events log_events = { on_written, on_failed };

/* -- what is -- */

const struct raft_config *
engine_config(struct engine *e)
{
	return raft_config(e->core);
}

const struct raft_config *
engine_config_committed(struct engine *e)
{
	return raft_config_committed(e->core);
}

const struct raft_config *
engine_config_at(struct engine *e, uint64_t index)
{
	return raft_config_at(e->core, index);
}

uint64_t
engine_term_at(struct engine *e, uint64_t index)
{
	return raft_term_at(e->core, index);
}

bool
engine_keeps_log(struct engine *e, uint64_t index, uint64_t term)
{
	return raft_keeps_log(e->core, index, term);
}

uint64_t
engine_compact_limit(struct engine *e)
{
	return raft_compact_limit(e->core);
}

void
engine_on_status(struct engine *e, void (*fn)(struct raftd *d))
{
	TV_ASSERT(e->subscriber_count < STATUS_SUBSCRIBERS_MAX);
	e->subscribers[e->subscriber_count++] = fn;
}

void
engine_status_changed(struct engine *e)
{
	for (unsigned i = 0; i < e->subscriber_count; i++)
		e->subscribers[i](e->d);
}

struct logthread *
engine_log(struct engine *e)
{
	return e->log;
}

const struct raft_status *
engine_status(struct engine *e)
{
	if (!e->status_fresh) {
		raft_status(e->core, &e->status);
		e->status_fresh = true;
		if (e->status.leader_contact.ns != 0) {
			e->heard = e->status.leader_contact;
			e->led = false;
		}
	}
	return &e->status;
}

struct mono
engine_heard(struct engine *e, bool *self)
{
	bool leads = engine_is_leader(e);

	*self = leads || e->led;
	return leads ? clock_mono() : e->heard;
}

bool
engine_is_leader(struct engine *e)
{
	return engine_status(e)->role == RAFT_LEADER;
}

uint64_t
engine_term(const struct engine *e)
{
	return e->term;
}

uint64_t
engine_applied(const struct engine *e)
{
	return e->applied;
}

bool
engine_stateless(const struct engine *e)
{
	return e->stateless;
}

bool
engine_opening(const struct engine *e)
{
	return e->opening;
}

bool
engine_leader_known(struct engine *e, uint64_t *last_contact_ms)
{
	const struct raft_status *st = engine_status(e);

	*last_contact_ms = 0;
	if (st->role == RAFT_LEADER)
		return true;
	/* Also when it is lost: how old an answer may be, is what is asked for. */
	if (e->heard.ns != 0)
		*last_contact_ms = (uint64_t)mono_ms(mono_sub(clock_mono(), e->heard));
	return st->leader != 0;
}

/* -- marks of the disk -- */

struct disk_mark
engine_mark(struct engine *e)
{
	const struct raft_status *st = engine_status(e);

	e->mark.life = e->found.life;
	/* Else a term or vote is still on its way to the disk: what was so before remains true. */
	if (logthread_hard_barrier(e->log) <= logthread_done(e->log)) {
		e->mark.term = st->term;
		e->mark.vote = st->vote;
		e->mark.kept = st->kept;
	}
	e->mark.went_back = st->went_back;
	return e->mark;
}

void
engine_heed_mark(struct engine *e, const struct disk_mark *seen)
{
	struct raft_input in = { .type = RAFT_IN_WENT_BACK, .term = seen->term, .index = seen->kept };

	if (!disk_went_back(&e->found, seen) || engine_status(e)->regained_term >= seen->term)
		return;
	if (engine_feed(e, in) == TV_ECONFLICT)
		core_notices_only_voter(e, seen->kept);
}

/* -- start and end -- */

static struct disk_found
found_on_disk(const struct log_meta *m)
{
	struct disk_found f = { .term = m->term, .vote = m->vote, .last = m->last > m->snapshot_index ? m->last : m->snapshot_index };

	while (f.life == 0)
		randombytes_buf(&f.life, sizeof(f.life));
	return f;
}

struct engine *
engine_new(struct raftd *d, const struct engine_hooks *hooks, struct raft *core)
{
	struct engine *e = calloc(1, sizeof(*e));

	if (e == NULL) {
		raft_free(core);
		return NULL;
	}
	e->d = d;
	e->core = core;
	e->hooks = hooks;
	e->opening = true;
	e->found = found_on_disk(&d->meta);
	e->deadline = clock_mono();
	reads_init(&e->reads);
	e->cache = entrycache_new(d->conf.entry_cache);
	e->proposals = proposals_new(PROPOSE_BYTES_MAX);
	e->scratch = calloc(ENTRIES_SCRATCH, sizeof(*e->scratch));
	e->outgoing = calloc(ENTRIES_SCRATCH, sizeof(*e->outgoing));
	e->reader = engine_reader_new(e);
	if (e->cache == NULL || e->proposals == NULL || e->scratch == NULL ||
	    e->outgoing == NULL || e->reader == NULL) {
		engine_free(e);
		return NULL;
	}
	/* At least that much, unless the state turns out to be damaged. */
	e->applied = e->handed = e->commit = d->meta.snapshot_index;
	core_notices_book(e);
	return e;
}

enum tv_err
engine_start(struct engine *e)
{
	struct ev_loop *loop = e->d->loop;

	e->log = logthread_new(loop, e->d->log, &log_events, e);
	if (e->log == NULL)
		return TV_ESYS;
	logthread_watch(e->log, e->d->conf.slow_sync);
	statethread_events(e->d->state, &engine_state_events, e);
	ev_prepare_init(&e->prepare, on_prepare);
	ev_idle_init(&e->idle, on_idle);
	ev_timer_init(&e->tick, on_tick, 0.0, 0.0);
	ev_timer_init(&e->housekeeping, on_housekeeping, mono_seconds(ENGINE_HOUSEKEEPING),
	    mono_seconds(ENGINE_HOUSEKEEPING));
	ev_timer_init(&e->compact, on_compact, COMPACT_LOOK, COMPACT_LOOK);
	/* What has arrived meanwhile is looked at first: after a pause the leader's heartbeat may be among it. */
	ev_set_priority(&e->tick, EV_MINPRI);
	e->prepare.data = e->idle.data = e->tick.data = e->housekeeping.data = e->compact.data = e;
	/* Channels flush from a prepare watcher too; ours must come first. */
	ev_set_priority(&e->prepare, EV_MAXPRI);
	ev_prepare_start(loop, &e->prepare);
	ev_timer_start(loop, &e->housekeeping);
	ev_timer_start(loop, &e->compact);
	return TV_OK;
}

void
engine_retire(struct engine *e)
{
	e->retired = true;
}

bool
engine_writing(const struct engine *e)
{
	return proposals_queued(e->proposals) > 0 || proposals_first(e->proposals) != UINT64_MAX;
}

void
engine_drain(struct engine *e)
{
	e->corrupt = true;		/* the core is fed no more */
	proposals_refuse(e->proposals, TV_EUNKNOWN);
	proposals_skipped(e->proposals, UINT64_MAX);
	reads_expire(&e->reads, MONO_NEVER);
}

void
engine_free(struct engine *e)
{
	if (e == NULL)
		return;
	if (e->log != NULL) {
		ev_prepare_stop(e->d->loop, &e->prepare);
		ev_idle_stop(e->d->loop, &e->idle);
		ev_timer_stop(e->d->loop, &e->tick);
		ev_timer_stop(e->d->loop, &e->housekeeping);
		ev_timer_stop(e->d->loop, &e->compact);
		logthread_free(e->log);
	}
	log_reader_free(e->reader);
	raft_free(e->core);
	proposals_free(e->proposals);
	entrycache_free(e->cache);
	pending_sends_done(&e->held_hard);
	pending_sends_done(&e->held_append);
	free(e->scratch);
	free(e->outgoing);
	free(e);
}
