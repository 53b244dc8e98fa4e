/*
 * Sockets, and addresses for them.  What peers sent stays in the form in which it came, since they compare bytes; what
 * we see and show is IPv4 where it is mapped.
 */
#ifndef TV_GOSSIPD_NET_H
#define TV_GOSSIPD_NET_H

#include <sys/socket.h>

#include "gossipd/core/swim/table.h"

#define NET_TEXT_BYTES ADDR_TEXT_BYTES

/* "ip:port" or "[ip6]:port"; "-" for none. Returns dst. */
const char *net_text(const struct addr *a, char dst[NET_TEXT_BYTES]);
/* The address alone.  IPv4-mapped ones as IPv4. */
const char *net_ip(const struct addr *a, char dst[NET_TEXT_BYTES]);
/* For a socket of this family (AF_INET or AF_INET6); 0 when the address does not fit it. */
socklen_t net_sockaddr(const struct addr *a, int family, struct sockaddr_storage *out);
/* IPv4-mapped addresses become IPv4. */
struct addr net_addr(const struct sockaddr_storage *sa);
/* Non-blocking bound UDP socket with a large receive buffer; -1 with errno. */
int net_listen_udp(const char *ip, uint16_t port);
/* AF_INET or AF_INET6 of a socket. */
int net_family(int fd);

#endif
