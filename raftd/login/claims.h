/* The claims of a bearer token whose signature is good: are they those of a token for us, now?  And what of them do rules see? */
#ifndef TV_RAFTD_LOGIN_CLAIMS_H
#define TV_RAFTD_LOGIN_CLAIMS_H

#include "raftd/login/method_config.h"

/* Times, issuer, audience.  now: wall clock in ns.  TV_EINVAL with a sentence as the API shows it. */
enum tv_err claims_check(const struct login_config *c, json_t *all, int64_t now, struct buf *why);
/* The same of a method with an OIDCDiscoveryURL: an ID token, of that issuer, that says how long it is good. */
enum tv_err claims_check_id_token(const struct login_config *c, json_t *all, int64_t now, struct buf *why);
/* By the method's mappings, in their order; in the arena.  TV_EINVAL as above; TV_ENOMEM. */
enum tv_err claims_take(const struct login_config *c, json_t *all, struct arena *a, struct acl_claims *out, struct buf *why);

#endif
