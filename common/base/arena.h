/*
 * Arena: many small allocations, one free.  For decoded records and answers.
 */
#ifndef TV_COMMON_BASE_ARENA_H
#define TV_COMMON_BASE_ARENA_H

#include <stddef.h>

#include "common/base/rd.h"

struct arena {
	struct arena_block *blocks;	/* owned */
	size_t used, max;		/* bytes handed out, each piece rounded up to 16; hard cap */
};

#define ARENA_INIT(max_) ((struct arena){ NULL, 0, (max_) })

/* Zeroed, 16-byte aligned; NULL past the cap or without memory.  n == 0 gives a valid pointer. */
void *arena_alloc(struct arena *a, size_t n);
/* Array of count * size bytes, overflow checked. */
void *arena_array(struct arena *a, size_t count, size_t size);
struct span arena_copy(struct arena *a, struct span s);
char *arena_cstr(struct arena *a, struct span s);	/* NUL-terminated copy */
struct span arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Forgets everything; keeps the first block for reuse. */
void arena_reset(struct arena *a);
void arena_done(struct arena *a);
/* Zeroes all that was handed out, before a reset or the end: it held secrets. */
void arena_wipe(struct arena *a);

#endif
