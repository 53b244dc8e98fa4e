/*
 * meta.db: hard state, identity, snapshot position, list of segments, transaction number.
 * Each value is [u32be crc32 of key and body | body].
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <sodium.h>
#include <zlib.h>

#include "raftd/store_int.h"

#define META_VALUE_MAX 131072

static const char *const key_names[STORE_META_COUNT] = { "hard", "identity", "snapshot", "segments", "seq" };

static uint32_t
meta_crc(const char *key, const uint8_t *body, size_t len)
{
	uint32_t crc = (uint32_t)crc32(0, (const Bytef *)key, (uInt)strlen(key));

	return (uint32_t)crc32(crc, body, (uInt)len);
}

/* Text of at most 255 bytes with its length in front. */
static void
put_text(struct buf *b, const char *text)
{
	size_t n = strlen(text);

	buf_u8(b, (uint8_t)n);
	buf_put(b, text, n);
}

static void
get_text(struct rd *r, char *dst, size_t cap)
{
	struct span s = rd_bytes(r, rd_u8(r));

	if (!span_copy(s, dst, cap))
		rd_fail(r, TV_EFORMAT);
}

static void
encode(const struct log_store *s, enum store_meta_key which, struct buf *b)
{
	switch (which) {
	case STORE_META_HARD:
		buf_u64be(b, s->term);
		buf_u64be(b, s->vote);
		break;
	case STORE_META_IDENTITY:
		put_text(b, s->store_id);
		put_text(b, s->cluster_id);
		buf_u64be(b, s->generation);
		break;
	case STORE_META_SNAPSHOT:
		buf_u64be(b, s->cut);
		buf_u64be(b, s->snapshot_index);
		buf_u64be(b, s->snapshot_term);
		if (s->snapshot_config.count > 0)	/* none before the first snapshot; an empty one is not valid */
			raft_config_write(b, &s->snapshot_config);
		break;
	case STORE_META_SEGMENTS:
		buf_u64be(b, s->next_seg);
		for (unsigned i = 0; i < s->segs.n; i++) {
			buf_u64be(b, s->segs.v[i].id);
			buf_u64be(b, s->segs.v[i].base);
		}
		break;
	case STORE_META_SEQ:
		buf_u64be(b, s->seq);
		break;
	case STORE_META_COUNT:
		break;
	}
}

static enum tv_err
decode(struct log_store *s, enum store_meta_key which, struct rd *r)
{
	struct span config;

	switch (which) {
	case STORE_META_HARD:
		s->term = rd_u64be(r);
		s->vote = rd_u64be(r);
		break;
	case STORE_META_IDENTITY:
		get_text(r, s->store_id, sizeof(s->store_id));
		get_text(r, s->cluster_id, sizeof(s->cluster_id));
		s->generation = rd_u64be(r);
		break;
	case STORE_META_SNAPSHOT:
		s->cut = rd_u64be(r);
		s->snapshot_index = rd_u64be(r);
		s->snapshot_term = rd_u64be(r);
		config = rd_rest(r);
		if (r->err == TV_OK && config.len > 0 && raft_config_read(config, &s->snapshot_config) != TV_OK)
			rd_fail(r, TV_EFORMAT);
		break;
	case STORE_META_SEGMENTS:
		s->next_seg = rd_u64be(r);
		while (rd_left(r) > 0) {
			struct log_seg g = { .id = rd_u64be(r), .base = rd_u64be(r) };

			if (r->err == TV_OK && store_seg_push(&s->segs, &g) != 0)
				rd_fail(r, TV_ENOMEM);
		}
		break;
	case STORE_META_SEQ:
		s->seq = rd_u64be(r);
		break;
	case STORE_META_COUNT:
		break;
	}
	return rd_end(r);
}

int
store_meta_put(struct log_store *s, DB_TXN *txn, enum store_meta_key which)
{
	const char *name = key_names[which];
	struct buf b = BUF_INIT(META_VALUE_MAX);
	DBT key = { .data = (void *)(uintptr_t)name, .size = (uint32_t)strlen(name) };
	DBT data = { 0 };
	uint32_t crc;
	int ret = ENOMEM;

	buf_u32be(&b, 0);
	encode(s, which, &b);
	if (!b.failed) {
		crc = meta_crc(name, b.data + 4, b.len - 4);
		for (int i = 0; i < 4; i++)
			b.data[i] = (uint8_t)(crc >> (24 - 8 * i));
		data.data = b.data;
		data.size = (uint32_t)b.len;
		ret = s->meta->put(s->meta, txn, &key, &data, 0);
	}
	buf_done(&b);
	return ret;
}

static enum tv_err
load_one(struct log_store *s, enum store_meta_key which, uint8_t *scratch, bool *found)
{
	const char *name = key_names[which];
	DBT key = { .data = (void *)(uintptr_t)name, .size = (uint32_t)strlen(name) };
	DBT data = { .data = scratch, .ulen = META_VALUE_MAX, .flags = DB_DBT_USERMEM };
	int ret = s->meta->get(s->meta, NULL, &key, &data, 0);
	struct rd r;

	*found = ret == 0;
	if (ret == DB_NOTFOUND)
		return TV_OK;
	if (ret != 0)
		return store_env_err(&s->env, ret);
	r = rd_over(scratch, data.size);
	if (rd_u32be(&r) != meta_crc(name, r.p, rd_left(&r)) || decode(s, which, &r) != TV_OK)
		return TV_ECORRUPT;
	return TV_OK;
}

enum tv_err
store_meta_load(struct log_store *s, bool *fresh, char *errbuf, size_t cap)
{
	uint8_t *scratch = buf_room(&s->scratch, META_VALUE_MAX);
	unsigned found = 0;

	if (scratch == NULL)
		return TV_ENOMEM;
	for (unsigned i = 0; i < STORE_META_COUNT; i++) {
		bool there;
		enum tv_err err = load_one(s, i, scratch, &there);

		if (err != TV_OK) {
			snprintf(errbuf, cap,
			    "record '%s' in %s/meta.db is damaged; its term and vote cannot be trusted: "
			    "move the raftd data directory away and start again, this server then joins as a new one",
			    key_names[i], s->env.dir);
			return err;
		}
		found += there;
	}
	*fresh = found == 0;
	if (found == 0 || found == STORE_META_COUNT)
		return TV_OK;
	snprintf(errbuf, cap, "%s/meta.db is incomplete: move the raftd data directory away and start again",
	    s->env.dir);
	return TV_ECORRUPT;
}
