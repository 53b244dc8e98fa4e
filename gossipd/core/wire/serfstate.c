/* Serf's push/pull state, tags and coordinates: the formats with lists inside.  See serfwire.h. */
#include <math.h>

#include "gossipd/core/wire/serfwire.h"

/* -- push/pull state -------------------------------------------------------- */

/* Pairs of a map; SPAN_NONE and nil are empty ones. */
static uint32_t
open_map(struct rd *r)
{
	return rd_left(r) == 0 || mpr_nil(r) ? 0 : mpr_map(r);
}

/* End of a walk: EOF, or the error that stopped it. */
static enum tv_err
walk_end(const struct rd *r)
{
	return r->err == TV_OK ? TV_EOF : TV_EFORMAT;
}

struct serf_status_iter
serf_statuses(struct span map)
{
	struct serf_status_iter it = { rd_span_over(map), 0 };

	it.left = open_map(&it.rd);
	return it;
}

enum tv_err
serf_status_next(struct serf_status_iter *it, struct span *name, uint64_t *ltime)
{
	if (it->left == 0)
		return walk_end(&it->rd);
	it->left--;
	*name = mpr_bytes(&it->rd, WIRE_NAME_BYTES_MAX);
	*ltime = mpr_nil(&it->rd) ? 0 : mpr_uint(&it->rd, UINT64_MAX);
	if (it->rd.err == TV_OK)
		return TV_OK;
	it->left = 0;
	return TV_EFORMAT;
}

/* Takes one object of the walk. */
static enum tv_err
next_object(struct serf_list *it, const struct field_table *t, struct arena *a, void *m)
{
	it->left--;
	if (fields_read(&it->rd, t, a, m) == TV_OK)
		return TV_OK;
	it->left = 0;
	return TV_EFORMAT;
}

enum tv_err
serf_slot_next(struct serf_list *it, struct arena *a, struct serf_slot *out)
{
	while (it->left > 0 && mpr_nil(&it->rd))
		it->left--;
	return it->left == 0 ? walk_end(&it->rd) : next_object(it, &serf_slot_table, a, out);
}

enum tv_err
serf_item_next(struct serf_list *it, struct arena *a, struct serf_event_item *out)
{
	return it->left == 0 ? walk_end(&it->rd) : next_object(it, &serf_event_item_table, a, out);
}

void
serf_state_begin(struct buf *b, uint64_t event_ltime, uint32_t slots)
{
	buf_u8(b, SERF_PUSH_PULL);
	mpw_map(b, 6);
	mpw_raw_cstr(b, "EventLTime");
	mpw_uint(b, event_ltime);
	mpw_raw_cstr(b, "Events");
	mpw_array(b, slots);
}

void
serf_state_nil(struct buf *b)
{
	mpw_nil(b);
}

void
serf_state_slot(struct buf *b, uint64_t ltime, const struct serf_event_item *items, uint32_t count)
{
	mpw_map(b, 2);
	mpw_raw_cstr(b, "Events");
	mpw_array(b, count);
	for (uint32_t i = 0; i < count; i++)
		fields_write(b, &serf_event_item_table, &items[i]);
	mpw_raw_cstr(b, "LTime");
	mpw_uint(b, ltime);
}

void
serf_state_left(struct buf *b, uint64_t ltime, uint32_t count)
{
	mpw_raw_cstr(b, "LTime");
	mpw_uint(b, ltime);
	mpw_raw_cstr(b, "LeftMembers");
	mpw_array(b, count);
}

void
serf_state_statuses(struct buf *b, uint64_t query_ltime, uint32_t count)
{
	mpw_raw_cstr(b, "QueryLTime");
	mpw_uint(b, query_ltime);
	mpw_raw_cstr(b, "StatusLTimes");
	mpw_map(b, count);
}

void
serf_state_status(struct buf *b, struct span name, uint64_t ltime)
{
	mpw_raw(b, name);
	mpw_uint(b, ltime);
}

/* -- tags ---------------------------------------------------------------------- */

struct serf_tags
serf_map_tags(struct span map)
{
	struct serf_tags it = { rd_span_over(map), 0, SPAN_NONE };

	it.left = open_map(&it.rd);
	return it;
}

struct serf_tags
serf_meta_tags(struct span meta)
{
	struct serf_tags it = { rd_over(NULL, 0), 0, SPAN_NONE };

	if (meta.len == 0)
		return it;
	if (meta.p[0] == SERF_META_MAGIC) {
		it = serf_map_tags(span_of(meta.p + 1, meta.len - 1));
		if (meta.len == 1)
			rd_fail(&it.rd, TV_EFORMAT);
		return it;
	}
	it.role = meta;
	it.left = 1;
	return it;
}

enum tv_err
serf_tags_next(struct serf_tags *it, struct span *name, struct span *value)
{
	if (it->left == 0)
		return walk_end(&it->rd);
	it->left--;
	if (it->role.len > 0) {
		*name = span_str("role");
		*value = it->role;
		return TV_OK;
	}
	*name = mpr_bytes(&it->rd, WIRE_META_BYTES_MAX);
	*value = mpr_bytes_or_nil(&it->rd, WIRE_META_BYTES_MAX);
	if (it->rd.err == TV_OK)
		return TV_OK;
	it->left = 0;
	return TV_EFORMAT;
}

bool
serf_meta_ok(struct span meta)
{
	struct serf_tags it = serf_meta_tags(meta);
	struct span name, value;
	unsigned count = 0;
	enum tv_err err;

	while ((err = serf_tags_next(&it, &name, &value)) == TV_OK)
		if (++count > MEMBER_TAGS_MAX)
			return false;
	return err == TV_EOF && meta.len <= WIRE_META_BYTES_MAX;
}

enum tv_err
serf_put_meta(struct buf *b, const struct member_tag *tags, uint32_t count)
{
	size_t from = b->len;

	if (count > MEMBER_TAGS_MAX)
		return TV_ELIMIT;
	buf_u8(b, SERF_META_MAGIC);
	mpw_map(b, count);
	for (uint32_t i = 0; i < count; i++) {
		mpw_raw(b, tags[i].name);
		mpw_raw(b, tags[i].value);
	}
	if (b->failed)
		return TV_ENOMEM;
	if (b->len - from <= WIRE_META_BYTES_MAX)
		return TV_OK;
	b->len = from;
	return TV_ELIMIT;
}

/* -- coordinates ------------------------------------------------------------------ */

/* The map; the vector is written and read apart. */
FIELDS_LOCAL(coord_map,
	(F64, adjustment, "Adjustment", 2),
	(F64, error, "Error", 1),
	(F64, height, "Height", 3),
	(LIST, vec, "Vec", 0))

#define VEC_BYTES (1 + 9 * COORDINATE_DIMENSIONS)	/* of the msgpack array */

void
serf_put_coord(struct buf *b, const struct coordinate *c)
{
	uint8_t bytes[VEC_BYTES];
	struct buf vec = { bytes, 0, sizeof(bytes), sizeof(bytes), false, false };
	struct coord_map m = { .adjustment = c->adjustment, .error = c->error, .height = c->height };

	mpw_array(&vec, COORDINATE_DIMENSIONS);
	for (unsigned i = 0; i < COORDINATE_DIMENSIONS; i++)
		mpw_f64(&vec, c->vec[i]);
	m.vec = buf_span(&vec);
	buf_u8(b, SERF_COORD_VERSION);
	fields_write(b, &coord_map_table, &m);
}

static bool
coord_finite(const struct coordinate *c)
{
	for (unsigned i = 0; i < COORDINATE_DIMENSIONS; i++)
		if (!isfinite(c->vec[i]))
			return false;
	return isfinite(c->error) && isfinite(c->adjustment) && isfinite(c->height);
}

enum tv_err
serf_get_coord(struct span payload, struct coordinate *c)
{
	struct coord_map m;
	struct rd r, v;

	memset(c, 0, sizeof(*c));
	if (payload.len == 0 || payload.p[0] != SERF_COORD_VERSION)
		return TV_ENOENT;
	r = rd_over(payload.p + 1, payload.len - 1);
	if (fields_read(&r, &coord_map_table, NULL, &m) != TV_OK || m.vec.p == NULL)
		return TV_EFORMAT;
	v = rd_span_over(m.vec);
	if (mpr_array(&v) != COORDINATE_DIMENSIONS)
		return TV_EFORMAT;
	for (unsigned i = 0; i < COORDINATE_DIMENSIONS; i++)
		c->vec[i] = mpr_f64(&v);
	c->error = m.error;
	c->adjustment = m.adjustment;
	c->height = m.height;
	return v.err == TV_OK && coord_finite(c) ? TV_OK : TV_EFORMAT;
}
