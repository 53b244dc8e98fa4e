/*
 * The one btree under all tables.  A wrapper that keeps the first unexpected code of Berkeley DB, so that the
 * code above reads like rules and not like error handling: fsm_apply() looks once, before it commits.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "raftd/fsm/read/read.h"
#include "raftd/fsm/table/table.h"

#define BULK_FIRST_BYTES (8u << 10)	/* that a reader takes at once: at first, for it may want few records */
#define BULK_BYTES (64u << 10)
#define BULK_BYTES_MAX (FSM_ANSWER_BYTES_MAX + BULK_BYTES)

static DBT
key_dbt(const struct tkey *k)
{
	return (DBT){ .data = (void *)(uintptr_t)k->b, .size = k->len };
}

static void
fail_state(struct fsm *f, int ret)
{
	if (f->failed == 0)
		f->failed = ret;
}

static bool
usable(const struct fsm *f, const struct tkey *k)
{
	return f->failed == 0 && !k->failed;
}

/* -- the transaction and its cursor -- */

static DB *
writing_db(const struct fsm *f)
{
	return f->emptying ? f->sparse : f->db;
}

static int
open_cursor(struct fsm *f)
{
	DB *db = writing_db(f);

	f->cursor_set = false;
	return db->cursor(db, f->txn, &f->cursor, 0);
}

static int
close_cursor(struct fsm *f)
{
	int ret = f->cursor == NULL ? 0 : f->cursor->close(f->cursor);

	f->cursor = NULL;
	return ret;
}

int
tbl_begin(struct fsm *f)
{
	int ret = f->env->dbenv->txn_begin(f->env->dbenv, NULL, &f->txn, DB_TXN_NOSYNC);

	if (ret == 0)
		ret = open_cursor(f);
	if (ret != 0 && f->txn != NULL)
		(void)f->txn->abort(f->txn);	/* the first error is what counts */
	if (ret != 0)
		f->txn = NULL;
	return ret;
}

int
tbl_end(struct fsm *f)
{
	int ret = close_cursor(f);

	if (ret != 0)
		fail_state(f, ret);
	if (f->failed == 0)
		ret = f->txn->commit(f->txn, DB_TXN_NOSYNC);
	else
		(void)f->txn->abort(f->txn);
	f->txn = NULL;
	return f->failed != 0 ? f->failed : ret;
}

/* The cursor too: a record on which it stands goes when it leaves. */
void
tbl_sparse(struct fsm *f, bool on)
{
	int ret;

	if (f->emptying == on)
		return;
	ret = close_cursor(f);
	f->emptying = on;
	if (ret == 0 && f->failed == 0)
		ret = open_cursor(f);
	if (ret != 0)
		fail_state(f, ret);
}

/* Berkeley DB allows no cursor of a transaction while there is one below it. */
void
tbl_nest(struct fsm *f, DB_TXN **outer)
{
	DB_TXN *inner;
	int ret = f->failed != 0 ? f->failed : close_cursor(f);

	*outer = f->txn;
	if (ret == 0)
		ret = f->env->dbenv->txn_begin(f->env->dbenv, f->txn, &inner, DB_TXN_NOSYNC);
	if (ret == 0) {
		f->txn = inner;
		ret = open_cursor(f);
	}
	if (ret != 0)
		fail_state(f, ret);
}

void
tbl_unnest(struct fsm *f, DB_TXN *outer, bool keep)
{
	int ret = close_cursor(f), ended = 0;

	if (f->txn != outer)			/* else it never began */
		ended = keep && ret == 0 && f->failed == 0 ? f->txn->commit(f->txn, DB_TXN_NOSYNC) : f->txn->abort(f->txn);
	f->txn = outer;
	ret = ret != 0 ? ret : ended;
	if (ret == 0 && f->failed == 0)
		ret = open_cursor(f);
	if (ret != 0)
		fail_state(f, ret);
}

/* The cursor stands on this record since it was read. */
static bool
at_cursor(const struct fsm *f, const struct tkey *k)
{
	return f->cursor_set && f->cursor_key.len == k->len && memcmp(f->cursor_key.b, k->b, k->len) == 0;
}

/* Reads a record, by the cursor of the transaction if there is one. */
static int
get(struct fsm *f, const struct tkey *k, DBT *key, DBT *data)
{
	int ret;

	if (f->cursor == NULL)
		return f->db->get(f->db, f->txn, key, data, 0);
	ret = f->cursor->get(f->cursor, key, data, DB_SET);
	f->cursor_set = ret == 0;
	if (ret == 0) {
		f->cursor_key.len = k->len;
		memcpy(f->cursor_key.b, k->b, k->len);
	}
	return ret;
}

/* What the view has of this key, where the tables gave ret. */
static int
as_viewed(struct fsm *f, const struct tkey *k, int ret, struct span *val)
{
	enum view_answer answer = view_peek(f, span_of(k->b, k->len), &f->scratch);

	if (answer == VIEW_NOT_KEPT)
		return ret;
	if (f->scratch.failed)
		return ENOMEM;
	*val = buf_span(&f->scratch);
	return answer == VIEW_THERE ? 0 : DB_NOTFOUND;
}

bool
tbl_peek(struct fsm *f, const struct tkey *k, struct span *val)
{
	DBT key = key_dbt(k), data = { .flags = DB_DBT_USERMEM };
	int ret;

	if (!usable(f, k) || reader_unwanted(f))
		return false;
	for (;;) {
		data.data = f->scratch.data;
		data.ulen = (uint32_t)f->scratch.cap;
		ret = get(f, k, &key, &data);
		if (ret != 0 && reader_again(f, ret))
			continue;
		if (ret != DB_BUFFER_SMALL)
			break;
		if (buf_room(&f->scratch, data.size) == NULL) {
			ret = ENOMEM;
			break;
		}
	}
	reader_unlock(f);
	if (ret == 0)
		*val = span_of(data.data, data.size);
	if (f->view != NULL && (ret == 0 || ret == DB_NOTFOUND))
		ret = as_viewed(f, k, ret, val);
	if (ret != 0 && ret != DB_NOTFOUND)
		fail_state(f, ret);
	return ret == 0;
}

bool
tbl_get(struct fsm *f, const struct tkey *k, struct arena *a, struct span *val)
{
	if (!tbl_peek(f, k, val))
		return false;
	*val = arena_copy(a, *val);
	if (val->p == NULL)
		fail_state(f, ENOMEM);
	return val->p != NULL;
}

bool
tbl_has(struct fsm *f, const struct tkey *k)
{
	DBT key = key_dbt(k);
	struct span unused;
	int ret;

	if (!usable(f, k))
		return false;
	do
		ret = f->db->exists(f->db, f->txn, &key, 0);
	while (ret != 0 && reader_again(f, ret));
	reader_unlock(f);
	if (f->view != NULL && (ret == 0 || ret == DB_NOTFOUND))
		ret = as_viewed(f, k, ret, &unused);
	if (ret != 0 && ret != DB_NOTFOUND)
		fail_state(f, ret);
	return ret == 0;
}

void
tbl_put(struct fsm *f, const struct tkey *k, struct span val)
{
	DBT key = key_dbt(k), data = { .data = (void *)(uintptr_t)val.p, .size = (uint32_t)val.len };
	int ret;

	TV_ASSERT(!k->failed);			/* lengths were checked before anything was changed */
	if (!usable(f, k))
		return;
	f->before_change(f, k);
	if (at_cursor(f, k))
		ret = f->cursor->put(f->cursor, &key, &data, DB_CURRENT);
	else
		ret = f->db->put(f->db, f->txn, &key, &data, 0);
	if (ret != 0)
		fail_state(f, ret);
}

bool
tbl_del(struct fsm *f, const struct tkey *k)
{
	DBT key = key_dbt(k);
	DB *db = writing_db(f);
	int ret;

	if (!usable(f, k))
		return false;
	f->before_change(f, k);
	if (at_cursor(f, k))
		f->cursor_set = false;		/* nothing is there any more */
	ret = db->del(db, f->txn, &key, 0);
	if (ret != 0 && ret != DB_NOTFOUND)
		fail_state(f, ret);
	return ret == 0;
}

bool
tbl_decode(struct fsm *f, const struct schema *s, struct span val, struct arena *a, void *rec)
{
	struct rd r = rd_span_over(val);

	memset(rec, 0, s->size);
	if (schema_unpack(s, &r, a, rec) == TV_OK)
		return true;
	fail_state(f, r.err == TV_ENOMEM ? ENOMEM : DB_VERIFY_BAD);
	return false;
}

bool
tbl_get_rec(struct fsm *f, const struct tkey *k, const struct schema *s, struct arena *a, void *rec)
{
	struct span val;

	return tbl_get(f, k, a, &val) && tbl_decode(f, s, val, a, rec);
}

void
tbl_put_rec(struct fsm *f, const struct tkey *k, const struct schema *s, const void *rec)
{
	buf_reset(&f->pack);
	schema_pack(s, rec, &f->pack);
	if (f->pack.failed)
		fail_state(f, ENOMEM);
	else
		tbl_put(f, k, buf_span(&f->pack));
}

/* -- scans -- */

void
tbl_scan_from(struct fsm *f, struct tbl_scan *s, const struct tkey *prefix, const struct tkey *from)
{
	int ret;

	s->f = f;
	s->c = NULL;
	s->started = false;
	s->bulk = (struct bulk){ .at = NULL };
	s->prefix.len = prefix->len;
	s->prefix.failed = prefix->failed;
	memcpy(s->prefix.b, prefix->b, prefix->len);
	buf_init(&s->start, TKEY_BYTES_MAX + 1);
	buf_init(&s->key, 2 * TKEY_BYTES_MAX);
	buf_init(&s->val, FSM_ANSWER_BYTES_MAX);
	if (!usable(f, prefix))
		return;
	buf_put(&s->start, from->b, from->len);
	if (s->start.failed || buf_room(&s->key, from->len + 256) == NULL || buf_room(&s->val, 512) == NULL) {
		fail_state(f, ENOMEM);
		return;
	}
	if (f->owner != NULL) {
		buf_init(&s->bulk.bytes, BULK_BYTES_MAX);
		buf_init(&s->bulk.kept, SIZE_MAX);
		return;				/* records are read when they are asked for */
	}
	ret = f->db->cursor(f->db, f->txn, &s->c, 0);
	if (ret != 0)
		fail_state(f, ret);
}

void
tbl_scan_begin(struct fsm *f, struct tbl_scan *s, const struct tkey *prefix)
{
	tbl_scan_from(f, s, prefix, prefix);
}

/* -- of a reader: many records at once -- */

/* Reads what comes from the start on into the buffer, and leaves no page locked.  Berkeley DB's code. */
static int
bulk_get(struct fsm *f, struct tbl_scan *s)
{
	DBT key = { .data = s->start.data, .size = (uint32_t)s->start.len, .flags = DB_DBT_USERMEM };
	struct bulk *b = &s->bulk;
	DBC *c;
	int ret = f->db->cursor(f->db, f->txn, &c, 0), closed;

	if (ret != 0)
		return ret;
	key.data = s->key.data;			/* which is changed */
	key.ulen = (uint32_t)s->key.cap;
	memcpy(s->key.data, s->start.data, s->start.len);
	b->data = (DBT){ .data = b->bytes.data, .ulen = (uint32_t)b->bytes.cap & ~1023u, .flags = DB_DBT_USERMEM };
	ret = c->get(c, &key, &b->data, DB_SET_RANGE | DB_MULTIPLE_KEY);
	closed = c->close(c);
	return ret != 0 ? ret : closed;
}

/* Takes the next record of those at hand. */
static bool
bulk_step(struct bulk *b)
{
	void *k, *v;
	size_t klen, vlen;

	if (b->at == NULL)
		return false;
	DB_MULTIPLE_KEY_NEXT(b->at, &b->data, k, klen, v, vlen);
	if (b->at == NULL)
		return false;
	b->key = span_of(k, klen);
	b->val = span_of(v, vlen);
	return true;
}

/* Reads until it has some records, or there are none.  Berkeley DB's code. */
static int
bulk_read(struct fsm *f, struct tbl_scan *s)
{
	size_t want = s->started ? BULK_BYTES : BULK_FIRST_BYTES;
	struct bulk *b = &s->bulk;
	int ret;

	for (;;) {
		buf_reset(&b->bytes);
		ret = buf_room(&b->bytes, want) == NULL || buf_room(&s->key, TKEY_BYTES_MAX) == NULL ? ENOMEM : bulk_get(f, s);
		if (ret == DB_BUFFER_SMALL)
			want = ((size_t)b->data.size + 2 * 1024) & ~(size_t)1023;
		else if (ret == 0 || !reader_again(f, ret))
			break;
	}
	reader_unlock(f);
	s->started = true;
	return ret;
}

/* What the view kept of the range that was just read, up to this key; NULL: to the end of the prefix. */
static void
take_kept(struct tbl_scan *s, const struct span *last)
{
	struct bulk *b = &s->bulk;

	buf_reset(&b->kept);
	if (s->f->view != NULL)
		view_range(s->f, buf_span(&s->start), last, span_of(s->prefix.b, s->prefix.len), &b->kept);
	b->kept_at = rd_span_over(buf_span(&b->kept));
	if (b->kept.failed)
		fail_state(s->f, ENOMEM);
}

/* The next records, and where those behind them start. */
static void
bulk_fill(struct fsm *f, struct tbl_scan *s)
{
	struct bulk *b = &s->bulk, last;
	int ret;

	if (reader_unwanted(f))
		return;
	ret = bulk_read(f, s);
	b->at = NULL;
	b->end = ret != 0;
	if (ret == 0) {
		DB_MULTIPLE_INIT(b->at, &b->data);
		last = *b;
		while (bulk_step(&last))
			continue;
		b->end = !span_starts(last.key, span_of(s->prefix.b, s->prefix.len));
	} else if (ret != DB_NOTFOUND) {
		fail_state(f, ret);
		return;
	}
	take_kept(s, b->end ? NULL : &last.key);
	if (b->end)
		return;
	buf_reset(&s->start);
	buf_putspan(&s->start, last.key);
	buf_u8(&s->start, 0);			/* the smallest key above it */
	if (s->start.failed)
		fail_state(f, ENOMEM);
}

/* The heads of both streams, as far as there are any. */
static void
bulk_heads(struct tbl_scan *s)
{
	struct bulk *b = &s->bulk;
	uint32_t klen, vlen;

	if (!b->has_one && bulk_step(b)) {
		b->has_one = span_starts(b->key, span_of(s->prefix.b, s->prefix.len));
		if (!b->has_one)
			b->at = NULL;		/* past the prefix */
	}
	if (!b->has_kept && rd_left(&b->kept_at) > 0) {
		klen = rd_u32be(&b->kept_at);
		vlen = rd_u32be(&b->kept_at);
		b->absent = rd_u8(&b->kept_at) != 0;
		b->kept_key = rd_bytes(&b->kept_at, klen);
		b->kept_val = rd_bytes(&b->kept_at, vlen);
		b->has_kept = true;
	}
}

/* The smaller key is next; of one that is in both the view knows what it was. */
static bool
bulk_next(struct tbl_scan *s, struct span *key, struct span *val)
{
	struct bulk *b = &s->bulk;

	while (s->f->failed == 0 && !s->prefix.failed) {	/* nothing has a key that does not fit */
		int order;

		bulk_heads(s);
		if (!b->has_one && !b->has_kept) {
			if (b->end)
				break;
			bulk_fill(s->f, s);
			continue;
		}
		order = !b->has_one ? 1 : !b->has_kept ? -1 : span_cmp(b->key, b->kept_key);
		*key = order < 0 ? b->key : b->kept_key;
		*val = order < 0 ? b->val : b->kept_val;
		b->has_one = b->has_one && order > 0;
		if (order < 0)
			return true;
		b->has_kept = false;
		if (!b->absent)
			return true;
	}
	return false;
}

/* -- with a cursor -- */

/* Makes room for what the last get said it needs. */
static bool
grow(struct tbl_scan *s, const DBT *key, const DBT *val)
{
	if (key->size > key->ulen && buf_room(&s->key, key->size) == NULL)
		return false;
	return val->size <= val->ulen || buf_room(&s->val, val->size) != NULL;
}

bool
tbl_next(struct tbl_scan *s, struct span *key, struct span *val)
{
	DBT k = { .flags = DB_DBT_USERMEM }, v = { .flags = DB_DBT_USERMEM };
	int ret;

	if (s->f->owner != NULL)
		return bulk_next(s, key, val);
	if (s->c == NULL || s->f->failed != 0)
		return false;
	for (;;) {
		if (!s->started && s->start.len > 0)
			memcpy(s->key.data, s->start.data, s->start.len);	/* a failed get may have changed it */
		k.data = s->key.data;
		k.size = (uint32_t)s->start.len;
		k.ulen = (uint32_t)s->key.cap;
		v.data = s->val.data;
		v.ulen = (uint32_t)s->val.cap;
		ret = s->c->get(s->c, &k, &v, s->started ? DB_NEXT : DB_SET_RANGE);
		if (ret != DB_BUFFER_SMALL)
			break;
		if (!grow(s, &k, &v)) {
			ret = ENOMEM;
			break;
		}
	}
	if (ret != 0 && ret != DB_NOTFOUND)
		fail_state(s->f, ret);
	if (ret != 0)
		return false;
	s->started = true;
	*key = span_of(k.data, k.size);
	*val = span_of(v.data, v.size);
	return span_starts(*key, span_of(s->prefix.b, s->prefix.len));
}

void
tbl_scan_end(struct tbl_scan *s)
{
	if (s->c != NULL)
		(void)s->c->close(s->c);	/* it only read */
	buf_done(&s->bulk.bytes);
	buf_done(&s->bulk.kept);
	buf_done(&s->start);
	buf_done(&s->key);
	buf_done(&s->val);
}

uint32_t
tbl_keys_from(struct fsm *f, const struct tkey *prefix, const struct tkey *from, struct arena *a, struct span *out,
    uint32_t max)
{
	struct tbl_scan s;
	struct span key, val;
	uint32_t n = 0;

	tbl_scan_from(f, &s, prefix, from);
	while (n < max && tbl_next(&s, &key, &val)) {
		out[n] = arena_copy(a, key);
		if (out[n].p == NULL) {
			fail_state(f, ENOMEM);
			break;
		}
		n++;
	}
	tbl_scan_end(&s);
	return n;
}

uint32_t
tbl_keys(struct fsm *f, const struct tkey *prefix, struct arena *a, struct span *out, uint32_t max)
{
	return tbl_keys_from(f, prefix, prefix, a, out, max);
}

void
tbl_key_of(struct tkey *k, struct span stored)
{
	k->len = 0;
	k->failed = false;
	tkey_raw(k, stored);
}

void
tkey_after(struct tkey *k, struct span stored)
{
	tbl_key_of(k, stored);
	tkey_raw(k, span_of("", 1));
}

void
tbl_each(struct fsm *f, const struct tkey *prefix, tbl_each_fn *fn, void *ctx)
{
	enum { STEP = 64 };
	struct span keys[STEP];
	struct tkey from = *prefix, k;
	uint32_t n;

	do {
		struct arena step = ARENA_INIT(STEP * TKEY_BYTES_MAX);

		n = tbl_keys_from(f, prefix, &from, &step, keys, STEP);
		for (uint32_t i = 0; i < n && f->failed == 0; i++) {
			struct arena one = ARENA_INIT(FSM_RECORD_MEMORY);

			tbl_key_of(&k, keys[i]);
			fn(f, &k, &one, ctx);
			arena_done(&one);
		}
		if (n > 0)
			tkey_after(&from, keys[n - 1]);
		arena_done(&step);
	} while (n == STEP && f->failed == 0);
}
