/*
 * Catalog deregistration: a node with all it has, a service with its checks, or a check.  Unknown things are gone
 * already, which is no error.
 */
#include "raftd/fsm/fsm_int.h"

static enum tv_err
deregister_prepare(struct prepare *p, void *rec)
{
	struct catalog_deregister *q = rec;

	if (q->Node.len == 0)
		return prepare_fail(p, "Must provide node");
	q->Now = p->now;
	return TV_OK;
}

static void
deregister_apply(struct apply *p, const void *rec)
{
	const struct catalog_deregister *q = rec;
	struct fsm *f = p->f;
	struct node n;
	struct service s;
	struct check c;

	if (q->ServiceID.len > 0) {
		if (catalog_service(f, q->Node, q->ServiceID, &f->work, &s))
			catalog_remove_service(f, q->Node, &s, q->Now);
	} else if (q->CheckID.len > 0) {
		if (catalog_check(f, q->Node, q->CheckID, &f->work, &c))
			catalog_remove_check(f, &c, q->Now);
	} else if (catalog_node(f, q->Node, &f->work, &n)) {
		catalog_remove_node(f, &n, q->Now);
	}
	apply_bool(p, true);
}

const struct fsm_op deregister_ops[] = {
	{ OP_CATALOG_DEREGISTER, .prepare = deregister_prepare, .apply = deregister_apply },
	{ 0 },
};
