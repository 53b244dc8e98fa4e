/*
 * Pages behind the write-ahead log: see store_behind.h.
 *
 * Locks, in this order: Berkeley DB's, sync_lock, lock.  A thread that holds sync_lock does not call Berkeley DB; `lock`
 * guards memory work only.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/proc/thread.h"
#include "raftd/store/bdb/store_behind.h"
#include "raftd/store/bdb/store_env.h"
#include "raftd/store/bdb/store_fetch.h"
#include "raftd/store/bdb/store_pageq.h"

#define FLUSH_LOG_BYTES (1u << 20)	/* written since the last sync: time for one */
#define FLUSH_PAGES 32			/* that wait: likewise */
#define FULL_PAGES 512			/* 2 MB: make no more of them */
#define FULL_LOG_BYTES (2u << 20)
#define PAGES_MAX 2048			/* 8 MB, and 8 MB of log: a writer that comes now waits */
#define LOG_MAX (8u << 20)
#define RETRY MONO_S(1)			/* for a page that found no room */
#define PATH_BYTES 4400

/* What belongs into a write-ahead file whose predecessor is not durable yet, or found no room in its own. */
struct log_piece {
	struct log_piece *next;
	uint32_t log;
	off_t at;
	size_t n;
	uint8_t bytes[];
};

struct store_behind {
	DB_ENV *dbenv;
	char *dir, *file;
	pthread_mutex_t sync_lock;	/* one sync at a time */
	pthread_mutex_t lock;		/* all below */
	pthread_cond_t due_cond;
	_Atomic bool active;
	bool stop;
	_Atomic bool no_room;		/* something waits because the disk has none */
	bool asked;			/* a caller was told that it is full */
	int failed;

	uint32_t log;			/* the write-ahead file that may be written to; all before it are durable */
	off_t log_size;			/* a file of it becomes that long, or longer */
	int log_fd;			/* of it, our own: its syncs tell what went wrong since it was opened; sync_lock */
	bool log_dirty;			/* written to since the last sync */
	uint64_t log_bytes;		/* so many */
	uint32_t missing;		/* all up to this one that are not there have to be made: there was no room for them */
	uint64_t names_made, names_synced;	/* write-ahead files made; and as the folder was synced */
	struct log_piece *first, **tail;
	size_t pieces_bytes;
	uint64_t pieces_taken;		/* so many were written, since the start */

	int page_fd;			/* our own */
	struct pageq pages;
	struct pageq spilt;		/* of a temporary file, which found no room */
	int spilt_fd;			/* that one */
	off_t cut;			/* the file is to end here, though on disk it does not yet; -1: it does */
	DB_LSN durable;			/* the log is, before this */
	struct store_behind_stat stat;
};

/* -- making -- */

enum tv_err
store_behind_new(const char *dir, const char *file, struct store_behind **out)
{
	struct store_behind *b = calloc(1, sizeof(*b));
	enum tv_err err = TV_OK;

	if (b == NULL)
		return TV_ENOMEM;
	pthread_mutex_init(&b->sync_lock, NULL);
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->due_cond, NULL);
	b->log_fd = b->page_fd = b->spilt_fd = -1;
	b->cut = -1;
	b->tail = &b->first;
	b->dir = strdup(dir);
	b->file = strdup(file);
	if (b->dir == NULL || b->file == NULL)
		err = TV_ENOMEM;
	else if (!store_hooks_watch(b, b->dir, b->file))
		err = TV_ELIMIT;
	if (err == TV_OK)
		*out = b;
	else
		store_behind_free(b);
	return err;
}

static void
close_own(struct store_behind *b)
{
	if (b->log_fd >= 0)
		(void)close(b->log_fd);		/* whatever was to be durable was synced */
	if (b->page_fd >= 0)
		(void)close(b->page_fd);
	b->log_fd = b->page_fd = -1;
}

static struct log_piece *
take_piece(struct store_behind *b)
{
	struct log_piece *p = b->first;

	b->first = p->next;
	if (b->first == NULL)
		b->tail = &b->first;
	b->pieces_bytes -= p->n;
	b->pieces_taken++;
	return p;
}

void
store_behind_free(struct store_behind *b)
{
	if (b == NULL)
		return;
	store_hooks_unwatch(b);
	while (b->first != NULL)
		free(take_piece(b));
	pageq_clear(&b->pages);
	pageq_clear(&b->spilt);
	close_own(b);
	pthread_cond_destroy(&b->due_cond);
	pthread_mutex_destroy(&b->lock);
	pthread_mutex_destroy(&b->sync_lock);
	free(b->dir);
	free(b->file);
	free(b);
}

/* A descriptor of ours for a write-ahead file; -1 with errno. */
static int
open_log(const struct store_behind *b, uint32_t log)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "%s/log.%010u", b->dir, (unsigned)log);
	return open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
}

int
store_behind_begin(struct store_behind *b, DB_ENV *dbenv)
{
	char path[PATH_BYTES];
	DB_LOG_STAT *st;
	int ret;

	b->stop = false;
	if (b->active)
		return 0;
	ret = dbenv->log_stat(dbenv, &st, 0);
	if (ret != 0)
		return ret;
	store_hooks_unwatch_dir(b);
	if (!store_hooks_watch(b, b->dir, b->file)) {
		free(st);
		return EMFILE;
	}
	close_own(b);
	b->dbenv = dbenv;
	b->log = st->st_cur_file;
	b->log_size = (off_t)st->st_lg_size;
	free(st);
	snprintf(path, sizeof(path), "%s/%s", b->dir, b->file);
	b->page_fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	b->log_fd = b->page_fd == -1 ? -1 : open_log(b, b->log);
	/* What opening the btree wrote may be the first of a file, which is not made before it is full of more, or flushed. */
	if (b->log_fd == -1 && b->page_fd != -1 && errno == ENOENT && (ret = dbenv->log_flush(dbenv, NULL)) == 0)
		b->log_fd = open_log(b, b->log);
	if (b->log_fd == -1)
		return ret != 0 ? ret : errno;
	b->log_dirty = true;
	b->active = true;
	return 0;
}

bool
store_behind_retire(struct store_behind *b)
{
	bool idle;

	pthread_mutex_lock(&b->lock);
	idle = b->pages.count == 0 && b->first == NULL && b->cut == -1 && b->failed == 0;
	if (idle)
		b->active = false;
	pthread_mutex_unlock(&b->lock);
	if (idle)
		store_hooks_unwatch_dir(b);
	return idle;
}

/* -- what is due -- */

/* Lock held. */
static bool
is_due(const struct store_behind *b)
{
	return b->log_bytes >= FLUSH_LOG_BYTES || b->pages.count >= FLUSH_PAGES || b->first != NULL || b->cut != -1 ||
	    b->no_room || b->failed != 0;
}

/* Lock held.  What found no room is tried again after a while, whatever comes meanwhile, and wherever the wall clock goes. */
static void
wait_for_room(struct store_behind *b)
{
	struct mono end = mono_add(clock_mono(), RETRY);

	while (b->no_room && !b->stop && thread_wait_until(&b->due_cond, &b->lock, end))
		;
}

bool
store_behind_wait(struct store_behind *b)
{
	bool go_on;

	pthread_mutex_lock(&b->lock);
	wait_for_room(b);
	while (!b->stop && !is_due(b))
		pthread_cond_wait(&b->due_cond, &b->lock);
	go_on = !b->stop;
	pthread_mutex_unlock(&b->lock);
	return go_on;
}

void
store_behind_stop(struct store_behind *b)
{
	pthread_mutex_lock(&b->lock);
	b->stop = true;
	pthread_cond_signal(&b->due_cond);
	pthread_mutex_unlock(&b->lock);
}

/* Lock held. */
static void
wake(struct store_behind *b)
{
	if (is_due(b))
		pthread_cond_signal(&b->due_cond);
}

/*
 * Lock held.  While there is no room no thread writes any more, but what was promised before is to be seen by reads: for that
 * there is as much memory as there is.
 */
static bool
is_full(const struct store_behind *b)
{
	if (b->no_room)
		return b->pages.count >= PAGES_MAX || b->pieces_bytes >= LOG_MAX;
	return b->pages.count >= FULL_PAGES || b->pieces_bytes >= FULL_LOG_BYTES;
}

bool
store_behind_full(struct store_behind *b)
{
	bool full;

	pthread_mutex_lock(&b->lock);
	full = is_full(b);
	b->asked = b->asked || full;
	pthread_mutex_unlock(&b->lock);
	return full;
}

bool
store_behind_relieved(struct store_behind *b)
{
	bool yes;

	pthread_mutex_lock(&b->lock);
	yes = b->asked && !is_full(b);
	if (yes)
		b->asked = false;
	pthread_mutex_unlock(&b->lock);
	return yes;
}

int
store_behind_failed(struct store_behind *b)
{
	int failed;

	pthread_mutex_lock(&b->lock);
	failed = b->failed;
	pthread_mutex_unlock(&b->lock);
	return failed;
}

bool
store_behind_no_room(struct store_behind *b)
{
	return b->no_room;
}

void
store_behind_stat(struct store_behind *b, struct store_behind_stat *out)
{
	pthread_mutex_lock(&b->lock);
	*out = b->stat;
	out->bytes = b->pages.count * STORE_PAGE_BYTES + b->pieces_bytes;
	pthread_mutex_unlock(&b->lock);
}

/* -- syncing -- */

static bool
is_no_room(int ret)
{
	return ret == ENOSPC || ret == EDQUOT;
}

/* 0, or the errno that kept it from being all of them: what is written in part says why when the rest is tried. */
static int
write_all_at(int fd, const void *p, size_t n, off_t at)
{
	size_t done = 0;

	while (done < n) {
		ssize_t now = pwrite(fd, (const uint8_t *)p + done, n - done, at + (off_t)done);

		if (now == -1 && errno != EINTR)
			return errno;
		if (now == 0)
			return EIO;
		done += now > 0 ? (size_t)now : 0;
	}
	return 0;
}

static int
sync_names(struct store_behind *b)
{
	uint64_t made;
	bool dirty;

	pthread_mutex_lock(&b->lock);
	made = b->names_made;
	dirty = made > b->names_synced;
	pthread_mutex_unlock(&b->lock);
	if (!dirty)
		return 0;
	if (file_sync_dir(b->dir) != TV_OK)
		return is_no_room(errno) ? EIO : errno;
	pthread_mutex_lock(&b->lock);
	b->names_synced = made;
	pthread_mutex_unlock(&b->lock);
	return 0;
}

/* sync_lock held. */
static int
sync_current(struct store_behind *b)
{
	struct mono start = clock_mono();
	uint64_t took;
	bool dirty;
	int ret;

	pthread_mutex_lock(&b->lock);
	dirty = b->log_dirty;
	b->log_dirty = false;
	b->log_bytes = 0;
	pthread_mutex_unlock(&b->lock);
	if (!dirty)
		return 0;
	ret = store_sync_fd(b->log_fd);
	took = (uint64_t)mono_sub(clock_mono(), start).ns;
	pthread_mutex_lock(&b->lock);
	b->stat.syncs++;
	if (took > b->stat.slowest_ns)
		b->stat.slowest_ns = took;
	pthread_mutex_unlock(&b->lock);
	return ret;
}

/*
 * Lock held, and let go while it writes: everything that waits for this file.  Nothing overtakes it, and it waits until
 * it was written.
 */
static int
write_pieces(struct store_behind *b, int fd, uint32_t log)
{
	int ret = 0;

	while (ret == 0 && b->first != NULL && b->first->log == log) {
		struct log_piece *p = b->first;	/* only a holder of sync_lock takes it away */

		pthread_mutex_unlock(&b->lock);
		ret = write_all_at(fd, p->bytes, p->n, p->at);
		pthread_mutex_lock(&b->lock);
		if (ret == 0)
			free(take_piece(b));
	}
	return ret;
}

/*
 * All its blocks, before anything is written to a file: then nothing that comes later can find no room.  Not every file
 * system has that.
 */
static int
allocate(const struct store_behind *b, int fd)
{
	struct stat st;
	off_t size = b->log_size;

	if (fstat(fd, &st) == 0 && st.st_size > size)
		size = st.st_size;
	return fallocate(fd, 0, 0, size) != 0 && is_no_room(errno) ? errno : 0;
}

bool
behind_log_is_missing(struct store_behind *b, uint32_t log)
{
	bool yes;

	pthread_mutex_lock(&b->lock);
	yes = log > b->log && log <= b->missing;
	pthread_mutex_unlock(&b->lock);
	return yes;
}

/* The next one, which Berkeley DB has made, or found no room for: then it is made here.  -1 with errno. */
static int
open_next_log(struct store_behind *b, uint32_t log)
{
	char path[PATH_BYTES];
	int fd = open_log(b, log), why = errno;

	if (fd != -1)
		return fd;
	if (why != ENOENT || !behind_log_is_missing(b, log)) {
		errno = why;
		return -1;
	}
	snprintf(path, sizeof(path), "%s/log.%010u", b->dir, (unsigned)log);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd == -1)
		return -1;
	pthread_mutex_lock(&b->lock);
	b->names_made++;
	pthread_mutex_unlock(&b->lock);
	return fd;
}

/* sync_lock held; the current file is durable, but for what found no room in it.  *moved: something was written. */
static int
next_log(struct store_behind *b, bool *moved)
{
	uint32_t log;
	int fd, ret = 0;

	pthread_mutex_lock(&b->lock);
	*moved = b->first != NULL;
	log = *moved ? b->first->log : 0;
	pthread_mutex_unlock(&b->lock);
	if (!*moved)
		return 0;
	fd = log == b->log ? b->log_fd : open_next_log(b, log);
	if (fd == -1)
		return errno;
	if (fd != b->log_fd)
		ret = allocate(b, fd);
	if (ret == 0 && fd != b->log_fd)
		ret = store_hooks_replace(b, log, fd);	/* before it may be written to */
	pthread_mutex_lock(&b->lock);
	if (ret == 0)
		ret = write_pieces(b, fd, log);
	if (ret == 0)
		b->log = log;
	b->log_dirty = b->log_dirty || ret == 0;
	pthread_mutex_unlock(&b->lock);
	if (fd == b->log_fd)
		return ret;
	(void)close(ret == 0 ? b->log_fd : fd);	/* the one was synced, the other is opened again */
	b->log_fd = ret == 0 ? fd : b->log_fd;
	return ret;
}

/* sync_lock held. */
static int
sync_log(struct store_behind *b)
{
	bool moved = true;
	int ret = 0;

	while (ret == 0 && moved) {
		ret = sync_names(b);
		if (ret == 0)
			ret = sync_current(b);
		if (ret == 0)
			ret = next_log(b, &moved);
	}
	return ret;
}

/*
 * sync_lock held.  Those whose changes are durable.  A page may be replaced while it is being written: then it stays.
 * *again: the file has to be cut first.
 */
static int
write_pages(struct store_behind *b, bool *again)
{
	uint8_t bytes[STORE_PAGE_BYTES];
	struct queued_page *p;
	int ret = 0;

	pthread_mutex_lock(&b->lock);
	while (ret == 0 && (p = pageq_before(&b->pages, b->durable)) != NULL) {
		uint64_t version = p->version;
		off_t at = p->at;

		if (b->cut != -1)
			break;
		memcpy(bytes, p->bytes, sizeof(bytes));
		pthread_mutex_unlock(&b->lock);
		ret = write_all_at(b->page_fd, bytes, sizeof(bytes), at);
		pthread_mutex_lock(&b->lock);
		p = pageq_find(&b->pages, at);	/* if it was not cut off */
		if (ret == 0 && p != NULL && p->version == version)
			pageq_remove(&b->pages, p);
	}
	*again = ret == 0 && p != NULL;
	pthread_mutex_unlock(&b->lock);
	return ret;
}

/* sync_lock held; the changes that made the file shorter are durable. */
static int
cut_file(struct store_behind *b, off_t cut)
{
	if (cut == -1)
		return 0;
	if (ftruncate(b->page_fd, cut) != 0)
		return errno;
	pthread_mutex_lock(&b->lock);
	if (b->cut == cut)
		b->cut = -1;			/* a shorter one may have come meanwhile */
	pthread_mutex_unlock(&b->lock);
	return 0;
}

/* sync_lock held. */
static int
settle_once(struct store_behind *b, DB_LSN end, bool *again)
{
	off_t cut;
	int ret;

	pthread_mutex_lock(&b->lock);
	cut = b->cut;				/* Berkeley DB wrote its log about that before */
	pthread_mutex_unlock(&b->lock);
	ret = sync_log(b);
	if (ret == 0)
		ret = cut_file(b, cut);
	if (ret != 0)
		return ret;
	pthread_mutex_lock(&b->lock);
	if (lsn_before(b->durable, end))
		b->durable = end;
	pthread_mutex_unlock(&b->lock);
	return write_pages(b, again);
}

/*
 * The first failure is the one that counts; nothing is written after it.  No room is none: all waits on, and the thread that tries
 * again has to learn of it, whichever thread met it.
 */
static void
note_result(struct store_behind *b, int ret)
{
	pthread_mutex_lock(&b->lock);
	b->no_room = is_no_room(ret);
	if (ret != 0 && !b->no_room && b->failed == 0)
		b->failed = ret;
	wake(b);
	pthread_mutex_unlock(&b->lock);
}

/* sync_lock held. */
static int
settle(struct store_behind *b, DB_LSN end)
{
	bool again = true;
	int ret = store_behind_failed(b);

	if (ret != 0)
		return ret;
	while (ret == 0 && again)
		ret = settle_once(b, end, &again);
	note_result(b, ret);
	return ret;
}

/* How far Berkeley DB has written its log, at the end of a record; it takes that for durable. */
static int
log_end(struct store_behind *b, DB_LSN *end)
{
	DB_LOG_STAT *st;
	int ret = b->dbenv->log_stat(b->dbenv, &st, 0);

	if (ret != 0)
		return ret;
	*end = (DB_LSN){ .file = st->st_disk_file, .offset = st->st_disk_offset };
	free(st);
	return 0;
}

/* Everything that Berkeley DB has written gets to where it belongs. */
static int
settle_written(struct store_behind *b)
{
	DB_LSN end;
	int ret = log_end(b, &end);

	if (ret != 0)
		return ret;
	pthread_mutex_lock(&b->sync_lock);
	ret = settle(b, end);
	pthread_mutex_unlock(&b->sync_lock);
	return ret;
}

int
store_behind_flush(struct store_behind *b)
{
	int ret = b->dbenv->log_flush(b->dbenv, NULL);

	if (ret == 0)
		return settle_written(b);
	if (store_behind_failed(b) != 0)
		return store_behind_failed(b);
	note_result(b, ret);
	return ret;
}

/* -- below Berkeley DB: the write-ahead log -- */

bool
behind_active(const struct store_behind *b)
{
	return b->active;
}

int
behind_log_made(struct store_behind *b)
{
	bool now;

	pthread_mutex_lock(&b->lock);
	now = b->names_made > b->names_synced;	/* of two files not the second without the first */
	b->names_made++;
	pthread_mutex_unlock(&b->lock);
	if (!now || file_sync_dir(b->dir) == TV_OK)
		return 0;
	return is_no_room(errno) ? EIO : errno;
}

void
behind_log_missing(struct store_behind *b, uint32_t log)
{
	pthread_mutex_lock(&b->lock);
	b->missing = log;
	b->no_room = true;
	wake(b);
	pthread_mutex_unlock(&b->lock);
}

bool
behind_log_misses(struct store_behind *b)
{
	bool yes;

	pthread_mutex_lock(&b->lock);
	yes = b->missing > b->log;
	pthread_mutex_unlock(&b->lock);
	return yes;
}

/* Lock held.  False: no memory. */
static bool
add_piece(struct store_behind *b, uint32_t log, const void *bytes, size_t n, off_t at)
{
	struct log_piece *p = malloc(sizeof(*p) + n);

	if (p == NULL)
		return false;
	p->next = NULL;
	p->log = log;
	p->at = at;
	p->n = n;
	memcpy(p->bytes, bytes, n);
	*b->tail = p;
	b->tail = &p->next;
	b->pieces_bytes += n;
	wake(b);
	return true;
}

/* Waits for the disk.  Berkeley DB's lock of its log is held, so that it cannot be asked how far it is. */
static int
wait_for_log(struct store_behind *b)
{
	DB_LSN none = { 0, 0 };
	int ret;

	pthread_mutex_lock(&b->sync_lock);
	ret = settle(b, none);
	pthread_mutex_unlock(&b->sync_lock);
	pthread_mutex_lock(&b->lock);
	b->stat.waited++;
	pthread_mutex_unlock(&b->lock);
	return is_no_room(ret) ? 0 : ret;
}

/* Does this have to wait, for the file before it or behind what found no room?  Then it was taken. */
static bool
keep_back(struct store_behind *b, uint32_t log, const void *p, size_t n, off_t at)
{
	bool early, full;

	pthread_mutex_lock(&b->lock);
	early = b->active && (log > b->log || b->first != NULL);
	full = b->pieces_bytes >= LOG_MAX && b->failed == 0;
	pthread_mutex_unlock(&b->lock);
	if (!early)
		return false;
	if (full)
		(void)wait_for_log(b);		/* its failure is b's */
	pthread_mutex_lock(&b->lock);
	if (!add_piece(b, log, p, n, at) && b->failed == 0)
		b->failed = ENOMEM;		/* the log has a hole now */
	pthread_mutex_unlock(&b->lock);
	return true;
}

/* As pwrite(2) returns it. */
static ssize_t
written(int why, size_t n)
{
	errno = why != 0 ? why : errno;
	return why != 0 ? -1 : (ssize_t)n;
}

ssize_t
behind_log_write(struct store_behind *b, uint32_t log, int fd, const void *p, size_t n, off_t at)
{
	int why;

	if (keep_back(b, log, p, n, at))
		return (ssize_t)n;
	why = write_all_at(fd, p, n, at);
	pthread_mutex_lock(&b->lock);
	b->log_dirty = true;
	b->log_bytes += n;
	/* Berkeley DB would take it for the end. */
	if (b->active && is_no_room(why) && add_piece(b, log, p, n, at)) {
		b->no_room = true;
		why = 0;
	}
	wake(b);
	pthread_mutex_unlock(&b->lock);
	return written(why, n);
}

/* Lock held.  Lays what waits for p..p+n over what the file has of it.  False: nothing waits for that file. */
static bool
read_pieces(const struct store_behind *b, uint32_t log, uint8_t *p, size_t n, off_t at)
{
	off_t end = at + (off_t)n;
	bool any = false;

	for (const struct log_piece *q = b->first; q != NULL; q = q->next) {
		off_t from = q->at > at ? q->at : at, to = q->at + (off_t)q->n < end ? q->at + (off_t)q->n : end;

		any = any || q->log == log;
		if (q->log == log && from < to)
			memcpy(p + (from - at), q->bytes + (from - q->at), (size_t)(to - from));
	}
	return any;
}

/*
 * Read again if a piece went to the file meanwhile, which would be found in neither; the lock is not held while the disk works,
 * since the thread that reads a page takes it.  All n bytes are given of a file for which something waits, zeros at its end: Berkeley DB asks lseek(2) and read(2) for what pread(2)
 * leaves, and they know only what the file has, or nothing of a descriptor that stands in for it.
 */
ssize_t
behind_log_read(struct store_behind *b, uint32_t log, int fd, void *p, size_t n, off_t at)
{
	uint64_t taken;
	ssize_t got;

	pthread_mutex_lock(&b->lock);
	do {
		taken = b->pieces_taken;
		pthread_mutex_unlock(&b->lock);
		got = pread(fd, p, n, at);
		if (got == -1 && errno == ESPIPE)
			got = 0;
		pthread_mutex_lock(&b->lock);
	} while (taken != b->pieces_taken);
	if (got >= 0) {
		memset((uint8_t *)p + got, 0, n - (size_t)got);
		if (read_pieces(b, log, p, n, at))
			got = (ssize_t)n;
	}
	pthread_mutex_unlock(&b->lock);
	return got;
}

int
behind_log_sync(struct store_behind *b, int fd)
{
	if (!b->active)
		return store_sync_fd(fd);
	return store_behind_failed(b);
}

/* -- below Berkeley DB: the btree -- */

/* Lock held. */
static bool
is_cut_off(const struct store_behind *b, off_t at)
{
	return b->cut != -1 && at >= b->cut;
}

/*
 * Lock held.  Can the page be taken?  After a failure it always is: it must be found again, and not reach the disk.  So
 * it is while there is no room: nothing is applied then, and there are no more of them than the cache has pages.
 */
static bool
take_page(struct store_behind *b, const void *p, off_t at)
{
	if (b->pages.count >= PAGES_MAX && b->failed == 0 && !b->no_room && pageq_find(&b->pages, at) == NULL)
		return false;
	if (!pageq_put(&b->pages, at, p))
		return b->failed != 0;
	b->stat.deferred++;
	wake(b);
	return true;
}

/* Its changes are durable.  A page for which there is no room waits: Berkeley DB might lose one that it cannot write. */
static ssize_t
write_or_keep(struct store_behind *b, int fd, const void *p, size_t n, off_t at)
{
	int why = write_all_at(fd, p, n, at);

	if (!is_no_room(why) || n != STORE_PAGE_BYTES)
		return written(why, n);
	pthread_mutex_lock(&b->lock);
	if (b->active && pageq_put(&b->pages, at, p)) {
		b->no_room = true;
		why = 0;
		wake(b);
	}
	pthread_mutex_unlock(&b->lock);
	return written(why, n);
}

ssize_t
behind_page_write(struct store_behind *b, int fd, const void *p, size_t n, off_t at)
{
	bool direct, taken = false, whole = n == STORE_PAGE_BYTES;
	int ret;

	pthread_mutex_lock(&b->lock);
	direct = !b->active || (whole && b->failed == 0 && lsn_before(lsn_of_page(p), b->durable) &&
	    pageq_find(&b->pages, at) == NULL && !is_cut_off(b, at));
	if (!direct && whole)
		taken = take_page(b, p, at);
	pthread_mutex_unlock(&b->lock);
	if (taken)
		return (ssize_t)n;
	if (direct)
		return write_or_keep(b, fd, p, n, at);
	ret = settle_written(b);
	pthread_mutex_lock(&b->lock);
	b->stat.waited++;
	if (ret != 0)
		taken = whole && pageq_put(&b->pages, at, p);
	pthread_mutex_unlock(&b->lock);
	/* After what is final nothing reaches the disk; without memory it may still be tried where only room was missing. */
	return taken || (ret != 0 && !is_no_room(ret)) ? (ssize_t)n : write_or_keep(b, fd, p, n, at);
}

ssize_t
behind_page_read(struct store_behind *b, int fd, void *p, size_t n, off_t at)
{
	struct queued_page *q = NULL;
	ssize_t got;
	bool gone;

	pthread_mutex_lock(&b->lock);
	if (n == STORE_PAGE_BYTES)
		q = pageq_find(&b->pages, at);
	if (q != NULL)
		memcpy(p, q->bytes, n);
	gone = q == NULL && is_cut_off(b, at);
	pthread_mutex_unlock(&b->lock);
	if (gone)
		return 0;
	if (q != NULL)
		return (ssize_t)n;
	return fetch_read(b, fd, p, n, at, &got) ? got : -1;
}

bool
behind_page_waits(struct store_behind *b, off_t at)
{
	bool waits;

	pthread_mutex_lock(&b->lock);
	waits = pageq_find(&b->pages, at) != NULL || is_cut_off(b, at);
	pthread_mutex_unlock(&b->lock);
	return waits;
}

int
behind_page_cut(struct store_behind *b, int fd, off_t end)
{
	struct queued_page *p, *newer;

	if (!b->active)
		return ftruncate(fd, end) == 0 ? 0 : errno;
	pthread_mutex_lock(&b->lock);
	for (p = b->pages.oldest; p != NULL; p = newer) {
		newer = p->newer;
		if (p->at >= end)
			pageq_remove(&b->pages, p);
	}
	if (b->cut == -1 || end < b->cut)
		b->cut = end;
	wake(b);
	pthread_mutex_unlock(&b->lock);
	return 0;
}

int
behind_page_sync(struct store_behind *b, int fd)
{
	int ret = b->active ? settle_written(b) : 0;

	if (is_no_room(ret))
		return ret;			/* pages wait on; the caller that wanted them on the disk comes again */
	if (ret == 0)
		ret = store_sync_fd(fd);
	if (ret != 0 && b->active) {
		pthread_mutex_lock(&b->lock);
		b->failed = b->failed != 0 ? b->failed : ret;
		pthread_mutex_unlock(&b->lock);
	}
	return ret;
}

/* -- below Berkeley DB: what does not fit into the cache, and means nothing when the process ends -- */

ssize_t
behind_temporary_write(struct store_behind *b, int fd, bool made, const void *p, size_t n, off_t at)
{
	bool kept;
	int why = ENOSPC;

	pthread_mutex_lock(&b->lock);
	kept = b->spilt_fd == fd && pageq_find(&b->spilt, at) != NULL;
	pthread_mutex_unlock(&b->lock);
	if (!kept && made)
		why = write_all_at(fd, p, n, at);
	if (kept || (is_no_room(why) && n == STORE_PAGE_BYTES)) {
		pthread_mutex_lock(&b->lock);
		if ((b->spilt_fd == -1 || b->spilt_fd == fd) && pageq_put(&b->spilt, at, p)) {
			b->spilt_fd = fd;
			why = 0;
		}
		pthread_mutex_unlock(&b->lock);
	}
	return written(why, n);
}

ssize_t
behind_temporary_read(struct store_behind *b, int fd, bool made, void *p, size_t n, off_t at)
{
	struct queued_page *q = NULL;

	pthread_mutex_lock(&b->lock);
	if (b->spilt_fd == fd && n == STORE_PAGE_BYTES)
		q = pageq_find(&b->spilt, at);
	if (q != NULL)
		memcpy(p, q->bytes, n);
	pthread_mutex_unlock(&b->lock);
	if (q == NULL && !made)
		return 0;			/* an empty file */
	return q != NULL ? (ssize_t)n : pread(fd, p, n, at);
}

void
behind_temporary_closed(struct store_behind *b, int fd)
{
	pthread_mutex_lock(&b->lock);
	if (b->spilt_fd == fd) {
		pageq_clear(&b->spilt);
		b->spilt_fd = -1;
	}
	pthread_mutex_unlock(&b->lock);
}

bool
store_behind_spilt(struct store_behind *b)
{
	bool yes;

	pthread_mutex_lock(&b->lock);
	yes = b->spilt_fd != -1;
	pthread_mutex_unlock(&b->lock);
	return yes;
}
