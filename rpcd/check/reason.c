/* Reasons of failures, see reason.h. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "rpcd/check/reason.h"

const char *
reason_of_errno(int error, char *dst, size_t cap)
{
	snprintf(dst, cap, "%s", strerror(error));
	dst[0] = (char)tolower((unsigned char)dst[0]);
	return dst;
}
