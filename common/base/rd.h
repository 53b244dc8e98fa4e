/*
 * Bounded reader over bytes that are not trusted.  The error is sticky: read
 * ten fields, check once with rd_end().  Nothing is allocated or copied; spans
 * point into the input and live as long as it does.
 */
#ifndef TV_COMMON_BASE_RD_H
#define TV_COMMON_BASE_RD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/err.h"

/* Borrowed bytes.  Not NUL-terminated. */
struct span {
	const uint8_t *p;
	size_t len;
};

#define SPAN_NONE ((struct span){ NULL, 0 })

static inline struct span
span_of(const void *p, size_t len)
{
	return (struct span){ p, len };
}

static inline struct span
span_str(const char *text)
{
	return (struct span){ (const uint8_t *)text, strlen(text) };
}

static inline bool
span_eq(struct span a, struct span b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

static inline bool
span_eqs(struct span a, const char *text)
{
	return span_eq(a, span_str(text));
}

/* Bytewise order, a shorter prefix first: <0, 0, >0. */
int span_cmp(struct span a, struct span b);
bool span_starts(struct span s, struct span prefix);
/* Letters of ASCII in lower case, other bytes as they are: names of nodes, services and ids are compared so. */
uint8_t ascii_lower(uint8_t c);
bool span_eq_nocase(struct span a, struct span b);
/* Copies s to *at, which then points behind the copy.  The copy; SPAN_NONE: that. */
struct span span_place(uint8_t **at, struct span s);
/* Copies into dst[cap] with a NUL; false (and dst "") when it does not fit or holds a NUL. */
bool span_copy(struct span s, char *dst, size_t cap);
/* A fresh NUL-terminated copy, or NULL; the caller frees it. */
char *span_dup(struct span s);

struct rd {
	const uint8_t *p, *end;
	enum tv_err err;	/* TV_OK until the first failure */
};

static inline struct rd
rd_over(const void *p, size_t len)
{
	return (struct rd){ p, len > 0 ? (const uint8_t *)p + len : p, TV_OK };	/* p may be NULL when len is 0 */
}

static inline struct rd
rd_span_over(struct span s)
{
	return rd_over(s.p, s.len);
}

static inline size_t
rd_left(const struct rd *r)
{
	return r->err == TV_OK ? (size_t)(r->end - r->p) : 0;
}

/* Records err if none is recorded yet. */
void rd_fail(struct rd *r, enum tv_err err);
/* TV_OK when all was well and nothing is left; TV_EFORMAT for trailing bytes. */
enum tv_err rd_end(struct rd *r);

/* After a failure every reader returns 0 or SPAN_NONE. */
static inline uint8_t
rd_u8(struct rd *r)
{
	if (r->err == TV_OK && r->p != r->end)
		return *r->p++;
	rd_fail(r, TV_EOF);
	return 0;
}

uint16_t rd_u16be(struct rd *r);
uint32_t rd_u32be(struct rd *r);
uint64_t rd_u64be(struct rd *r);
uint16_t rd_u16le(struct rd *r);
uint32_t rd_u32le(struct rd *r);
uint64_t rd_u64le(struct rd *r);
struct span rd_bytes(struct rd *r, size_t n);
struct span rd_rest(struct rd *r);

#endif
