/* Growable buffer under a hard cap. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"

#define BUF_FIRST_BYTES 64
/*
 * A block of this size is a mapping of its own, of the C library: it grows without a copy, and freed it goes back to
 * the system, which clears it.  Nothing of a secret stays, and to overwrite so much would hold up the caller for long.
 */
#define BUF_MAPPED_BYTES (32u << 20)
/* Until then each step of a secret is a copy and a wipe.  A larger one takes a mapping: unwritten, it costs nothing. */
#define BUF_COPIED_BYTES (4u << 20)

void
buf_init(struct buf *b, size_t max)
{
	*b = BUF_INIT(max);
}

static void
wipe(struct buf *b)
{
	if (b->secret && b->cap > 0)
		explicit_bzero(b->data, b->cap);	/* also what a failed write has left */
}

void
buf_done(struct buf *b)
{
	bool secret = b->secret;

	if (b->cap < BUF_MAPPED_BYTES)
		wipe(b);
	free(b->data);
	*b = BUF_INIT(b->max);
	b->secret = secret;
}

void
buf_reset(struct buf *b)
{
	wipe(b);
	b->len = 0;
	b->failed = false;
}

/* realloc() would leave what it moves where it was, unless it moves pages. */
static uint8_t *
resize(struct buf *b, size_t cap)
{
	uint8_t *data;

	if (!b->secret || b->cap >= BUF_MAPPED_BYTES)
		return realloc(b->data, cap);
	data = malloc(cap);
	if (data == NULL)
		return NULL;
	if (b->len > 0)
		memcpy(data, b->data, b->len);
	wipe(b);
	free(b->data);
	return data;
}

static bool
grow(struct buf *b, size_t need)
{
	size_t cap = b->cap < BUF_FIRST_BYTES ? BUF_FIRST_BYTES : b->cap;
	uint8_t *data;

	if (need > b->max)
		return false;
	while (cap < need)
		cap = cap > SIZE_MAX / 2 ? need : cap * 2;
	if (b->secret && cap > BUF_COPIED_BYTES && cap < BUF_MAPPED_BYTES)
		cap = BUF_MAPPED_BYTES;
	if (cap > b->max)
		cap = b->max;
	data = resize(b, cap);
	if (data == NULL)
		return false;
	b->data = data;
	b->cap = cap;
	return true;
}

uint8_t *
buf_room(struct buf *b, size_t n)
{
	if (b->failed)
		return NULL;
	if (n > b->cap - b->len && (n > SIZE_MAX - b->len || !grow(b, b->len + n))) {
		b->failed = true;
		return NULL;
	}
	if (b->data == NULL && !grow(b, 1)) {
		b->failed = true;
		return NULL;
	}
	return b->data + b->len;
}

uint8_t *
buf_add(struct buf *b, size_t n)
{
	uint8_t *p = buf_room(b, n);

	if (p != NULL)
		b->len += n;
	return p;
}

void
buf_drop(struct buf *b, size_t n)
{
	size_t was = b->len;

	b->len = n < was ? was - n : 0;
	if (n > 0 && b->len > 0)
		memmove(b->data, b->data + n, b->len);
	if (b->secret && was > b->len)
		explicit_bzero(b->data + b->len, was - b->len);
}

struct span
buf_span(const struct buf *b)
{
	return span_of(b->data, b->len);
}

void
buf_put_slow(struct buf *b, const void *bytes, size_t n)
{
	uint8_t *p = buf_add(b, n);

	if (p != NULL)
		memcpy(p, bytes, n);
}

void
buf_decimal(struct buf *b, uint64_t v)
{
	uint8_t text[20];
	unsigned at = sizeof(text);

	do
		text[--at] = (uint8_t)('0' + v % 10);
	while ((v /= 10) != 0);
	buf_put(b, text + at, sizeof(text) - at);
}

void
buf_puts(struct buf *b, const char *text)
{
	buf_put(b, text, strlen(text));
}

void
buf_putspan(struct buf *b, struct span s)
{
	buf_put(b, s.p, s.len);
}

void
buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
	char small[256];
	va_list again;
	int n;
	uint8_t *p;

	va_copy(again, ap);
	n = vsnprintf(small, sizeof(small), fmt, ap);
	if (n < 0)
		b->failed = true;
	else if ((size_t)n < sizeof(small))
		buf_put(b, small, (size_t)n);
	else if ((p = buf_room(b, (size_t)n + 1)) != NULL) {
		vsnprintf((char *)p, (size_t)n + 1, fmt, again);
		b->len += (size_t)n;
	}
	va_end(again);
}

void
buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(b, fmt, ap);
	va_end(ap);
}

static void
put_be(struct buf *b, uint64_t v, size_t n)
{
	uint8_t *p = buf_add(b, n);

	if (p != NULL)
		for (size_t i = n; i-- > 0; v >>= 8)
			p[i] = (uint8_t)v;
}

static void
put_le(struct buf *b, uint64_t v, size_t n)
{
	uint8_t *p = buf_add(b, n);

	if (p != NULL)
		for (size_t i = 0; i < n; i++, v >>= 8)
			p[i] = (uint8_t)v;
}

void
buf_u16be(struct buf *b, uint16_t v)
{
	put_be(b, v, 2);
}

void
buf_u32be(struct buf *b, uint32_t v)
{
	put_be(b, v, 4);
}

void
buf_u64be(struct buf *b, uint64_t v)
{
	put_be(b, v, 8);
}

void
buf_u16le(struct buf *b, uint16_t v)
{
	put_le(b, v, 2);
}

void
buf_u32le(struct buf *b, uint32_t v)
{
	put_le(b, v, 4);
}

void
buf_u64le(struct buf *b, uint64_t v)
{
	put_le(b, v, 8);
}

const char *
buf_cstr(struct buf *b)
{
	uint8_t *p = buf_room(b, 1);

	if (p == NULL)
		return "";
	*p = '\0';
	return (const char *)b->data;
}
