/* Pages that wait to be written. */
#include <stdlib.h>
#include <string.h>

#include "raftd/store/bdb/store_pageq.h"

bool
lsn_before(DB_LSN a, DB_LSN b)
{
	return a.file != b.file ? a.file < b.file : a.offset < b.offset;
}

DB_LSN
lsn_of_page(const void *bytes)
{
	DB_LSN lsn;

	memcpy(&lsn, bytes, sizeof(lsn));
	return lsn;
}

static struct queued_page **
bucket_of(const struct pageq *q, off_t at)
{
	return (struct queued_page **)(uintptr_t)&q->bucket[(uint64_t)at / STORE_PAGE_BYTES % PAGEQ_BUCKETS];
}

struct queued_page *
pageq_find(const struct pageq *q, off_t at)
{
	struct queued_page *p = *bucket_of(q, at);

	while (p != NULL && p->at != at)
		p = p->chain;
	return p;
}

static void
append(struct pageq *q, struct queued_page *p)
{
	struct queued_page **bucket = bucket_of(q, p->at);

	p->chain = *bucket;
	*bucket = p;
	p->newer = NULL;
	p->older = q->newest;
	if (q->newest != NULL)
		q->newest->newer = p;
	else
		q->oldest = p;
	q->newest = p;
	q->count++;
}

bool
pageq_put(struct pageq *q, off_t at, const void *bytes)
{
	struct queued_page *p = pageq_find(q, at);

	if (p == NULL) {
		p = malloc(sizeof(*p));
		if (p == NULL)
			return false;
		p->at = at;
		append(q, p);
	}
	p->version = ++q->versions;
	p->lsn = lsn_of_page(bytes);
	memcpy(p->bytes, bytes, sizeof(p->bytes));
	return true;
}

struct queued_page *
pageq_before(const struct pageq *q, DB_LSN end)
{
	struct queued_page *p = q->oldest;

	while (p != NULL && !lsn_before(p->lsn, end))
		p = p->newer;
	return p;
}

void
pageq_remove(struct pageq *q, struct queued_page *p)
{
	struct queued_page **at = bucket_of(q, p->at);

	while (*at != p)
		at = &(*at)->chain;
	*at = p->chain;
	if (p->older != NULL)
		p->older->newer = p->newer;
	else
		q->oldest = p->newer;
	if (p->newer != NULL)
		p->newer->older = p->older;
	else
		q->newest = p->older;
	q->count--;
	free(p);
}

void
pageq_clear(struct pageq *q)
{
	while (q->oldest != NULL)
		pageq_remove(q, q->oldest);
}
