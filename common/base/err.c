/* Texts of the result codes. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/base/err.h"

static const char *const texts[] = {
	"ok",
	"unexpected end of input",
	"malformed input",
	"limit exceeded",
	"out of memory",
	"invalid value",
	"not found",
	"already exists",
	"authentication failed",
	"not permitted",
	"timed out",
	"temporarily unavailable",
	"connection closed",
	"system error",
	"data corruption detected",
	"not the leader",
	"no cluster leader",
	"outcome unknown",
	"conflict",
	"unreachable",
	"disk full",
	"switched off",
};

const char *
tv_strerror(enum tv_err err)
{
	unsigned at = (unsigned)-(int)err;

	if (at >= sizeof(texts) / sizeof(texts[0]))
		return "unknown error";
	return texts[at];
}

enum tv_err
tv_fail(char *errbuf, size_t cap, enum tv_err err, const char *fmt, ...)
{
	int error = errno;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(errbuf, cap, fmt, ap);
	va_end(ap);
	errno = error;
	return err;
}
