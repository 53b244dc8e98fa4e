/*
 * What checks verify others by and show of themselves, over TLS: the authorities and the client's certificate of
 * rpcd.conf (tls.checks), or the system's authorities and none.  Files are read again when they were replaced; sessions
 * that stand keep what they began with.  The private key is read here, by "rpcd: check", and nowhere else.
 */
#ifndef TV_RPCD_CHECK_CREDENTIALS_H
#define TV_RPCD_CHECK_CREDENTIALS_H

#include "common/net/tls_client.h"
#include "common/proc/sandbox.h"
#include "common/record/records.h"

struct credentials;

/* Copies the paths, and reads nothing yet.  NULL: no memory. */
struct credentials *credentials_new(const struct tls_client_conf *conf);
/* Are these the paths? */
bool credentials_are(const struct credentials *c, const struct tls_client_conf *conf);
/* What the walls must let through: the files and their folders.  What is elsewhere later: `stale`. */
void credentials_paths(struct credentials *c, struct sandbox_policy *policy);
/* From now on called with the path of a file that was replaced and that the walls keep from us.  May not return. */
void credentials_on_stale(struct credentials *c, void (*stale)(const char *path));
/*
 * The context as the files are now, borrowed until the loop turns.  They are looked at once a second, and read anew
 * when they have not changed for a second: a certificate and its key change together.  The system's authorities are
 * read anew each hour.  Those that cannot be read leave what was there before, and the log says it; NULL: there was
 * nothing, and why has a sentence.  A certificate that ends within 14 days is told in the log, once a day.
 */
struct tls_client *credentials_now(struct credentials *c, char why[TLS_WHY_BYTES]);
/*
 * A session on fd, which stays the caller's.  The certificate must name the run's TLSServerName or else the host; with
 * TLSSkipVerify any will do.  protocol: for ALPN, or NULL.  NULL with a sentence in why.
 */
struct ssl_st *credentials_session(struct credentials *c, int fd, const struct check_run *run, const char *host,
    const char *protocol, char why[TLS_WHY_BYTES]);

#endif
