/* Two buffers: the loop fills one, the thread writes the other. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/proc/thread.h"
#include "rpcd/audit/audit_line.h"
#include "rpcd/audit/denials.h"
#include "rpcd/audit/trail.h"

#define AGAIN MONO_S(1)			/* after a failure */
#define GATHER MONO_MS(10)		/* lines of this time are one write */
#define GATHER_MAX (TRAIL_QUEUE_MAX / 4)	/* or so many bytes */
#define LOST_EVERY MONO_S(1)		/* how often the trail says that lines are missing */
#define FAREWELL MONO_S(2)		/* that the end waits for the disk */
#define KEPT_MAX (128u << 10)		/* larger buffers are given back */
#define LOST_ROOM 512			/* for the line that tells of lines that are missing */

struct target {
	enum trail_to to;
	char path[PATH_MAX];
};

struct trail {
	struct ev_loop *loop;
	const char *node;
	ev_async wake;			/* the thread has something for the log */
	bool on, running;
	struct denials denials;

	pthread_t thread;
	pthread_mutex_t lock;		/* of what follows */
	pthread_cond_t more, ended;
	struct target target;
	bool changed;			/* the target, or it is to be opened again */
	bool stop, is_ended;
	struct buf queue;
	uint64_t lost;			/* since the trail said so last ... */
	struct mono lost_since;		/* ... which was then */
	uint64_t denials_lost;		/* of these */
	uint64_t lost_told, denials_told;	/* that it said, and the log does not know of yet */
	int error;			/* errno of a failure that the log does not know of yet; 0: none */
	struct trail_stats stats;

	/* the thread's */
	struct target now;
	struct buf batch;
	size_t at;			/* of it is written: whole lines */
	bool failing, reopen;
	int fd;				/* -1: not open */
};

/* -- in the thread -- */

static void
shut(struct trail *t)
{
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
}

/* A crash may have left half a line at the end: nothing is added to that. */
static bool
end_line(int fd, off_t size)
{
	char last = '\n';

	if (size > 0 && pread(fd, &last, 1, size - 1) != 1)
		return false;
	return last == '\n' || write(fd, "\n", 1) == 1;
}

/* The file that stands at the path; false: errno. */
static bool
have_file(struct trail *t)
{
	struct stat here, there;

	if (t->fd >= 0 && fstat(t->fd, &here) == 0 && lstat(t->now.path, &there) == 0 &&
	    here.st_dev == there.st_dev && here.st_ino == there.st_ino)
		return true;
	shut(t);
	t->fd = open(t->now.path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
	if (t->fd < 0)
		return false;
	if (fstat(t->fd, &here) == 0 && S_ISREG(here.st_mode) && end_line(t->fd, here.st_size))
		return true;
	int saved = S_ISREG(here.st_mode) ? errno : EINVAL;
	shut(t);
	errno = saved;
	return false;
}

/* Takes back what the file has of the line that begins at `from` and was written up to `to`. */
static void
take_back(struct trail *t, size_t from, size_t to)
{
	int saved = errno;
	off_t size = lseek(t->fd, 0, SEEK_END);

	if (to > from && (size < (off_t)(to - from) || ftruncate(t->fd, size - (off_t)(to - from)) != 0))
		shut(t);	/* opened again, it is ended */
	errno = saved;
}

static size_t
line_start(const struct buf *b, size_t at)
{
	while (at > 0 && b->data[at - 1] != '\n')
		at--;
	return at;
}

static bool
write_file(struct trail *t)
{
	size_t to = t->at;

	if (!have_file(t))
		return false;
	while (to < t->batch.len) {
		ssize_t n = write(t->fd, t->batch.data + to, t->batch.len - to);

		if (n > 0) {
			to += (size_t)n;
		} else if (n == 0 || errno != EINTR) {
			t->at = line_start(&t->batch, to);
			take_back(t, t->at, to);
			return false;
		}
	}
	t->at = to;
	return true;
}

/* Waits a moment for a log whose reader is behind.  false: it took nothing, and the line waits here. */
static bool
put_into_log(const char *line)
{
	struct mono end = mono_add(clock_mono(), MONO_MS(LOG_FAREWELL_MS));

	while (!log_put("audit", line)) {
		struct pollfd room = { .fd = log_waiting_fd(), .events = POLLOUT };

		if (!mono_before(clock_mono(), end))
			return false;
		(void)poll(&room, 1, 50);
	}
	return true;
}

static bool
write_log(struct trail *t)
{
	while (t->at < t->batch.len) {
		char *line = (char *)t->batch.data + t->at, *end = memchr(line, '\n', t->batch.len - t->at);
		bool taken;

		*end = '\0';
		taken = put_into_log(line);
		*end = '\n';
		if (!taken)
			return false;
		t->at = (size_t)(end + 1 - (char *)t->batch.data);
	}
	return true;
}

static uint64_t
lines_between(const struct buf *b, size_t from, size_t to)
{
	uint64_t n = 0;

	for (const uint8_t *p; from < to && (p = memchr(b->data + from, '\n', to - from)) != NULL; n++)
		from = (size_t)(p + 1 - b->data);
	return n;
}

/* Locked: how long until lines that are missing may be told of again. */
static struct mono
untold_time(const struct trail *t)
{
	struct mono end = mono_add(t->lost_since, LOST_EVERY), now = clock_mono();

	return t->lost_since.ns == 0 || !mono_before(now, end) || t->stop ? MONO_ZERO : mono_sub(end, now);
}

static bool
must_tell(const struct trail *t)
{
	return t->lost > 0 && untold_time(t).ns == 0;
}

/* Locked: the next batch, with what is to be said about lines that are missing. */
static void
take_batch(struct trail *t)
{
	struct buf full = t->queue;

	t->queue = t->batch;
	buf_reset(&t->queue);
	t->batch = full;
	t->at = 0;
	if (!must_tell(t))
		return;
	t->lost_since = clock_mono();
	audit_line_lost(clock_wall_ns() / 1000000, t->node, t->lost, t->denials_lost, &t->batch);
	buf_u8(&t->batch, '\n');
	t->lost_told += t->lost - t->denials_lost;
	t->denials_told += t->denials_lost;
	t->lost = t->denials_lost = 0;
	ev_async_send(t->loop, &t->wake);
}

/* Locked: until the loop signals that there is something to do, or for this time. */
static void
wait_for(struct trail *t, struct mono time)
{
	(void)thread_wait_until(&t->more, &t->lock, mono_add(clock_mono(), time));
}

/* Locked.  A write for each line would cost more than the request that it tells of. */
static void
gather(struct trail *t)
{
	struct mono end = mono_add(clock_mono(), GATHER);

	while (t->queue.len < GATHER_MAX && !t->stop && !t->changed && mono_before(clock_mono(), end))
		wait_for(t, mono_sub(end, clock_mono()));
}

/* Unlocked. */
static bool
write_batch(struct trail *t)
{
	if (t->reopen || t->now.to == TRAIL_LOG)
		shut(t);
	t->reopen = false;
	return t->now.to == TRAIL_FILE ? write_file(t) : write_log(t);
}

/* Locked: counts what was written since `from`, and tells of a failure once. */
static void
account(struct trail *t, size_t from, bool good, int error)
{
	t->stats.written += lines_between(&t->batch, from, t->at);
	if (good) {
		if (t->batch.cap > KEPT_MAX)
			buf_done(&t->batch);
		buf_reset(&t->batch);
		t->at = 0;
	} else if (!t->failing && t->now.to == TRAIL_FILE) {	/* what the log loses, the log tells */
		t->error = error;
		t->stats.failures++;
		ev_async_send(t->loop, &t->wake);
	}
	t->failing = !good;
}

/* Locked.  True: there is something to write, or to try again. */
static bool
next_work(struct trail *t)
{
	bool waited = false;

	for (;;) {
		if (t->changed) {
			t->changed = false;
			if (t->target.to != TRAIL_OFF)
				t->now = t->target;	/* else what is left goes where it was meant to go */
			waited = t->reopen = true;
		}
		if (t->batch.len == 0 && (t->queue.len > 0 || must_tell(t))) {
			gather(t);
			take_batch(t);
		}
		if (t->batch.len > 0 && (!t->failing || waited || t->stop))
			return true;
		if (t->stop)
			return false;
		if (t->failing && t->now.to == TRAIL_FILE)
			wait_for(t, AGAIN);
		else if (t->failing)
			return true;	/* which has waited */
		else if (t->lost > 0)
			wait_for(t, untold_time(t));
		else
			pthread_cond_wait(&t->more, &t->lock);
		waited = true;
	}
}

static void *
thread_main(void *arg)
{
	struct trail *t = arg;

	pthread_mutex_lock(&t->lock);
	while (next_work(t)) {
		size_t from = t->at;

		pthread_mutex_unlock(&t->lock);
		bool good = write_batch(t);
		int error = errno;
		pthread_mutex_lock(&t->lock);
		account(t, from, good, error);
		if (!good && t->stop)
			break;
	}
	t->stats.lost += lines_between(&t->batch, t->at, t->batch.len) + lines_between(&t->queue, 0, t->queue.len);
	pthread_mutex_unlock(&t->lock);
	shut(t);			/* which may wait for the disk, too */
	pthread_mutex_lock(&t->lock);
	t->is_ended = true;
	pthread_cond_signal(&t->ended);
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

/* -- on the loop -- */

static void
on_wake(struct ev_loop *loop UNUSED, ev_async *w, int events UNUSED)
{
	struct trail *t = w->data;
	uint64_t lost, denials;
	int error;

	pthread_mutex_lock(&t->lock);
	lost = t->lost_told;
	denials = t->denials_told;
	error = t->error;
	t->lost_told = t->denials_told = 0;
	t->error = 0;
	pthread_mutex_unlock(&t->lock);
	if (error != 0)
		log_err("audit", "%s: %s; lines are kept in memory, up to %u KB, until it can be written",
		    t->target.path, strerror(error), TRAIL_QUEUE_MAX >> 10);
	if (lost > 0)
		log_warn("audit", "%" PRIu64 " lines of the audit trail are missing: they came faster than they "
		    "could be written", lost);
	if (denials > 0)
		log_warn("audit", "%" PRIu64 " denials are counted in the audit trail, and not told: of one source "
		    "with one token no more than %u in a second are", denials, DENIALS_OF_ONE);
}

struct trail *
trail_new(struct ev_loop *loop, const char *node)
{
	struct trail *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return NULL;
	t->loop = loop;
	t->node = node;
	t->fd = -1;
	t->queue = t->batch = (struct buf)BUF_INIT(TRAIL_QUEUE_MAX + LOST_ROOM);
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->more, NULL);
	pthread_cond_init(&t->ended, NULL);
	ev_async_init(&t->wake, on_wake);
	t->wake.data = t;
	ev_async_start(loop, &t->wake);
	ev_unref(loop);			/* does not keep the loop alive */
	return t;
}

enum tv_err
trail_set(struct trail *t, enum trail_to to, const char *path)
{
	if (to != TRAIL_OFF && !t->running)
		t->running = thread_start(&t->thread, "audit", thread_main, t) == 0;
	t->on = to != TRAIL_OFF && t->running;
	if (!t->running)
		return to == TRAIL_OFF ? TV_OK : TV_ESYS;
	pthread_mutex_lock(&t->lock);
	t->target.to = to;
	snprintf(t->target.path, sizeof(t->target.path), "%s", path == NULL ? "" : path);
	t->changed = true;
	pthread_cond_signal(&t->more);
	pthread_mutex_unlock(&t->lock);
	return TV_OK;
}

enum tv_err
trail_configure(struct trail *t, const struct rpcd_conf *conf, const struct cluster_conf *cluster)
{
	enum trail_to to = conf->audit_to == AUDIT_TO_FILE ? TRAIL_FILE : TRAIL_OFF;
	char path[PATH_MAX];
	enum tv_err err = TV_ELIMIT;

	if (conf->audit_to == AUDIT_TO_LOG || (conf->audit_to == AUDIT_TO_AUTO && cluster->acl_enabled))
		to = TRAIL_LOG;
	int n = snprintf(path, sizeof(path), "%s/rpcd/%s", cluster->data_dir, conf->audit_file);
	if (n > 0 && (size_t)n < sizeof(path))
		err = trail_set(t, to, path);
	if (err != TV_OK)
		log_err("audit", "the audit trail cannot be written: %s", err == TV_ELIMIT ?
		    "the path of its file is too long" : "there is no thread for it");
	return err;
}

bool
trail_is_on(const struct trail *t)
{
	return t != NULL && t->on;
}

/* Locked: a whole line, or none of it. */
static bool
queue_line(struct trail *t, struct span line)
{
	size_t len = t->queue.len;

	if (len + line.len + 1 > TRAIL_QUEUE_MAX)
		return false;
	buf_putspan(&t->queue, line);
	buf_u8(&t->queue, '\n');
	if (!t->queue.failed)
		return true;
	t->queue.len = len;
	t->queue.failed = false;
	return false;
}

void
trail_add(struct trail *t, struct span line, uint64_t denied)
{
	bool refused;
	size_t before;

	if (!trail_is_on(t))
		return;
	refused = denied != 0 && !denials_take(&t->denials, denied, clock_mono());
	pthread_mutex_lock(&t->lock);
	before = t->queue.len;
	if (refused || !queue_line(t, line)) {
		t->lost++;
		t->stats.lost++;
		t->denials_lost += refused;
		t->stats.denials += refused;
	}
	if (before == 0 || (before < GATHER_MAX && t->queue.len >= GATHER_MAX))
		pthread_cond_signal(&t->more);
	pthread_mutex_unlock(&t->lock);
}

void
trail_stats(struct trail *t, struct trail_stats *out)
{
	*out = (struct trail_stats){ .written = 0 };
	if (t == NULL)
		return;
	pthread_mutex_lock(&t->lock);
	*out = t->stats;
	pthread_mutex_unlock(&t->lock);
}

/* False: the thread hangs in a write. */
static bool
end_thread(struct trail *t)
{
	struct mono end = mono_add(clock_mono(), FAREWELL);
	bool ended;

	pthread_mutex_lock(&t->lock);
	t->stop = true;
	pthread_cond_signal(&t->more);
	while (!t->is_ended && thread_wait_until(&t->ended, &t->lock, end))
		;
	ended = t->is_ended;
	pthread_mutex_unlock(&t->lock);
	if (ended)
		pthread_join(t->thread, NULL);
	return ended;
}

void
trail_free(struct trail *t)
{
	struct trail_stats before;

	if (t == NULL)
		return;
	trail_stats(t, &before);
	if (t->running && !end_thread(t)) {
		log_err("audit", "the disk does not take the end of the audit trail: lines of it are lost");
		ev_ref(t->loop);
		ev_async_stop(t->loop, &t->wake);
		pthread_detach(t->thread);	/* which still uses what is here */
		return;
	}
	on_wake(t->loop, &t->wake, 0);
	if (t->stats.lost > before.lost)
		log_err("audit", "the audit trail could not be written: its last %" PRIu64 " lines are lost",
		    t->stats.lost - before.lost);
	ev_ref(t->loop);
	ev_async_stop(t->loop, &t->wake);
	pthread_cond_destroy(&t->more);
	pthread_cond_destroy(&t->ended);
	pthread_mutex_destroy(&t->lock);
	buf_done(&t->queue);
	buf_done(&t->batch);
	free(t);
}
