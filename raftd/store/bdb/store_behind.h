/*
 * Pages of a btree, written behind the write-ahead log.
 *
 * Before Berkeley DB writes a page it makes sure that the log is durable up to the page's last change, and it syncs a
 * file of that log before it begins the next one.  A thread that needs room in the cache, or fills a file, waits for the disk:
 * the one that applies, a reader, because the room is a changed page, and then also those that want what is cached.
 * Here that order is kept below it instead: syncs of the log do nothing, a page whose changes are not durable yet waits
 * in memory, and so does what belongs into the next file of the log.  store_behind_flush() syncs the log and lets go
 * what waited for it; it is called by a thread that may wait.  On disk nothing comes earlier than it would have.
 *
 * What waits is bounded: store_behind_full() asks to make no more of it.  If that is not heeded, the caller in Berkeley
 * DB waits for a sync after all.
 *
 * A failed sync or write is final (S84), but for what found no room on the disk (S85), page or log: that waits on, is
 * read where it waits, and is tried again.  Berkeley DB never learns of it: it would take it for the end.  After a failure
 * nothing is written any more, and the owner has to stop.
 */
#ifndef TV_RAFTD_STORE_BDB_STORE_BEHIND_H
#define TV_RAFTD_STORE_BDB_STORE_BEHIND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <db.h>

#include "common/base/err.h"

struct store_behind;

/*
 * For the environment in `dir` and its btree in `file`; before the environment is opened.  Until _begin() it only looks
 * on.  TV_ENOMEM, TV_ELIMIT: there are too many already.
 */
enum tv_err store_behind_new(const char *dir, const char *file, struct store_behind **out);
/* After the environment was closed; whatever still waits is dropped, as a crash would. */
void store_behind_free(struct store_behind *b);
/* The environment and the file are open, and nothing else writes (once more: nothing happens).  0 or an errno or Berkeley DB's code. */
int store_behind_begin(struct store_behind *b, DB_ENV *dbenv);
/*
 * The opposite: Berkeley DB syncs by itself again, and the names in `dir` may be another environment's from now on.
 * False: something waits, flush first.
 */
bool store_behind_retire(struct store_behind *b);

/*
 * Makes the write-ahead log durable up to its end as of the call, and writes the pages that waited.  Any thread, but not
 * from inside Berkeley DB.  0, ENOSPC or EDQUOT (it waits on, call again), or what is final.
 */
int store_behind_flush(struct store_behind *b);
/* The failure that is final; 0: none. */
int store_behind_failed(struct store_behind *b);
/* Does something wait because the disk has no room for it?  Any thread. */
bool store_behind_no_room(struct store_behind *b);
/* Does so much wait that no more should be added?  Any thread. */
bool store_behind_full(struct store_behind *b);
/* Was that answered with yes, and would it be no now?  True once each time. */
bool store_behind_relieved(struct store_behind *b);
/* Sleeps until a flush is due (true), or store_behind_stop() was called (false). */
bool store_behind_wait(struct store_behind *b);
void store_behind_stop(struct store_behind *b);

struct store_behind_stat {
	uint64_t syncs;			/* of the write-ahead log */
	uint64_t slowest_ns;		/* one of them */
	uint64_t deferred;		/* pages that had to wait */
	uint64_t waited;		/* times that Berkeley DB waited for a sync after all */
	uint64_t bytes;			/* waiting now: pages and log */
};
void store_behind_stat(struct store_behind *b, struct store_behind_stat *out);

/*
 * -- below Berkeley DB (store_hooks.c) --
 * What it does with a file of a watched environment.  log: number of a write-ahead file.
 */
/* Is it between store_behind_begin() and store_behind_retire()? */
bool behind_active(const struct store_behind *b);
/* One was made while that is so; its name is not durable yet.  0 or an errno. */
int behind_log_made(struct store_behind *b);
/* There was no room to make it: store_behind_flush() does, and what is written to it waits till then. */
void behind_log_missing(struct store_behind *b, uint32_t log);
bool behind_log_is_missing(struct store_behind *b, uint32_t log);
/* Is there one that is missing?  Then those after it cannot be made either. */
bool behind_log_misses(struct store_behind *b);
ssize_t behind_log_write(struct store_behind *b, uint32_t log, int fd, const void *p, size_t n, off_t at);
/* As pread(2), with what still waits: the undoing of a transaction reads its log. */
ssize_t behind_log_read(struct store_behind *b, uint32_t log, int fd, void *p, size_t n, off_t at);
int behind_log_sync(struct store_behind *b, int fd);
ssize_t behind_page_write(struct store_behind *b, int fd, const void *p, size_t n, off_t at);
ssize_t behind_page_read(struct store_behind *b, int fd, void *p, size_t n, off_t at);
/* Does the page wait to be written, or is it cut off?  Then its place on the disk has something else. */
bool behind_page_waits(struct store_behind *b, off_t at);
int behind_page_sync(struct store_behind *b, int fd);
/* The file gets shorter, after the log about that was written. */
int behind_page_cut(struct store_behind *b, int fd, off_t end);

/*
 * Pages of a temporary file, one at a time: for those that find no room memory is the place, because Berkeley DB loses one
 * that it cannot write; made: there was room for the file itself.  store_behind_spilt() is true until the file is closed:
 * the data base should not be used any more.
 */
ssize_t behind_temporary_write(struct store_behind *b, int fd, bool made, const void *p, size_t n, off_t at);
ssize_t behind_temporary_read(struct store_behind *b, int fd, bool made, void *p, size_t n, off_t at);
void behind_temporary_closed(struct store_behind *b, int fd);
bool store_behind_spilt(struct store_behind *b);

/* From now on files in `dir` are seen: `file` and the write-ahead log.  False: too many. */
bool store_hooks_watch(struct store_behind *b, const char *dir, const char *file);
void store_hooks_unwatch(struct store_behind *b);
/* Files that are open are still seen. */
void store_hooks_unwatch_dir(struct store_behind *b);
/*
 * The write-ahead file was made after all: the holder of a descriptor that stands in for it has one of the file from now on.
 * 0 or an errno.
 */
int store_hooks_replace(struct store_behind *b, uint32_t log, int fd);
/* Tells Berkeley DB of our calls, which are the same for all environments of the process. */
void store_hooks_set(void);
/* fdatasync() that gives the errno, and never "no room", which callers may take for something to try again. */
int store_sync_fd(int fd);

#endif
