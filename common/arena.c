/* Arena of linked blocks, the newest first. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"

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
		k = block_new(need > ARENA_BLOCK_BYTES ? need : ARENA_BLOCK_BYTES);
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
	struct arena_block *k = a->blocks, *next;

	a->used = 0;
	if (k == NULL)
		return;
	/* Keep one ordinary block: a burst must not stay allocated. */
	for (; k->next != NULL; k = next) {
		next = k->next;
		free(k);
	}
	if (k->cap > ARENA_BLOCK_BYTES) {
		free(k);
		k = NULL;
	} else {
		k->used = 0;
	}
	a->blocks = k;
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
