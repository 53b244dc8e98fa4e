/* Pages that wait to be written, found by their place in the file.  The newest content of a page replaces the one before. */
#ifndef TV_RAFTD_STORE_BDB_STORE_PAGEQ_H
#define TV_RAFTD_STORE_BDB_STORE_PAGEQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <db.h>

#include "raftd/store/bdb/store_env.h"

#define PAGEQ_BUCKETS 256

struct queued_page {
	struct queued_page *chain;	/* of its bucket */
	struct queued_page *newer, *older;	/* in the order in which they came */
	off_t at;
	uint64_t version;		/* of its content, never used twice in a queue */
	DB_LSN lsn;			/* of its last change */
	uint8_t bytes[STORE_PAGE_BYTES];
};

struct pageq {
	struct queued_page *bucket[PAGEQ_BUCKETS];
	struct queued_page *newest, *oldest;
	size_t count;
	uint64_t versions;
};

struct queued_page *pageq_find(const struct pageq *q, off_t at);
/* Adds the page, or replaces its content; bytes: STORE_PAGE_BYTES, which begin with the LSN.  False: no memory. */
bool pageq_put(struct pageq *q, off_t at, const void *bytes);
/* The oldest whose last change lies before `end`; NULL: none. */
struct queued_page *pageq_before(const struct pageq *q, DB_LSN end);
void pageq_remove(struct pageq *q, struct queued_page *p);
void pageq_clear(struct pageq *q);

/* Is a before b? */
bool lsn_before(DB_LSN a, DB_LSN b);
/* Of the last change of a page that Berkeley DB writes: its first eight bytes. */
DB_LSN lsn_of_page(const void *bytes);

#endif
