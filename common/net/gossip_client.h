/*
 * A connection to gossipd.sock that follows the members of the pools.  While gossipd is away the members stay as they
 * were; after it returns, those that it no longer knows are forgotten: it may have lost its memory.
 */
#ifndef TV_COMMON_NET_GOSSIP_CLIENT_H
#define TV_COMMON_NET_GOSSIP_CLIENT_H

#include "common/net/daemon_client.h"
#include "common/record/member_table.h"

struct gossip_client {
	/* Set before gossip_client_start(): of `daemon` only the loop and texts, and perhaps backoff_max. */
	struct daemon_client daemon;
	unsigned members_max;		/* of a pool; further ones are counted and left out */
	const char *when_full;		/* logged behind "more than N members"; borrowed */
	bool wan;			/* the WAN pool too; else its members are skipped */
	bool keep_gone;			/* members that were reaped are marked, and stay until their slot is removed */
	bool events;			/* user events and queries are wanted too */
	/* Connected, before anything is asked for: what gossipd has to know first.  May be NULL. */
	void (*on_up)(void *ctx, struct chan *c);
	/*
	 * A member came or changed, or went and was marked.  before: its enum member_status until then, MEMBER_NONE of
	 * one that was not there.  s is dirty, which the user may clear; NULL: members went, or the list is complete.
	 */
	void (*on_change)(void *ctx, struct member_slot *s, uint8_t before);
	enum tv_err (*on_frame)(void *ctx, struct chan *c, const struct frame *f);	/* another one; may be NULL */
	void (*on_down)(void *ctx, enum tv_err why, unsigned failures);	/* `synced` is as it was; may be NULL */
	void *ctx;
	/* Its own. */
	struct member_table pools[2];	/* by enum gossip_pool */
	bool synced;			/* connected, and the list of members is complete */
	struct arena scratch;
};

/* Dials from the loop.  False: no memory. */
bool gossip_client_start(struct gossip_client *g);
/* Forgets the members; calls under way end with TV_ECLOSED.  One that was not started: nothing. */
void gossip_client_stop(struct gossip_client *g);

#endif
