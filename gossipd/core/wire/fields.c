/* Table-driven writer and reader of wire objects. */
#include "gossipd/core/wire/fields.h"

/* -- writer --------------------------------------------------------------- */

static uint64_t
load_uint(const void *p, unsigned size)
{
	switch (size) {
	case 1:
		return *(const uint8_t *)p;
	case 2:
		return *(const uint16_t *)p;
	case 4:
		return *(const uint32_t *)p;
	default:
		return *(const uint64_t *)p;
	}
}

static void
store_uint(void *p, unsigned size, uint64_t v)
{
	switch (size) {
	case 1:
		*(uint8_t *)p = (uint8_t)v;
		break;
	case 2:
		*(uint16_t *)p = (uint16_t)v;
		break;
	case 4:
		*(uint32_t *)p = (uint32_t)v;
		break;
	default:
		*(uint64_t *)p = v;
	}
}

static bool
left_out(const struct field *f, const void *p)
{
	if (!f->omit)
		return false;
	if (f->kind == FIELD_UINT)
		return load_uint(p, f->size) == 0;
	return ((const struct span *)p)->len == 0;
}

static void
write_value(struct buf *b, const struct field *f, const void *p)
{
	const struct span *s = p;

	switch (f->kind) {
	case FIELD_UINT:
		mpw_uint(b, load_uint(p, f->size));
		break;
	case FIELD_I64:
		mpw_int(b, *(const int64_t *)p);
		break;
	case FIELD_BOOL:
		mpw_bool(b, *(const bool *)p);
		break;
	case FIELD_F64:
		mpw_f64(b, *(const double *)p);
		break;
	case FIELD_STR:
		mpw_raw(b, *s);
		break;
	case FIELD_BIN: case FIELD_ADDR: case FIELD_VSN:
		if (s->p == NULL)
			mpw_nil(b);
		else
			mpw_raw(b, *s);
		break;
	case FIELD_LIST: case FIELD_DICT:
		if (s->p == NULL)
			mpw_nil(b);
		else
			buf_putspan(b, *s);
		break;
	case FIELD_OBJECT:
		fields_write(b, f->sub, p);
		break;
	}
}

void
fields_write(struct buf *b, const struct field_table *t, const void *object)
{
	uint32_t count = 0;

	for (unsigned i = 0; i < t->count; i++)
		count += !left_out(&t->fields[i], (const uint8_t *)object + t->fields[i].off);
	mpw_map(b, count);
	for (unsigned i = 0; i < t->count; i++) {
		const struct field *f = &t->fields[i];
		const void *p = (const uint8_t *)object + f->off;

		if (left_out(f, p))
			continue;
		mpw_raw(b, span_of(f->key, f->key_len));
		write_value(b, f, p);
	}
}

void
fields_put(struct buf *b, uint8_t type, const struct field_table *t, const void *object)
{
	buf_u8(b, type);
	fields_write(b, t, object);
}

/* -- reader --------------------------------------------------------------- */

/* Bytes that a peer wrote as an array of integers; the copy lives in the arena. */
static struct span
read_byte_array(struct rd *r, struct arena *a, size_t max)
{
	uint32_t n = mpr_array(r);
	uint8_t *copy;

	if (r->err != TV_OK)
		return SPAN_NONE;
	copy = a == NULL || n > max ? NULL : arena_alloc(a, n);
	if (copy == NULL) {
		rd_fail(r, TV_ELIMIT);
		return SPAN_NONE;
	}
	for (uint32_t i = 0; i < n; i++)
		copy[i] = (uint8_t)mpr_uint(r, UINT8_MAX);
	return span_of(copy, n);
}

/* The bytes of one array or map, header included. */
static struct span
read_nested(struct rd *r, enum mp_type want)
{
	if (mpr_nil(r))
		return SPAN_NONE;
	if (mpr_peek(r) != want) {
		rd_fail(r, TV_EFORMAT);
		return SPAN_NONE;
	}
	return mpr_value(r);
}

/* An address is empty or that of an IP family; a version vector is empty or has all six places. */
static bool
length_ok(enum field_kind kind, size_t len)
{
	if (kind == FIELD_ADDR)
		return len == 0 || len == 4 || len == 16;
	return kind != FIELD_VSN || len == 0 || len >= FIELD_VSN_BYTES_MIN;
}

static uint64_t
uint_max(unsigned size)
{
	return size == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * size)) - 1;
}

static void
read_value(struct rd *r, const struct field *f, struct arena *a, void *p)
{
	struct span *s = p;

	switch (f->kind) {
	case FIELD_UINT:
		store_uint(p, f->size, mpr_nil(r) ? 0 : mpr_uint(r, uint_max(f->size)));
		break;
	case FIELD_I64:
		*(int64_t *)p = mpr_nil(r) ? 0 : mpr_int(r);
		break;
	case FIELD_BOOL:
		*(bool *)p = mpr_nil(r) ? false : mpr_bool(r);
		break;
	case FIELD_F64:
		*(double *)p = mpr_nil(r) ? 0 : mpr_f64(r);
		break;
	case FIELD_STR:
		*s = mpr_bytes_or_nil(r, f->max);
		break;
	case FIELD_BIN: case FIELD_ADDR: case FIELD_VSN:
		*s = mpr_peek(r) == MP_ARRAY ? read_byte_array(r, a, f->max) : mpr_bytes_or_nil(r, f->max);
		if (!length_ok(f->kind, s->len))
			rd_fail(r, TV_EFORMAT);
		break;
	case FIELD_LIST:
		*s = read_nested(r, MP_ARRAY);
		break;
	case FIELD_DICT:
		*s = read_nested(r, MP_MAP);
		break;
	case FIELD_OBJECT:
		fields_read(r, f->sub, a, p);
		break;
	}
}

/* Peers write the keys in the order of the table, or nearly so: the search starts where the last one ended. */
static const struct field *
field_named(const struct field_table *t, struct span key, unsigned *next)
{
	for (unsigned i = 0, at = *next; i < t->count; i++, at++) {
		const struct field *f = &t->fields[at < t->count ? at : (at = 0)];

		if (f->key_len != key.len || memcmp(f->key, key.p, key.len) != 0)
			continue;
		*next = at + 1;
		return f;
	}
	return NULL;
}

static const struct field *
field_at(const struct field_table *t, uint32_t pos)
{
	for (unsigned i = 0; i < t->count; i++)
		if (t->fields[i].pos == pos)
			return &t->fields[i];
	return NULL;
}

static void
read_into(struct rd *r, const struct field *f, struct arena *a, void *object)
{
	if (f == NULL)
		mpr_skip(r);
	else
		read_value(r, f, a, (uint8_t *)object + f->off);
}

enum tv_err
fields_read(struct rd *r, const struct field_table *t, struct arena *a, void *object)
{
	unsigned next = 0;
	uint32_t n;

	memset(object, 0, t->size);
	if (mpr_nil(r))
		return TV_OK;
	if (mpr_peek(r) == MP_ARRAY) {
		n = mpr_array(r);
		for (uint32_t i = 0; i < n && r->err == TV_OK; i++)
			read_into(r, field_at(t, i), a, object);
		return r->err;
	}
	n = mpr_map(r);
	for (uint32_t i = 0; i < n && r->err == TV_OK; i++) {
		struct span key = mpr_bytes(r, SIZE_MAX);

		if (r->err == TV_OK)
			read_into(r, field_named(t, key, &next), a, object);
	}
	return r->err;
}

enum tv_err
fields_get(struct span body, const struct field_table *t, struct arena *a, void *object)
{
	struct rd r = rd_span_over(body);

	return fields_read(&r, t, a, object);
}
