/* The two halves of the sandbox; sandbox.c puts them together. */
#ifndef TV_COMMON_PROC_SANDBOX_PARTS_H
#define TV_COMMON_PROC_SANDBOX_PARTS_H

#include "common/proc/sandbox.h"

/*
 * Both: TV_OK; TV_EAGAIN when the kernel has no such thing (errbuf says what is missing);
 * another error when it has it and it failed.  PR_SET_NO_NEW_PRIVS must be set.  *abi: the version of Landlock in use.
 */
enum tv_err sandbox_landlock(const struct sandbox_policy *p, int *abi, char *errbuf, size_t cap);
enum tv_err sandbox_seccomp(const struct sandbox_policy *p, char *errbuf, size_t cap);
/* Before Landlock: what sandbox_stale() compares with. */
void sandbox_mark(const struct sandbox_policy *p);

#endif
