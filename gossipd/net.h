/* Sockets and addresses: between struct gaddr, which is what the wire carries, and the system's forms. */
#ifndef TV_GOSSIPD_NET_H
#define TV_GOSSIPD_NET_H

#include <sys/socket.h>

#include "gossipd/core/swim/table.h"

#define NET_TEXT_BYTES 56	/* "[address]:port" */

/* "ip:port" or "[ip6]:port"; "-" for none. Returns dst. */
const char *net_text(const struct gaddr *a, char dst[NET_TEXT_BYTES]);
/* The address alone.  IPv4-mapped ones as IPv4. */
const char *net_ip(const struct gaddr *a, char dst[NET_TEXT_BYTES]);
/* IP text and port; false when it is no address. */
bool net_parse(const char *ip, uint16_t port, struct gaddr *out);
/* For a socket of this family (AF_INET or AF_INET6); 0 when the address does not fit it. */
socklen_t net_sockaddr(const struct gaddr *a, int family, struct sockaddr_storage *out);
/* IPv4-mapped addresses become IPv4. */
struct gaddr net_gaddr(const struct sockaddr_storage *sa);
/* Non-blocking bound UDP socket with a large receive buffer; -1 with errno. */
int net_listen_udp(const char *ip, uint16_t port);
/* AF_INET or AF_INET6 of a socket. */
int net_family(int fd);

#endif
