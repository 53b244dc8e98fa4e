/*
 * Who used how much of this node: clients of its API, tokens, endpoints, and keys by the beginning of their names; and
 * other nodes, whose requests come over links.  For GET /v1/agent/top and metrics.  No secret is kept: a token is its
 * AccessorID, and a keyed hash of it.
 */
#ifndef TV_RPCD_API_ACCOUNTS_H
#define TV_RPCD_API_ACCOUNTS_H

#include "common/base/mono.h"
#include "rpcd/api/usage.h"

struct acl_wait;
struct api;
struct request;

enum account { ACCOUNT_CLIENTS, ACCOUNT_TOKENS, ACCOUNT_KEYS, ACCOUNT_NODES, ACCOUNTS };
#define ACCOUNT_QUESTIONS 4		/* whose token is it?  Under way at once */

struct accounts {			/* zeros: empty */
	struct usage_table tables[ACCOUNTS];
	struct usage *endpoints;	/* owned, by endpoint_number(); NULL: none yet */
	struct account_question {
		struct accounts *of;
		uint64_t key;		/* of the token; 0: none is under way */
	} questions[ACCOUNT_QUESTIONS];
};

/* A request is over: everything of it is still there, or was folded (api_fold()). */
void accounts_add(struct request *r, struct mono took);
/* An operation came over a link of this peer ("ip:port"), for a client there or the node itself, and was answered. */
void accounts_add_node(struct accounts *a, const char *peer, uint64_t bytes_in, uint64_t bytes_out);
/* After the resolver of tokens. */
void accounts_done(struct accounts *a);

#endif
