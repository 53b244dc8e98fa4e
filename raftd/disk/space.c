/* Room on the disk. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/proc/jobs.h"
#include "raftd/disk/reserve.h"
#include "raftd/disk/space.h"
#include "raftd/disk/threshold.h"
#include "raftd/fsm/fsm.h"
#include "raftd/store/bdb/store_env.h"

#define LOOK 0.25			/* seconds */
#define WRITE_FACTOR 3			/* bytes on disk per byte of an entry: the log, the write-ahead log of the state, and a page */
#define RESERVE_PART 4			/* of the reserve */
#define GIVE_BYTES (2u << 20)		/* of the reserve file at a time */
#define CRITICAL_PART 8			/* of the reserve */
#define CRITICAL_MAX (4u << 20)
#define WANT_LASTS MONO_S(60)		/* the next snapshot may be smaller, or the log may do */
#define TRY_ANYWAY MONO_S(10)		/* opening failed: then statvfs(3) may not be what decides (a quota) */

/* One look, and what it found. */
struct sight {
	bool refused;			/* a write found no room */
	bool may_take;			/* of the disk for the reserve file, if there is plenty */
	uint64_t available;
};

struct space {
	struct raftd *d;
	char dir[512];
	ev_timer timer;
	struct jobs *jobs;		/* its own thread: a look must not wait for others' work */
	struct sight sight;		/* the thread's while a job is there */
	struct reserve file;		/* the thread's, once looks are regular */
	uint64_t available, reserve;
	bool doubtful;			/* so much was written that the look which is under way decides */
	uint64_t recent, before;	/* bytes that entries took since the last look, and between the two before */
	uint64_t want;			/* beside the reserve */
	struct mono wanted;		/* since then */
	uint64_t enough;		/* to open the data bases, as a failed try taught */
	struct mono tried;		/* that try */
	bool full, said;		/* said: what was logged last */
	void (*changed)(struct raftd *d, bool full);	/* NULL before space_start() */
	bool refused;			/* a write found no room, whatever statvfs(3) says (a quota) */
	bool state_refused;		/* that was when the state was opened, and it is not open yet */
};

void
space_text(const struct space *s, char *dst, size_t cap)
{
	char have[24], keep[24];

	if (s->refused && !threshold_short(s->available, s->reserve, s->want, false)) {
		snprintf(dst, cap, "disk full: a write in %s failed for lack of space, although %s are free: is "
		    "there a quota? Free space there or raise it, and writes resume by themselves; deleting keys "
		    "would need space too", s->dir,
		    threshold_bytes(s->available, have));
		return;
	}
	snprintf(dst, cap, "disk full: %s has %s left and needs %s (disk_reserve); free space there or make the file "
	    "system larger, and writes resume by themselves; deleting keys would need space too", s->dir,
	    threshold_bytes(s->available, have), threshold_bytes(s->reserve + s->want, keep));
}

static uint64_t
critical_bytes(const struct space *s)
{
	uint64_t part = s->reserve / CRITICAL_PART;

	return part < CRITICAL_MAX ? part : CRITICAL_MAX;
}

static bool
was_refused(const struct space *s)
{
	return s->d->fsm != NULL ? fsm_no_room(s->d->fsm) : s->state_refused;
}

/* A file system that does not answer is not called full: writing to it will tell. */
static void
see(struct space *s, struct sight *t)
{
	struct statvfs v;

	t->available = statvfs(s->dir, &v) == 0 ? (uint64_t)v.f_bavail * v.f_frsize : UINT64_MAX / 2;
	if (t->available < critical_bytes(s) || t->refused)
		t->available += reserve_give(&s->file, GIVE_BYTES);
	else if (t->may_take && t->available > 2 * s->reserve)
		reserve_take(&s->file, s->reserve / RESERVE_PART);
}

/* Before looks are regular. */
static void
look_now(struct space *s)
{
	struct sight t = { .refused = was_refused(s) };

	s->before = s->recent;		/* may still be on their way to the disk */
	s->recent = 0;
	see(s, &t);
	s->available = t.available;
	s->refused = t.refused;
}

static void
log_change(struct space *s, bool full)
{
	char text[800], have[24];

	space_text(s, text, sizeof(text));
	if (full)
		log_err("raft", "%s; reads continue", text);
	else
		log_info("raft", "disk has space again: %s left, writes resume", threshold_bytes(s->available, have));
}

static void
judge_space(struct space *s)
{
	bool full;

	if (s->want != 0 && !mono_before(clock_mono(), mono_add(s->wanted, WANT_LASTS)))
		s->want = 0;
	full = s->refused || s->doubtful || threshold_short(s->available, s->reserve, s->want, s->full);
	if (full != s->said && !s->doubtful) {
		s->said = full;
		log_change(s, full);
	}
	if (full == s->full)
		return;
	s->full = full;
	if (!full)
		s->want = 0;
	if (s->changed != NULL)
		s->changed(s->d, full);
}

static void
look_work(void *ctx)
{
	struct space *s = ctx;

	see(s, &s->sight);
}

static void
look_done(void *ctx)
{
	struct space *s = ctx;

	s->doubtful = false;
	s->available = s->sight.available;
	s->refused = s->sight.refused;
	if (!s->d->stopping)
		judge_space(s);
}

/* What is seen counts when it comes. */
static void
look_at_disk(struct space *s)
{
	if (jobs_busy(s->jobs))
		return;
	s->sight = (struct sight){ .refused = was_refused(s), .may_take = !s->full };
	s->before = s->recent;
	s->recent = 0;
	(void)jobs_add(s->jobs, look_work, look_done, s);
}

static void
on_timer(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	look_at_disk(w->data);
}

struct space *
space_new(struct raftd *d)
{
	struct space *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->d = d;
	s->reserve = d->conf.disk_reserve;
	snprintf(s->dir, sizeof(s->dir), "%s/raftd", d->cluster.data_dir);
	s->jobs = jobs_new(d->loop, "space");
	if (s->jobs == NULL) {
		free(s);
		return NULL;
	}
	reserve_open(&s->file, s->dir);
	ev_timer_init(&s->timer, on_timer, LOOK, LOOK);
	s->timer.data = s;
	look_now(s);
	return s;
}

void
space_free(struct space *s)
{
	if (s == NULL)
		return;
	if (s->changed != NULL)
		ev_timer_stop(s->d->loop, &s->timer);
	s->changed = NULL;
	jobs_free(s->jobs);
	reserve_close(&s->file);
	free(s);
}

/* Recovery fills up the write-ahead logs that are in use, and adds a little. */
static uint64_t
bytes_to_open(const struct space *s)
{
	char path[600];
	uint64_t holes;

	snprintf(path, sizeof(path), "%s/log", s->dir);
	holes = store_dir_holes(path);
	snprintf(path, sizeof(path), "%s/state", s->dir);
	return holes + store_dir_holes(path) + critical_bytes(s);
}

bool
space_may_open(struct space *s)
{
	uint64_t need = bytes_to_open(s);

	if (need < s->enough && mono_before(clock_mono(), mono_add(s->tried, TRY_ANYWAY)))
		need = s->enough;
	look_now(s);
	if (s->available < need)
		s->available += reserve_give(&s->file, need - s->available);
	s->full = threshold_short(s->available, s->reserve, 0, s->full);
	return s->available >= need;
}

/* Less than opening took, as far as is known. */
static void
remember(struct space *s, uint64_t available)
{
	s->enough = available + critical_bytes(s);
	s->tried = clock_mono();
}

/* What was there before counts if it was less: when room was made since, there is no reason to wait for more. */
void
space_too_little(struct space *s)
{
	uint64_t before = s->available;

	look_now(s);
	s->full = s->refused = true;
	remember(s, before < s->available ? before : s->available);
}

void
space_state_refused(struct space *s)
{
	s->state_refused = true;
	remember(s, s->available);
	look_at_disk(s);
}

bool
space_may_retry(const struct space *s)
{
	return s->available >= s->enough || !mono_before(clock_mono(), mono_add(s->tried, TRY_ANYWAY));
}

void
space_start(struct space *s, void (*changed)(struct raftd *d, bool full))
{
	s->changed = changed;
	ev_timer_start(s->d->loop, &s->timer);
	if (s->full) {
		s->said = true;
		log_change(s, true);
		changed(s->d, true);
	}
}

bool
space_full(const struct space *s)
{
	return s->full;
}

bool
space_low(const struct space *s)
{
	return s->available < 2 * s->reserve;
}

bool
space_critical(const struct space *s)
{
	return s->refused || s->available < critical_bytes(s);
}

uint64_t
space_room(const struct space *s)
{
	return s->available > s->reserve ? s->available - s->reserve : 0;
}

bool
space_fits(const struct space *s, uint64_t bytes)
{
	return !s->refused && s->available >= s->reserve && s->available - s->reserve >= bytes;
}

void
space_want(struct space *s, uint64_t bytes)
{
	s->want = bytes;
	s->wanted = clock_mono();
	judge_space(s);
}

void
space_written(struct space *s, uint64_t bytes)
{
	uint64_t coming;

	s->recent += bytes * WRITE_FACTOR;
	coming = s->before + s->recent;
	if (s->full || (s->available >= s->reserve + coming && !was_refused(s)))
		return;
	look_at_disk(s);
	s->refused = s->refused || was_refused(s);
	s->doubtful = s->available < s->reserve / 2 + coming;
	if (s->refused || s->doubtful)
		judge_space(s);
}

uint64_t
space_available(const struct space *s)
{
	return s->available;
}
