/*
 * The checks of one node in memory, for an answer about many instances of a service on it: each of those shows the node's
 * own checks and those of its service.  A walk over all checks for each would take the square of their number, and the
 * loop does nothing else meanwhile.
 */
#ifndef TV_RAFTD_FSM_CATALOG_NODE_CHECKS_H
#define TV_RAFTD_FSM_CATALOG_NODE_CHECKS_H

#include "raftd/fsm/catalog/catalog.h"

struct node_check {
	struct span packed;		/* in the arena */
	struct span service_id, id, status;	/* in that */
	uint32_t at;			/* in the order of check ids */
};

struct node_checks {			/* caller's storage */
	struct fsm *f;
	struct arena arena;
	struct buf node, rows;		/* its name; struct node_check, by service id: the node's own first */
	uint32_t count;
	bool asked, tried, loaded;
};

void node_checks_begin(struct fsm *f, struct node_checks *m);
void node_checks_end(struct node_checks *m);
/*
 * Are the checks of this node at hand?  Not when it is asked for once, as most are: a walk is as good then; nor when they take
 * more than 16 MB.
 */
bool node_checks_of(struct node_checks *m, struct span node);
/*
 * Of the node last asked for: appends its own checks and those of the service, in order.  How many; *good: all of them are, by
 * the rule (NULL: they are).
 */
uint32_t node_checks_put(const struct node_checks *m, struct span service_id, const struct check_rule *rule, struct buf *out,
    bool *good);
bool check_is_good(const struct check_rule *rule, struct span id, struct span status);

#endif
