/* TLS of a connection that we made, by GnuTLS. */
#ifndef TV_RPCD_CHECK_TLS_H
#define TV_RPCD_CHECK_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/net/stream.h"
#include "common/record/records.h"

#define TLS_WHY_BYTES 512

struct tls;

/*
 * On fd, which stays the caller's.  The certificate must name the run's TLSServerName or else the host, an IP address
 * too, by an authority that the system trusts; with TLSSkipVerify any will do.  h2: HTTP/2 is what we ask for (ALPN).
 * NULL: no memory, or the name is longer than 255 bytes.
 */
struct tls *tls_new(int fd, const struct check_run *run, const char *host, bool h2);
void tls_free(struct tls *t);
/* 1: done; 0: again, when the socket can be read or (tls_wants_write()) written; -1: failed, why says it. */
int tls_handshake(struct tls *t, char why[TLS_WHY_BYTES]);
bool tls_wants_write(const struct tls *t);
/* Of a struct tls, once the handshake is done; errors are EPROTO. */
extern const struct stream_seal tls_seal;

#endif
