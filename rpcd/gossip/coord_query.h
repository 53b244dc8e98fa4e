/* MSG_GOSSIP_COORDS: asking gossipd for coordinates, and reading its answer. */
#ifndef TV_RPCD_GOSSIP_COORD_QUERY_H
#define TV_RPCD_GOSSIP_COORD_QUERY_H

#include "common/record/coordinate.h"
#include "rpcd/gossip/members.h"

/*
 * Asks for all of a pool; with a name for that member's and our own, which always comes first.  As
 * daemon_client_call().
 */
uint64_t coord_query_ask(struct members *v, enum gossip_pool pool, struct span name, calls_done *done, void *ctx,
    enum tv_err *err);

struct coord_query_answer {
	enum tv_err err;		/* of gossipd */
	struct span text;		/* its sentence; borrowed */
	struct rd in;			/* private: at the next entry */
	uint32_t left;
};
/* Begins to read an answer body.  TV_EFORMAT: it is none. */
enum tv_err coord_query_read(struct span body, struct coord_query_answer *a);
/*
 * The next entry; name borrows the body.  False at the end, or when the rest is malformed.  Implausible ones are
 * skipped.
 */
bool coord_query_next(struct coord_query_answer *a, struct span *name, struct coordinate *out);

#endif
