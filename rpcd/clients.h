/* How many connections each client address has open. */
#ifndef TV_CLIENTS_H
#define TV_CLIENTS_H

#include <stdbool.h>
#include <sys/socket.h>

struct clients;
struct client;

struct clients *clients_new(void);
/* All entries must have been released. */
void clients_free(struct clients *c);
/* One more connection from this address.  NULL: no memory, or a family without addresses (unix). */
struct client *clients_take(struct clients *c, const struct sockaddr *from);
/* Connections of this address that are open now. */
unsigned client_count(const struct client *k);
/* The address as text; lives as long as one of its connections. */
const char *client_ip(const struct client *k);
void clients_release(struct clients *c, struct client *k);

#endif
