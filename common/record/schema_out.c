/* Records as JSON, written straight from their msgpack: no struct, no allocation. */
#include "common/base/assert.h"
#include "common/record/mpack.h"
#include "common/record/schema.h"
#include "common/text/base64.h"
#include "common/text/duration.h"
#include "common/text/json_text.h"

/* A missing trailing field reads like nil, which every writer takes for the default. */
static const uint8_t nil_byte[1] = { 0xc0 };

static void
put_i64(int64_t v, struct buf *out)
{
	if (v < 0)
		buf_u8(out, '-');
	buf_decimal(out, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

/* Each writer takes one value and returns whether it was zero, empty or unset. */

static bool
json_str(const struct schema_field *f, struct rd *in, struct buf *out)
{
	struct span s = mpr_bytes_or_nil(in, SCHEMA_TEXT_BYTES_MAX);

	if (s.len == 0 && (f->flags & SF_NULLEMPTY))
		buf_puts(out, "null");
	else
		json_quote(s, out);
	return s.len == 0;
}

static bool
json_bin(const struct schema_field *f UNUSED, struct rd *in, struct buf *out)
{
	struct span s = mpr_bytes_or_nil(in, SCHEMA_TEXT_BYTES_MAX);

	if (s.len == 0) {
		buf_puts(out, "null");
		return true;
	}
	buf_u8(out, '"');
	base64_encode(s, out);
	buf_u8(out, '"');
	return false;
}

static bool
json_raw(const struct schema_field *f UNUSED, struct rd *in, struct buf *out)
{
	struct span s = mpr_bytes_or_nil(in, SCHEMA_TEXT_BYTES_MAX);

	if (s.len == 0)
		buf_puts(out, "null");
	else
		buf_putspan(out, s);
	return s.len == 0;
}

static bool
json_u64(const struct schema_field *f UNUSED, struct rd *in, struct buf *out)
{
	uint64_t v = mpr_nil(in) ? 0 : mpr_uint(in, UINT64_MAX);

	buf_decimal(out, v);
	return v == 0;
}

static bool
json_i64(const struct schema_field *f, struct rd *in, struct buf *out)
{
	int64_t v = mpr_nil(in) ? 0 : mpr_int(in);

	if (f->type == ST_DURATION && (f->flags & SF_DURTEXT)) {
		buf_u8(out, '"');
		duration_print(v, out);
		buf_u8(out, '"');
	} else {
		put_i64(v, out);
	}
	return v == 0;
}

static bool
json_bool(const struct schema_field *f UNUSED, struct rd *in, struct buf *out)
{
	bool v = mpr_nil(in) ? false : mpr_bool(in);

	buf_puts(out, v ? "true" : "false");
	return !v;
}

static bool
json_f64(const struct schema_field *f UNUSED, struct rd *in, struct buf *out)
{
	double v = mpr_nil(in) ? 0 : mpr_f64(in);

	json_number(v, out);
	return v == 0;
}

/* True when the object is absent. */
static bool
json_obj(const struct schema_field *f, struct rd *in, struct buf *out)
{
	bool absent = mpr_nil(in);
	struct rd none = rd_over(nil_byte, sizeof(nil_byte));

	if (absent && f->has != 0)
		buf_puts(out, "null");
	else
		(void)schema_json(f->sub, absent ? &none : in, out);	/* the reader keeps the error */
	return absent;
}

/* -- lists -- */

static void json_fields(const struct schema *s, unsigned from, struct rd *in, uint32_t left, struct buf *out);
static void json_bare(const struct schema_field *f, struct rd *in, uint32_t left, struct buf *out);

static void
item_str(const struct schema_field *f UNUSED, struct rd *in, struct buf *out)
{
	json_quote(mpr_bytes(in, SCHEMA_TEXT_BYTES_MAX), out);
}

static void
item_f64(const struct schema_field *f UNUSED, struct rd *in, struct buf *out)
{
	json_number(mpr_f64(in), out);
}

static void
item_pair(const struct schema_field *f, struct rd *in, struct buf *out)
{
	item_str(f, in, out);
	buf_u8(out, ':');
	item_str(f, in, out);
}

static void
item_obj(const struct schema_field *f, struct rd *in, struct buf *out)
{
	(void)schema_json(f->sub, in, out);	/* the reader keeps the error */
}

/* Its first field is its name. */
static void
item_named(const struct schema_field *f, struct rd *in, struct buf *out)
{
	struct rd again = *in;
	uint32_t fields = mpr_array(in);

	item_str(f, in, out);
	buf_u8(out, ':');
	if (f->flags & SF_KEYSHOWN) {
		*in = again;
		item_obj(f, in, out);
	} else if (f->flags & SF_BARE) {
		json_bare(&f->sub->fields[1], in, fields > 0 ? fields - 1 : 0, out);
	} else {
		json_fields(f->sub, 1, in, fields > 0 ? fields - 1 : 0, out);
	}
}

static const struct {
	char open, close;
	void (*item)(const struct schema_field *f, struct rd *in, struct buf *out);
} lists[] = {
	[ST_STRS] = { '[', ']', item_str },
	[ST_F64S] = { '[', ']', item_f64 },
	[ST_MAP] = { '{', '}', item_pair },
	[ST_OBJS] = { '[', ']', item_obj },
	[ST_OBJMAP] = { '{', '}', item_named },
};

static bool
json_list(const struct schema_field *f, struct rd *in, struct buf *out)
{
	bool absent = mpr_nil(in);
	uint32_t n = absent ? 0 : f->type == ST_MAP ? mpr_map(in) : mpr_array(in);

	if (absent && f->flags & SF_NULLEMPTY) {
		buf_puts(out, "null");
		return true;
	}
	buf_u8(out, (uint8_t)lists[f->type].open);
	for (uint32_t i = 0; i < n && in->err == TV_OK; i++) {
		if (i > 0)
			buf_u8(out, ',');
		lists[f->type].item(f, in, out);
	}
	buf_u8(out, (uint8_t)lists[f->type].close);
	return n == 0;
}

static bool
json_const(const struct schema_field *f, struct rd *in UNUSED, struct buf *out)
{
	if (f->text != NULL)
		buf_puts(out, f->text);
	return f->text == NULL;
}

static bool (*const writers[])(const struct schema_field *f, struct rd *in, struct buf *out) = {
	[ST_STR] = json_str,
	[ST_BIN] = json_bin,
	[ST_U64] = json_u64,
	[ST_I64] = json_i64,
	[ST_BOOL] = json_bool,
	[ST_F64] = json_f64,
	[ST_DURATION] = json_i64,
	[ST_STRS] = json_list,
	[ST_F64S] = json_list,
	[ST_MAP] = json_list,
	[ST_OBJ] = json_obj,
	[ST_OBJS] = json_list,
	[ST_OBJMAP] = json_list,
	[ST_JSON] = json_raw,
	[ST_CONST] = json_const,
};

/* One value, of a record of which it and `left` - 1 more are in the input. */
static void
json_bare(const struct schema_field *f, struct rd *in, uint32_t left, struct buf *out)
{
	struct rd none = rd_over(nil_byte, sizeof(nil_byte));

	(void)writers[f->type](f, left > 0 ? in : &none, out);
	while (left > 1 && in->err == TV_OK) {
		mpr_skip(in);
		left--;
	}
}

/* "Name":, in one piece.  Names need no escapes: check_ops looks. */
static void
put_name(const char *name, bool first, struct buf *out)
{
	size_t n = strlen(name);
	uint8_t *to = buf_room(out, n + 4);

	if (to == NULL)
		return;
	if (!first)
		*to++ = ',';
	*to++ = '"';
	memcpy(to, name, n);
	memcpy(to + n, "\":", 2);
	out->len += n + (first ? 3 : 4);
}

/* The object, from field `from` on, of which `left` values are in the input. */
static void
json_fields(const struct schema *s, unsigned from, struct rd *in, uint32_t left, struct buf *out)
{
	bool first = true;

	buf_u8(out, '{');
	for (unsigned i = from; i < s->count && in->err == TV_OK; i++) {
		const struct schema_field *f = &s->fields[i];
		struct rd none = rd_over(nil_byte, sizeof(nil_byte));
		bool here = f->type != ST_CONST && left > 0;
		size_t before = out->len;

		left -= here;
		put_name(f->name, first, out);
		bool empty = writers[f->type](f, here ? in : &none, out);
		bool shown = !(f->flags & SF_HIDDEN) && !(empty && (f->flags & SF_OMITEMPTY)) &&
		    !(f->type == ST_CONST && f->text == NULL);
		if (shown)
			first = false;
		else if (!out->failed)
			out->len = before;
	}
	for (; left > 0 && in->err == TV_OK; left--)
		mpr_skip(in);			/* appended by a newer version */
	buf_u8(out, '}');
}

enum tv_err
schema_json(const struct schema *s, struct rd *in, struct buf *out)
{
	uint32_t left = mpr_nil(in) ? 0 : mpr_array(in);

	json_fields(s, 0, in, left, out);
	return in->err;
}

enum tv_err
schema_json_value(const struct schema_field *f, struct rd *in, struct buf *out)
{
	(void)writers[f->type](f, in, out);
	return in->err;
}

void
schema_json_rec(const struct schema *s, const void *rec, struct buf *out)
{
	struct buf packed = BUF_INIT(SCHEMA_TEXT_BYTES_MAX);

	packed.secret = out->secret;
	schema_pack(s, rec, &packed);
	struct rd in = rd_span_over(buf_span(&packed));
	if (packed.failed)
		out->failed = true;
	else
		TV_ASSERT(schema_json(s, &in, out) == TV_OK);
	buf_done(&packed);
}
