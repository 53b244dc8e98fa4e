/*
 * Reading beside the one thread that applies.
 *
 * A reader is a state of its own as far as reading changes one, over the tables of the real one.  What it does between begin and
 * end is one transaction that only reads, of degree 2: Berkeley DB locks each page while it is looked at, so what is read was
 * committed, and records that are read one after the other may be of different batches.
 *
 * No reader waits for anything while it holds a lock, so there are no deadlocks, and no one waits for its disk: where a page is being
 * changed it lets go of all, waits for the end of the batch, and asks again before the next one begins; where a page is not cached, it
 * lets go of all and fetches that (store_fetch.h); unless the cache has no room for all that it needs at once.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "raftd/fsm/read/read.h"
#include "raftd/store/bdb/store_fetch.h"

#define WARM_PAGES_MIN 32

struct fsm *
fsm_reader(struct fsm *f)
{
	struct fsm *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	r->owner = f;
	r->opt = f->opt;
	r->dir = f->dir;
	r->datacenter = f->datacenter;
	buf_init(&r->scratch, FSM_ANSWER_BYTES_MAX);
	buf_init(&r->pack, FSM_ANSWER_BYTES_MAX);
	r->work = ARENA_INIT(FSM_RECORD_MEMORY);
	if (buf_room(&r->scratch, 4096) == NULL) {
		fsm_reader_free(r);
		return NULL;
	}
	return r;
}

void
fsm_reader_free(struct fsm *r)
{
	if (r == NULL)
		return;
	arena_done(&r->work);
	buf_done(&r->scratch);
	buf_done(&r->pack);
	free(r);
}

struct fsm_tables
tables_of(const struct fsm *f)
{
	return (struct fsm_tables){ .env = f->env, .db = f->db, .sparse = f->sparse, .readers = f->readers };
}

/* head_lock held: position, indexes and counts as of the last commit. */
static void
copy_head(struct fsm *r)
{
	const struct fsm_head *h = &r->owner->head;

	r->applied = h->applied;
	r->applied_term = h->applied_term;
	r->applied_entries = h->applied_entries;
	r->txns = h->txns;
	r->txns_undone = h->txns_undone;
	r->needs = h->needs;
	memcpy(r->index, h->index, sizeof(r->index));
	memcpy(r->tally, h->tally, sizeof(r->tally));
	memcpy(r->restored, h->restored, sizeof(r->restored));
	r->replaced = r->owner->replaced;	/* raised after the tables are others: too low at the worst, and asked again */
}

/* head_lock held: the tables as they are, which are not closed before they are let go. */
static void
take_tables(struct fsm *r)
{
	const struct fsm *f = r->owner;

	r->env = f->env;
	r->db = f->db;
	r->sparse = f->sparse;
	r->readers = f->readers;
	++*r->readers;
	copy_head(r);
}

static void
drop_tables(struct fsm *r)
{
	struct fsm *f = r->owner;

	pthread_mutex_lock(&f->head_lock);
	if (--*r->readers == 0)
		pthread_cond_broadcast(&f->readers_left);
	pthread_mutex_unlock(&f->head_lock);
	r->env = NULL;
	r->db = r->sparse = NULL;
	r->readers = NULL;
}

void
readers_wait(struct fsm *f, const struct fsm_tables *t)
{
	if (t->readers == NULL)
		return;
	pthread_mutex_lock(&f->head_lock);
	while (*t->readers > 0)
		pthread_cond_wait(&f->readers_left, &f->head_lock);
	pthread_mutex_unlock(&f->head_lock);
}

void
state_lock(struct fsm *f)
{
	pthread_mutex_lock(&f->door);
	pthread_mutex_lock(&f->lock);
	pthread_mutex_unlock(&f->door);
}

static void
begin_txn(struct fsm *r)
{
	uint32_t flags = DB_READ_COMMITTED | DB_TXN_NOSYNC | DB_TXN_NOWAIT;
	int ret;

	store_cached_only(true);
	ret = r->env->dbenv->txn_begin(r->env->dbenv, NULL, &r->txn, flags);

	if (ret != 0)
		r->txn = NULL;
	r->failed = ret;
}

static void
end_txn(struct fsm *r)
{
	if (r->txn != NULL)
		(void)r->txn->abort(r->txn);	/* it only read */
	r->txn = NULL;
}

void
fsm_read_begin(struct fsm *r, bool cached)
{
	pthread_mutex_lock(&r->owner->head_lock);
	take_tables(r);
	pthread_mutex_unlock(&r->owner->head_lock);
	r->reading = true;
	r->cached = cached;
	begin_txn(r);
}

/* What no asking again helps against is the state's failure; a record that was too large for a reader's memory is the answer's. */
static void
pass_on(struct fsm *r)
{
	int none = 0, ret = r->failed;

	if (ret != 0 && ret != ENOMEM && ret != ECANCELED && !reader_may_retry(ret))
		(void)atomic_compare_exchange_strong(&r->owner->failed, &none, ret);
}

void
fsm_read_end(struct fsm *r)
{
	end_txn(r);
	view_close(r);
	pass_on(r);
	store_cached_only(false);
	drop_tables(r);
	r->reading = r->cached = false;
	r->unwanted = NULL;
}

void
fsm_read_until(struct fsm *r, const _Atomic bool *unwanted)
{
	r->unwanted = unwanted;
}

bool
reader_unwanted(struct fsm *f)
{
	if (f->unwanted == NULL || !atomic_load_explicit(f->unwanted, memory_order_relaxed))
		return false;
	if (f->failed == 0)
		f->failed = ECANCELED;
	return true;
}

bool
reader_may_retry(int ret)
{
	return ret == DB_LOCK_DEADLOCK || ret == DB_LOCK_NOTGRANTED || ret == STORE_UNCACHED;
}

void
reader_renew(struct fsm *f)
{
	end_txn(f);
	begin_txn(f);
}

void
reader_renew_tables(struct fsm *r)
{
	end_txn(r);
	drop_tables(r);
	pthread_mutex_lock(&r->owner->head_lock);
	take_tables(r);
	pthread_mutex_unlock(&r->owner->head_lock);
	begin_txn(r);
	if (r->failed == 0)
		r->failed = (int)r->owner->failed;	/* what is in memory then is of no index */
}

static void
let_go(struct fsm *f)
{
	if (f->holds_lock)
		pthread_mutex_unlock(&f->owner->lock);
	f->holds_lock = false;
}

bool
reader_again(struct fsm *f, int ret)
{
	int why = 0;

	if (!f->reading || f->cached || !reader_may_retry(ret) || reader_unwanted(f))
		return false;
	end_txn(f);				/* with all locks */
	if (ret == STORE_UNCACHED) {
		let_go(f);
		f->refused++;
		f->fetched++;
		why = store_fetch();
	} else if (!f->holds_lock) {
		state_lock(f->owner);
		f->holds_lock = true;
	}
	begin_txn(f);
	store_cached_only(f->refused < COLD_TRIES_MAX);
	if (why != 0)
		f->failed = why;
	return f->failed == 0;
}

void
reader_unlock(struct fsm *f)
{
	let_go(f);
	if (f->refused >= COLD_TRIES_MAX)
		store_cached_only(true);
	f->refused = 0;
}

enum tv_err
fsm_read_err(const struct fsm *f)
{
	return f->failed == 0 ? TV_OK : store_env_err(f->env, f->failed);
}

/* More than half of the cache would push out what was fetched first. */
static uint64_t
pages_max(const struct fsm *f)
{
	uint64_t half = f->opt.cache_bytes / STORE_PAGE_BYTES / 2;

	return half > WARM_PAGES_MIN ? half : WARM_PAGES_MIN;
}

bool
warm_enough(const struct fsm *r)
{
	return r->failed != 0 || r->fetched >= pages_max(r);
}
