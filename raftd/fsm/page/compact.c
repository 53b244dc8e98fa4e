/*
 * Half empty pages of the btree, joined.
 *
 * Berkeley DB splits a full page in its middle, unless it is the last one of the tree.  Keys that come in order, as numbers
 * and dates do, so leave pages behind that are half empty for good; keys in random order leave a third.  The tree is
 * then up to twice as large as what it holds, and so is what does not fit into the cache.
 *
 * When the tree has grown by a quarter, or many keys were deleted at once and left empty pages, a walk goes over it in steps that are short beside a turn of the loop.
 * What is stored does not change, so servers need not do it together, nor in the same way.
 */
#include <stdlib.h>

#include "raftd/fsm/state.h"
#include "raftd/store/bdb/store_fetch.h"

#define GROWTH_MIN 256			/* pages; less is not worth a walk */
#define STEP_RECORDS 256
#define BEYOND_RECORDS 64
#define STEP_FETCHES 8			/* pages that a step waits for, before others have their turn */
#define FULL_PERCENT 85			/* there is room for values that become longer */

/* Pages of the file: used, or free for use. */
static int
pages_now(struct fsm *f, uint32_t *out)
{
	DB_BTREE_STAT *st;
	int ret = f->db->stat(f->db, f->txn, &st, DB_FAST_STAT);

	if (ret != 0)
		return ret;
	*out = st->bt_pagecnt;
	free(st);
	return 0;
}

/* Has the tree grown enough?  A file never shrinks: one that grows has used up the pages that were freed. */
static int
check_growth(struct fsm *f)
{
	uint32_t least = f->opt.tidy_pages != 0 ? f->opt.tidy_pages : GROWTH_MIN, now;
	struct compact *t = &f->compact;
	int ret;

	store_cached_only(t->refused < COLD_TRIES_MAX);
	ret = pages_now(f, &now);
	store_cached_only(false);
	if (ret != 0)
		return ret;
	if (t->file == 0)
		t->file = t->used = now;	/* just opened: as it is, it is taken for tidy */
	if (!t->due && (now <= t->file || now - t->used < least || now - t->used < t->used / 4))
		return 0;
	t->walking = true;
	t->due = false;
	t->freed = 0;
	t->at.len = 1;
	t->at.b[0] = 0;
	return 0;
}

/*
 * The key some records behind t->at.  DB_NOTFOUND: there are fewer, and it is the last one.  Looks at what lies behind it as well, which is joined to or linked
 * with what is before.  STORE_UNCACHED: a page has to be fetched first; joining itself cannot be refused one.
 */
static int
step_end(struct fsm *f, struct tkey *end)
{
	uint8_t beyond[TKEY_BYTES_MAX];
	DBT key = { .data = end->b, .ulen = sizeof(end->b), .flags = DB_DBT_USERMEM };
	DBT none = { .flags = DB_DBT_USERMEM | DB_DBT_PARTIAL };
	bool last;
	DBC *c;
	int ret, closed;

	memcpy(end->b, f->compact.at.b, f->compact.at.len);
	key.size = f->compact.at.len;
	ret = f->db->cursor(f->db, f->txn, &c, 0);
	if (ret != 0)
		return ret;
	ret = c->get(c, &key, &none, DB_SET_RANGE);
	for (unsigned i = 1; ret == 0 && i < STEP_RECORDS; i++)
		ret = c->get(c, &key, &none, DB_NEXT);
	end->len = key.size;
	last = ret == DB_NOTFOUND;
	key.data = beyond;
	for (unsigned i = 0; ret == 0 && i < BEYOND_RECORDS; i++)
		ret = c->get(c, &key, &none, DB_NEXT);
	closed = c->close(c);
	return closed != 0 ? closed : ret == DB_NOTFOUND && !last ? 0 : ret;
}

static int
join(struct fsm *f, const struct tkey *end)
{
	DBT from = { .data = f->compact.at.b, .size = f->compact.at.len };
	DBT to = { .data = (void *)(uintptr_t)end->b, .size = end->len };
	DB_COMPACT c = { .compact_fillpercent = FULL_PERCENT };
	int ret = f->db->compact(f->db, f->txn, &from, &to, &c, 0, NULL);

	if (ret == 0)
		f->compact.freed += c.compact_pages_free;
	return ret;
}

static int
finish_walk(struct fsm *f)
{
	struct compact *t = &f->compact;
	int ret = pages_now(f, &t->file);

	t->walking = false;
	t->used = t->file > t->freed ? t->file - t->freed : t->file;
	return ret;
}

/* In the transaction. */
static int
step(struct fsm *f)
{
	struct tkey end;
	bool last;
	int ret;

	store_cached_only(f->compact.refused < COLD_TRIES_MAX);
	ret = step_end(f, &end);
	store_cached_only(false);
	last = ret == DB_NOTFOUND;

	if (ret == 0 || last)
		ret = join(f, &end);
	if (ret == 0 && last)
		return finish_walk(f);
	if (ret == 0) {
		memcpy(f->compact.at.b, end.b, end.len);
		f->compact.at.len = end.len;
	}
	return ret;
}

static int
walk(struct fsm *f)
{
	int ret = f->env->dbenv->txn_begin(f->env->dbenv, NULL, &f->txn, DB_TXN_NOSYNC);

	if (ret == 0)
		ret = step(f);
	if (f->txn != NULL && ret == 0)
		ret = f->txn->commit(f->txn, DB_TXN_NOSYNC);
	else if (f->txn != NULL)
		(void)f->txn->abort(f->txn);	/* the first error is what counts */
	f->txn = NULL;
	return ret;
}

/* Lock held.  True: it met a page that is not in the cache, and left everything as it was. */
static bool
try_step(struct fsm *f, bool *more)
{
	struct compact *t = &f->compact;
	int ret;

	*more = false;
	if (f->failed != 0 || f->snap != NULL || f->name_taken)	/* a checkpoint's failure is not to be forgotten */
		return false;
	ret = t->walking ? walk(f) : check_growth(f);
	t->refused = ret == STORE_UNCACHED ? t->refused + 1 : 0;
	if (ret != STORE_UNCACHED)
		f->failed = ret;
	*more = f->failed == 0 && (t->walking || ret == STORE_UNCACHED);
	return ret == STORE_UNCACHED;
}

bool
fsm_compact(struct fsm *f)
{
	bool more = false, cold = true;

	if (fsm_held(f))
		return false;			/* another time */
	for (unsigned i = 0; i < STEP_FETCHES && cold; i++) {
		pthread_mutex_lock(&f->lock);
		cold = try_step(f, &more);
		pthread_mutex_unlock(&f->lock);
		if (cold)
			(void)store_fetch();	/* what cannot be read is asked for again, and says so */
	}
	return more;
}
