/* What each client has open: an IPv4 address is one, and so is a /64 of IPv6, of which anybody has all addresses. */
#ifndef TV_RPCD_HTTP_CLIENT_LIMITS_H
#define TV_RPCD_HTTP_CLIENT_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct client_limits;
struct client;

struct client_limits *client_limits_new(void);
/* All entries must have been released. */
void client_limits_free(struct client_limits *c);
/* One more connection from this address.  NULL: no memory, or a family without addresses (unix). */
struct client *client_limits_take(struct client_limits *c, const struct sockaddr *from);
/* Connections of this client that are open now. */
unsigned client_count(const struct client *k);
/* Bytes that are kept for it, for the caller to count. */
uint64_t *client_bytes(struct client *k);
void client_limits_release(struct client_limits *c, struct client *k);

#endif
