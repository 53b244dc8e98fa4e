/*
 * Logins: from a bearer token to the token that it is exchanged for.  Pure: what is looked at is handed in, and the time.
 */
#ifndef TV_RAFTD_LOGIN_LOGIN_H
#define TV_RAFTD_LOGIN_LOGIN_H

#include "common/base/arena.h"
#include "raftd/fsm/fsm.h"
#include "raftd/login/issuers.h"

/* What a login lacks: keys of this source. */
struct login_need {
	struct login_source source;	/* in the arena */
	uint64_t after;			/* a newer set than this one, which has not signed the token; 0: any */
};

struct login_ask {
	struct span bearer;
	struct span_map meta;		/* goes into the description */
	const char *datacenter;
	int64_t now;			/* wall clock, ns */
	const struct key_set *keys;	/* that were fetched, maybe for another source; NULL: none yet */
	/* The id of the role that has this name.  TV_ENOENT: there is none. */
	enum tv_err (*role)(void *ctx, struct span name, char id[37]);
	void *ctx;
};

/*
 * What OP_ACL_LOGIN is proposed with, in the arena.  TV_EINVAL, TV_EPERM (nothing is bound): with the sentence that the API shows;
 * TV_ENOMEM; what `role` says.  TV_EAGAIN: what *need says is needed to decide; the sentence is for when it is not to be had.
 */
enum tv_err login_decide(const struct login_ask *ask, const struct fsm_login_view *view, struct arena *a, struct acl_login *out,
    struct login_need *need, struct buf *why);

/* The same of claims whose signature is known to be good, by a configuration that was parsed. */
enum tv_err login_decide_claims(const struct login_ask *ask, const struct fsm_login_view *view, const struct login_config *config,
    json_t *claims, struct arena *a, struct acl_login *out, struct buf *why);

#endif
