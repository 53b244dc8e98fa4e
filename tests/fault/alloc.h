/*
 * Failing allocations.  Link with tests/fault/alloc.c and $(WRAP_ALLOC): then the n-th malloc, calloc,
 * realloc or strdup made by our own objects (not by libraries) returns NULL.
 */
#ifndef TV_TESTS_FAULT_ALLOC_H
#define TV_TESTS_FAULT_ALLOC_H

#include <stdbool.h>

/* The n-th allocation from now on fails (0: the next), once. */
void fault_alloc_at(unsigned n);
/* Ends it.  True when an allocation failed since fault_alloc_at(). */
bool fault_alloc_end(void);

#endif
