/* Arrays that grow. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"

#define ITEMS_MIN 16

bool
array_reserve(void *array, size_t *cap, size_t n, size_t size)
{
	size_t more = *cap > 0 ? *cap : ITEMS_MIN;
	void *v;

	if (n <= *cap)
		return true;
	while (more < n && more <= SIZE_MAX / 2)
		more *= 2;
	memcpy(&v, array, sizeof(v));		/* a pointer of any type */
	v = more < n || more > SIZE_MAX / size ? NULL : realloc(v, more * size);
	if (v == NULL)
		return false;
	memcpy(array, &v, sizeof(v));
	*cap = more;
	return true;
}
