/*
 * Copies policies, roles and global tokens of the primary datacenter into this one: in the rpcd next to the leader.
 *
 * A round: wait at the primary until something has changed there (a blocking query); list what changed, page by page;
 * compare each page with what is here; fetch what differs, and have it written, in batches at a bounded rate; then
 * write how far that is.  The first round of a leader, one in an hour, and one after a restore there or where numbers
 * do not agree, lists everything: then what the primary does not have any more goes.  Nothing is kept here that a new
 * leader would need.
 *
 * Sources: raftd/fsm/acl/acl_repl.c, the other side of it.
 */
#ifndef TV_RPCD_REPLICATE_REPLICATE_H
#define TV_RPCD_REPLICATE_REPLICATE_H

#include <ev.h>

#include "rpcd/route/route.h"

struct acl_replicator;

struct acl_replicator_conf {
	struct ev_loop *loop;
	struct route *route;
	const struct raftd_client *raft;
	const struct members *members;
	const char *primary;		/* the datacenter; borrowed */
	/* The replication token now, "": none; a loan until the next turn of the loop. */
	struct span (*token)(void *ctx);
	void *ctx;
	uint64_t seed;
};

/* NULL: no memory. */
struct acl_replicator *acl_replicator_new(const struct acl_replicator_conf *conf);
void acl_replicator_free(struct acl_replicator *r);	/* NULL: nothing */
/* The leader, the members, or the token, may have changed. */
void acl_replicator_wake(struct acl_replicator *r);	/* NULL: nothing */

struct acl_replicator_stats {
	bool running;
	uint64_t rounds, whole, failures;	/* completed; of everything; that ended with an error */
	uint64_t copied, deleted, bytes;	/* records written here */
	uint64_t behind;		/* by so many indexes of the primary; 0: it is all here */
	uint64_t age_s;			/* since a round was completed; 0: none was */
	/* Of the last round that found a change, from hearing of it to having it written here. */
	uint64_t round_ms;
};
/*
 * Why nothing is copied now: there is no token, or the last round failed; "": nothing is known against it, or NULL.
 * Borrowed until the next turn of the loop.
 */
const char *acl_replicator_trouble(const struct acl_replicator *r);
/* Zeros for NULL. */
void acl_replicator_stats(const struct acl_replicator *r, struct acl_replicator_stats *out);

#endif
