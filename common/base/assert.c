/* The one place where our own mistakes end. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/assert.h"

void
tv_assert_failed(const char *file, int line, const char *cond)
{
	fprintf(stderr, "[ERR] assertion failed: %s (%s:%d)\n", cond, file, line);
	abort();
}
