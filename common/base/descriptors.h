/*
 * How many descriptors the kernel lets this process have (RLIMIT_NOFILE).  Connections from ports leave some for files,
 * and for the unix sockets of operators and of the node's other daemons.
 */
#ifndef TV_COMMON_BASE_DESCRIPTORS_H
#define TV_COMMON_BASE_DESCRIPTORS_H

#include <stdbool.h>
#include <stdint.h>

#define DESCRIPTORS_RESERVED 64		/* or a quarter, where that is less */

/* Raises the soft limit to the hard one, at the start.  Returns what is allowed then; UINT64_MAX: not known. */
uint64_t descriptors_raise(void);
/*
 * Is a connection from a port that was accepted as this descriptor one too many?  The kernel gives the lowest number
 * that is free, so there is no count to keep.  Before descriptors_raise(): no.
 */
bool descriptors_scarce(int fd);
/* Of such a connection, after another one was closed for it: the same with a lower number; or -1, and it is closed. */
int descriptors_lower(int fd);

#endif
