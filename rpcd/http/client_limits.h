/* What each client has open: an IPv4 address is one, and so is a /64 of IPv6, of which anybody has all addresses. */
#ifndef TV_CLIENTS_H
#define TV_CLIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct clients;
struct client;

struct clients *clients_new(void);
/* All entries must have been released. */
void clients_free(struct clients *c);
/* The address as 16 bytes, IPv4 as v4-mapped.  False, and zeros: a family without addresses (unix). */
bool clients_address(const struct sockaddr *from, uint8_t out[16]);
/* Such an address as text, into INET6_ADDRSTRLEN (46) bytes. */
void clients_print(const uint8_t address[16], char *text, size_t cap);
/* One more connection from this address.  NULL: no memory, or a family without addresses (unix). */
struct client *clients_take(struct clients *c, const struct sockaddr *from);
/* Connections of this client that are open now. */
unsigned client_count(const struct client *k);
/* Bytes that are kept for it, for the caller to count. */
uint64_t *client_bytes(struct client *k);
void clients_release(struct clients *c, struct client *k);

#endif
