/* Sources of connections, and a hash whose collisions peers cannot choose. */
#ifndef TV_COMMON_NET_SOURCE_H
#define TV_COMMON_NET_SOURCE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/base/addr.h"

/*
 * The source that an address belongs to: an IPv4 address (mapped ones too), or the /64 of an IPv6 address, since
 * a host that has one address of a /64 can have all of them.  Exact, not a hash.  0: none, or another family.
 */
uint64_t source_of_ip(const struct addr *a);
uint64_t source_of(const struct sockaddr *from);
/* The same of an address in text; 0: none. */
uint64_t source_of_text(const char *ip);
/* SipHash of n bytes under a key that is drawn once per process: for tables keyed by what peers choose. */
uint64_t keyed_hash(const void *bytes, size_t n);

#endif
