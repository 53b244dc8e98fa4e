/* LZW in the variant of the gossip wire. */
#include "common/base/assert.h"
#include "gossipd/core/wire/lzw.h"

#define CLEAR 256u
#define END 257u
#define WIDTH_FIRST 9u
#define WIDTH_MAX 12u
#define OVER_FIRST (1u << WIDTH_FIRST)
#define HI_LAST (LZW_CODES - 1)

/* -- writer --------------------------------------------------------------- */

struct writer {
	struct buf *out;
	struct lzw_table *table;
	uint32_t bits;			/* not yet written, low bits first */
	unsigned nbits;
	unsigned width, hi, over;	/* hi: the last code number in use */
};

static void
emit(struct writer *w, uint32_t code)
{
	w->bits |= code << w->nbits;
	w->nbits += w->width;
	while (w->nbits >= 8) {
		buf_u8(w->out, (uint8_t)w->bits);
		w->bits >>= 8;
		w->nbits -= 8;
	}
}

static void
writer_reset(struct writer *w)
{
	w->width = WIDTH_FIRST;
	w->hi = END;
	w->over = OVER_FIRST;
	memset(w->table, 0, sizeof(*w->table));
}

/* Counts one more code; true when that filled the table and it was cleared. */
static bool
bump(struct writer *w)
{
	w->hi++;
	if (w->hi == w->over) {
		w->width++;
		w->over *= 2;
	}
	if (w->hi != HI_LAST)
		return false;
	emit(w, CLEAR);
	writer_reset(w);
	return true;
}

/*
 * The slot of prefix+byte, or the free one where it belongs.  A slot holds
 * 12 bits prefix, 8 bits byte, 12 bits code; no code is 0, so 0 means free.
 */
static uint32_t *
slot_of(struct lzw_table *t, uint32_t prefix, uint8_t byte)
{
	uint32_t key = prefix << 8 | byte;
	uint32_t at = (key * 2654435761u) >> 19;	/* 13 bits: LZW_SLOTS */

	while (t->slot[at] != 0 && t->slot[at] >> 12 != key)
		at = (at + 1) % LZW_SLOTS;
	return &t->slot[at];
}

void
lzw_encode(struct lzw_table *t, struct span in, struct buf *out)
{
	struct writer w = { .out = out, .table = t };
	uint32_t code;

	writer_reset(&w);
	emit(&w, CLEAR);
	if (in.len > 0) {
		code = in.p[0];
		for (size_t i = 1; i < in.len; i++) {
			uint32_t *slot = slot_of(t, code, in.p[i]);

			if (*slot != 0) {
				code = *slot & 0xfff;
				continue;
			}
			emit(&w, code);
			if (!bump(&w))
				*slot = code << 20 | (uint32_t)in.p[i] << 12 | w.hi;
			code = in.p[i];
		}
		emit(&w, code);
		bump(&w);
	}
	emit(&w, END);
	if (w.nbits > 0)
		buf_u8(out, (uint8_t)w.bits);
}

/* -- reader --------------------------------------------------------------- */

struct bits {
	const uint8_t *p, *end;
	uint32_t acc;
	unsigned nbits;
};

/* The next code, or -1 when the input has run out. */
static int
take_code(struct bits *b, unsigned width)
{
	int code;

	while (b->nbits < width) {
		if (b->p == b->end)
			return -1;
		b->acc |= (uint32_t)*b->p++ << b->nbits;
		b->nbits += 8;
	}
	code = (int)(b->acc & ((1u << width) - 1));
	b->acc >>= width;
	b->nbits -= width;
	return code;
}

/*
 * Where each code's string stands in the output: a string is always what its
 * predecessor put out and one byte more, and those bytes lie side by side.
 */
struct strings {
	uint32_t from[LZW_CODES];
	uint32_t len[LZW_CODES];
};

struct reader {
	struct bits bits;
	struct strings strings;
	unsigned width, hi, over;	/* hi: the code about to be defined */
	bool have_last;
	uint32_t last_from, last_len;	/* what the last code put out */
};

static void
reader_reset(struct reader *r)
{
	r->width = WIDTH_FIRST;
	r->hi = END;
	r->over = OVER_FIRST;
	r->have_last = false;
}

/* After each code: defines the next entry's number and widens the codes. */
static void
advance(struct reader *r)
{
	r->have_last = true;
	if (++r->hi < r->over)
		return;
	if (r->width == WIDTH_MAX) {
		r->hi--;			/* full: no more entries until a clear */
		r->have_last = false;
		return;
	}
	r->width++;
	r->over *= 2;
}

/* Puts out a string that begins at `from`; it may run into the bytes that it writes. */
static void
copy_up(uint8_t *out, size_t at, size_t from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[at + i] = out[from + i];
}

/* Takes one code that is neither clear nor end; out may be NULL to only measure. */
static enum tv_err
put_code(struct reader *r, unsigned code, uint8_t *out, size_t cap, size_t *at)
{
	uint32_t n = 1;

	if (code > r->hi)
		return TV_EFORMAT;
	if (r->have_last) {
		r->strings.from[r->hi] = r->last_from;
		r->strings.len[r->hi] = r->last_len + 1;
	}
	if (code > END)
		n = r->strings.len[code];
	if (n > cap - *at)
		return TV_ELIMIT;
	if (out != NULL && code < CLEAR)
		out[*at] = (uint8_t)code;
	else if (out != NULL)
		copy_up(out, *at, r->strings.from[code], n);
	r->last_from = (uint32_t)*at;
	r->last_len = n;
	*at += n;
	advance(r);
	return TV_OK;
}

static enum tv_err
expand(struct span in, uint8_t *out, size_t cap, size_t *len)
{
	struct reader r;
	enum tv_err err = TV_OK;

	r.bits = (struct bits){ in.p, in.p + in.len, 0, 0 };
	reader_reset(&r);
	*len = 0;
	while (err == TV_OK) {
		int code = take_code(&r.bits, r.width);

		if (code < 0)
			return TV_EOF;
		if (code == (int)END)
			return TV_OK;
		if (code == (int)CLEAR)
			reader_reset(&r);
		else
			err = put_code(&r, (unsigned)code, out, cap, len);
	}
	return err;
}

enum tv_err
lzw_size(struct span in, size_t max, size_t *size)
{
	return expand(in, NULL, max < UINT32_MAX ? max : UINT32_MAX, size);
}

enum tv_err
lzw_decode(struct span in, uint8_t *out, size_t cap, size_t *len)
{
	TV_ASSERT(out != NULL);
	return expand(in, out, cap < UINT32_MAX ? cap : UINT32_MAX, len);
}
