/*
 * Connections that speak HTTP/2: h2_session.h on the bytes of a struct conn, each of its streams an exchange.
 *
 * A connection is in CONN_H2 as long as it lives.  Streams are a crowd of their own (struct http_h2): how many there
 * may be, how many of one client over all its connections, and until when each has to get further.
 */
#ifndef TV_RPCD_HTTP_H2_CONNS_H
#define TV_RPCD_HTTP_H2_CONNS_H

#include "rpcd/http/http_int.h"

struct http_h2;				/* of a transport: http->h2 */
struct h2_conn;				/* of a connection: conn->h2 */

/* False: no memory. */
bool h2_conns_init(struct http *h);
/* All connections were ended. */
void h2_conns_done(struct http *h);
/* The client speaks HTTP/2 from now on; nothing was read of it yet.  False: no memory, c is as it was. */
bool h2_conn_begin(struct http *h, struct conn *c);
/* Something happened to its socket (c->more, c->ended).  May end it. */
void h2_conn_event(struct http *h, struct conn *c);
/* The time of its client is over.  May end it. */
void h2_conn_late(struct conn *c);
/* From conn_end(): ends all streams; says goodbye, if there is room for that. */
void h2_conn_end(struct http *h, struct conn *c);
/* Asks all clients to begin nothing more. */
void h2_conns_quiesce(struct http *h);
/* Are answers leaving that have an end? */
bool h2_conns_are_sending(const struct http *h);
/* Fills in what begins with h2_. */
void h2_conns_stats(const struct http *h, struct http_stats *out);

#endif
