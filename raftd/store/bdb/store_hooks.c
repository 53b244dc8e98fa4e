/*
 * The calls that Berkeley DB makes instead of the C library's, and of its own checksum.  It has them once for the process,
 * without a context, so the files that are watched are found by their descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "raftd/store/bdb/store_behind.h"
#include "raftd/store/bdb/store_env.h"
#include "raftd/store/bdb/store_fetch.h"
#include "raftd/store/bdb/store_sum.h"

#define DIRS_MAX 16
#define PATH_BYTES_MAX 4400
#define FILES_MAX 64		/* Berkeley DB keeps one of the log and one of the btree, and one more while it reads the log */
/* Of a page of Berkeley DB: LSN (8 bytes), number (4), and where its type is. */
#define PAGE_NUMBER_AT 8
#define PAGE_HEAD_BYTES 12
#define PAGE_TYPE_AT 25
#define ROOT_AT STORE_PAGE_BYTES	/* of the btree's file */

struct watched_dir {
	struct store_behind *b;		/* NULL: free */
	const char *dir, *file;		/* b's */
};

struct watched_file {
	struct store_behind *b;		/* NULL: free */
	int fd;
	uint32_t log;			/* number of a write-ahead file; 0: the btree, or ... */
	bool temporary;
	bool stands_in;			/* for one that could not be made yet: nothing can be written to it */
};

/* The one record of the process that Berkeley DB's interface forces upon us. */
static struct {
	pthread_rwlock_t lock;
	struct watched_dir dirs[DIRS_MAX];
	struct watched_file files[FILES_MAX];
} hooks = { .lock = PTHREAD_RWLOCK_INITIALIZER };

/* -- watched files -- */

bool
store_hooks_watch(struct store_behind *b, const char *dir, const char *file)
{
	bool found = false;

	pthread_rwlock_wrlock(&hooks.lock);
	for (int i = 0; i < DIRS_MAX && !found; i++)
		if (hooks.dirs[i].b == NULL) {
			hooks.dirs[i] = (struct watched_dir){ b, dir, file };
			found = true;
		}
	pthread_rwlock_unlock(&hooks.lock);
	return found;
}

void
store_hooks_unwatch_dir(struct store_behind *b)
{
	pthread_rwlock_wrlock(&hooks.lock);
	for (int i = 0; i < DIRS_MAX; i++)
		if (hooks.dirs[i].b == b)
			hooks.dirs[i].b = NULL;
	pthread_rwlock_unlock(&hooks.lock);
}

void
store_hooks_unwatch(struct store_behind *b)
{
	store_hooks_unwatch_dir(b);
	pthread_rwlock_wrlock(&hooks.lock);
	for (int i = 0; i < FILES_MAX; i++)
		if (hooks.files[i].b == b)
			hooks.files[i].b = NULL;
	pthread_rwlock_unlock(&hooks.lock);
}

/* Lock held.  The number in "log.0000000012"; 0: not a write-ahead file. */
static uint32_t
log_number(const char *name)
{
	char *end;
	unsigned long n;

	if (strncmp(name, "log.", 4) != 0 || name[4] < '0' || name[4] > '9')
		return 0;
	n = strtoul(name + 4, &end, 10);
	return *end == '\0' && n <= UINT32_MAX ? (uint32_t)n : 0;
}

/*
 * "BDB00123": one that is removed as soon as it is made, for what does not fit into the cache.  Named by the process id, or
 * "BDBa0123", "BDBb0123" ... where a process of the same id was killed before the removal, as in a container.
 */
static bool
is_temporary(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;

	return strncmp(name, "BDB", 3) == 0 && strlen(name) == 8 && strspn(name + 3, "0123456789abcdefghijklmnopqrstuvwxyz") == 5;
}

/* Lock held.  The watcher of the file of this path. */
static struct store_behind *
watcher_of(const char *path, uint32_t *log)
{
	const char *slash = strrchr(path, '/');
	size_t len = slash == NULL ? 0 : (size_t)(slash - path);

	for (int i = 0; slash != NULL && i < DIRS_MAX; i++) {
		const struct watched_dir *d = &hooks.dirs[i];

		if (d->b == NULL || strlen(d->dir) != len || memcmp(d->dir, path, len) != 0)
			continue;
		*log = log_number(slash + 1);
		if (*log != 0 || strcmp(slash + 1, d->file) == 0 || is_temporary(path))
			return d->b;
	}
	return NULL;
}

/* False: there is no room to remember it, so it must not be opened. */
static bool
remember(struct watched_file w)
{
	for (int i = 0; i < FILES_MAX; i++)
		if (hooks.files[i].b == NULL) {
			hooks.files[i] = w;
			return true;
		}
	return false;
}

/* b is NULL when it is not watched. */
static struct watched_file
watched_find(int fd)
{
	struct watched_file w = { .b = NULL };

	pthread_rwlock_rdlock(&hooks.lock);
	for (int i = 0; i < FILES_MAX && w.b == NULL; i++)
		if (hooks.files[i].b != NULL && hooks.files[i].fd == fd)
			w = hooks.files[i];
	pthread_rwlock_unlock(&hooks.lock);
	return w;
}

/* -- the calls -- */

/* Weak: a library that is linked in statically brings its own. */
uint32_t __attribute__((weak, visibility("default")))
__ham_func4(DB *db UNUSED, const void *bytes, uint32_t n)
{
	return store_sum(bytes, n);
}

/*
 * Recovery clears what is behind a torn end, without a sync, and may begin the next file without a record in this one.  If
 * the power went then, the torn end would be one in the middle of the log.
 */
static int
predecessor_durable(const char *path)
{
	const char *slash = strrchr(path, '/');
	uint32_t n = slash == NULL ? 0 : log_number(slash + 1);
	char before[PATH_BYTES_MAX];
	int fd, ret;

	if (n <= 1)
		return 0;
	snprintf(before, sizeof(before), "%.*s/log.%010u", (int)(slash - path), path, (unsigned)(n - 1));
	fd = open(before, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd == -1)
		return errno == ENOENT ? 0 : errno;
	ret = store_sync_fd(fd);
	(void)close(fd);
	return ret;
}

/*
 * A file that was just made is durable with its name, at once or by store_behind.c, and not before what precedes it.  A
 * temporary one has no name in a moment, and a thread that needs room in the cache would wait for the disk, the loop too.
 */
static int
name_durable(struct store_behind *b, uint32_t log, const char *path)
{
	int ret;

	if (is_temporary(path))
		return 0;
	if (b != NULL && log != 0 && behind_active(b))
		return behind_log_made(b);
	ret = predecessor_durable(path);
	if (ret != 0)
		return ret;
	return file_sync_parent(path) == TV_OK ? 0 : errno;
}

static int
opened(int fd, const char *path, bool fresh)
{
	struct store_behind *b;
	uint32_t log = 0;
	int why = 0;

	pthread_rwlock_wrlock(&hooks.lock);
	b = watcher_of(path, &log);
	if (b != NULL && !remember((struct watched_file){ b, fd, log, .temporary = is_temporary(path) }))
		why = EMFILE;
	pthread_rwlock_unlock(&hooks.lock);
	return why == 0 && fresh ? name_durable(b, log, path) : why;
}

/*
 * read() finds the end at once, as in a file that was just made, and it needs no room anywhere: the end of a pipe whose other
 * end is closed.  -1 with errno.
 */
static int
open_empty(void)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) == -1)
		return -1;
	(void)close(ends[1]);
	return ends[0];
}

/*
 * There is no room for a file that Berkeley DB wants to make, and it would take that for the end.  So it gets a descriptor that
 * stands in: what it writes waits in memory, and store_behind.c makes the file as soon as there is room.  -1 with
 * errno, which is `why` where it is not watched.  again: it is known to be missing.
 */
static int
stand_in(const char *path, int why, bool again)
{
	struct watched_file w = { .fd = -1, .stands_in = true, .temporary = is_temporary(path) };

	pthread_rwlock_wrlock(&hooks.lock);
	w.b = watcher_of(path, &w.log);
	if (w.b != NULL && (w.temporary || (w.log != 0 && behind_active(w.b)))) {
		w.fd = open_empty();
		why = w.fd == -1 ? errno : EMFILE;
		if (w.fd != -1 && !remember(w)) {
			(void)close(w.fd);
			w.fd = -1;
		}
	}
	pthread_rwlock_unlock(&hooks.lock);
	if (w.fd != -1 && w.log != 0 && !again)
		behind_log_missing(w.b, w.log);
	errno = why;
	return w.fd;
}

/*
 * To be read, for a transaction is undone: what belongs into a file that is still missing is read where it waits.  -1 with
 * ENOENT: it is not such a file.
 */
static int
open_missing(const char *path)
{
	struct store_behind *b;
	uint32_t log = 0;
	int fd = -1;

	pthread_rwlock_rdlock(&hooks.lock);
	b = watcher_of(path, &log);
	pthread_rwlock_unlock(&hooks.lock);
	errno = ENOENT;
	if (b != NULL && log != 0 && behind_log_is_missing(b, log))
		fd = stand_in(path, ENOENT, true);
	return fd;
}

/* Of two files that are missing not the second is made without the first. */
static bool
must_wait(const char *path)
{
	struct store_behind *b;
	uint32_t log = 0;

	pthread_rwlock_rdlock(&hooks.lock);
	b = watcher_of(path, &log);
	pthread_rwlock_unlock(&hooks.lock);
	return b != NULL && log != 0 && behind_active(b) && behind_log_misses(b);
}

int
store_hooks_replace(struct store_behind *b, uint32_t log, int fd)
{
	int why = 0;

	pthread_rwlock_wrlock(&hooks.lock);
	for (int i = 0; i < FILES_MAX && why == 0; i++) {
		struct watched_file *w = &hooks.files[i];

		if (w->b != b || w->log != log || !w->stands_in)
			continue;
		why = dup3(fd, w->fd, O_CLOEXEC) == -1 ? errno : 0;
		w->stands_in = why != 0;
	}
	pthread_rwlock_unlock(&hooks.lock);
	return why;
}

static _Thread_local bool nameless;

void
store_names(bool usable)
{
	nameless = !usable;
}

int
store_open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list ap;
	bool fresh = false;
	int fd, why;

	if (nameless) {
		errno = ESTALE;
		return -1;
	}
	if (flags & O_CREAT) {
		va_start(ap, flags);
		mode = va_arg(ap, mode_t);
		va_end(ap);
		fresh = access(path, F_OK) == -1;	/* it asks for that whenever it opens a write-ahead file */
	}
	if (fresh && must_wait(path))
		return stand_in(path, ENOSPC, false);
	fd = open(path, flags | O_CLOEXEC, mode);
	if (fd == -1 && fresh && (errno == ENOSPC || errno == EDQUOT))
		return stand_in(path, errno, false);
	if (fd == -1 && errno == ENOENT && !(flags & O_CREAT) && (fd = open_missing(path)) != -1) {
		if (access(path, F_OK) == -1)
			return fd;		/* a file that is made from now on replaces this one */
		(void)store_close(fd);
		fd = open(path, flags | O_CLOEXEC);
	}
	if (fd == -1)
		return -1;
	why = opened(fd, path, fresh);
	if (why == 0)
		return fd;
	(void)store_close(fd);
	errno = why;
	return -1;
}

int
store_close(int fd)
{
	fetch_forget(fd);
	pthread_rwlock_wrlock(&hooks.lock);
	for (int i = 0; i < FILES_MAX; i++)
		if (hooks.files[i].b != NULL && hooks.files[i].fd == fd) {
			if (hooks.files[i].temporary)
				behind_temporary_closed(hooks.files[i].b, fd);
			hooks.files[i].b = NULL;
		}
	pthread_rwlock_unlock(&hooks.lock);
	return close(fd);
}

int
store_sync_fd(int fd)
{
	if (fdatasync(fd) == 0)
		return 0;
	return errno == ENOSPC || errno == EDQUOT ? EIO : errno;	/* pages are lost all the same */
}

int
store_sync(int fd)
{
	struct watched_file w = watched_find(fd);

	if (w.b == NULL || w.temporary)
		return store_sync_fd(fd);
	return w.log != 0 ? behind_log_sync(w.b, fd) : behind_page_sync(w.b, fd);
}

static ssize_t
write_to(const struct watched_file *w, int fd, const void *p, size_t n, off_t at)
{
	if (w->b == NULL)
		return pwrite(fd, p, n, at);
	if (w->temporary)
		return behind_temporary_write(w->b, fd, !w->stands_in, p, n, at);
	return w->log != 0 ? behind_log_write(w->b, w->log, fd, p, n, at) : behind_page_write(w->b, fd, p, n, at);
}

static ssize_t
hook_pwrite(int fd, const void *p, size_t n, off_t at)
{
	struct watched_file w = watched_find(fd);
	ssize_t done = write_to(&w, fd, p, n, at);

	if (w.log == 0 && n == STORE_PAGE_BYTES)
		fetch_changed(fd, at);		/* afterwards: before, the old content could still be fetched */
	return done;
}

static _Thread_local bool recovering;

void
store_recovery(bool on)
{
	recovering = on;
}

/*
 * Berkeley DB takes a page without LSN, number and type for one that was never written, and looks at no checksum.  Only recovery
 * meets those, and never the first two, which were there before the file had its name.  Elsewhere the disk has lost it, and the
 * lengths in what is left would lead beyond the page: so its number is made one that no page has, and the checksum refuses it.
 */
static void
refuse_hole(uint8_t *page, size_t n, off_t at)
{
	static const uint8_t none[PAGE_HEAD_BYTES];

	if ((recovering && at > ROOT_AT) || n != STORE_PAGE_BYTES || page[PAGE_TYPE_AT] != 0 ||
	    memcmp(page, none, sizeof(none)) != 0)
		return;
	memset(page + PAGE_NUMBER_AT, 0xff, PAGE_HEAD_BYTES - PAGE_NUMBER_AT);
}

static ssize_t
read_page(struct store_behind *b, int fd, void *p, size_t n, off_t at)
{
	ssize_t got = behind_page_read(b, fd, p, n, at);

	if (got > 0)
		refuse_hole(p, (size_t)got, at);
	return got;
}

static ssize_t
hook_pread(int fd, void *p, size_t n, off_t at)
{
	struct watched_file w = watched_find(fd);
	ssize_t got;

	if (w.b != NULL && w.temporary)
		return behind_temporary_read(w.b, fd, !w.stands_in, p, n, at);
	if (w.b != NULL && w.log != 0)
		return behind_log_read(w.b, w.log, fd, p, n, at);
	if (w.b != NULL)
		return read_page(w.b, fd, p, n, at);
	return fetch_read(NULL, fd, p, n, at, &got) ? got : -1;
}

/* After a pread(2) that did not give all Berkeley DB tries this and read(2): not for a page that was refused. */
static int
hook_seek(int fd, off_t at, int whence)
{
	errno = store_was_refused() ? STORE_UNCACHED : lseek(fd, at, whence) == -1 ? errno : 0;
	return errno;				/* that is what it wants here */
}

static int
hook_ftruncate(int fd, off_t end)
{
	struct watched_file w = watched_find(fd);

	if (w.b == NULL || w.log != 0 || w.temporary)
		errno = ftruncate(fd, end) == 0 ? 0 : errno;
	else
		errno = behind_page_cut(w.b, fd, end);
	fetch_forget(fd);
	return errno;
}

/*
 * Recovery removes a write-ahead file that has no record yet, and goes on in the one before.  If the power went then and brought
 * the name back, there would be one that begins before its predecessor ends.
 */
static int
hook_unlink(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (unlink(path) == -1)
		return -1;
	if (!recovering || slash == NULL || log_number(slash + 1) == 0)
		return 0;
	return file_sync_parent(path) == TV_OK ? 0 : -1;
}

void
store_hooks_set(void)
{
	(void)db_env_set_func_unlink(hook_unlink);
	(void)db_env_set_func_ftruncate(hook_ftruncate);
	(void)db_env_set_func_open(store_open);
	(void)db_env_set_func_close(store_close);
	(void)db_env_set_func_fsync(store_sync);
	(void)db_env_set_func_pwrite(hook_pwrite);
	(void)db_env_set_func_pread(hook_pread);
	(void)db_env_set_func_seek(hook_seek);
}
