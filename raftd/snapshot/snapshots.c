/* Checkpoints, and snapshots on their way out.  The way in is snapshot_recv.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/msg.h"
#include "common/proc/daemon.h"
#include "common/proc/jobs.h"
#include "raftd/disk/space.h"
#include "raftd/disk/threshold.h"
#include "raftd/disk/unlink_async.h"
#include "raftd/engine/engine.h"
#include "raftd/engine/statethread.h"
#include "raftd/fsm/fsm.h"
#include "raftd/snapshot/snapshot_file.h"
#include "raftd/snapshot/snapshot_recv.h"
#include "raftd/snapshot/snapshots.h"

#define CHECK 1.0			/* seconds between looks */
#define BYTES_INTERVAL MONO_S(1)	/* between checkpoints because of large entries */
#define LOW_INTERVAL MONO_S(10)		/* between checkpoints when the disk is nearly full */
#define THRESHOLD_BURST 8		/* times snapshot_threshold: do not wait for the interval */

enum job { JOB_NONE, JOB_CHECKPOINT, JOB_SNAPSHOT };

struct snapshots {
	struct raftd *d;
	struct snapshot_recv *recv;
	ev_timer timer;
	struct mono last;		/* last checkpoint */
	uint64_t last_index;		/* its applied index */
	uint64_t cut, cut_snapshot;	/* compaction in progress */
	uint64_t restored;		/* a checkpoint is due that reaches this index, and the log goes up to it; 0: none */

	enum job job;			/* in the worker */
	enum tv_err err;
	int sys;			/* errno of err */
	uint64_t index, term;		/* result of the job */
	uint64_t fits_from, keeps_from;	/* likewise: from here on the log takes no more than log_bytes, log_keep_max */
	bool forgets;			/* what was set aside, once the state is on disk without it */
	struct mono started;

	bool sizing;			/* the files of the log are looked at, and what came of it last: as fits_from */
	uint64_t sized, sized_next;

	/* the file to send */
	struct fsm_snapshot *writing;
	uint64_t room, need;		/* bytes on the disk that it may take; that it would take, if that is more */
	char path[512];
	int fd;				/* the worker's */
	struct snapshot_file *file;	/* NULL: none */
	uint64_t file_index, file_term, file_bytes, file_checksum;
	struct blocksums sums;		/* the worker's */
	uint64_t damaged;		/* files that were found so */
	struct buf config;		/* of file_index */
	struct mono used;		/* last needed */
	struct log_limit no_room, no_checkpoint;
};

/* -- checkpoints -- */

static void
checkpoint_work(void *ctx)
{
	struct snapshots *s = ctx;

	char state[512];

	s->err = fsm_checkpoint(s->d->fsm, &s->index, &s->term);
	snprintf(state, sizeof(state), "%s/raftd/state", s->d->cluster.data_dir);
	if (s->err == TV_OK)
		state_mark_write(state, s->index);
	s->sys = errno;
	if (s->err == TV_OK && s->forgets)
		fsm_forget_aside(s->d->fsm);
	s->fits_from = log_fits_from(s->d->log, s->d->conf.log_bytes);
	s->keeps_from = log_fits_from(s->d->log, s->d->conf.log_keep_max);
}

static void
on_compacted(void *ctx, enum tv_err err)
{
	struct snapshots *s = ctx;

	if (err == TV_OK)
		engine_compacted(s->d->engine, s->cut, s->cut_snapshot);
	s->cut_snapshot = 0;
}

static void
warn_too_far(struct snapshots *s, uint64_t cut)
{
	const struct raft_status *st = engine_status(s->d->engine);
	const struct raft_config *conf = engine_config(s->d->engine);

	for (unsigned i = 0; i < st->peer_count; i++) {
		const struct raft_peer_status *p = &st->peers[i];
		const struct raft_server_conf *c = raft_config_find(conf, p->id);

		if (c != NULL && p->active && p->match < cut)
			log_warn("raft", "%s lags by %llu entries, more than log_keep_max (%llu MB) of log: it will need another "
			    "snapshot", c->name, (unsigned long long)(st->last_index - p->match),
			    (unsigned long long)(s->d->conf.log_keep_max >> 20));
	}
}

/* Large entries make a long log of few: what a start has to read has a bound in bytes too. */
static uint64_t
trailing_cut(const struct snapshots *s)
{
	uint64_t keep = s->d->conf.trailing_logs, cut = s->index > keep ? s->index - keep : 0;

	if (s->fits_from > cut + 1)
		cut = s->fits_from - 1;
	return cut < s->index ? cut : s->index;
}

/* A connected follower is fed from the log, but not at the price of the disk (S44).  Returns where to cut. */
static uint64_t
keep_for_followers(struct snapshots *s, uint64_t limit)
{
	uint64_t cut = s->keeps_from > 0 ? s->keeps_from - 1 : 0;

	if (cut > s->cut)
		cut = s->cut;		/* trailing_logs stay in any case */
	if (cut <= limit)
		return limit;
	warn_too_far(s, cut);
	return cut;
}

static void
checkpoint_done(void *ctx)
{
	struct snapshots *s = ctx;
	uint64_t limit;
	const struct raft_config *config;

	s->job = JOB_NONE;
	s->last = clock_mono();
	engine_wake(s->d->engine);		/* applying may have waited */
	if (s->err == TV_ENOSPACE) {
		/* Nothing is lost: the state is what it was, and the log is not cut (S85). */
		if (log_allow(&s->no_checkpoint, "raft"))
			log_err("raft", "disk full: no space for a checkpoint of the state in %s/raftd/state; it is "
			    "made when there is",
			    s->d->cluster.data_dir);
		return;
	}
	if (s->err != TV_OK) {
		/* A page may be lost that the data base takes for written: only its log has it now (S84). */
		log_err("raft", "checkpoint of the state in %s/raftd/state failed: %s; stopping: the next start recovers it",
		    s->d->cluster.data_dir, s->err == TV_ESYS ? strerror(s->sys) : tv_strerror(s->err));
		daemon_quit(1);
		return;
	}
	log_debug("raft", "checkpoint at index %llu took %lld ms", (unsigned long long)s->index,
	    (long long)mono_ms(mono_sub(s->last, s->started)));
	s->last_index = s->index;
	config = engine_config_at(s->d->engine, s->index);
	if (s->d->stopping || s->cut_snapshot != 0 || config == NULL ||
	    s->index <= engine_status(s->d->engine)->snapshot_index)
		return;
	limit = engine_compact_limit(s->d->engine);
	s->cut = trailing_cut(s);
	if (s->restored != 0 && s->index >= s->restored) {
		s->cut = s->restored > s->cut ? s->restored : s->cut;
		s->restored = 0;
	}
	if (s->cut > limit)
		s->cut = keep_for_followers(s, limit);
	s->cut_snapshot = s->index;
	if (logthread_compact(engine_log(s->d->engine), s->cut, s->index, s->term, config, on_compacted, s) != TV_OK)
		s->cut_snapshot = 0;
}

static void
size_work(void *ctx)
{
	struct snapshots *s = ctx;

	s->sized_next = log_fits_from(s->d->log, s->d->conf.log_bytes);
}

static void
size_done(void *ctx)
{
	struct snapshots *s = ctx;

	s->sizing = false;
	s->sized = s->sized_next;
}

static bool
checkpoint_due(struct snapshots *s, struct mono now)
{
	uint64_t applied = engine_applied(s->d->engine), since = applied - s->last_index;
	uint64_t threshold = s->d->conf.snapshot_threshold;

	/* Space runs out: what is cut from the logs comes back.  Beginning with none left would only fail. */
	if (space_critical(s->d->space))
		return false;
	if (s->restored != 0 && applied >= s->restored)
		return true;
	if (space_low(s->d->space) && applied > s->last_index && mono_sub(now, s->last).ns >= LOW_INTERVAL.ns)
		return true;
	if (applied > s->last_index && mono_sub(now, s->last).ns >= BYTES_INTERVAL.ns && s->sized > s->last_index + 1)
		return true;
	if (applied < s->last_index || since < threshold)
		return false;
	return since >= threshold * THRESHOLD_BURST ||
	    mono_sub(now, s->last).ns >= s->d->conf.snapshot_interval.ns;
}

/* -- the file to send -- */

static void
file_drop(struct snapshots *s)
{
	if (s->file == NULL)
		return;
	snapshot_file_free(s->file);
	s->file = NULL;
	buf_done(&s->config);
}

static void
snapshot_work(void *ctx)
{
	struct snapshots *s = ctx;
	uint64_t sum;

	s->fd = -1;
	s->err = fsm_snapshot_write(s->writing, s->path, &s->file_bytes, &sum);
	if (s->err == TV_OK) {
		s->fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		s->err = s->fd < 0 ? TV_ESYS :
		    blocksums_make(&s->sums, s->fd, s->file_bytes, (uint32_t)s->d->conf.snapshot_chunk, &s->file_checksum);
	}
	if (s->err != TV_OK)
		unlink_async(s->fd, s->path);
}

static void
end_work(struct fsm *f UNUSED, void *ctx)
{
	struct snapshots *s = ctx;

	fsm_snapshot_end(s->writing);
	s->writing = NULL;
}

static void
end_done(void *ctx)
{
	struct snapshots *s = ctx;

	s->job = JOB_NONE;
	if (s->file != NULL && !s->d->stopping)
		engine_snapshot_ready(s->d->engine, s->file_index, s->file_bytes);
}

/* The state is not held any more; then the job is done.  What cannot be handed in is seen to in snapshots_free(). */
static void
snapshot_end(struct snapshots *s)
{
	if (statethread_between(s->d->state, end_work, end_done, s) == TV_ENOMEM) {
		fsm_snapshot_end(s->writing);
		s->writing = NULL;
		end_done(s);
	}
}

static void
on_chunk_read(void *ctx)
{
	engine_wake(((struct snapshots *)ctx)->d->engine);
}

static void
snapshot_done(void *ctx)
{
	struct snapshots *s = ctx;

	if (s->err == TV_OK) {
		s->file = snapshot_file_new(s->d->files, s->fd, s->path, &s->sums, on_chunk_read, s);
		if (s->file == NULL) {
			s->err = TV_ENOMEM;
			blocksums_done(&s->sums);
			unlink_job(s->d->files, s->fd, s->path);
		}
	}
	if (s->err != TV_OK) {
		log_err("raft", "writing a snapshot failed: %s", s->err == TV_ECORRUPT ?
		    "the data read back differ from those written" : tv_strerror(s->err));
		s->damaged += s->err == TV_ECORRUPT;
		buf_done(&s->config);
	} else {
		s->used = clock_mono();
		log_info("raft", "snapshot at index %llu is ready: %llu bytes in %lld ms", (unsigned long long)s->file_index,
		    (unsigned long long)s->file_bytes, (long long)mono_ms(mono_sub(s->used, s->started)));
	}
	snapshot_end(s);
}

/* A copy of the state is at most as large as its tables. */
static void
begin_work(struct fsm *f, void *ctx)
{
	struct snapshots *s = ctx;
	char path[512];
	struct stat st;

	snprintf(path, sizeof(path), "%s/raftd/state/state.db", s->d->cluster.data_dir);
	s->need = stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
	s->err = s->need > s->room ? TV_ENOSPACE : fsm_snapshot_begin(f, &s->writing, &s->file_index, &s->file_term);
}

static void
say_not_begun(struct snapshots *s)
{
	char need[24];

	if (s->err != TV_ENOSPACE)
		log_err("raft", "cannot begin a snapshot: %s", tv_strerror(s->err));
	else if (log_allow(&s->no_room, "raft"))
		log_err("raft", "disk full: no space for the %s of a snapshot that a follower needs; free space in "
		    "%s/raftd", threshold_bytes(s->need, need), s->d->cluster.data_dir);
}

static void
begin_done(void *ctx)
{
	struct snapshots *s = ctx;
	const struct raft_config *config;

	if (s->err != TV_OK) {
		say_not_begun(s);
		s->job = JOB_NONE;
		return;
	}
	/* A state that is being rebuilt may be behind the place from which on the configurations are known. */
	config = s->file_index >= engine_status(s->d->engine)->snapshot_index ?
	    engine_config_at(s->d->engine, s->file_index) : NULL;
	snprintf(s->path, sizeof(s->path), "%s/raftd/snapshot-%llu.tmp", s->d->cluster.data_dir,
	    (unsigned long long)s->file_index);
	s->started = clock_mono();
	if (config != NULL) {
		buf_init(&s->config, 1u << 20);
		raft_config_write(&s->config, config);
		if (jobs_add_only(s->d->worker, snapshot_work, snapshot_done, s) == TV_OK)
			return;
		buf_done(&s->config);
	}
	snapshot_end(s);			/* asked again while unanswered */
}

static void
snapshot_start(struct snapshots *s)
{
	if (jobs_busy(s->d->worker) || s->job != JOB_NONE)
		return;			/* asked again while unanswered */
	file_drop(s);
	s->room = space_fits(s->d->space, 0) ? space_room(s->d->space) : 0;
	s->job = JOB_SNAPSHOT;
	if (statethread_between(s->d->state, begin_work, begin_done, s) != TV_OK)
		s->job = JOB_NONE;
}

void
snapshots_needed(struct snapshots *s, raft_id id UNUSED, uint64_t first)
{
	if (s->job != JOB_NONE || snapshots_installing(s))
		return;				/* told again while unanswered */
	if (s->file != NULL && s->file_index + 1 >= first) {
		s->used = clock_mono();
		engine_snapshot_ready(s->d->engine, s->file_index, s->file_bytes);
		return;
	}
	snapshot_start(s);
}

/* The file cannot be sent.  A follower that was being sent it goes on with the next one, from where it is. */
static void
file_failed(struct snapshots *s, enum tv_err err)
{
	log_err("raft", "cannot send the snapshot %s: %s; making another", s->path, err == TV_ECORRUPT ?
	    "the disk has damaged it since it was written (checksum)" : strerror(errno));
	s->damaged += err == TV_ECORRUPT;
	file_drop(s);
	snapshot_start(s);
}

enum tv_err
snapshots_send(struct raftd *d, struct chan *c, const struct raft_send *send)
{
	struct snapshots *s = d->snapshots;
	struct raft_msg m = send->msg;
	const uint8_t *data = NULL;
	size_t n = 0;
	struct buf *b;

	/* The core asks again and again; after a file that could not be made there is some time for the disk. */
	if (s->file == NULL && s->job == JOB_NONE && mono_sub(clock_mono(), s->started).ns > MONO_S(3).ns)
		snapshot_start(s);
	if (s->file == NULL || s->job == JOB_SNAPSHOT || m.log_index != s->file_index)
		return TV_ENOENT;
	s->used = clock_mono();
	m.total = s->file_bytes;
	if (m.offset < m.total) {
		enum tv_err err = snapshot_file_read(s->file, m.offset, &data, &n);

		if (err == TV_ECORRUPT || err == TV_ESYS)
			file_failed(s, err);
		if (err != TV_OK)
			return err;
	}
	m.data = span_of(data, n);
	m.checksum = s->file_checksum;
	m.config = buf_span(&s->config);
	m.done = m.offset + n == m.total;
	b = chan_begin(c, MSG_RAFT, 0, 0);
	if (b == NULL)
		return TV_ENOMEM;
	raft_msg_write(b, &m);
	return chan_end(c);
}

void
snapshots_info(const struct snapshots *s, figure_fn *fn, void *ctx)
{
	figure_put(fn, ctx, "snapshots_damaged", s->damaged);
}

static bool
file_wanted(struct snapshots *s, struct mono now)
{
	const struct raft_status *st = engine_status(s->d->engine);

	for (unsigned i = 0; i < st->peer_count; i++)
		if (st->role == RAFT_LEADER && st->peers[i].snapshotting)
			return true;
	return mono_sub(now, s->used).ns < MONO_S(10).ns;
}

static void
on_timer(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct snapshots *s = w->data;
	struct mono now = clock_mono();

	s->sizing = s->sizing || jobs_add(s->d->files, size_work, size_done, s) == TV_OK;
	if (s->job != JOB_NONE || snapshot_recv_tidy(s->recv))
		return;
	if (s->file != NULL && !file_wanted(s, now))
		file_drop(s);
	if (snapshots_installing(s) || engine_opening(s->d->engine) || !checkpoint_due(s, now))
		return;
	s->job = JOB_CHECKPOINT;
	s->forgets = !engine_stateless(s->d->engine);
	s->started = now;
	if (jobs_add_only(s->d->worker, checkpoint_work, checkpoint_done, s) != TV_OK)
		s->job = JOB_NONE;
}

/* -- the way in -- */

void
snapshots_chunk(struct raftd *d, const struct raft_msg *m)
{
	struct snapshots *s = d->snapshots;

	/* The state is about to be replaced: it must be open, a checkpoint or a copy of it must end first, and the thread be free. */
	if ((s->job != JOB_NONE || jobs_busy(s->d->worker) || engine_opening(d->engine)) && m->done) {
		engine_snapshot_stored(s->d->engine, m, m->offset);
		return;
	}
	snapshot_recv_chunk(s->recv, m);
	if (snapshots_installing(s))
		s->last_index = m->log_index;	/* durable as it is */
}

void
snapshots_restored(struct snapshots *s, uint64_t index)
{
	s->restored = index;
}

bool
snapshots_due(struct snapshots *s)
{
	return s->job == JOB_NONE && checkpoint_due(s, clock_mono());
}

bool
snapshots_installing(const struct snapshots *s)
{
	return snapshot_recv_installing(s->recv);
}

struct snapshots *
snapshots_new(struct raftd *d)
{
	struct snapshots *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->d = d;
	s->no_room = s->no_checkpoint = (struct log_limit){ .burst = 1, .period = MONO_S(60) };
	s->last = clock_mono();
	s->last_index = d->meta.snapshot_index;
	s->recv = snapshot_recv_new(d);
	ev_timer_init(&s->timer, on_timer, CHECK, CHECK);
	s->timer.data = s;
	if (s->recv == NULL) {
		snapshots_free(s);
		return NULL;
	}
	ev_timer_start(d->loop, &s->timer);
	return s;
}

void
snapshots_free(struct snapshots *s)
{
	if (s == NULL)
		return;
	ev_timer_stop(s->d->loop, &s->timer);
	file_drop(s);
	if (s->writing != NULL)
		fsm_snapshot_end(s->writing);	/* the state's threads have ended */
	buf_done(&s->config);
	snapshot_recv_free(s->recv);
	free(s);
}
