/* Access control, as other areas see it: does it hold, and may what is read be shown? */
#ifndef TV_RAFTD_FSM_ACL_ACL_H
#define TV_RAFTD_FSM_ACL_ACL_H

#include "common/acl/set.h"
#include "raftd/fsm/apply.h"

/* -- acl.c -- */
/* The record, as the running transaction sees it; false: access control does not hold. */
bool acl_load(struct fsm *f, struct arena *a, struct acl_state *out);
/* The highest index of the tables that an answer about tokens is made of. */
uint64_t acl_index_of(const struct fsm *f);

/* -- acl_rights.c -- */
struct acl_rights_table *acl_rights_table_new(void);	/* NULL: no memory */
/* What is left of it goes with the last rights that it gave. */
void acl_rights_table_free(struct acl_rights_table *t);

/* -- acl_premise.c -- */
#define PREMISES_BYTES_MAX (16u << 20)	/* of one write: some 300,000 objects */
/*
 * Is the state, as the running transaction sees it, what the judgement of this entry saw?  False: the entry has failed, with TV_EAGAIN and
 * `outdated` if it is not.
 */
bool premises_hold(struct apply *p, struct span packed);

/* -- acl_token.c -- */
/* As the options say; 0 without a clock. */
int64_t fsm_wall_now(const struct fsm *f);

/* -- acl_may.c: may this be shown to the reader's token? -- */
#define ACL_DENIED "Permission denied"
static inline bool
may_read(const struct reading *r, enum acl_resource resource, struct span name)
{
	bool may = r->who == NULL || acl_set_allows(r->who, resource, name, ACL_READ);

	if (!may && r->ans != NULL)
		r->ans->hidden = true;
	return may;
}
static inline bool
may_read_node(const struct reading *r, struct span node)
{
	return may_read(r, ACL_NODE, node);
}
/* An instance or a check: its node, and its service if it has one. */
static inline bool
may_read_service(const struct reading *r, struct span node, struct span service)
{
	return may_read(r, ACL_NODE, node) && (service.len == 0 || may_read(r, ACL_SERVICE, service));
}
/* Is nothing of this resource left out? */
static inline bool
may_read_all(const struct reading *r, enum acl_resource resource)
{
	return r->who == NULL || acl_set_allows_all(r->who, resource, ACL_READ);
}
/*
 * What belongs to a node (resource: ACL_NODE, ACL_SESSION), by the node's name as it is stored, if it is there: what belongs to it may have
 * been given it in another spelling.
 */
bool may_read_at_node(const struct reading *r, enum acl_resource resource, struct span node, struct arena *a);
/* By the row of the operation, before anything is read; false: the read has failed with TV_EPERM. */
bool may_ask(struct reading *r, const struct op *op, const void *rec);

#endif
