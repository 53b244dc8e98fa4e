/*
 * Segments of the log.  An entry is stored under its u64 big-endian index as
 *   [u64be term | u8 type | u32be crc32 | payload]
 * where the checksum covers index, term, type and payload: a record that turns up under the wrong key, or an
 * old version of one, does not pass.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "common/assert.h"
#include "raftd/store_int.h"

#define ENTRY_HEAD 13			/* bytes before the payload */
#define SEG_NAME_FMT "entries.%016llx.db"
#define SEG_COUNT_MAX 100000

void
store_seg_name(uint64_t base, char *name, size_t cap)
{
	snprintf(name, cap, SEG_NAME_FMT, (unsigned long long)base);
}

static void
put_u64(uint8_t *p, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> (56 - 8 * i));
}

static uint64_t
get_u64(const uint8_t *p)
{
	uint64_t v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | p[i];
	return v;
}

static uint32_t
entry_crc(uint64_t index, uint64_t term, uint8_t type, const uint8_t *payload, uint32_t size)
{
	uint8_t head[17];
	uint32_t crc;

	put_u64(head, index);
	put_u64(head + 8, term);
	head[16] = type;
	crc = (uint32_t)crc32(0, head, sizeof(head));
	return size == 0 ? crc : (uint32_t)crc32(crc, payload, size);
}

static void
entry_head(uint8_t *p, const struct raft_entry *e)
{
	uint32_t crc = entry_crc(e->index, e->term, e->type, e->payload, e->size);

	put_u64(p, e->term);
	p[8] = e->type;
	for (int i = 0; i < 4; i++)
		p[9 + i] = (uint8_t)(crc >> (24 - 8 * i));
}

/* False when the record is too short, its key is odd, or the checksum is wrong. */
static bool
entry_decode(const DBT *key, const DBT *data, struct raft_entry *e)
{
	const uint8_t *p = data->data;
	uint32_t crc;

	if (key->size != 8 || data->size < ENTRY_HEAD)
		return false;
	e->index = get_u64(key->data);
	e->term = get_u64(p);
	e->type = p[8];
	e->size = data->size - ENTRY_HEAD;
	e->payload = p + ENTRY_HEAD;
	crc = (uint32_t)p[9] << 24 | (uint32_t)p[10] << 16 | (uint32_t)p[11] << 8 | p[12];
	return crc == entry_crc(e->index, e->term, e->type, e->payload, e->size);
}

/* -- the list of segments -- */

static struct log_seg *
seg_insert(struct log_store *s, uint64_t base)
{
	unsigned at = s->seg_count;

	if (s->seg_count == s->seg_cap) {
		unsigned n = s->seg_cap == 0 ? 16 : s->seg_cap * 2;
		struct log_seg *grown = n > SEG_COUNT_MAX ? NULL : realloc(s->segs, n * sizeof(*grown));

		if (grown == NULL)
			return NULL;
		s->segs = grown;
		s->seg_cap = n;
	}
	while (at > 0 && s->segs[at - 1].base > base)
		at--;
	memmove(&s->segs[at + 1], &s->segs[at], (s->seg_count - at) * sizeof(s->segs[0]));
	s->seg_count++;
	s->segs[at] = (struct log_seg){ .base = base };
	return &s->segs[at];
}

enum tv_err
store_seg_open_all(struct log_store *s, char *errbuf, size_t cap)
{
	DIR *d = opendir(s->env.dir);
	struct dirent *de;
	unsigned long long base;
	enum tv_err err = TV_OK;

	if (d == NULL)
		return TV_ESYS;
	while (err == TV_OK && (de = readdir(d)) != NULL)
		if (sscanf(de->d_name, SEG_NAME_FMT, &base) == 1 && seg_insert(s, base) == NULL)
			err = TV_ENOMEM;
	closedir(d);
	for (unsigned i = 0; i < s->seg_count && err == TV_OK; i++) {
		char name[64];
		int ret;

		store_seg_name(s->segs[i].base, name, sizeof(name));
		ret = store_env_db(&s->env, NULL, name, false, &s->segs[i].db);
		err = store_env_err(&s->env, ret);
		if (err == TV_OK)
			continue;
		snprintf(errbuf, cap, "cannot open %s/%s: %s%s%s", s->env.dir, name, db_strerror(ret),
		    s->env.message[0] != '\0' ? ": " : "", s->env.message);
	}
	return err;
}

void
store_seg_close_all(struct log_store *s)
{
	for (unsigned i = 0; i < s->seg_count; i++)
		if (s->segs[i].db != NULL)
			(void)s->segs[i].db->close(s->segs[i].db, DB_NOSYNC);	/* all of it is in the log */
	for (unsigned i = 0; i < s->trash_count; i++)
		(void)s->trash[i].db->close(s->trash[i].db, DB_NOSYNC);	/* removed at the next start */
	free(s->segs);
	free(s->trash);
	s->segs = s->trash = NULL;
	s->seg_count = s->seg_cap = s->trash_count = 0;
}

struct log_seg *
store_seg_find(struct log_store *s, uint64_t index)
{
	unsigned lo = 0, hi = s->seg_count;

	while (lo < hi) {
		unsigned mid = (lo + hi) / 2;

		if (s->segs[mid].base <= index)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo == 0 ? NULL : &s->segs[lo - 1];
}

int
store_seg_add(struct log_store *s, DB_TXN *txn, uint64_t base)
{
	struct log_seg *g = seg_insert(s, base);
	char name[64];
	int ret;

	if (g == NULL)
		return ENOMEM;
	TV_ASSERT(g == &s->segs[s->seg_count - 1]);
	store_seg_name(base, name, sizeof(name));
	ret = store_env_db(&s->env, txn, name, true, &g->db);
	if (ret != 0)
		s->seg_count--;
	else
		s->tail_base = base;
	return ret;
}

int
store_seg_drop(struct log_store *s, DB_TXN *txn, unsigned from, unsigned count)
{
	int ret = 0;

	for (unsigned i = from; i < from + count && ret == 0; i++) {
		char name[64];

		store_seg_name(s->segs[i].base, name, sizeof(name));
		ret = s->segs[i].db->close(s->segs[i].db, DB_NOSYNC);
		s->segs[i].db = NULL;
		if (ret == 0)
			ret = s->env.dbenv->dbremove(s->env.dbenv, txn, name, NULL, 0);
	}
	if (ret != 0)
		return ret;
	memmove(&s->segs[from], &s->segs[from + count], (s->seg_count - from - count) * sizeof(s->segs[0]));
	s->seg_count -= count;
	s->tail_base = s->seg_count == 0 ? 0 : s->segs[s->seg_count - 1].base;
	return 0;
}

int
store_seg_discard(struct log_store *s)
{
	struct log_seg *grown;
	unsigned gone = 0;

	while (gone + 1 < s->seg_count && s->segs[gone + 1].base <= s->cut + 1)
		gone++;
	if (gone == 0)
		return 0;
	grown = realloc(s->trash, (s->trash_count + gone) * sizeof(*grown));
	if (grown == NULL)
		return ENOMEM;
	s->trash = grown;
	memcpy(&s->trash[s->trash_count], s->segs, gone * sizeof(s->segs[0]));
	s->trash_count += gone;
	memmove(s->segs, &s->segs[gone], (s->seg_count - gone) * sizeof(s->segs[0]));
	s->seg_count -= gone;
	return 0;
}

int
store_seg_empty_trash(struct store_env *env, struct log_seg *trash, unsigned count)
{
	int ret = 0;

	for (unsigned i = 0; i < count; i++) {
		char name[64];
		int ret2 = trash[i].db->close(trash[i].db, DB_NOSYNC);

		store_seg_name(trash[i].base, name, sizeof(name));
		if (ret == 0)
			ret = ret2;
		if (ret == 0)
			ret = env->dbenv->dbremove(env->dbenv, NULL, name, NULL, DB_AUTO_COMMIT);
	}
	return ret;
}

/* -- entries -- */

int
store_seg_cut(struct log_seg *g, DB_TXN *txn, uint64_t index)
{
	uint8_t keybuf[8], databuf[1];
	DBT key = { .data = keybuf, .size = 8, .ulen = 8, .flags = DB_DBT_USERMEM };
	DBT data = { .data = databuf, .ulen = 0, .dlen = 0, .flags = DB_DBT_USERMEM | DB_DBT_PARTIAL };
	DBC *c;
	int ret, ret2;

	put_u64(keybuf, index);
	ret = g->db->cursor(g->db, txn, &c, 0);
	if (ret != 0)
		return ret;
	ret = c->get(c, &key, &data, DB_SET_RANGE);
	while (ret == 0) {
		ret = c->del(c, 0);
		if (ret == 0)
			ret = c->get(c, &key, &data, DB_NEXT);
	}
	ret2 = c->close(c);
	if (ret == DB_NOTFOUND)
		ret = 0;
	return ret != 0 ? ret : ret2;
}

/* Room that `count` entries take in a bulk buffer of Berkeley DB (offsets grow down from its end). */
static size_t
bulk_bytes(const struct raft_entry *e, uint32_t count)
{
	size_t n = 64;

	for (uint32_t i = 0; i < count; i++)
		n += (size_t)e[i].size + ENTRY_HEAD + 8 + 4 * sizeof(uint32_t) + 8;
	return (n + 3) & ~(size_t)3;
}

int
store_seg_put(struct log_seg *g, DB_TXN *txn, const struct raft_entry *e, uint32_t count, struct buf *bulk)
{
	size_t need = bulk_bytes(e, count);
	DBT many = { .flags = DB_DBT_BULK | DB_DBT_USERMEM };
	void *it;
	int ret;

	buf_reset(bulk);
	many.data = buf_room(bulk, need);
	if (many.data == NULL)
		return ENOMEM;
	many.ulen = (uint32_t)need;
	DB_MULTIPLE_WRITE_INIT(it, &many);
	for (uint32_t i = 0; i < count; i++) {
		void *kp, *dp;

		DB_MULTIPLE_KEY_RESERVE_NEXT(it, &many, kp, 8, dp, ENTRY_HEAD + e[i].size);
		TV_ASSERT(kp != NULL && dp != NULL);
		put_u64(kp, e[i].index);
		entry_head(dp, &e[i]);
		if (e[i].size > 0)
			memcpy((uint8_t *)dp + ENTRY_HEAD, e[i].payload, e[i].size);
		g->bytes += e[i].size + ENTRY_HEAD;
	}
	ret = g->db->put(g->db, txn, &many, NULL, DB_MULTIPLE_KEY);
	return ret;
}

enum tv_err
store_seg_last(struct log_store *s, struct log_seg *g, uint64_t *last)
{
	uint8_t keybuf[8];
	DBT key = { .data = keybuf, .ulen = 8, .flags = DB_DBT_USERMEM };
	DBT data = { .ulen = 0, .dlen = 0, .flags = DB_DBT_USERMEM | DB_DBT_PARTIAL };
	DBC *c;
	int ret, ret2;

	*last = 0;
	ret = g->db->cursor(g->db, NULL, &c, 0);
	if (ret != 0)
		return store_env_err(&s->env, ret);
	ret = c->get(c, &key, &data, DB_LAST);
	if (ret == 0 && key.size == 8)
		*last = get_u64(keybuf);
	ret2 = c->close(c);
	if (ret == DB_BUFFER_SMALL || (ret == 0 && key.size != 8))
		return TV_ECORRUPT;
	if (ret == DB_NOTFOUND)
		ret = 0;
	return store_env_err(&s->env, ret != 0 ? ret : ret2);
}

/* Moves the cursor with op, growing the scratch buffer until the record fits. */
static int
get_growing(DBC *c, DBT *key, DBT *data, struct buf *scratch, uint32_t op)
{
	int ret;

	for (;;) {
		data->data = scratch->data;
		data->ulen = (uint32_t)scratch->cap;
		ret = c->get(c, key, data, op);
		if (ret != DB_BUFFER_SMALL)
			return ret;
		if (buf_room(scratch, data->size) == NULL)
			return ENOMEM;
	}
}

struct walk {
	uint64_t next, last;		/* index expected next; last wanted */
	enum tv_err (*fn)(void *ctx, const struct raft_entry *e);
	void *ctx;
};

static enum tv_err
walk_seg(struct log_store *s, struct log_seg *g, struct walk *w)
{
	uint8_t keybuf[8];
	DBT key = { .data = keybuf, .size = 8, .ulen = 8, .flags = DB_DBT_USERMEM };
	DBT data = { .flags = DB_DBT_USERMEM };
	enum tv_err err = TV_OK;
	uint32_t op = DB_SET_RANGE;
	DBC *c;
	int ret, ret2;

	put_u64(keybuf, w->next);
	ret = g->db->cursor(g->db, NULL, &c, 0);
	if (ret != 0)
		return store_env_err(&s->env, ret);
	while (err == TV_OK && w->next <= w->last) {
		struct raft_entry e = { 0 };

		ret = get_growing(c, &key, &data, &s->scratch, op);
		if (ret != 0)
			break;
		op = DB_NEXT;
		if (!entry_decode(&key, &data, &e) || e.index != w->next)
			err = TV_ECORRUPT;
		else if ((err = w->fn(w->ctx, &e)) == TV_OK)
			w->next++;
	}
	ret2 = c->close(c);
	if (err != TV_OK)
		return err;
	if (ret != 0 && ret != DB_NOTFOUND)
		return store_env_err(&s->env, ret);
	return store_env_err(&s->env, ret2);
}

enum tv_err
store_seg_walk(struct log_store *s, uint64_t first, uint64_t last,
    enum tv_err (*fn)(void *ctx, const struct raft_entry *e), void *ctx, uint64_t *bad)
{
	struct walk w = { .next = first, .last = last, .fn = fn, .ctx = ctx };
	enum tv_err err = TV_OK;

	while (err == TV_OK && w.next <= last) {
		struct log_seg *g = store_seg_find(s, w.next);
		uint64_t before = w.next;

		err = g == NULL ? TV_ECORRUPT : walk_seg(s, g, &w);
		if (err == TV_OK && w.next == before)
			err = TV_ECORRUPT;	/* the entry is missing */
	}
	*bad = w.next;
	return err;
}
