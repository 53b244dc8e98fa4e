/*
 * Msgpack: copies any value with the typed readers and writers.  What was written must read back to
 * the same bytes, and skipping must go as far as reading.
 */
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/record/mpack.h"

#define COPY_BYTES_MAX (4u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void copy_value(struct rd *r, struct buf *out, unsigned depth);

static void
copy_items(struct rd *r, struct buf *out, uint64_t count, unsigned depth)
{
	for (uint64_t i = 0; i < count && r->err == TV_OK; i++)
		copy_value(r, out, depth + 1);
}

static void
copy_number(struct rd *r, struct buf *out, enum mp_type type)
{
	if (type == MP_UINT)
		mpw_uint(out, mpr_uint(r, UINT64_MAX));
	else if (type == MP_INT)
		mpw_int(out, mpr_int(r));
	else
		mpw_f64(out, mpr_f64(r));
}

static void
copy_value(struct rd *r, struct buf *out, unsigned depth)
{
	enum mp_type type = mpr_peek(r);
	uint32_t n;

	if ((type == MP_ARRAY || type == MP_MAP) && depth + 1 >= MP_DEPTH_MAX)
		type = MP_NONE;			/* as mpr_skip does */
	switch (type) {
	case MP_NIL:
		TV_ASSERT(mpr_nil(r));
		mpw_nil(out);
		break;
	case MP_BOOL:
		mpw_bool(out, mpr_bool(r));
		break;
	case MP_UINT:
	case MP_INT:
	case MP_FLOAT:
		copy_number(r, out, type);
		break;
	case MP_STR:
		mpw_str(out, mpr_bytes(r, COPY_BYTES_MAX));
		break;
	case MP_BIN:
		mpw_bin(out, mpr_bytes(r, COPY_BYTES_MAX));
		break;
	case MP_ARRAY:
		n = mpr_array(r);
		TV_ASSERT(n <= rd_left(r));
		mpw_array(out, n);
		copy_items(r, out, n, depth);
		break;
	case MP_MAP:
		n = mpr_map(r);
		TV_ASSERT(n <= rd_left(r) / 2);
		mpw_map(out, n);
		copy_items(r, out, 2 * (uint64_t)n, depth);
		break;
	default:			/* MP_EXT has no reader but skip */
		rd_fail(r, TV_EFORMAT);
	}
}

/* Readers of another type than the value's must fail or answer, never read on. */
static void
misread(const uint8_t *data, size_t size)
{
	struct rd r;

	r = rd_over(data, size), (void)mpr_uint(&r, 255);
	r = rd_over(data, size), (void)mpr_int(&r);
	r = rd_over(data, size), (void)mpr_bool(&r);
	r = rd_over(data, size), (void)mpr_f64(&r);
	r = rd_over(data, size), (void)mpr_bytes(&r, 16);
	r = rd_over(data, size), (void)mpr_bytes_or_nil(&r, 16);
	r = rd_over(data, size), (void)mpr_array(&r);
	r = rd_over(data, size), (void)mpr_map(&r);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf one = BUF_INIT(COPY_BYTES_MAX), two = BUF_INIT(COPY_BYTES_MAX);
	struct rd r = rd_over(data, size), skip = rd_over(data, size);

	misread(data, size);
	copy_value(&r, &one, 0);
	mpr_skip(&skip);
	if (r.err == TV_OK && !one.failed) {
		TV_ASSERT(skip.err == TV_OK && skip.p == r.p);
		r = rd_span_over(buf_span(&one));
		copy_value(&r, &two, 0);
		TV_ASSERT(rd_end(&r) == TV_OK && span_eq(buf_span(&one), buf_span(&two)));
	}
	buf_done(&one);
	buf_done(&two);
	return 0;
}
