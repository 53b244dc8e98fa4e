/* Msgpack writer and bounded reader.  Source: the msgpack specification; doc/wire.md for the gossip dialect. */
#include "common/record/mpack.h"

/* -- writer --------------------------------------------------------------- */

void
mpw_uint(struct buf *b, uint64_t v)
{
	if (v < 0x80) {
		buf_u8(b, (uint8_t)v);
	} else if (v <= UINT8_MAX) {
		buf_u8(b, 0xcc);
		buf_u8(b, (uint8_t)v);
	} else if (v <= UINT16_MAX) {
		buf_u8(b, 0xcd);
		buf_u16be(b, (uint16_t)v);
	} else if (v <= UINT32_MAX) {
		buf_u8(b, 0xce);
		buf_u32be(b, (uint32_t)v);
	} else {
		buf_u8(b, 0xcf);
		buf_u64be(b, v);
	}
}

void
mpw_int(struct buf *b, int64_t v)
{
	if (v >= 0) {
		mpw_uint(b, (uint64_t)v);
	} else if (v >= -32) {
		buf_u8(b, (uint8_t)v);
	} else if (v >= INT8_MIN) {
		buf_u8(b, 0xd0);
		buf_u8(b, (uint8_t)v);
	} else if (v >= INT16_MIN) {
		buf_u8(b, 0xd1);
		buf_u16be(b, (uint16_t)v);
	} else if (v >= INT32_MIN) {
		buf_u8(b, 0xd2);
		buf_u32be(b, (uint32_t)v);
	} else {
		buf_u8(b, 0xd3);
		buf_u64be(b, (uint64_t)v);
	}
}

void
mpw_bool(struct buf *b, bool v)
{
	buf_u8(b, v ? 0xc3 : 0xc2);
}

void
mpw_nil(struct buf *b)
{
	buf_u8(b, 0xc0);
}

void
mpw_f64(struct buf *b, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	buf_u8(b, 0xcb);
	buf_u64be(b, bits);
}

/* Header of the 16- or 32-bit form. */
static void
head_long(struct buf *b, uint8_t code16, size_t n)
{
	if (n <= UINT16_MAX) {
		buf_u8(b, code16);
		buf_u16be(b, (uint16_t)n);
	} else if (n <= UINT32_MAX) {
		buf_u8(b, code16 + 1);
		buf_u32be(b, (uint32_t)n);
	} else {
		b->failed = true;
	}
}

void
mpw_str(struct buf *b, struct span s)
{
	if (s.len >= 32 && s.len <= UINT8_MAX) {
		buf_u8(b, 0xd9);
		buf_u8(b, (uint8_t)s.len);
		buf_putspan(b, s);
	} else {
		mpw_raw(b, s);
	}
}

void
mpw_cstr(struct buf *b, const char *text)
{
	mpw_str(b, span_str(text));
}

void
mpw_bin(struct buf *b, struct span s)
{
	if (s.len <= UINT8_MAX) {
		buf_u8(b, 0xc4);
		buf_u8(b, (uint8_t)s.len);
	} else {
		head_long(b, 0xc5, s.len);
	}
	buf_putspan(b, s);
}

void
mpw_raw(struct buf *b, struct span s)
{
	if (s.len < 32)
		buf_u8(b, (uint8_t)(0xa0 | s.len));
	else
		head_long(b, 0xda, s.len);
	buf_putspan(b, s);
}

void
mpw_raw_cstr(struct buf *b, const char *text)
{
	mpw_raw(b, span_str(text));
}

void
mpw_array(struct buf *b, uint32_t count)
{
	if (count < 16)
		buf_u8(b, (uint8_t)(0x90 | count));
	else
		head_long(b, 0xdc, count);
}

void
mpw_map(struct buf *b, uint32_t count)
{
	if (count < 16)
		buf_u8(b, (uint8_t)(0x80 | count));
	else
		head_long(b, 0xde, count);
}

/* -- reader --------------------------------------------------------------- */

static enum mp_type
type_of(uint8_t c)
{
	static const uint8_t high[] = {		/* 0xc0..0xdf */
		MP_NIL, MP_BAD, MP_BOOL, MP_BOOL, MP_BIN, MP_BIN, MP_BIN, MP_EXT,
		MP_EXT, MP_EXT, MP_FLOAT, MP_FLOAT, MP_UINT, MP_UINT, MP_UINT, MP_UINT,
		MP_INT, MP_INT, MP_INT, MP_INT, MP_EXT, MP_EXT, MP_EXT, MP_EXT,
		MP_EXT, MP_STR, MP_STR, MP_STR, MP_ARRAY, MP_ARRAY, MP_MAP, MP_MAP,
	};

	if (c < 0x80)
		return MP_UINT;
	if (c < 0x90)
		return MP_MAP;
	if (c < 0xa0)
		return MP_ARRAY;
	if (c < 0xc0)
		return MP_STR;
	if (c < 0xe0)
		return (enum mp_type)high[c - 0xc0];
	return MP_INT;
}

enum mp_type
mpr_peek(const struct rd *r)
{
	return rd_left(r) == 0 ? MP_NONE : type_of(*r->p);
}

/* An integer of any width as sign and magnitude-free 64 bits. */
static uint64_t
read_integer(struct rd *r, bool *negative)
{
	uint8_t c = rd_u8(r);
	int64_t s = 0;

	*negative = false;
	if (c < 0x80)
		return c;
	switch (c) {
	case 0xcc:
		return rd_u8(r);
	case 0xcd:
		return rd_u16be(r);
	case 0xce:
		return rd_u32be(r);
	case 0xcf:
		return rd_u64be(r);
	case 0xd0:
		s = (int8_t)rd_u8(r);
		break;
	case 0xd1:
		s = (int16_t)rd_u16be(r);
		break;
	case 0xd2:
		s = (int32_t)rd_u32be(r);
		break;
	case 0xd3:
		s = (int64_t)rd_u64be(r);
		break;
	default:
		if (c >= 0xe0)
			s = (int8_t)c;
		else
			rd_fail(r, TV_EFORMAT);
	}
	*negative = s < 0;
	return (uint64_t)s;
}

uint64_t
mpr_uint(struct rd *r, uint64_t max)
{
	bool negative;
	uint64_t v = read_integer(r, &negative);

	if (negative || v > max)
		rd_fail(r, TV_EFORMAT);
	return r->err == TV_OK ? v : 0;
}

int64_t
mpr_int(struct rd *r)
{
	bool negative;
	uint64_t v = read_integer(r, &negative);

	if (!negative && v > INT64_MAX)
		rd_fail(r, TV_EFORMAT);
	return r->err == TV_OK ? (int64_t)v : 0;
}

bool
mpr_bool(struct rd *r)
{
	if (mpr_peek(r) == MP_BOOL)
		return rd_u8(r) == 0xc3;
	return mpr_uint(r, 1) == 1;
}

double
mpr_f64(struct rd *r)
{
	uint64_t bits;
	uint32_t bits32;
	double d;
	float f;

	switch (mpr_peek(r)) {
	case MP_FLOAT:
		if (rd_u8(r) == 0xca) {
			bits32 = rd_u32be(r);
			memcpy(&f, &bits32, sizeof(f));
			return (double)f;
		}
		bits = rd_u64be(r);
		memcpy(&d, &bits, sizeof(d));
		return d;
	default:
		return (double)mpr_int(r);
	}
}

/* Length of the str or bin that is next, header taken. */
static size_t
bytes_len(struct rd *r)
{
	uint8_t c = rd_u8(r);

	if (c >= 0xa0 && c < 0xc0)
		return c & 0x1f;
	switch (c) {
	case 0xc4: case 0xd9:
		return rd_u8(r);
	case 0xc5: case 0xda:
		return rd_u16be(r);
	case 0xc6: case 0xdb:
		return rd_u32be(r);
	default:
		rd_fail(r, TV_EFORMAT);
		return 0;
	}
}

struct span
mpr_bytes(struct rd *r, size_t max)
{
	size_t n = bytes_len(r);

	if (r->err == TV_OK && n > max)
		rd_fail(r, TV_ELIMIT);
	return rd_bytes(r, n);
}

struct span
mpr_bytes_or_nil(struct rd *r, size_t max)
{
	return mpr_nil(r) ? SPAN_NONE : mpr_bytes(r, max);
}

/* A count is believed only when `each` bytes per element could still follow. */
static uint32_t
checked_count(struct rd *r, uint32_t n, size_t each)
{
	if (r->err == TV_OK && n > rd_left(r) / each)
		rd_fail(r, TV_EOF);
	return r->err == TV_OK ? n : 0;
}

uint32_t
mpr_array(struct rd *r)
{
	uint8_t c = rd_u8(r);
	uint32_t n = 0;

	if (c >= 0x90 && c < 0xa0)
		n = c & 0x0f;
	else if (c == 0xdc)
		n = rd_u16be(r);
	else if (c == 0xdd)
		n = rd_u32be(r);
	else
		rd_fail(r, TV_EFORMAT);
	return checked_count(r, n, 1);
}

uint32_t
mpr_map(struct rd *r)
{
	uint8_t c = rd_u8(r);
	uint32_t n = 0;

	if (c >= 0x80 && c < 0x90)
		n = c & 0x0f;
	else if (c == 0xde)
		n = rd_u16be(r);
	else if (c == 0xdf)
		n = rd_u32be(r);
	else
		rd_fail(r, TV_EFORMAT);
	return checked_count(r, n, 2);
}

bool
mpr_nil(struct rd *r)
{
	if (mpr_peek(r) != MP_NIL)
		return false;
	r->p++;
	return true;
}

static void
skip_ext(struct rd *r)
{
	static const uint8_t fixed[] = { 2, 3, 5, 9, 17 };	/* type byte and data of 0xd4..0xd8 */
	uint8_t c = rd_u8(r);
	size_t n;

	if (c >= 0xd4 && c <= 0xd8) {
		rd_bytes(r, fixed[c - 0xd4]);
		return;
	}
	n = c == 0xc7 ? rd_u8(r) : c == 0xc8 ? rd_u16be(r) : rd_u32be(r);
	rd_u8(r);
	rd_bytes(r, n);
}

static void
skip_scalar(struct rd *r, enum mp_type type)
{
	bool negative;

	switch (type) {
	case MP_NIL: case MP_BOOL:
		rd_u8(r);
		break;
	case MP_UINT: case MP_INT:
		read_integer(r, &negative);
		break;
	case MP_FLOAT:
		mpr_f64(r);
		break;
	case MP_STR: case MP_BIN:
		mpr_bytes(r, SIZE_MAX);
		break;
	case MP_EXT:
		skip_ext(r);
		break;
	default:
		rd_fail(r, type == MP_NONE ? TV_EOF : TV_EFORMAT);
	}
}

void
mpr_skip(struct rd *r)
{
	uint64_t todo[MP_DEPTH_MAX];	/* values left at each level */
	unsigned depth = 0;

	todo[0] = 1;
	while (r->err == TV_OK) {
		enum mp_type type;

		while (todo[depth] == 0) {
			if (depth-- == 0)
				return;
		}
		todo[depth]--;
		type = mpr_peek(r);
		if (type != MP_ARRAY && type != MP_MAP) {
			skip_scalar(r, type);
			continue;
		}
		if (depth + 1 == MP_DEPTH_MAX) {
			rd_fail(r, TV_ELIMIT);
			return;
		}
		todo[++depth] = type == MP_ARRAY ? mpr_array(r) : 2 * (uint64_t)mpr_map(r);
	}
}

struct span
mpr_value(struct rd *r)
{
	const uint8_t *from = r->p;

	mpr_skip(r);
	return r->err == TV_OK ? span_of(from, (size_t)(r->p - from)) : SPAN_NONE;
}

enum tv_err
mpr_end(struct rd *r, uint32_t fields, uint32_t known)
{
	if (fields < known)
		rd_fail(r, TV_EFORMAT);
	for (uint32_t i = known; i < fields && r->err == TV_OK; i++)
		mpr_skip(r);
	return rd_end(r);
}
