/*
 * A copy of the state at one index while applying goes on.
 *
 * The writer walks the btree in steps, each under the lock, and never waits for a page of it there.  While it is under
 * way, the applying thread first saves the old value (or that there was none) of a key that it changes and the walk has
 * not passed, in a side table; the walk prefers what it finds there.  The side table is a temporary Berkeley DB file:
 * it spills to disk, so memory stays bounded however long the copy takes, and it shrinks as the walk passes.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "raftd/fsm/copy/copy.h"
#include "raftd/fsm/copy/snapfile.h"
#include "raftd/fsm/page/page.h"
#include "raftd/fsm/read/read.h"
#include "raftd/fsm/table/table.h"
#include "raftd/store/bdb/store_behind.h"
#include "raftd/store/bdb/store_fetch.h"

#define STEP_RECORDS 256
#define STEP_BYTES (256u << 10)

struct fsm_snapshot {
	struct fsm *f;
	uint64_t index, term;
	DB *side;			/* key -> [1 | old value] or [0] */
	struct buf pos;			/* last key copied; empty at the beginning */
	struct buf keep;		/* record being saved */
	bool export;			/* for another cluster: without what is this one's alone */
	bool done;			/* the walk is past everything */
	bool abandoned;			/* the state was replaced */
	int failed;			/* Berkeley DB's code, of the side table */
};

static DBT
span_dbt(struct span s)
{
	return (DBT){ .data = (void *)(uintptr_t)s.p, .size = (uint32_t)s.len };
}

/* -- saving, on the loop thread -- */

void
snapshot_save(struct fsm *f, const struct tkey *k)
{
	struct fsm_snapshot *s = f->snap;
	struct span key = span_of(k->b, k->len), old;
	DBT kt = span_dbt(key), dt;
	int ret;

	if (s->done || s->abandoned || s->failed != 0 || span_cmp(key, buf_span(&s->pos)) <= 0)
		return;
	ret = s->side->exists(s->side, NULL, &kt, 0);
	if (ret != DB_NOTFOUND) {
		s->failed = ret;		/* 0: saved before */
		return;
	}
	buf_reset(&s->keep);
	if (tbl_peek(f, k, &old)) {
		buf_u8(&s->keep, 1);
		buf_putspan(&s->keep, old);
	} else {
		buf_u8(&s->keep, 0);
	}
	dt = span_dbt(buf_span(&s->keep));
	s->failed = s->keep.failed ? ENOMEM : s->side->put(s->side, NULL, &kt, &dt, 0);
}

void
snapshot_abandon(struct fsm *f)
{
	struct fsm_snapshot *s = f->snap;

	if (s == NULL)
		return;
	s->abandoned = true;
	if (s->side != NULL)
		(void)s->side->close(s->side, DB_NOSYNC);	/* temporary */
	s->side = NULL;
}

/* Did the disk have no room for the side table?  It is in memory then, which is no place for it to grow. */
static bool
side_found_no_room(const struct fsm *f)
{
	return f->env->behind != NULL && store_behind_spilt(f->env->behind);
}

/* A btree without a name lives in the cache and in an unlinked file. */
static int
open_side(struct fsm *f, DB **out)
{
	DB *db;
	int ret = db_create(&db, f->env->dbenv, 0);

	if (ret != 0)
		return ret;
	ret = db->set_pagesize(db, STORE_PAGE_BYTES);	/* as all others in the cache */
	if (ret == 0)
		ret = db->set_flags(db, DB_TXN_NOT_DURABLE);
	if (ret == 0)
		ret = db->open(db, NULL, NULL, NULL, DB_BTREE, DB_CREATE | DB_THREAD, 0600);
	if (ret != 0)
		(void)db->close(db, DB_NOSYNC);	/* it never opened */
	else
		*out = db;
	return ret;
}

enum tv_err
fsm_snapshot_begin(struct fsm *f, struct fsm_snapshot **out, uint64_t *index, uint64_t *term)
{
	struct fsm_snapshot *s;
	int ret;

	if (f->failed != 0)
		return TV_ESYS;
	if (f->snap != NULL)
		return TV_EAGAIN;
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return TV_ENOMEM;
	ret = open_side(f, &s->side);
	if (ret != 0) {
		free(s);
		return store_env_err(f->env, ret);
	}
	s->f = f;
	s->index = *index = f->applied;
	s->term = *term = f->applied_term;
	buf_init(&s->pos, TKEY_BYTES_MAX);
	buf_init(&s->keep, FSM_ANSWER_BYTES_MAX);
	pthread_mutex_lock(&f->lock);
	f->snap = s;
	pthread_mutex_unlock(&f->lock);
	*out = s;
	return TV_OK;
}

void
fsm_snapshot_export(struct fsm_snapshot *s)
{
	s->export = true;
}

void
fsm_snapshot_end(struct fsm_snapshot *s)
{
	if (s == NULL)
		return;
	pthread_mutex_lock(&s->f->lock);
	TV_ASSERT(s->f->snap == s);
	s->f->snap = NULL;
	if (s->side != NULL)
		(void)s->side->close(s->side, DB_NOSYNC);	/* temporary */
	pthread_mutex_unlock(&s->f->lock);
	buf_done(&s->pos);
	buf_done(&s->keep);
	free(s);
}

/* -- copying, in any thread -- */

/* One of the two sorted sources: the state, or the side table. */
struct source {
	DBC *c;
	DBT key, val;			/* allocated by Berkeley DB */
	bool end;
	uint32_t op;
};

static int
source_next(struct source *q)
{
	int ret = q->c->get(q->c, &q->key, &q->val, q->op);

	q->op = DB_NEXT;
	q->end = ret == DB_NOTFOUND;
	return q->end ? 0 : ret;
}

/* At the first key above pos. */
static int
source_open(struct source *q, DB *db, DB_TXN *txn, struct span pos)
{
	int ret;

	memset(q, 0, sizeof(*q));
	q->key.flags = q->val.flags = DB_DBT_REALLOC;
	ret = db->cursor(db, txn, &q->c, 0);
	if (ret != 0)
		return ret;
	q->op = DB_FIRST;
	if (pos.len > 0) {
		q->key.data = malloc(pos.len);
		if (q->key.data == NULL)
			return ENOMEM;
		memcpy(q->key.data, pos.p, pos.len);
		q->key.size = (uint32_t)pos.len;
		q->op = DB_SET_RANGE;
	}
	ret = source_next(q);
	if (ret == 0 && !q->end && pos.len > 0 && q->key.size == pos.len && memcmp(q->key.data, pos.p, pos.len) == 0)
		ret = source_next(q);
	return ret;
}

static void
source_close(struct source *q)
{
	if (q->c != NULL)
		(void)q->c->close(q->c);	/* it only read; deletions were checked */
	free(q->key.data);
	free(q->val.data);
}

static struct span
dbt_span(const DBT *d)
{
	return span_of(d->data, d->size);
}

struct step {
	struct fsm_snapshot *s;
	unsigned refused;		/* times in a row that nothing was taken for a page that is not cached */
	struct buf records;		/* [u32 key bytes, u32 value bytes, key, value] to write after unlocking */
	uint32_t count;
};

static void
take_record(struct step *t, struct span key, struct span val)
{
	buf_u32be(&t->records, (uint32_t)key.len);
	buf_u32be(&t->records, (uint32_t)val.len);
	buf_putspan(&t->records, key);
	buf_putspan(&t->records, val);
}

/* The smaller key of both sources is next; on a tie the side table knows better. */
static int
merge_one(struct step *t, struct source *state, struct source *side)
{
	int order = state->end ? 1 : side->end ? -1 : span_cmp(dbt_span(&state->key), dbt_span(&side->key));
	struct source *from = order < 0 ? state : side;
	struct span key = dbt_span(&from->key), val = dbt_span(&from->val);
	const struct fsm_table *table;
	int ret = 0;

	if (t->s->export && (table = fsm_table_find(key.p[0])) != NULL && table->own)
		;
	else if (from == state)
		take_record(t, key, val);
	else if (val.len > 0 && val.p[0] == 1)
		take_record(t, key, span_of(val.p + 1, val.len - 1));
	buf_reset(&t->s->pos);
	buf_putspan(&t->s->pos, key);
	t->count++;
	if (from == side)
		ret = side->c->del(side->c, 0);
	if (ret == 0 && order >= 0)
		ret = source_next(side);
	if (ret == 0 && order <= 0)
		ret = source_next(state);
	return ret;
}

/* Lock held.  STORE_UNCACHED: it met a page that is to be fetched without the lock. */
static int
step(struct step *t)
{
	struct fsm_snapshot *s = t->s;
	struct source state = { .end = true }, side = { .end = true };
	DB_ENV *e = s->f->env->dbenv;
	DB_TXN *txn = NULL;
	int ret = e->txn_begin(e, NULL, &txn, DB_READ_COMMITTED | DB_TXN_NOSYNC);

	store_cached_only(t->refused < COLD_TRIES_MAX);
	if (ret == 0)
		ret = source_open(&state, s->f->db, txn, buf_span(&s->pos));
	if (ret == 0)
		ret = source_open(&side, s->side, NULL, buf_span(&s->pos));
	while (ret == 0 && !(state.end && side.end) && t->count < STEP_RECORDS && t->records.len < STEP_BYTES)
		ret = merge_one(t, &state, &side);
	store_cached_only(false);
	t->refused = ret == STORE_UNCACHED && t->count == 0 ? t->refused + 1 : 0;
	if (ret == 0 && state.end && side.end)
		s->done = true;
	source_close(&state);
	source_close(&side);
	if (txn != NULL)
		(void)txn->abort(txn);		/* it only read */
	return ret != 0 ? ret : t->records.failed || s->pos.failed ? ENOMEM : s->failed;
}

/* Lock not held: what the step took goes to the file. */
static void
write_step(struct snap_out *out, struct span records)
{
	struct rd r = rd_span_over(records);

	while (rd_left(&r) > 0) {
		uint32_t klen = rd_u32be(&r), vlen = rd_u32be(&r);
		struct span key = rd_bytes(&r, klen), val = rd_bytes(&r, vlen);

		snap_out_record(out, key, val);
	}
}

enum tv_err
fsm_snapshot_write(struct fsm_snapshot *s, const char *path, uint64_t *bytes, uint64_t *checksum)
{
	struct step t = { .s = s };
	struct snap_out out;
	bool done = false;
	int ret = 0;
	enum tv_err err = snap_out_open(&out, path, s->index, s->term);

	*bytes = *checksum = 0;
	if (err != TV_OK)
		return err;
	buf_init(&t.records, STEP_BYTES + FSM_ANSWER_BYTES_MAX);
	while (err == TV_OK && !done && !out.failed) {
		buf_reset(&t.records);
		t.count = 0;
		state_lock(s->f);
		if (s->abandoned)
			err = TV_ECLOSED;
		else if (side_found_no_room(s->f))
			err = TV_ENOSPACE;
		else if ((ret = step(&t)) != 0 && ret != STORE_UNCACHED)
			err = store_env_err(s->f->env, ret);
		done = s->done;
		pthread_mutex_unlock(&s->f->lock);
		if (err == TV_OK && ret == STORE_UNCACHED)
			(void)store_fetch();	/* what cannot be read is asked for again, and says so */
		if (err == TV_OK)
			write_step(&out, buf_span(&t.records));
	}
	buf_done(&t.records);
	if (err != TV_OK && !out.failed) {
		out.failed = true;		/* the file goes */
		out.why = errno;
	}
	ret = snap_out_close(&out, path, bytes, checksum);
	return err != TV_OK ? err : (enum tv_err)ret;
}

/* -- checkpoints -- */

static int
checkpoint(struct fsm *f)
{
	DB_ENV *e = f->env->dbenv;
	int ret = flush_log(f);		/* what is changed by now waits for nothing when it is written */

	if (ret == 0)
		ret = e->txn_checkpoint(e, 0, 0, 0);
	if (ret == 0)
		ret = flush_log(f);	/* the checkpoint's record, before the files go that it makes superfluous */
	return ret != 0 ? ret : e->log_archive(e, NULL, DB_ARCH_REMOVE);
}

enum tv_err
fsm_checkpoint(struct fsm *f, uint64_t *index, uint64_t *term)
{
	int ret = EIO;
	bool usable, name_taken;
	enum tv_err err;

	pthread_mutex_lock(&f->env_lock);
	pthread_mutex_lock(&f->lock);
	usable = f->failed == 0;
	name_taken = f->name_taken;
	*index = f->applied;
	*term = f->applied_term;
	pthread_mutex_unlock(&f->lock);
	if (name_taken) {			/* what is in its place is of a later index, and durable */
		pthread_mutex_unlock(&f->env_lock);
		return usable ? TV_OK : TV_ESYS;
	}
	if (usable)
		ret = checkpoint(f);
	if (usable && ret == 0)
		store_env_allocate(f->env);
	/* After a failed sync it is unknown what is on the disk.  What found no room waits for it, or is in the cache as before. */
	if (usable && (ret == ENOSPC || ret == EDQUOT)) {
		store_env_forget_room(f->env);
	} else if (usable && ret != 0) {
		pthread_mutex_lock(&f->lock);
		f->failed = f->failed != 0 ? f->failed : ret;
		(void)f->env->dbenv->set_flags(f->env->dbenv, DB_PANIC_ENVIRONMENT, 1);
		pthread_mutex_unlock(&f->lock);
	}
	err = usable ? store_env_err(f->env, ret) : TV_ESYS;	/* here: without the lock it may be replaced */
	pthread_mutex_unlock(&f->env_lock);
	return err;
}
