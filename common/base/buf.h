/*
 * Growable byte buffer under a hard cap, and the writers on top of it.
 *
 * A write that would pass the cap, or that finds no memory, sets `failed` and
 * writes nothing; later writes do nothing.  Write ten fields, check once.
 */
#ifndef TV_COMMON_BASE_BUF_H
#define TV_COMMON_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/rd.h"

struct buf {
	uint8_t *data;		/* owned; NULL while cap is 0 */
	size_t len, cap;	/* bytes used, bytes allocated */
	size_t max;		/* hard cap in bytes */
	bool failed;		/* sticky */
	bool secret;		/* set by the owner, sticky: what is dropped, emptied or given back is overwritten */
};

#define BUF_INIT(max_) ((struct buf){ NULL, 0, 0, (max_), false, false })

void buf_init(struct buf *b, size_t max);
/* Frees the bytes; the buffer may be used again (same cap, as secret as before). */
void buf_done(struct buf *b);
/* Empties it and clears `failed`; keeps the memory. */
void buf_reset(struct buf *b);
/* Makes room for n more bytes and returns where they go (len unchanged), or NULL. */
uint8_t *buf_room(struct buf *b, size_t n);
/* buf_room + len += n: a place for the caller to fill, or NULL. */
uint8_t *buf_add(struct buf *b, size_t n);
/* Drops the first n bytes (n <= len). */
void buf_drop(struct buf *b, size_t n);
/* The used bytes as a span; a loan until the next write. */
struct span buf_span(const struct buf *b);

/* Where there is room already, these are a few instructions: answers are made of thousands of short pieces. */
static inline bool
buf_has_room(const struct buf *b, size_t n)
{
	return n <= b->cap - b->len && b->data != NULL && !b->failed;
}

void buf_put_slow(struct buf *b, const void *bytes, size_t n);

static inline void
buf_put(struct buf *b, const void *bytes, size_t n)
{
	if (n == 0)
		return;
	if (!buf_has_room(b, n)) {
		buf_put_slow(b, bytes, n);
		return;
	}
	memcpy(b->data + b->len, bytes, n);
	b->len += n;
}

static inline void
buf_u8(struct buf *b, uint8_t v)
{
	if (buf_has_room(b, 1))
		b->data[b->len++] = v;
	else
		buf_put_slow(b, &v, 1);
}

/* In decimal. */
void buf_decimal(struct buf *b, uint64_t v);
void buf_puts(struct buf *b, const char *text);		/* without the NUL */
void buf_putspan(struct buf *b, struct span s);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
void buf_u16be(struct buf *b, uint16_t v);
void buf_u32be(struct buf *b, uint32_t v);
void buf_u64be(struct buf *b, uint64_t v);
void buf_u16le(struct buf *b, uint16_t v);
void buf_u32le(struct buf *b, uint32_t v);
void buf_u64le(struct buf *b, uint64_t v);
/* NUL-terminates without counting the NUL, and returns the text; "" on failure. */
const char *buf_cstr(struct buf *b);

#endif
