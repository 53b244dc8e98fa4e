/*
 * The meta record: which entry the state is of, the index of each table, how many records it has.  Written with every
 * transaction, and at the head of every snapshot.
 *
 * Indexes and counts stand there beside the letters of their tables, so tables may come and go, and what belongs to a
 * table that this version does not know is passed over.  Up to version 3 they stood without letters, in an order that is
 * kept below; such a record is read, and written in the present form with the next entry.
 */
#include <errno.h>

#include "raftd/fsm/table/meta.h"
#include "raftd/fsm/table/table.h"

#define META_VERSION 4
#define META_LETTERS 4			/* version since which there are letters */

/* The tables whose numbers an older version wrote, in its order.  Version 1 had the first six of each, and no counts. */
static const char old_indexes[] = "KNSCXVGOT", old_tallies[] = "KTNSCXG";
#define META_V1_COUNT 6

/* The parts of a meta record. */
struct meta {
	uint64_t applied, term, index[FX_COUNT], tally[FT_COUNT], restored[FR_COUNT];
	uint8_t needs;			/* version of the state machine; at least 1 */
};

/* Where a table's number goes; NULL: to nowhere. */
static uint64_t *
place_of(struct meta *m, bool tally, uint8_t letter)
{
	const struct fsm_table *t = fsm_table_find(letter);

	if (t == NULL || (tally ? !t->counted : !t->indexed))
		return NULL;
	return tally ? &m->tally[t->tally] : &m->index[t->index];
}

/* What the record does not have stays 0; what belongs to no table of ours is skipped. */
static void
read_numbers(struct rd *r, uint8_t version, struct meta *m, bool tally)
{
	const char *old = tally ? old_tallies : old_indexes;
	unsigned n = version == 1 ? META_V1_COUNT : rd_u8(r);

	for (unsigned i = 0; i < n && r->err == TV_OK; i++) {
		uint8_t letter = version >= META_LETTERS ? rd_u8(r) : i < strlen(old) ? (uint8_t)old[i] : 0;
		uint64_t v = rd_u64be(r), *place = place_of(m, tally, letter);

		if (place != NULL)
			*place = v;
	}
}

/* version_max: of the state machine; one that needs more is of a version to come, and m->needs says which. */
static enum tv_err
meta_read(struct span val, uint8_t version_max, struct meta *m)
{
	struct rd r = rd_span_over(val);
	uint8_t version = rd_u8(&r), n = 0;

	memset(m, 0, sizeof(*m));
	m->needs = version;
	if (version > META_VERSION)
		return TV_EINVAL;		/* of a version to come */
	if (version < 1)
		return TV_ECORRUPT;
	m->applied = rd_u64be(&r);
	m->term = rd_u64be(&r);
	read_numbers(&r, version, m, false);
	read_numbers(&r, version, m, true);
	if (rd_left(&r) > 0)			/* since version 3 */
		n = rd_u8(&r);
	for (unsigned i = 0; i < n && r.err == TV_OK; i++) {
		uint64_t v = rd_u64be(&r);

		if (i < FR_COUNT)
			m->restored[i] = v;
	}
	m->needs = 1;
	if (version >= META_LETTERS && rd_left(&r) > 0)
		m->needs = rd_u8(&r);
	if (r.err == TV_OK && m->needs > version_max)
		return TV_EINVAL;
	/* What a later version adds behind that without a number of its own may be passed over. */
	return r.err == TV_OK && (version >= META_LETTERS || rd_left(&r) == 0) ? TV_OK : TV_ECORRUPT;
}

static void
meta_write(struct buf *b, const struct meta *m)
{
	buf_u8(b, META_VERSION);
	buf_u64be(b, m->applied);
	buf_u64be(b, m->term);
	buf_u8(b, FX_COUNT);
	for (unsigned i = 0; i < fsm_table_count; i++)
		if (fsm_tables[i].indexed) {
			buf_u8(b, (uint8_t)fsm_tables[i].letter);
			buf_u64be(b, m->index[fsm_tables[i].index]);
		}
	buf_u8(b, FT_COUNT);
	for (unsigned i = 0; i < fsm_table_count; i++)
		if (fsm_tables[i].counted) {
			buf_u8(b, (uint8_t)fsm_tables[i].letter);
			buf_u64be(b, m->tally[fsm_tables[i].tally]);
		}
	buf_u8(b, FR_COUNT);
	for (unsigned i = 0; i < FR_COUNT; i++)
		buf_u64be(b, m->restored[i]);
	buf_u8(b, m->needs);
}

void
meta_key(struct tkey *k)
{
	TKEY(k, TBL_META, span_str("state"));
}

enum tv_err
fsm_meta_is(struct span val, uint64_t index, uint64_t term)
{
	struct meta m;
	enum tv_err err = meta_read(val, FSM_VERSION, &m);

	return err == TV_OK && (m.applied != index || m.term != term) ? TV_ECORRUPT : err;
}

enum tv_err
fsm_load_meta(struct fsm *f)
{
	struct meta m = { .needs = 1 };
	enum tv_err err = TV_OK;
	struct tkey k;
	struct span val;

	meta_key(&k);
	if (tbl_peek(f, &k, &val))
		err = meta_read(val, f->opt.version, &m);
	f->applied = m.applied;
	f->needs = m.needs;
	f->applied_term = m.term;
	memcpy(f->index, m.index, sizeof(f->index));
	memcpy(f->tally, m.tally, sizeof(f->tally));
	memcpy(f->restored, m.restored, sizeof(f->restored));
	return f->failed != 0 ? store_env_err(f->env, f->failed) : err;
}

enum tv_err
fsm_meta_position(struct span val, uint64_t *index, uint8_t *needs)
{
	struct meta m;
	enum tv_err err = meta_read(val, FSM_VERSION, &m);

	*needs = m.needs;
	*index = m.applied + m.restored[FR_BASE];
	if (err == TV_OK && (m.applied > FSM_INDEX_MAX || m.restored[FR_BASE] > FSM_INDEX_MAX || *index > FSM_INDEX_MAX))
		err = TV_ECORRUPT;
	return err;
}

void
fsm_meta_of_restore(struct buf *b, uint64_t applied, uint64_t term, uint64_t at, uint8_t needs,
    const uint64_t tally[FT_COUNT])
{
	struct meta m = { .applied = applied, .term = term, .needs = needs };

	for (unsigned i = 0; i < FX_COUNT; i++)
		m.index[i] = at;
	memcpy(m.tally, tally, sizeof(m.tally));
	m.restored[FR_BASE] = at - applied;
	m.restored[FR_FLOOR] = at;
	meta_write(b, &m);
}

void
fsm_store_meta(struct fsm *f)
{
	struct meta m = { .applied = f->applied, .term = f->applied_term, .needs = f->needs };
	struct tkey k;
	struct buf *b = &f->pack;

	memcpy(m.index, f->index, sizeof(m.index));
	memcpy(m.tally, f->tally, sizeof(m.tally));
	memcpy(m.restored, f->restored, sizeof(m.restored));
	buf_reset(b);
	meta_write(b, &m);
	meta_key(&k);
	if (b->failed)
		f->failed = ENOMEM;
	else
		tbl_put(f, &k, buf_span(b));
}

void
fsm_count(struct fsm *f, enum fsm_tally which, int by)
{
	f->tally[which] = (uint64_t)((int64_t)f->tally[which] + by);
}

uint64_t
fsm_index_of(const struct fsm *f, enum fsm_index which)
{
	return f->index[which];
}

uint64_t
fsm_index_of_set(const struct fsm *f, uint64_t set)
{
	uint64_t highest = 0;

	for (unsigned i = 0; i < FX_COUNT; i++)
		if ((set >> i & 1) != 0 && f->index[i] > highest)
			highest = f->index[i];
	return highest;
}
