/*
 * A restore on its way through the log: BEGIN says how long the archive is and what its checksum is, CHUNKs bring it in
 * order, COMMIT takes it (stage_load.c, unless nothing is staged), ABORT removes it, some chunks per entry.
 *
 *	'W' 00             u8 1 | u8 aborting | id, 36 bytes | u64 bytes | u64 received | 32 bytes BLAKE2b
 *	'W' 01 u64 offset  the bytes from there on
 *	'W' 02             u8 1 | id, 36 bytes | u64 log index: the newest restore that took effect
 */
#include <errno.h>

#include "raftd/fsm/apply.h"
#include "raftd/fsm/copy/stage.h"
#include "raftd/fsm/table/table.h"

#define STAGE_VERSION 1
#define ID_BYTES 36
#define ABORT_CHUNKS 64			/* that one ABORT removes */
#define OP_BYTE(code_) ((uint8_t)(code_))	/* a code below 128 is one byte of msgpack */

enum stage_part { PART_HEAD, PART_CHUNK, PART_LAST };

static void
part_key(struct tkey *k, enum stage_part part)
{
	uint8_t byte = (uint8_t)part;

	TKEY(k, TBL_STAGE, span_of(&byte, 1));
}

void
stage_last_key(struct tkey *k)
{
	part_key(k, PART_LAST);
}

static void
chunk_key(struct tkey *k, uint64_t offset)
{
	part_key(k, PART_CHUNK);
	tkey_u64(k, offset);
}

static bool
head_read(struct span val, struct fsm_stage *s)
{
	struct rd r = rd_span_over(val);
	uint8_t version = rd_u8(&r);
	struct span id, sum;

	s->aborting = rd_u8(&r) != 0;
	id = rd_bytes(&r, ID_BYTES);
	s->bytes = rd_u64be(&r);
	s->received = rd_u64be(&r);
	sum = rd_bytes(&r, sizeof(s->checksum));
	if (r.err != TV_OK || version != STAGE_VERSION || !span_copy(id, s->id, sizeof(s->id)))
		return false;
	memcpy(s->checksum, sum.p, sizeof(s->checksum));
	return true;
}

bool
stage_now(struct fsm *f, struct fsm_stage *out)
{
	struct tkey k;
	struct span val;

	part_key(&k, PART_HEAD);
	if (!tbl_peek(f, &k, &val))
		return false;
	if (!head_read(val, out))
		f->failed = DB_VERIFY_BAD;
	return f->failed == 0;
}

static void
head_write(struct fsm *f, const struct fsm_stage *s)
{
	struct tkey k;
	struct buf *b = &f->pack;

	f->facts |= FACT_STAGE;
	buf_reset(b);
	buf_u8(b, STAGE_VERSION);
	buf_u8(b, s->aborting);
	buf_put(b, s->id, ID_BYTES);
	buf_u64be(b, s->bytes);
	buf_u64be(b, s->received);
	buf_put(b, s->checksum, sizeof(s->checksum));
	part_key(&k, PART_HEAD);
	if (b->failed)
		f->failed = ENOMEM;
	else
		tbl_put(f, &k, buf_span(b));
}

bool
stage_last(struct fsm *f, char id[37], uint64_t *index)
{
	struct tkey k;
	struct span val;
	struct rd r;

	stage_last_key(&k);
	if (!tbl_peek(f, &k, &val))
		return false;
	r = rd_span_over(val);
	if (rd_u8(&r) != STAGE_VERSION || !span_copy(rd_bytes(&r, ID_BYTES), id, 37))
		rd_fail(&r, TV_EFORMAT);
	*index = rd_u64be(&r);
	return r.err == TV_OK;
}

/* -- entries -- */

static void
stage_begin_apply(struct apply *p, const void *rec)
{
	const struct restore_step *q = rec;
	struct fsm_stage s = { .bytes = q->Bytes };

	if (q->ID.len != ID_BYTES || !span_copy(q->ID, s.id, sizeof(s.id)) || q->Bytes == 0 ||
	    q->Checksum.len != sizeof(s.checksum)) {
		apply_fail(p, TV_EINVAL, "malformed restore");
	} else if (stage_now(p->f, &(struct fsm_stage){ 0 })) {
		apply_fail(p, TV_ECONFLICT, "another restore is under way");
	} else {
		memcpy(s.checksum, q->Checksum.p, sizeof(s.checksum));
		head_write(p->f, &s);
		apply_bool(p, true);
	}
}

static void
stage_chunk_apply(struct apply *p, const void *rec)
{
	const struct restore_step *q = rec;
	struct fsm_stage s;
	struct tkey k;

	if (!stage_now(p->f, &s) || !span_eqs(q->ID, s.id) || s.aborting) {
		apply_fail(p, TV_ECONFLICT, "no such restore is under way");
	} else if (q->Data.len == 0 || q->Data.len > STAGE_CHUNK_BYTES_MAX || q->Offset > s.received) {
		apply_fail(p, TV_EINVAL, "malformed restore");
	} else if (q->Offset < s.received) {
		apply_bool(p, true);		/* sent again because its outcome was not known */
	} else if (q->Data.len > s.bytes - s.received) {
		apply_fail(p, TV_EINVAL, "a restore is larger than announced");
	} else {
		chunk_key(&k, s.received);
		tbl_put(p->f, &k, q->Data);
		s.received += q->Data.len;
		head_write(p->f, &s);
		apply_bool(p, true);
	}
}

/* Only when nothing of this id can be taken: else the entry never comes here. */
static void
stage_commit_apply(struct apply *p, const void *rec UNUSED)
{
	apply_fail(p, TV_ECONFLICT, "the restore was abandoned before it was complete");
}

static void
stage_abort_apply(struct apply *p, const void *rec)
{
	const struct restore_step *q = rec;
	struct fsm *f = p->f;
	struct span keys[ABORT_CHUNKS];
	struct fsm_stage s;
	struct tkey prefix, k;
	uint32_t n;

	if (!stage_now(f, &s) || !span_eqs(q->ID, s.id)) {
		apply_bool(p, true);
		return;
	}
	part_key(&prefix, PART_CHUNK);
	n = tbl_keys(f, &prefix, &f->work, keys, ABORT_CHUNKS);
	for (uint32_t i = 0; i < n; i++) {
		tbl_key_of(&k, keys[i]);
		(void)tbl_del(f, &k);		/* it is there */
	}
	if (n == ABORT_CHUNKS) {
		s.aborting = true;
		head_write(f, &s);
	} else {
		part_key(&k, PART_HEAD);
		(void)tbl_del(f, &k);
		f->facts |= FACT_STAGE;
	}
	apply_bool(p, n < ABORT_CHUNKS);
}

bool
fsm_is_restore(const struct raft_entry *e, char id[37])
{
	struct rd r = rd_over(e->payload, e->size);
	struct restore_step rec = { .ID = SPAN_NONE };
	struct arena none = ARENA_INIT(0);

	/* Asked of every entry: two bytes tell nearly all. */
	if (e->type != RAFT_ENTRY_OP || e->size < 2 || e->payload[0] != 0x92 ||
	    e->payload[1] != OP_BYTE(OP_RESTORE_COMMIT))
		return false;
	rd_bytes(&r, 2);
	return schema_unpack(&restore_step_schema, &r, &none, &rec) == TV_OK && rec.ID.len == ID_BYTES &&
	    span_copy(rec.ID, id, 37);
}

/* -- for loading -- */

/* Between begin and end. */
static enum tv_err
look_whole(struct fsm *r, const char *id, struct fsm_stage *out)
{
	bool whole;

	if (r->owner->failed != 0)
		return TV_ESYS;
	whole = stage_now(r, out) && strcmp(out->id, id) == 0 && !out->aborting && out->received == out->bytes;
	return r->failed != 0 ? fsm_read_err(r) : whole ? TV_OK : TV_ENOENT;
}

enum tv_err
stage_whole(struct fsm *r, const char *id, struct fsm_stage *out)
{
	enum tv_err err;

	fsm_read_begin(r, false);
	err = look_whole(r, id, out);
	fsm_read_end(r);
	return err;
}

/* What is read one after the other may be of different batches: it was there, if all of it still is. */
static enum tv_err
read_chunk(struct fsm *r, const char *id, uint64_t offset, struct buf *out)
{
	struct fsm_stage s;
	struct tkey k;
	struct span val;
	enum tv_err err = look_whole(r, id, &s);
	bool found;

	if (err != TV_OK || offset == s.bytes)
		return err;
	chunk_key(&k, offset);
	found = tbl_peek(r, &k, &val);
	if (found)
		buf_putspan(out, val);
	err = look_whole(r, id, &s);
	return err != TV_OK ? err : out->failed ? TV_ENOMEM : found ? TV_OK : TV_ECORRUPT;
}

enum tv_err
stage_chunk(struct fsm *r, const char *id, uint64_t offset, struct buf *out)
{
	enum tv_err err;

	buf_reset(out);
	fsm_read_begin(r, false);
	err = read_chunk(r, id, offset, out);
	fsm_read_end(r);
	return err;
}

const struct fsm_op stage_ops[] = {
	{ OP_RESTORE_BEGIN, .apply = stage_begin_apply },
	{ OP_RESTORE_CHUNK, .apply = stage_chunk_apply },
	{ OP_RESTORE_COMMIT, .apply = stage_commit_apply },
	{ OP_RESTORE_ABORT, .apply = stage_abort_apply },
	{ 0 },
};
