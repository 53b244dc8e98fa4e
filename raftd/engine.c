/* The shell of the Raft core. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "common/clock.h"
#include "common/log.h"
#include "raftd/clients.h"
#include "raftd/diskspace.h"
#include "raftd/engine.h"
#include "raftd/entrycache.h"
#include "raftd/held.h"
#include "raftd/identity.h"
#include "raftd/leader.h"
#include "raftd/links.h"
#include "raftd/notices.h"
#include "raftd/restores.h"
#include "raftd/snapshots.h"

#define PROPOSE_ENTRIES_MAX 2048	/* in one input */
#define PROPOSE_BYTES_MAX (64u << 20)	/* queued for one turn */
#define APPLY_ENTRIES_MAX 1024		/* in one transaction */
#define APPLY_BYTES_MAX (1u << 20)
#define TURN_ROUNDS_MAX 4		/* work done before the loop looks at its events again */
#define TURN_TIME_MAX MONO_MS(10)	/* spent on them, and on reads besides: a heartbeat may be due */
#define ENTRIES_SCRATCH 4096		/* append_entries_max never exceeds it */
#define HOUSEKEEPING 0.1		/* seconds */
#define TIDY_LOOK 1.0
#define TIDY_STEP 0.02			/* a step takes half a millisecond */
#define COMMIT_DELAY MONO_MS(2)		/* a writer that waits for each answer comes again within that */
#define NOTICES_MAX 64
#define HAND_OVERS_MAX 3
#define ENTRY_OVERHEAD 64		/* bytes on disk beside the payload */

struct engine {
	struct raftd *d;
	struct raft *core;
	struct logthread *log;
	struct entrycache *cache;
	struct proposals *proposals;
	struct reads reads;
	struct raft_status status;
	struct mono heard;		/* when a leader was heard last, or we led; outlives the core's knowledge of it */
	bool led;			/* that was ourself */
	bool status_fresh, feeding, stuck, corrupt, retired;
	bool stateless;			/* a snapshot must come before anything is applied or read */
	uint64_t term, commit, applied;
	uint64_t generation;		/* of the entries appended by the input at hand; 0: as before */
	uint64_t stored_bytes;		/* given to the log since the last turn */
	unsigned hand_overs;		/* tried since this disk is full */
	struct mono deadline;

	/* Messages that wait for terms and votes only, and for entries too: a slow write of entries must not hold up
	 * the answers to heartbeats, or a slow disk would cost the leadership. */
	struct held_ring held_hard, held_append;
	struct raft_notice notices[NOTICES_MAX];	/* to be told after the output was carried out */
	unsigned notice_count;
	bool telling;

	struct raft_entry *scratch;	/* received entries */
	struct raft_entry *range;	/* entries to send or apply */
	struct arena range_arena, apply_arena;
	struct fsm_result *results;

	ev_prepare prepare;
	ev_idle idle;
	ev_timer tick, housekeeping, tidy;
	struct mono tick_due;
};

static void feed(struct engine *e, struct raft_input *in, enum tv_err *err);

/* -- messages that wait for the disk -- */

static void
release_held(struct engine *e, struct held_ring *r, uint64_t done)
{
	struct raft_send s;

	while (held_take(r, done, &s))
		links_send(e->d->links, &s);
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
			(void)held_add(&e->held_append, all, s);
		else if (s->after_hard && hard > done)
			(void)held_add(&e->held_hard, hard, s);
		else
			links_send(e->d->links, s);
	}
}

static void
note(struct engine *e, const struct raft_notice *n)
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
		note(e, &o->notices[i]);
	e->deadline = o->deadline;
}

/* The core is fed no more. */
static void
stop_corrupt(struct engine *e)
{
	e->corrupt = true;
	daemon_quit(1);
}

/* After the output, so that whoever listens may feed the core again. */
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
			stop_corrupt(e);
		}
		if (n.type == RAFT_NOTICE_LEADER || n.type == RAFT_NOTICE_ROLE)
			reads_retry(&e->reads, clock_mono(), e->d->conf.election_timeout);
		notices_tell(e->d, &n);
	}
	e->notice_count = 0;
	e->telling = false;
}

static void
feed(struct engine *e, struct raft_input *in, enum tv_err *err)
{
	struct raft_output out = { 0 };
	const struct raft_msg *chunk;
	bool was_leader = e->status.role == RAFT_LEADER;

	TV_ASSERT(!e->feeding);
	if (e->corrupt)
		return;
	e->feeding = true;
	in->now = clock_mono();
	raft_feed(e->core, in, &out);
	e->status_fresh = false;
	carry_out(e, &out);
	chunk = out.snapshot_chunk;
	e->feeding = false;
	if (err != NULL)
		*err = out.err;
	if (was_leader && engine_status(e)->role != RAFT_LEADER) {
		e->heard = in->now;
		e->led = true;
		proposals_hurry(e->proposals, mono_add(in->now, mono_mul(e->d->conf.election_timeout, 6)));
	}
	if (chunk != NULL)
		snapshots_chunk(e->d->snapshots, chunk);
	tell_notices(e);
}

/* -- inputs -- */

void
engine_message(struct engine *e, const struct raft_msg *m)
{
	struct raft_input in = { .type = RAFT_IN_MSG, .msg = m };

	feed(e, &in, NULL);
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
	struct raft_input in = { .type = up ? RAFT_IN_REACHABLE : RAFT_IN_UNREACHABLE, .to = id };

	feed(e, &in, NULL);
}

enum tv_err
engine_change(struct engine *e, const struct raft_change *change)
{
	struct raft_input in = { .type = RAFT_IN_CHANGE, .change = change };
	enum tv_err err = TV_OK;

	feed(e, &in, &err);
	return err;
}

enum tv_err
engine_transfer(struct engine *e, raft_id to)
{
	struct raft_input in = { .type = RAFT_IN_TRANSFER, .to = to };
	enum tv_err err = TV_OK;

	feed(e, &in, &err);
	return err;
}

enum tv_err
engine_bootstrap(struct engine *e, const struct raft_config *config)
{
	struct raft_input in = { .type = RAFT_IN_BOOTSTRAP, .config = config };
	enum tv_err err = TV_OK;

	feed(e, &in, &err);
	return err;
}

enum tv_err
engine_recover(struct engine *e, const struct raft_config *config, uint64_t generation, logthread_job_done *done,
    void *ctx)
{
	struct raft_input in = { .type = RAFT_IN_RECOVER, .config = config };
	enum tv_err err = TV_OK;

	if (e->corrupt)
		return TV_ECORRUPT;
	e->generation = generation;
	feed(e, &in, &err);
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
	struct raft_input in = { .type = RAFT_IN_RETIRE };

	feed(e, &in, NULL);
}

void
engine_snapshot_ready(struct engine *e, uint64_t index, uint64_t bytes)
{
	struct raft_input in = { .type = RAFT_IN_SNAPSHOT_READY, .index = index, .offset = bytes };

	feed(e, &in, NULL);
}

void
engine_snapshot_stored(struct engine *e, const struct raft_msg *m, uint64_t offset)
{
	struct raft_input in = { .type = RAFT_IN_SNAPSHOT_CHUNK, .msg = m, .offset = offset };

	feed(e, &in, NULL);
}

void
engine_snapshot_installed(struct engine *e, const struct raft_msg *m)
{
	struct raft_input in = { .type = RAFT_IN_SNAPSHOT_INSTALLED, .msg = m };

	if (!raft_keeps_log(e->core, m->log_index, m->log_term))
		entrycache_clear(e->cache);
	e->stateless = false;
	e->applied = m->log_index;
	if (e->commit < e->applied)
		e->commit = e->applied;
	proposals_skipped(e->proposals, e->applied);
	feed(e, &in, NULL);
	engine_wake(e);
}

void
engine_compacted(struct engine *e, uint64_t index, uint64_t snapshot_index)
{
	struct raft_input in = { .type = RAFT_IN_COMPACTED, .index = index, .snapshot_index = snapshot_index };

	feed(e, &in, NULL);
}

/* -- a full disk -- */

void
engine_disk_space(struct engine *e, bool full)
{
	struct raft_input in = { .type = RAFT_IN_DISK_SPACE, .ctx = full };

	e->hand_overs = 0;
	feed(e, &in, NULL);
	engine_wake(e);
}

/* A voter that could lead and write: it has room and all but the newest of our log.  0: none, or none took over. */
static raft_id
voter_with_room(struct engine *e)
{
	const struct raft_status *st = engine_status(e);

	for (unsigned i = 0; i < st->peer_count && e->hand_overs < HAND_OVERS_MAX; i++) {
		const struct raft_peer_status *p = &st->peers[i];

		if (p->voter && p->active && !p->full && p->match + PROPOSE_ENTRIES_MAX >= st->last_index)
			return p->id;
	}
	return 0;
}

bool
engine_hand_over_full(struct engine *e)
{
	const struct raft_status *st = engine_status(e);
	const struct raft_server_conf *to;
	raft_id id;

	if (st->role != RAFT_LEADER || st->transferring || (id = voter_with_room(e)) == 0)
		return false;
	e->hand_overs++;
	to = raft_config_find(raft_config(e->core), id);
	log_warn("raft", "disk full: handing leadership over to %s, which has room", to != NULL ? to->name : "another");
	return engine_transfer(e, id) == TV_OK;
}

/* Full voters among the others; *quorum: enough of all are in touch and have room, so that writes get committed. */
static unsigned
full_voters(struct engine *e, bool *quorum)
{
	const struct raft_status *st = engine_status(e);
	unsigned room = st->voter && !diskspace_full(e->d->space), full = 0, voters = st->voter;

	for (unsigned i = 0; i < st->peer_count; i++) {
		const struct raft_peer_status *p = &st->peers[i];

		voters += p->voter;
		full += p->voter && p->full;
		room += p->voter && p->active && !p->full;
	}
	*quorum = room > voters / 2;
	return full;
}

static bool
no_space(struct engine *e)
{
	bool quorum;

	return diskspace_full(e->d->space) || (full_voters(e, &quorum) > 0 && !quorum);
}

void
engine_no_space_text(struct engine *e, char *dst, size_t cap)
{
	const struct raft_status *st = engine_status(e);
	size_t at;

	if (diskspace_full(e->d->space)) {
		diskspace_text(e->d->space, dst, cap);
		return;
	}
	at = (size_t)snprintf(dst, cap, "disk full: too few servers have room for a write; free space on");
	for (unsigned i = 0; i < st->peer_count; i++) {
		const struct raft_server_conf *s = raft_config_find(raft_config(e->core), st->peers[i].id);

		if (s != NULL && st->peers[i].full && at < cap)
			at += (size_t)snprintf(dst + at, cap - at, " %s", s->name);
	}
	if (at < cap)
		snprintf(dst + at, cap - at, ", and writing goes on by itself");
}

enum tv_err
engine_propose(struct engine *e, struct proposal *p, uint16_t op, struct span args)
{
	const struct raft_status *st = engine_status(e);

	if (st->role != RAFT_LEADER)
		return st->leader != 0 ? TV_ENOTLEADER : TV_ENOLEADER;
	if (no_space(e))		/* a voter with room is about to lead: whoever asks again finds it */
		return diskspace_full(e->d->space) && voter_with_room(e) != 0 ? TV_ENOTLEADER : TV_ENOSPACE;
	return proposals_add(e->proposals, p, op, args, mono_add(clock_mono(), e->d->conf.write_timeout));
}

void
engine_read(struct engine *e, struct read_wait *w)
{
	w->deadline = mono_add(clock_mono(), e->d->conf.read_timeout);
	reads_add(&e->reads, w);
}

/* -- the turn -- */

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

static void
ask_reads(struct engine *e)
{
	struct raft_input in = { .type = RAFT_IN_READ };

	in.ctx = reads_round(&e->reads, clock_mono());
	if (in.ctx != 0)
		feed(e, &in, NULL);
}

/* What is in the log and cannot be read: a server that cannot give it to others leaves that to one that can (S89). */
static void
log_unreadable(struct engine *e, uint64_t index, enum tv_err err)
{
	if (e->corrupt)
		return;
	log_err("raft", "log entry %llu in %s/raftd/log cannot be read: %s; stopping, since the others have it whole",
	    (unsigned long long)index, e->d->cluster.data_dir, err == TV_ESYS ? strerror(errno) : tv_strerror(err));
	stop_corrupt(e);
}

const struct raft_entry *
engine_entries(struct engine *e, uint64_t first, uint32_t count, uint32_t *got)
{
	struct raft_entry *read;
	enum tv_err err;
	uint64_t bytes_max = e->d->conf.append_bytes_max > APPLY_BYTES_MAX ? e->d->conf.append_bytes_max : APPLY_BYTES_MAX;

	if (count > ENTRIES_SCRATCH)
		count = ENTRIES_SCRATCH;
	for (*got = 0; *got < count; (*got)++) {
		const struct raft_entry *c = entrycache_get(e->cache, first + *got);

		if (c == NULL)
			break;
		e->range[*got] = *c;
	}
	if (*got > 0)
		return e->range;
	arena_reset(&e->range_arena);
	err = log_read(e->d->log, first, first + count - 1, bytes_max, &e->range_arena, &read, got);
	if (err == TV_ECORRUPT || err == TV_ESYS)
		log_unreadable(e, first + *got, err);
	return err == TV_OK && *got > 0 ? read : NULL;
}

/* How many of these may go into one transaction. */
static uint32_t
apply_limit(const struct raft_entry *entries, uint32_t count)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < count; i++) {
		bytes += entries[i].size;
		if (bytes > APPLY_BYTES_MAX && i > 0)
			return i;
	}
	return count;
}

static void
apply_failed(struct engine *e, enum tv_err err)
{
	char why[400];

	fsm_trouble_text(e->d->fsm, why, sizeof(why));
	log_err("raft", "state machine failed at index %llu: %s%s%s", (unsigned long long)e->applied + 1, tv_strerror(err),
	    why[0] != '\0' ? ": " : "", why);
	stop_corrupt(e);
}

/* Told to whoever waits for the entries up to here. */
static void
applied_up_to(struct engine *e, const struct raft_entry *entries, uint32_t count, bool wanted)
{
	struct raft_input in = { .type = RAFT_IN_APPLIED };

	e->applied += count;
	for (uint32_t i = 0; wanted && i < count; i++)
		if (entries[i].index >= proposals_first(e->proposals))
			proposals_applied(e->proposals, entries[i].index, entries[i].term, &e->results[i]);
	in.index = e->applied;
	feed(e, &in, NULL);
	entrycache_evict(e->cache, e->applied);
}

/* The next entry replaces the state.  False: there is nothing to replace it by, it is an entry as others are. */
static bool
apply_restore(struct engine *e, const struct raft_entry *entry, const char *id, bool *done)
{
	enum restore_verdict verdict = restores_commit(e->d->restores, id, entry->index, entry->term);

	*done = verdict == RESTORE_TAKEN;
	if (verdict == RESTORE_BROKEN)
		apply_failed(e, TV_ECORRUPT);
	if (verdict == RESTORE_TAKEN) {
		leader_restored(e->d->leader);
		e->results[0] = (struct fsm_result){ .err = TV_OK };
		applied_up_to(e, entry, 1, true);
	}
	return verdict != RESTORE_ENTRY;
}

/* Entries before the first that replaces the state. */
static uint32_t
restore_limit(const struct raft_entry *entries, uint32_t count, char id[37])
{
	for (uint32_t i = 0; i < count; i++)
		if (fsm_is_restore(&entries[i], id))
			return i;
	return count;
}

static bool
must_not_apply(struct engine *e)
{
	return e->corrupt || e->stateless || fsm_held(e->d->fsm) || snapshots_installing(e->d->snapshots) ||
	    restores_pausing(e->d->restores);
}

static bool
apply_some(struct engine *e)
{
	uint64_t left = e->commit - e->applied;
	const struct raft_entry *entries;
	uint32_t count, plain;
	bool wanted, done;
	enum tv_err err;
	char id[37];

	if (left == 0 || must_not_apply(e))
		return false;
	count = left > APPLY_ENTRIES_MAX ? APPLY_ENTRIES_MAX : (uint32_t)left;
	entries = engine_entries(e, e->applied + 1, count, &count);
	if (entries == NULL) {		/* it is not there, or that was said */
		if (!e->corrupt)
			apply_failed(e, TV_ECORRUPT);
		return false;
	}
	count = apply_limit(entries, count);
	plain = restore_limit(entries, count, id);
	if (plain == 0 && apply_restore(e, &entries[0], id, &done))
		return done;
	count = plain > 0 ? plain : 1;
	wanted = proposals_first(e->proposals) <= e->applied + count;
	arena_reset(&e->apply_arena);
	err = fsm_apply(e->d->fsm, entries, count, &e->apply_arena, wanted ? e->results : NULL);
	if (err != TV_OK) {
		apply_failed(e, err);
		return false;
	}
	leader_applied(e->d->leader, entries, count);
	applied_up_to(e, entries, count, wanted);
	return true;
}

/* Does this turn leave anything that needs no event to go on? */
static bool
work_left(struct engine *e)
{
	return (e->applied < e->commit && !must_not_apply(e)) || reads_ready(&e->reads, e->applied) ||
	    clients_waiting(e->d->clients) || links_waiting(e->d->links);
}

/* At least one, so that reads go on whatever else there is to do. */
static void
serve_reads(struct engine *e, struct mono until)
{
	while (reads_serve(&e->reads, e->applied) && mono_before(clock_mono(), until))
		;
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
	diskspace_written(e->d->space, e->stored_bytes);
	e->stored_bytes = 0;
	if (diskspace_full(e->d->space))
		reads_refuse(&e->reads, engine_status(e)->last_index);
}

static void
turn(struct engine *e)
{
	struct mono until = mono_add(clock_mono(), TURN_TIME_MAX), reads_until = until;
	bool busy = true;

	watch_space(e);
	for (unsigned i = 0; busy && i < TURN_ROUNDS_MAX && (i == 0 || mono_before(clock_mono(), until)); i++) {
		busy = propose_queued(e);
		ask_reads(e);
		/* Peers and disks work while we apply.  Peers first: theirs is the longer way. */
		links_flush(e->d->links);
		logthread_flush(e->log);
		busy |= apply_some(e);
		if (i == 0)			/* reads go on however long that took */
			reads_until = mono_add(clock_mono(), TURN_TIME_MAX);
		serve_reads(e, reads_until);
		busy |= clients_turn(e->d->clients, reads_until);
		clients_flush(e->d->clients);
	}
	if (busy)
		(void)propose_queued(e);	/* by whoever was answered last: no event will call for it */
	restores_turn(e->d->restores);
	logthread_flush(e->log);
	leader_turn(e->d->leader);
	if (work_left(e))
		ev_idle_start(e->d->loop, &e->idle);
	else
		ev_idle_stop(e->d->loop, &e->idle);
	set_tick(e);
}

static void
on_prepare(struct ev_loop *loop, ev_prepare *w, int revents)
{
	(void)loop;
	(void)revents;
	turn(w->data);
}

static void
on_idle(struct ev_loop *loop, ev_idle *w, int revents)
{
	(void)revents;
	ev_idle_stop(loop, w);		/* its only purpose: the loop does not sleep */
}

void
engine_wake(struct engine *e)
{
	ev_idle_start(e->d->loop, &e->idle);
}

static void
on_tick(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct engine *e = w->data;
	struct raft_input in = { .type = RAFT_IN_TICK };

	(void)loop;
	(void)revents;
	if (clock_mono().ns >= e->deadline.ns && !e->retired)
		feed(e, &in, NULL);
}

static void
watch_disk(struct engine *e, struct mono now)
{
	struct raft_input in = { .type = RAFT_IN_DISK_STUCK };
	struct mono busy = logthread_busy(e->log, now), slowest = logthread_slowest(e->log);

	if (slowest.ns > e->d->conf.slow_sync.ns)
		log_warn("raft", "slow disk: a log write took %lld ms", (long long)mono_ms(slowest));
	if (busy.ns <= e->d->conf.disk_stuck_timeout.ns) {
		e->stuck = false;
		return;
	}
	if (!e->stuck)
		log_err("raft", "disk stuck: a log write has been waiting for %lld ms", (long long)mono_ms(busy));
	e->stuck = true;
	feed(e, &in, NULL);
}

static void
on_housekeeping(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct engine *e = w->data;
	struct mono now = clock_mono();
	enum tv_err err;

	(void)loop;
	(void)revents;
	/* A read may be what meets the damage. */
	if (!e->corrupt && (err = fsm_trouble(e->d->fsm)) != TV_OK)
		apply_failed(e, err);
	watch_disk(e, now);
	proposals_expire(e->proposals, now);
	reads_retry(&e->reads, now, mono_mul(e->d->conf.election_timeout, 2));
	reads_expire(&e->reads, now);
}

/* Trouble is seen by the housekeeping. */
static void
on_tidy(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct engine *e = w->data;
	bool more = !must_not_apply(e) && !diskspace_full(e->d->space) && fsm_tidy(e->d->fsm);

	(void)revents;
	w->repeat = more ? TIDY_STEP : TIDY_LOOK;
	ev_timer_again(loop, w);
}

/* -- the log thread's answers -- */

static void
on_written(void *ctx, uint64_t seq, uint64_t index, uint64_t term, uint64_t epoch)
{
	struct engine *e = ctx;
	struct raft_input in = { .type = RAFT_IN_PERSISTED, .index = index, .term = term, .ctx = epoch };

	entrycache_written(e->cache, seq);
	release_held(e, &e->held_hard, seq);
	release_held(e, &e->held_append, seq);
	if (index != 0)
		feed(e, &in, NULL);
}

static void
on_failed(void *ctx, enum tv_err err, int sys)
{
	struct engine *e = ctx;

	log_err("raft", "writing the log in %s/raftd/log failed: %s; stopping, since what the disk holds is no longer "
	    "certain: the next start recovers what was acknowledged", e->d->cluster.data_dir,
	    err == TV_ESYS ? strerror(sys) : tv_strerror(err));
	stop_corrupt(e);
}

static const struct logthread_events log_events = { on_written, on_failed };

/* -- what is -- */

struct raft *
engine_core(struct engine *e)
{
	return e->core;
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

uint64_t
engine_commit(const struct engine *e)
{
	return e->commit;
}

bool
engine_stateless(const struct engine *e)
{
	return e->stateless;
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

/* -- start and end -- */

static enum tv_err
restore_entry(void *ctx, const struct raft_entry *entry)
{
	struct engine *e = ctx;

	return raft_restore_entry(e->core, entry);
}

/*
 * The state is behind the place from which the log was cut, as after its damage (S89): what the log still has is
 * applied again.  If that begins too late, a snapshot must come first.  Log, term and vote are whole, so this server
 * remains what it was to the others.
 */
static void
judge_state(struct engine *e, struct raft_restore *from)
{
	const struct log_meta *m = &e->d->meta;
	uint64_t cut = m->first > 0 ? m->first - 1 : m->snapshot_index;

	if (from->applied >= from->snapshot_index)
		return;
	from->stateless = e->stateless = from->applied < cut;
	log_warn("raft", "the state is at index %llu, of the %llu that were made durable: %s",
	    (unsigned long long)from->applied, (unsigned long long)from->snapshot_index,
	    e->stateless ? "waiting for a snapshot from the leader" : "applying the log again");
	from->applied = from->snapshot_index;
}

/* Nothing is applied that is not in the log first: where it is not, log/ was lost or replaced (S101). */
static bool
log_reaches_state(struct engine *e, char *errbuf, size_t cap)
{
	const struct log_meta *m = &e->d->meta;
	uint64_t last = m->last > m->snapshot_index ? m->last : m->snapshot_index, applied = fsm_applied(e->d->fsm);
	const char *dir = e->d->cluster.data_dir;

	if (last >= applied)
		return true;
	snprintf(errbuf, cap, "%s/raftd/state is at index %llu, but the log in %s/raftd/log ends at %llu: put the lost log "
	    "back, or move %s/raftd away and start again: this server then joins as a new one and gets everything from the others",
	    dir, (unsigned long long)applied, dir, (unsigned long long)last, dir);
	return false;
}

/* A snapshot comes from a leader, which this server cannot become. */
static enum tv_err
tell_stateless(struct engine *e, char *errbuf, size_t cap)
{
	const struct raft_config *c = raft_config(e->core);
	const struct raft_server_conf *self = raft_config_find(c, e->d->id.self);

	if (self == NULL || !self->voter || raft_config_voters(c) > 1)
		return TV_OK;
	snprintf(errbuf, cap, "the state is lost, the log starts only after index %llu, and no other server has it: put "
	    "%s/raftd back from a backup, or empty it, start again and restore a snapshot file",
	    (unsigned long long)(e->d->meta.first > 0 ? e->d->meta.first - 1 : e->d->meta.snapshot_index),
	    e->d->cluster.data_dir);
	return TV_ECORRUPT;
}

/* With another node id the same disk would be a stranger that holds the votes and entries of a member (S61). */
static enum tv_err
check_node_id(struct engine *e, char *errbuf, size_t cap)
{
	const struct raft_config *c = raft_config(e->core);
	const struct raftd *d = e->d;

	for (unsigned i = 0; i < c->count; i++) {
		const struct raft_server_conf *s = &c->servers[i];

		if (strcmp(s->store_id, d->id.store_id) != 0 || strcmp(s->uuid, d->id.uuid) == 0)
			continue;
		snprintf(errbuf, cap, "the data in %s/raftd is that of node id %s, but %s/node-id says %s: put the former back "
		    "there, or move %s/raftd away, and this server joins as a new one", d->cluster.data_dir, s->uuid,
		    d->cluster.data_dir, d->id.uuid, d->cluster.data_dir);
		return TV_ECORRUPT;
	}
	return TV_OK;
}

static enum tv_err
restore_core(struct engine *e, char *errbuf, size_t cap)
{
	struct raftd *d = e->d;
	const struct raftd_conf *c = &d->conf;
	struct raft_options opt = {
		.self = d->id.self,
		.election_timeout = c->election_timeout, .heartbeat = c->heartbeat_interval,
		.append_entries_max = (uint32_t)c->append_entries_max,
		.append_bytes_max = (uint32_t)c->append_bytes_max,
		.inflight_max = (uint32_t)c->inflight_max, .snapshot_chunk_bytes = (uint32_t)c->snapshot_chunk,
		.catchup_rounds = (uint32_t)c->catchup_rounds, .check_quorum = true, .pre_vote = true,
		.commit_delay = COMMIT_DELAY,
	};
	struct raft_restore from = {
		.term = d->meta.term, .vote = d->meta.vote,
		.snapshot_index = d->meta.snapshot_index, .snapshot_term = d->meta.snapshot_term,
		.snapshot_config = d->meta.snapshot_config, .applied = fsm_applied(d->fsm),
	};
	enum tv_err err;

	opt.seed = (uint64_t)clock_wall_ns() ^ d->id.self;
	if (!log_reaches_state(e, errbuf, cap))
		return TV_ECORRUPT;
	judge_state(e, &from);
	e->core = raft_new(&opt, &from, clock_mono());
	if (e->core == NULL)
		return TV_ENOMEM;
	err = d->meta.last == 0 ? TV_OK : log_each(d->log, d->meta.first, restore_entry, e);
	if (err != TV_OK)
		snprintf(errbuf, cap, "the log cannot be read: %s", tv_strerror(err));
	if (err == TV_OK)
		err = check_node_id(e, errbuf, cap);
	if (err == TV_OK && e->stateless)
		err = tell_stateless(e, errbuf, cap);
	e->applied = fsm_applied(d->fsm);
	e->commit = from.applied;
	return err;
}

struct engine *
engine_new(struct raftd *d, char *errbuf, size_t cap)
{
	struct engine *e = calloc(1, sizeof(*e));

	snprintf(errbuf, cap, "out of memory");
	if (e == NULL)
		return NULL;
	e->d = d;
	e->deadline = clock_mono();
	reads_init(&e->reads);
	e->range_arena = ARENA_INIT(64u << 20);
	e->apply_arena = ARENA_INIT(256u << 20);
	e->cache = entrycache_new(d->conf.entry_cache);
	e->proposals = proposals_new(PROPOSE_BYTES_MAX);
	e->scratch = calloc(ENTRIES_SCRATCH, sizeof(*e->scratch));
	e->range = calloc(ENTRIES_SCRATCH, sizeof(*e->range));
	e->results = calloc(APPLY_ENTRIES_MAX, sizeof(*e->results));
	if (e->cache == NULL || e->proposals == NULL || e->scratch == NULL || e->range == NULL || e->results == NULL ||
	    restore_core(e, errbuf, cap) != TV_OK) {
		engine_free(e);
		return NULL;
	}
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
	ev_prepare_init(&e->prepare, on_prepare);
	ev_idle_init(&e->idle, on_idle);
	ev_timer_init(&e->tick, on_tick, 0.0, 0.0);
	ev_timer_init(&e->housekeeping, on_housekeeping, HOUSEKEEPING, HOUSEKEEPING);
	ev_timer_init(&e->tidy, on_tidy, TIDY_LOOK, TIDY_LOOK);
	/* What has arrived meanwhile is looked at first: after a pause the leader's heartbeat may be among it. */
	ev_set_priority(&e->tick, EV_MINPRI);
	e->prepare.data = e->idle.data = e->tick.data = e->housekeeping.data = e->tidy.data = e;
	/* Channels flush from a prepare watcher too; ours must come first. */
	ev_set_priority(&e->prepare, EV_MAXPRI);
	ev_prepare_start(loop, &e->prepare);
	ev_timer_start(loop, &e->housekeeping);
	ev_timer_start(loop, &e->tidy);
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
		ev_timer_stop(e->d->loop, &e->tidy);
		logthread_free(e->log);
	}
	raft_free(e->core);
	proposals_free(e->proposals);
	entrycache_free(e->cache);
	arena_done(&e->range_arena);
	arena_done(&e->apply_arena);
	held_done(&e->held_hard);
	held_done(&e->held_append);
	free(e->scratch);
	free(e->range);
	free(e->results);
	free(e);
}

/* -- info -- */

static void
info_u64(void (*fn)(void *, const char *, const char *), void *ctx, const char *name, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	fn(ctx, name, text);
}

void
engine_info(struct engine *e, void (*fn)(void *ctx, const char *name, const char *value), void *ctx)
{
	const struct raft_status *st = engine_status(e);
	const struct raft_config *conf = raft_config(e->core);
	const struct raft_server_conf *self = raft_config_find(conf, e->d->id.self);
	const struct raft_server_conf *leader = raft_config_find(conf, st->leader);
	uint64_t contact_ms;
	char contact[32];

	(void)engine_leader_known(e, &contact_ms);
	if (st->role == RAFT_LEADER)
		snprintf(contact, sizeof(contact), "0");
	else if (e->heard.ns == 0)
		snprintf(contact, sizeof(contact), "never");
	else
		snprintf(contact, sizeof(contact), "%llums", (unsigned long long)contact_ms);
	info_u64(fn, ctx, "applied_index", e->applied);
	fn(ctx, "cluster_id", e->d->id.cluster_id);
	info_u64(fn, ctx, "commit_index", e->commit);
	info_u64(fn, ctx, "disk_free", diskspace_available(e->d->space));
	info_u64(fn, ctx, "disk_full", diskspace_full(e->d->space));
	info_u64(fn, ctx, "disk_reserve", e->d->conf.disk_reserve);
	info_u64(fn, ctx, "entry_cache_bytes", entrycache_memory(e->cache));
	info_u64(fn, ctx, "fenced_by_generation", generation_number(e->d->fenced));
	info_u64(fn, ctx, "first_log_index", st->first_index);
	info_u64(fn, ctx, "fsm_pending", e->commit - e->applied);
	info_u64(fn, ctx, "generation", generation_number(e->d->id.generation));
	fn(ctx, "last_contact", contact);
	info_u64(fn, ctx, "last_log_index", st->last_index);
	info_u64(fn, ctx, "last_log_term", st->last_term);
	info_u64(fn, ctx, "last_snapshot_index", st->snapshot_index);
	info_u64(fn, ctx, "last_snapshot_term", st->snapshot_term);
	fn(ctx, "leader", leader != NULL ? leader->addr : "");
	info_u64(fn, ctx, "leader_last_index", st->role == RAFT_LEADER ? st->last_index : st->leader_last);
	info_u64(fn, ctx, "num_peers", conf->count > 0 && self != NULL ? conf->count - 1 : conf->count);
	fn(ctx, "state", raft_role_name(st->role));
	info_u64(fn, ctx, "state_lost", e->stateless);
	fn(ctx, "suffrage", self == NULL ? "none" : self->voter ? "voter" : "learner");
	info_u64(fn, ctx, "slow_syncs", logthread_slow(e->log));
	info_u64(fn, ctx, "sync_p50_us", logthread_quantile_us(e->log, 0.50));
	info_u64(fn, ctx, "sync_p99_us", logthread_quantile_us(e->log, 0.99));
	info_u64(fn, ctx, "syncs", logthread_syncs(e->log));
	info_u64(fn, ctx, "term", st->term);
}
