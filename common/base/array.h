/* Arrays that grow: the owner keeps pointer, capacity and count. */
#ifndef TV_COMMON_BASE_ARRAY_H
#define TV_COMMON_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Room for n items of this size in the array that *array points to, NULL at first; *cap is how many there is room for.
 * It grows by doubling, with what it holds.  False: no memory, and all stays as it was.  Freed with free(3).
 */
bool array_reserve(void *array, size_t *cap, size_t n, size_t size);

#endif
