/*
 * From the token of a request to what it may do on this node: for what rpcd decides itself, since raftd does not carry
 * it out (this agent, its services and checks, events, keys of gossip).
 *
 * Servers are asked (OP_ACL_RESOLVE), their answers compiled and kept: on an agent for acl.token_ttl, on a server,
 * whose raftd is next to it, only for the case that it is away; never beyond a token's own end.  While no server can be
 * reached, acl.down_policy decides:
 *
 *	extend-cache   what is kept goes on; what is not known is denied
 *	async-cache    the same; and what is kept is used at once, while it is fetched anew
 *	deny, allow    all that is not kept within its time
 *
 * Whether access control holds at all is what the servers say.  A node that heard that it holds keeps that in a file,
 * and believes the contrary only from a server that knows to be up to date: neither a start without servers nor a
 * server with an old state opens it.  Before the first word of a server a node is closed if cluster.conf says
 * acl.enabled, and open otherwise; a server where it says so is closed until access control has begun.
 *
 * Questions are bounded, and a quarter of them is for tokens that had rights before: floods of invented ones keep none
 * of those out.  Where there is no room even so, rights go on for another acl.token_ttl.
 *
 * The secret of a token is kept nowhere but in a question under way; what is kept has a keyed hash of it for a name.
 */
#ifndef TV_RPCD_ACL_RESOLVER_H
#define TV_RPCD_ACL_RESOLVER_H

#include <ev.h>

#include "common/acl/set.h"
#include "rpcd/acl/tokens.h"
#include "rpcd/opts.h"
#include "rpcd/route/route.h"

#define ACL_ACCESSOR_BYTES 37

struct acl_resolver;
struct acl_wait;

struct acl_rights {			/* never change */
	unsigned refs;
	const struct acl_set *set;	/* what may be done; owned */
	char accessor[ACL_ACCESSOR_BYTES];	/* of the token; "" where none was resolved */
	bool local;			/* the token is of this datacenter alone */
	int64_t expires;		/* ns since 1970, when the token ends; 0: never */
	uint8_t digest[32];		/* of the servers' answer */
};

enum acl_standing {
	ACL_OFF,			/* access control does not hold: all is allowed, and there are no rights */
	ACL_GRANTED,			/* what `rights` say, which may be nothing */
	ACL_NOT_FOUND,			/* no token has this secret, or it has ended: 403 "ACL not found" */
};
struct acl_answer {
	enum acl_standing standing;
	/*
	 * No server has judged the token: acl.down_policy has, or one that may not be up to date, and none that is
	 * could be asked.
	 */
	bool unjudged;
	struct acl_rights *rights;	/* ACL_GRANTED; borrowed until the next call of the resolver, unless kept */
};
/* Once, never before acl_ask() returned. */
typedef void acl_done(void *ctx, const struct acl_answer *answer);

struct acl_resolver_conf {
	struct ev_loop *loop;
	struct route *route;
	const struct rpcd_conf *conf;	/* acl.down_policy, acl.token_ttl; borrowed, may change */
	const struct agent_tokens *tokens;	/* borrowed: agent_master */
	const char *node_name;		/* borrowed */
	bool server;
	bool expected;			/* cluster.conf: acl.enabled */
	const char *path;		/* of the file that says that access control holds; borrowed; NULL: none */
};

/* NULL: no memory.  Asks the servers at once whether access control holds. */
struct acl_resolver *acl_resolver_new(const struct acl_resolver_conf *conf);
/* Before the router goes.  Callers that wait are told nothing, and may still cancel. */
void acl_resolver_free(struct acl_resolver *r);

/* Is it known that access control does not hold?  Asks again when it is time, and is not sure meanwhile. */
bool acl_is_off(struct acl_resolver *r);
/* Does it hold, as far as is known?  Neither is true until the first word of a server. */
bool acl_holds(const struct acl_resolver *r);

enum acl_got {
	ACL_NOW,			/* *now is the answer */
	ACL_LATER,			/* done comes, unless *wait is cancelled before */
	ACL_BUSY,			/* too many are under way, and nothing is known of this token */
};
/* What this token may do; "": a request without one.  Equal tokens share one question. */
enum acl_got acl_ask(struct acl_resolver *r, struct span token, struct acl_answer *now, acl_done *done, void *ctx,
    struct acl_wait **wait);
void acl_cancel(struct acl_wait *w);

/* Of a client that has agent_master, or is root on this node: agent write here, and node read. */
struct acl_rights *acl_master_rights(struct acl_resolver *r);
/* Is this the agent_master token? */
bool acl_is_master(const struct acl_resolver *r, struct span token);

/*
 * For the audit trail: the AccessorID of this token, as last resolved here, or "" where that is not known.  A loan
 * until the next call of the resolver.  Asks no server.
 */
struct span resolver_accessor(struct acl_resolver *r, struct span token);

struct acl_rights *acl_rights_keep(struct acl_rights *a);
/* NULL: nothing. */
void acl_rights_free(struct acl_rights *a);

struct acl_stats {
	bool holds;			/* access control */
	bool down;			/* no server could be reached at the last try: acl.down_policy decides */
	enum tv_err down_why;		/* while it is */
	unsigned kept, kept_unknown;	/* tokens with rights, and secrets of none */
	uint64_t bytes;
	unsigned under_way, waiting;
	uint64_t fetches, failed;	/* questions to servers; those that none answered */
	uint64_t by_down_policy;	/* answers that it gave */
	uint64_t not_found;		/* answers ACL_NOT_FOUND */
	uint64_t busy;			/* answers ACL_BUSY */
	uint64_t by_old_rights;		/* answers by rights of the ttl before, since there was no room to ask */
};
void acl_stats(const struct acl_resolver *r, struct acl_stats *out);

#endif
