/* Bounded reader and spans. */
#include <stdlib.h>

#include "common/base/rd.h"

int
span_cmp(struct span a, struct span b)
{
	size_t n = a.len < b.len ? a.len : b.len;
	int d = n == 0 ? 0 : memcmp(a.p, b.p, n);

	if (d != 0)
		return d;
	return a.len < b.len ? -1 : a.len > b.len;
}

bool
span_starts(struct span s, struct span prefix)
{
	return s.len >= prefix.len && (prefix.len == 0 || memcmp(s.p, prefix.p, prefix.len) == 0);
}

uint8_t
ascii_lower(uint8_t c)
{
	return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

bool
span_eq_nocase(struct span a, struct span b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++)
		if (ascii_lower(a.p[i]) != ascii_lower(b.p[i]))
			return false;
	return true;
}

struct span
span_place(uint8_t **at, struct span s)
{
	struct span placed = { *at, s.len };

	if (s.p == NULL)
		return SPAN_NONE;
	memcpy(*at, s.p, s.len);
	*at += s.len;
	return placed;
}

bool
span_copy(struct span s, char *dst, size_t cap)
{
	if (cap == 0)
		return false;
	dst[0] = '\0';
	if (s.len >= cap || (s.len > 0 && memchr(s.p, '\0', s.len) != NULL))
		return false;
	if (s.len > 0)
		memcpy(dst, s.p, s.len);
	dst[s.len] = '\0';
	return true;
}

char *
span_dup(struct span s)
{
	char *out = malloc(s.len + 1);

	if (out == NULL)
		return NULL;
	if (s.len > 0)
		memcpy(out, s.p, s.len);
	out[s.len] = '\0';
	return out;
}

void
rd_fail(struct rd *r, enum tv_err err)
{
	if (r->err == TV_OK)
		r->err = err;
}

enum tv_err
rd_end(struct rd *r)
{
	if (r->err == TV_OK && r->p != r->end)
		r->err = TV_EFORMAT;
	return r->err;
}

/* n bytes, or NULL with the error set. */
static const uint8_t *
take_bytes(struct rd *r, size_t n)
{
	const uint8_t *p = r->p;

	if (r->err != TV_OK)
		return NULL;
	if (n == 0)
		return p;
	if ((size_t)(r->end - p) < n) {
		r->err = TV_EOF;
		return NULL;
	}
	r->p = p + n;
	return p;
}

static uint64_t
take_be(struct rd *r, size_t n)
{
	const uint8_t *p = take_bytes(r, n);
	uint64_t v = 0;

	if (p != NULL)
		for (size_t i = 0; i < n; i++)
			v = v << 8 | p[i];
	return v;
}

static uint64_t
take_le(struct rd *r, size_t n)
{
	const uint8_t *p = take_bytes(r, n);
	uint64_t v = 0;

	if (p != NULL)
		for (size_t i = n; i-- > 0;)
			v = v << 8 | p[i];
	return v;
}

uint16_t
rd_u16be(struct rd *r)
{
	return (uint16_t)take_be(r, 2);
}

uint32_t
rd_u32be(struct rd *r)
{
	return (uint32_t)take_be(r, 4);
}

uint64_t
rd_u64be(struct rd *r)
{
	return take_be(r, 8);
}

uint16_t
rd_u16le(struct rd *r)
{
	return (uint16_t)take_le(r, 2);
}

uint32_t
rd_u32le(struct rd *r)
{
	return (uint32_t)take_le(r, 4);
}

uint64_t
rd_u64le(struct rd *r)
{
	return take_le(r, 8);
}

struct span
rd_bytes(struct rd *r, size_t n)
{
	const uint8_t *p = take_bytes(r, n);

	return p == NULL ? SPAN_NONE : span_of(p, n);
}

struct span
rd_rest(struct rd *r)
{
	return rd_bytes(r, rd_left(r));
}
