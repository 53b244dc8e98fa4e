/* Allocation functions in front of the real ones, by the linker's --wrap. */
#include <stddef.h>
#include <string.h>

#include "tests/fault/alloc.h"

static bool armed, failed;
static unsigned left;

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t n);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t n);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strdup(const char *s);

void
fault_alloc_at(unsigned n)
{
	armed = true;
	failed = false;
	left = n;
}

bool
fault_alloc_end(void)
{
	armed = false;
	return failed;
}

static bool
fails(void)
{
	if (!armed || left-- > 0)
		return false;
	armed = false;
	failed = true;
	return true;
}

void *
__wrap_malloc(size_t n)
{
	return fails() ? NULL : __real_malloc(n);
}

void *
__wrap_calloc(size_t count, size_t n)
{
	return fails() ? NULL : __real_calloc(count, n);
}

void *
__wrap_realloc(void *p, size_t n)
{
	return fails() ? NULL : __real_realloc(p, n);
}

char *
__wrap_strdup(const char *s)
{
	size_t n = strlen(s) + 1;
	char *copy = fails() ? NULL : __real_malloc(n);

	return copy != NULL ? memcpy(copy, s, n) : NULL;
}
