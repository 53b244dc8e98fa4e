/* What the Config of an auth method of type jwt says.  Source: http-api, section 10.2. */
#ifndef TV_RAFTD_LOGIN_METHOD_CONFIG_H
#define TV_RAFTD_LOGIN_METHOD_CONFIG_H

#include "common/base/arena.h"
#include "common/record/records.h"
#include "raftd/login/jwt.h"

#define LOGIN_KEYS_MAX 32u		/* of one method */

/* Where the keys come from that are not in the method itself. */
struct login_source {
	bool discovery;			/* url is an issuer's, whose document says where its keys are */
	struct span url;		/* empty: from nowhere else */
	struct span ca;			/* PEM of those who may vouch for the server; empty: those of the system */
};

struct login_config {			/* texts are in the arena */
	struct span_map values, lists;	/* ClaimMappings and ListClaimMappings: claim, name */
	struct span_list audiences;
	struct span issuer;
	int64_t expiration_leeway, not_before_leeway, clock_skew_leeway;	/* ns, as given */
	struct jwt_key keys[LOGIN_KEYS_MAX];
	unsigned key_count;
	struct login_source source;	/* then there are no keys here */
	uint32_t algorithms;		/* of JWTSupportedAlgs: jwt_algorithm_bit(); 0: not given */
};

bool login_source_same(const struct login_source *a, const struct login_source *b);
/* What a sentence about a failure to get keys begins with: of the method's field. */
const char *login_source_field(const struct login_source *s);
/* The same of a failure to verify a token with its keys. */
const char *login_source_prefix(const struct login_source *s);

/* TV_EINVAL with a sentence as the API shows it behind `Invalid Auth Method: `; TV_ENOMEM.  After either there is nothing to free. */
enum tv_err login_config_parse(struct span json, struct arena *a, struct login_config *out, struct buf *why);
void login_config_free(struct login_config *c);
/* For fsm_options: parses Config, and fills in Values. */
enum tv_err login_check_method(struct acl_method *m, struct arena *a, struct buf *why);

#endif
