/* Reasons of failures as other agents word them. */
#ifndef TV_RPCD_CHECK_REASON_H
#define TV_RPCD_CHECK_REASON_H

#include <stddef.h>

/* "connection refused": the system's text without a capital.  Into dst[cap]; returns dst. */
const char *reason_of_errno(int error, char *dst, size_t cap);

#endif
