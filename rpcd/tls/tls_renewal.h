/*
 * What the server of TLS is, from what `rpcd: keys` has read and rpcd.conf says, whichever of them changes; and a
 * warning in time before a certificate ends.
 */
#ifndef TV_RPCD_TLS_TLS_RENEWAL_H
#define TV_RPCD_TLS_TLS_RENEWAL_H

#include "rpcd/keys/keys.h"
#include "rpcd/opts.h"
#include "rpcd/tls/tls_server.h"

struct tls_renewal;

/* All borrowed; conf is read again at tls_renewal_reload().  NULL: no memory. */
struct tls_renewal *tls_renewal_new(struct ev_loop *loop, struct tls_server *server, const struct rpcd_conf *conf);
/* keys_conf.on_files.  What cannot be used is logged, and what was there goes on. */
enum tv_err tls_renewal_take(struct tls_renewal *r, const struct keys_files *files);
/* rpcd.conf may say something else now. */
void tls_renewal_reload(struct tls_renewal *r);
void tls_renewal_free(struct tls_renewal *r);	/* NULL: nothing */

/* Whole days from now, rounded down; 0: less than one is left, or it has ended. */
uint64_t tls_renewal_days(int64_t not_after, int64_t now);
/*
 * A warning is due when so many days are left and the last one was made with `warned` left (UINT64_MAX: none): below
 * 30, 14, 7, 3, 2 and 1 days, once each.
 */
bool tls_renewal_is_due(uint64_t days, uint64_t warned);

#endif
