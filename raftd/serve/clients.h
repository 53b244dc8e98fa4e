/*
 * raftd.sock: rpcd alone sends requests here.  A channel says MSG_HELLO first; a malformed, oversized or
 * out-of-order message closes that channel only (S206).
 */
#ifndef TV_RAFTD_SERVE_CLIENTS_H
#define TV_RAFTD_SERVE_CLIENTS_H

#include "common/base/figure.h"
#include "raftd/raftd.h"

struct clients;

/* Listens on d->socket_fd (taken over).  NULL: no memory. */
struct clients *clients_new(struct raftd *d);
/* Closes all channels; what is pending goes with them. */
void clients_free(struct clients *c);
/*
 * Once or more per turn: reads that were put off or whose watch fired, at least one, and no new one after `until`;
 * status to tell.  A channel whose answers wait to be read gets no further ones.  Then answers leave.  True if there was
 * something to do.
 */
bool clients_turn(struct raftd *d, struct mono until);
/* Did that leave reads for which nothing has to happen first? */
bool clients_waiting(const struct clients *c);
/* Is an rpcd connected?  Was one, and is none now?  c may be NULL: no. */
bool clients_served(const struct clients *c);
bool clients_deserted(const struct clients *c);
/* A number that changes with each sign of life of a connected rpcd, see chan_signs(). */
uint64_t clients_signs(const struct clients *c);
/* MSG_PING to each rpcd of our build; the answer goes to rpcd_watch_answered().  False: there is none. */
bool clients_ping(struct clients *c);
/* Name and value pairs of the `raftd:` section of info. */
void clients_info(const struct clients *c, figure_fn *fn, void *ctx);

#endif
