/* Arena of linked blocks, the newest first. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"

#define ARENA_FIRST_BYTES 128		/* a request that waits for long has little in it, and there may be thousands */
#define ARENA_BLOCK_BYTES 4000
#define ARENA_ALIGN 16

struct arena_block {
	struct arena_block *next;
	size_t cap, used;
	_Alignas(ARENA_ALIGN) uint8_t bytes[];
};

static struct arena_block *
block_new(size_t cap)
{
	struct arena_block *k = malloc(sizeof(*k) + cap);

	if (k != NULL) {
		k->cap = cap;
		k->used = 0;
	}
	return k;
}

/* Blocks grow: each is about twice as large as the one before, up to the ordinary size. */
static size_t
next_cap(const struct arena_block *newest, size_t need)
{
	size_t cap = newest == NULL ? ARENA_FIRST_BYTES : newest->cap * 2 + ARENA_FIRST_BYTES / 2;

	if (cap > ARENA_BLOCK_BYTES)
		cap = ARENA_BLOCK_BYTES;
	return need > cap ? need : cap;
}

void *
arena_alloc(struct arena *a, size_t n)
{
	struct arena_block *k = a->blocks;
	size_t need;
	void *p;

	if (n > a->max - a->used)
		return NULL;
	/* The cap counts what is taken: a million empty pieces are not free. */
	need = n == 0 ? ARENA_ALIGN : (n + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
	if (need < n || need > a->max - a->used)
		return NULL;
	if (k == NULL || k->cap - k->used < need) {
		k = block_new(next_cap(k, need));
		if (k == NULL)
			return NULL;
		k->next = a->blocks;
		a->blocks = k;
	}
	p = k->bytes + k->used;
	k->used += need;
	a->used += need;
	memset(p, 0, n);
	return p;
}

void *
arena_array(struct arena *a, size_t count, size_t size)
{
	size_t n;

	if (__builtin_mul_overflow(count, size, &n))
		return NULL;
	return arena_alloc(a, n);
}

struct span
arena_copy(struct arena *a, struct span s)
{
	uint8_t *p = arena_alloc(a, s.len);

	if (p == NULL)
		return SPAN_NONE;
	if (s.len > 0)
		memcpy(p, s.p, s.len);
	return span_of(p, s.len);
}

char *
arena_cstr(struct arena *a, struct span s)
{
	char *p = arena_alloc(a, s.len + 1);

	if (p != NULL && s.len > 0)
		memcpy(p, s.p, s.len);
	return p;
}

struct span
arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list ap, again;
	char *p;
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	p = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1);
	if (p != NULL)
		vsnprintf(p, (size_t)n + 1, fmt, again);
	va_end(again);
	return p == NULL ? SPAN_NONE : span_of(p, (size_t)n);
}

void
arena_reset(struct arena *a)
{
	struct arena_block *keep = NULL, *next;

	/* The largest of ordinary size stays: a burst must not stay allocated. */
	for (struct arena_block *k = a->blocks; k != NULL; k = next) {
		struct arena_block *drop = k;

		next = k->next;
		if (k->cap <= ARENA_BLOCK_BYTES && (keep == NULL || k->cap > keep->cap)) {
			drop = keep;
			keep = k;
		}
		free(drop);
	}
	if (keep != NULL) {
		keep->next = NULL;
		keep->used = 0;
	}
	a->blocks = keep;
	a->used = 0;
}

void
arena_wipe(struct arena *a)
{
	for (struct arena_block *k = a->blocks; k != NULL; k = k->next)
		explicit_bzero(k->bytes, k->used);
}

void
arena_done(struct arena *a)
{
	struct arena_block *k, *next;

	for (k = a->blocks; k != NULL; k = next) {
		next = k->next;
		free(k);
	}
	*a = ARENA_INIT(a->max);
}
