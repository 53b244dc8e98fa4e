/*
 * Records of the log.
 *
 *   "TVL1" | u32 crc32 of the rest | u64 seq | u8 kind | body
 *
 * Readers of Berkeley DB's take the first four bytes for the type of a record.  Its own checksum covers the record and
 * where it stands; ours is the stronger one, and covers the number of the transaction: an old record in the place of a
 * new one does not pass.
 */
#include <string.h>

#include <zlib.h>

#include "raftd/store/store_int.h"

#define CRC_AT 4
#define CRC_END 8
#define ENTRY_HEAD 13			/* u64 term | u8 type | u32 size */

enum batch_flags { BATCH_HARD = 1, BATCH_GENERATION = 2, BATCH_TRUNCATE = 4 };

static const uint8_t magic[4] = { 'T', 'V', 'L', '1' };

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
put_u64(uint8_t *p, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> (56 - 8 * i));
}

static void
put_u32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* -- batches -- */

static void
put_entry(struct buf *b, const struct raft_entry *e)
{
	uint8_t *p = buf_add(b, ENTRY_HEAD + (size_t)e->size);

	if (p == NULL)
		return;
	put_u64(p, e->term);
	p[8] = e->type;
	put_u32(p + 9, e->size);
	if (e->size > 0)
		memcpy(p + ENTRY_HEAD, e->payload, e->size);
}

static void
put_batch(struct buf *b, const struct log_frame *f)
{
	buf_u8(b, (uint8_t)((f->hard_changed ? BATCH_HARD : 0) | (f->generation != 0 ? BATCH_GENERATION : 0) |
	    (f->truncate_from != 0 ? BATCH_TRUNCATE : 0)));
	if (f->hard_changed) {
		buf_u64be(b, f->term);
		buf_u64be(b, f->vote);
	}
	if (f->generation != 0)
		buf_u64be(b, f->generation);
	if (f->truncate_from != 0)
		buf_u64be(b, f->truncate_from);
	buf_u64be(b, f->first);
	buf_u32be(b, f->count);
	for (uint32_t i = 0; i < f->count; i++)
		put_entry(b, &f->entries[i]);
}

static void
get_batch(struct rd *r, struct log_frame *f)
{
	uint8_t flags = rd_u8(r);

	if (flags & BATCH_HARD) {
		f->hard_changed = true;
		f->term = rd_u64be(r);
		f->vote = rd_u64be(r);
	}
	if (flags & BATCH_GENERATION)
		f->generation = rd_u64be(r);
	if (flags & BATCH_TRUNCATE)
		f->truncate_from = rd_u64be(r);
	f->first = rd_u64be(r);
	f->count = rd_u32be(r);
	f->body = *r;
	if ((f->first == 0) != (f->count == 0) || (f->count == 0 && rd_left(r) > 0))
		rd_fail(r, TV_EFORMAT);
}

enum tv_err
store_frame_next(struct log_frame *f, struct raft_entry *out)
{
	struct rd *r = &f->body;
	struct span payload;

	out->index = f->first;
	out->term = rd_u64be(r);
	out->type = rd_u8(r);
	payload = rd_bytes(r, rd_u32be(r));
	out->size = (uint32_t)payload.len;
	out->payload = payload.p;
	if (r->err != TV_OK || f->count == 0)
		return TV_ECORRUPT;
	f->first++;
	f->count--;
	return TV_OK;
}

/* -- the others -- */

static void
put_position(struct buf *b, const struct log_frame *f)
{
	buf_u64be(b, f->cut);
	buf_u64be(b, f->snapshot_index);
	buf_u64be(b, f->snapshot_term);
	buf_putspan(b, f->config);
}

static void
get_position(struct rd *r, struct log_frame *f)
{
	f->cut = rd_u64be(r);
	f->snapshot_index = rd_u64be(r);
	f->snapshot_term = rd_u64be(r);
	f->config = rd_rest(r);
}

static void
put_state(struct buf *b, const struct log_frame *f)
{
	buf_u64be(b, f->term);
	buf_u64be(b, f->vote);
	put_text(b, f->store_id);
	put_text(b, f->cluster_id);
	buf_u64be(b, f->generation);
	buf_u64be(b, f->last);
	put_position(b, f);
}

static void
get_state(struct rd *r, struct log_frame *f)
{
	f->term = rd_u64be(r);
	f->vote = rd_u64be(r);
	get_text(r, f->store_id, sizeof(f->store_id));
	get_text(r, f->cluster_id, sizeof(f->cluster_id));
	f->generation = rd_u64be(r);
	f->last = rd_u64be(r);
	get_position(r, f);
}

void
store_frame_write(struct buf *b, const struct log_frame *f)
{
	buf_reset(b);
	buf_put(b, magic, sizeof(magic));
	buf_u32be(b, 0);
	buf_u64be(b, f->seq);
	buf_u8(b, (uint8_t)f->kind);
	switch (f->kind) {
	case LOG_FRAME_STATE:
		put_state(b, f);
		break;
	case LOG_FRAME_BATCH:
		put_batch(b, f);
		break;
	case LOG_FRAME_POSITION:
		buf_u8(b, f->reset);
		put_position(b, f);
		break;
	case LOG_FRAME_IDENTITY:
		put_text(b, f->cluster_id);
		buf_u64be(b, f->generation);
		break;
	}
	if (!b->failed)
		put_u32(b->data + CRC_AT, (uint32_t)crc32(0, b->data + CRC_END, (uInt)(b->len - CRC_END)));
}

enum tv_err
store_frame_read(struct span record, struct log_frame *f)
{
	struct rd r = rd_span_over(record);
	struct span head = rd_bytes(&r, sizeof(magic));
	uint32_t crc = rd_u32be(&r);

	memset(f, 0, sizeof(*f));
	if (r.err != TV_OK || memcmp(head.p, magic, sizeof(magic)) != 0 || crc != crc32(0, r.p, (uInt)rd_left(&r)))
		return TV_ECORRUPT;
	f->seq = rd_u64be(&r);
	f->kind = (enum log_frame_kind)rd_u8(&r);
	switch (f->kind) {
	case LOG_FRAME_STATE:
		get_state(&r, f);
		break;
	case LOG_FRAME_BATCH:
		get_batch(&r, f);
		break;
	case LOG_FRAME_POSITION:
		f->reset = rd_u8(&r) != 0;
		get_position(&r, f);
		break;
	case LOG_FRAME_IDENTITY:
		get_text(&r, f->cluster_id, sizeof(f->cluster_id));
		f->generation = rd_u64be(&r);
		break;
	default:
		rd_fail(&r, TV_EFORMAT);
		break;
	}
	return r.err == TV_OK ? TV_OK : TV_ECORRUPT;
}
