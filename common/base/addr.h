/*
 * IP addresses: one type, its text, and the system's form of it.  Pure: no look-up of names, no socket.
 *
 * Text is as inet_pton(3) and inet_ntop(3) have it: no zone, no brackets, no leading zeros.
 */
#ifndef TV_COMMON_BASE_ADDR_H
#define TV_COMMON_BASE_ADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/rd.h"

#define ADDR_IP_BYTES 46	/* INET6_ADDRSTRLEN */
#define ADDR_TEXT_BYTES 56	/* "[address]:port" */

struct addr {			/* zeros: none */
	uint8_t ip[16];		/* network order; IPv4 in the first 4, or mapped into 16 */
	uint8_t len;		/* 4 or 16; 0: none */
	uint16_t port;		/* host order; 0: none, or any */
};

/* As sockets have it, with the scope of an IPv6 address.  The port is in the same place in both. */
union addr_sock {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static inline bool
addr_eq(const struct addr *a, const struct addr *b)
{
	return a->len == b->len && a->port == b->port && memcmp(a->ip, b->ip, a->len) == 0;
}

/* False, and none in *out: this is no address.  out may be NULL. */
bool addr_parse(const char *ip, uint16_t port, struct addr *out);
bool addr_parse_span(struct span ip, uint16_t port, struct addr *out);
/* With a port from 1 on, "192.0.2.1:80" or "[fd00::1]:80"; false, and none in *out: it is neither. */
bool addr_parse_text(struct span text, struct addr *out);
/* Of 4 or 16 bytes, without a port; another len: none. */
struct addr addr_of_bytes(const void *bytes, size_t len);
/* IPv4 of an IPv4-mapped address; another one as it is. */
struct addr addr_unmapped(struct addr a);
/* IPv6 of an IPv4 address, which is mapped; another one as it is. */
struct addr addr_mapped(struct addr a);

bool addr_is_mapped(const struct addr *a);
/* 0.0.0.0 or ::, and of 127.0.0.0/8 or ::1; mapped ones are not. */
bool addr_is_any(const struct addr *a);
bool addr_is_loopback(const struct addr *a);

/* A network: the addresses whose first `bits` are those of ip. */
struct addr_net {
	uint8_t ip[16];
	uint8_t len, bits;	/* 4 or 16 bytes; 0: none.  bits: up to 8 * len */
};
/* "10.0.0.0/8", or an address alone, which is a network of one.  False, and none in *out: it is neither. */
bool addr_net_parse(struct span text, struct addr_net *out);
/* Of one family; a mapped address is IPv6, see addr_unmapped(). */
bool addr_net_has(const struct addr_net *n, const struct addr *a);

/* Both return dst.  The address alone, a mapped one as ::ffff:192.0.2.1; "" for none. */
const char *addr_ip(const struct addr *a, char dst[ADDR_IP_BYTES]);
/* With the port, "192.0.2.1:80" or "[fd00::1]:80"; "" for none. */
const char *addr_text(const struct addr *a, char dst[ADDR_TEXT_BYTES]);

/* None where it is of another family than AF_INET and AF_INET6. */
struct addr addr_of_sock(const struct sockaddr *sa);
/* Into *out, and its length; 0, and family 0: none. */
socklen_t addr_to_sock(const struct addr *a, union addr_sock *out);
/* The same of text: 0 with EINVAL. */
socklen_t addr_parse_sock(const char *ip, uint16_t port, union addr_sock *out);
/* Of the family that it has. */
socklen_t addr_sock_len(const union addr_sock *sa);

#endif
