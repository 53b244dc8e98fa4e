/*
 * Pages that readers wait for, read from the disk outside of Berkeley DB.
 *
 * Inside of it a page that is being read is latched: another thread that comes by waits as long, even for what is cached; and the
 * reader keeps the pages above locked, so that a writer waits too.  So a thread that reads is refused a page which is not
 * cached (store_cached_only()); it lets go of all, fetches that page here, where it may take as long as the disk likes, and asks
 * again.  Then the page is found.
 */
#ifndef TV_RAFTD_STORE_BDB_STORE_FETCH_H
#define TV_RAFTD_STORE_BDB_STORE_FETCH_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct store_behind;

/*
 * True: from here on a page that this thread would have to read from the disk is refused with STORE_UNCACHED, until it is false again.
 * Pages that wait to be written count as cached.  Berkeley DB gives that number to its caller, and nothing is noted of it.
 */
void store_cached_only(bool on);
#define STORE_UNCACHED ECANCELED	/* a number that Berkeley DB does not take for a reason to try again */
/* Of this thread, since store_cached_only() was last called: was it a page that was refused, and no other? */
bool store_was_refused(void);
/* Reads the page that was last refused to this thread, unless another thread does; then it waits for that.  0 or an errno. */
int store_fetch(void);
/* How many pages of data bases this thread has had to wait for inside of Berkeley DB. */
uint64_t store_page_reads(void);

/* -- below Berkeley DB -- */
/*
 * A page that is nowhere in memory is wanted: what was fetched (*got as of pread(2)), or false with errno STORE_UNCACHED in a
 * thread that is refused such, or the disk's.  b: knows what waits to be written to the file; NULL: nothing does.
 */
bool fetch_read(struct store_behind *b, int fd, void *p, size_t n, off_t at, ssize_t *got);
/* This page was just given another content, or the file another end: what was fetched before is not true any more. */
void fetch_changed(int fd, off_t at);
void fetch_forget(int fd);

#endif
