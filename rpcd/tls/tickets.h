/*
 * The keys of session tickets (RFC 5077, RFC 8446 4.6.1): in memory alone, a new one each hour, two accepted.  On the
 * loop, in its thread: no handshake reads or makes a ticket elsewhere (handshakes.h).
 */
#ifndef TV_RPCD_TLS_TICKETS_H
#define TV_RPCD_TLS_TICKETS_H

#include <ev.h>
#include <openssl/ssl.h>
#include <stdbool.h>

#include "common/base/err.h"

#define TICKET_HOURS_S 3600	/* of one key; and how long a ticket may be used */

struct tickets;

/* library: of the contexts that use them.  NULL: no memory, no locked memory, no algorithm. */
struct tickets *tickets_new(struct ev_loop *loop, OSSL_LIB_CTX *library);
/* Wipes the keys.  NULL: nothing. */
void tickets_free(struct tickets *t);
/* No ticket that was given so far is good any more. */
void tickets_forget(struct tickets *t);
/* Sessions of ctx are resumed by these, and by nothing else; ctx ends before them. */
bool tickets_serve(struct tickets *t, SSL_CTX *ctx);

#endif
