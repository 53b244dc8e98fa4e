/*
 * Result codes shared by all daemons.  Negative values are errors; TV_OK is 0.
 *
 * Three kinds of trouble are never mixed (see doc/architecture.md):
 *   peer error     bad bytes from outside: count, drop, log at a limited rate
 *   system error   the operating system or the data base said no: return a code
 *   our mistake    TV_ASSERT: stop, also in release builds
 */
#ifndef TV_COMMON_BASE_ERR_H
#define TV_COMMON_BASE_ERR_H

#include <stddef.h>

/* Behind the name of a parameter that a callback's type has and this function does not use. */
#define UNUSED __attribute__((unused))

enum tv_err {
	TV_OK = 0,
	TV_EOF = -1,		/* input ended before the value did, or peer closed */
	TV_EFORMAT = -2,	/* bytes do not follow the format */
	TV_ELIMIT = -3,		/* a stated limit was exceeded */
	TV_ENOMEM = -4,
	TV_EINVAL = -5,		/* argument or configuration value out of range */
	TV_ENOENT = -6,		/* no such thing */
	TV_EEXIST = -7,
	TV_EAUTH = -8,		/* wrong key, forged or replayed message */
	TV_EPERM = -9,		/* not allowed */
	TV_ETIMEOUT = -10,
	TV_EAGAIN = -11,	/* not now; try again */
	TV_ECLOSED = -12,	/* the channel is gone */
	TV_ESYS = -13,		/* system call failed; errno tells which way */
	TV_ECORRUPT = -14,	/* stored data failed its check */
	TV_ENOTLEADER = -15,	/* nothing was done: ask the leader */
	TV_ENOLEADER = -16,	/* nothing was done: no leader is known */
	TV_EUNKNOWN = -17,	/* outcome unknown: it may or may not have happened */
	TV_ECONFLICT = -18,	/* state does not allow it */
	TV_EUNREACH = -19,	/* no path to the node or datacenter */
	TV_ENOSPACE = -20,	/* the disk is full; nothing was done */
	TV_EDISABLED = -21,	/* the cluster does not do this: it is switched off */
};

/* Short English text of a code, without a trailing period.  Never NULL. */
const char *tv_strerror(enum tv_err err);
/* Puts a sentence into errbuf, cut to cap - 1 bytes, and returns err: for a function that has failed; errno stays. */
enum tv_err tv_fail(char *errbuf, size_t cap, enum tv_err err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
