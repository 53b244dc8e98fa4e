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
#include <unistd.h>

#include <zlib.h>

#include "common/assert.h"
#include "raftd/store_int.h"

#define ENTRY_HEAD 13			/* bytes before the payload */
#define SEG_NAME_FMT "entries.%016llx.db"
#define SEG_COUNT_MAX 4000		/* then the newest one just grows */

void
store_seg_name(uint64_t id, char *name, size_t cap)
{
	snprintf(name, cap, SEG_NAME_FMT, (unsigned long long)id);
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

int
store_seg_push(struct seg_list *l, const struct log_seg *g)
{
	if (l->n == l->cap) {
		unsigned n = l->cap == 0 ? 16 : l->cap * 2;
		struct log_seg *grown = realloc(l->v, n * sizeof(*grown));

		if (grown == NULL)
			return ENOMEM;
		l->v = grown;
		l->cap = n;
	}
	l->v[l->n++] = *g;
	return 0;
}

static bool
in_manifest(const struct log_store *s, uint64_t id)
{
	for (unsigned i = 0; i < s->segs.n; i++)
		if (s->segs.v[i].id == id)
			return true;
	return false;
}

/* Files that a crash left over: made before the manifest named them, or not yet removed after it did no more. */
static enum tv_err
remove_strays(struct log_store *s)
{
	struct seg_list strays = { 0 };
	DIR *d = opendir(s->env.dir);
	struct dirent *de;
	unsigned long long id;
	int ret = 0;

	if (d == NULL)
		return TV_ESYS;
	while (ret == 0 && (de = readdir(d)) != NULL)
		if (sscanf(de->d_name, SEG_NAME_FMT, &id) == 1 && !in_manifest(s, id))
			ret = store_seg_push(&strays, &(struct log_seg){ .id = id });
	closedir(d);
	if (ret == 0)
		ret = store_seg_remove(&s->env, &strays);
	free(strays.v);
	return store_env_err(&s->env, ret);
}

enum tv_err
store_seg_open_all(struct log_store *s, char *errbuf, size_t cap)
{
	enum tv_err err = remove_strays(s);

	for (unsigned i = 0; i < s->segs.n && err == TV_OK; i++) {
		char name[64];
		int ret;

		store_seg_name(s->segs.v[i].id, name, sizeof(name));
		ret = store_env_db(&s->env, name, false, &s->segs.v[i].db);
		err = ret == ENOENT ? TV_ECORRUPT : store_env_err(&s->env, ret);
		if (err != TV_OK)
			snprintf(errbuf, cap, "%s/%s, with entries from %llu on, cannot be opened: %s%s%s; put it back, or %s",
			    s->env.dir, name, (unsigned long long)s->segs.v[i].base, db_strerror(ret),
			    s->env.message[0] != '\0' ? ": " : "", s->env.message, store_advice);
	}
	return err;
}

static void
close_list(struct seg_list *l)
{
	for (unsigned i = 0; i < l->n; i++)
		if (l->v[i].db != NULL)
			(void)l->v[i].db->close(l->v[i].db, DB_NOSYNC);	/* all of it is in the log */
	free(l->v);
	*l = (struct seg_list){ 0 };
}

void
store_seg_close_all(struct log_store *s)
{
	close_list(&s->segs);
	close_list(&s->leaving);
	close_list(&s->trash);			/* removed at the next start */
}

struct log_seg *
store_seg_find(struct log_store *s, uint64_t index)
{
	unsigned lo = 0, hi = s->segs.n;

	while (lo < hi) {
		unsigned mid = (lo + hi) / 2;

		if (s->segs.v[mid].base <= index)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo == 0 ? NULL : &s->segs.v[lo - 1];
}

int
store_seg_add(struct log_store *s, uint64_t base)
{
	struct log_seg g = { .id = s->next_seg, .base = base };
	char name[64];
	int ret;

	s->next_seg++;
	store_seg_name(g.id, name, sizeof(name));
	ret = store_env_db(&s->env, name, true, &g.db);
	if (ret != 0)
		return ret;
	ret = store_seg_push(&s->segs, &g);
	if (ret != 0)
		(void)g.db->close(g.db, DB_NOSYNC);	/* nothing is in it */
	return ret;
}

bool
store_seg_full(const struct log_store *s)
{
	const struct log_seg *tail = s->segs.n == 0 ? NULL : &s->segs.v[s->segs.n - 1];

	return tail == NULL || (tail->bytes >= s->segment_bytes_max && s->segs.n < SEG_COUNT_MAX);
}

int
store_seg_take(struct log_store *s, unsigned from, unsigned count)
{
	struct seg_list *l = &s->segs;

	if (count == 0)
		return 0;			/* perhaps there is no list at all */
	for (unsigned i = from; i < from + count; i++)
		if (store_seg_push(&s->leaving, &l->v[i]) != 0)
			return ENOMEM;
	memmove(&l->v[from], &l->v[from + count], (l->n - from - count) * sizeof(l->v[0]));
	l->n -= count;
	return 0;
}

int
store_seg_discard(struct log_store *s)
{
	unsigned gone = 0;

	while (gone + 1 < s->segs.n && s->segs.v[gone + 1].base <= s->cut + 1)
		gone++;
	return gone == 0 ? 0 : store_seg_take(s, 0, gone);
}

int
store_seg_to_trash(struct log_store *s)
{
	for (unsigned i = 0; i < s->leaving.n; i++)
		if (store_seg_push(&s->trash, &s->leaving.v[i]) != 0)
			return ENOMEM;
	s->leaving.n = 0;
	return 0;
}

/*
 * Without a transaction: nothing of the removal is logged, so recovery never replays it.  (Replaying removals left
 * stumps of files behind, and once could not flush a page of a file that it had just removed.)
 */
int
store_seg_remove(struct store_env *env, struct seg_list *trash)
{
	int ret = 0;

	for (unsigned i = 0; i < trash->n; i++) {
		struct log_seg *g = &trash->v[i];
		char name[64], path[4200];

		store_seg_name(g->id, name, sizeof(name));
		snprintf(path, sizeof(path), "%s/%s", env->dir, name);
		if (g->db != NULL && ret == 0)
			ret = g->db->close(g->db, DB_NOSYNC);
		g->db = NULL;
		/* It marks the pages in the cache as dead; a stump it does not know is unlinked all the same. */
		if (ret == 0)
			(void)env->dbenv->dbremove(env->dbenv, NULL, name, NULL, 0);
		if (ret == 0 && unlink(path) == -1 && errno != ENOENT)
			ret = errno;
	}
	trash->n = 0;
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
