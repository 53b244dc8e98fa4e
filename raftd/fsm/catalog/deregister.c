/*
 * Catalog deregistration: a node with all it has, a service with its checks, or a check.  Unknown things are gone
 * already, which is no error.
 */
#include "raftd/fsm/catalog/catalog.h"

static enum tv_err
deregister_prepare(struct prepare *p, void *rec)
{
	struct catalog_deregister *q = rec;

	if (q->Node.len == 0)
		return prepare_fail(p, "Must provide node");
	q->Now = p->now;
	return TV_OK;
}

/* Does it name the id of another node than the one that has this name now? */
static bool
is_of_another(struct apply *p, const struct catalog_deregister *q)
{
	struct node n;

	if (!fsm_guards_nodes(p->f) || q->ID.len == 0 || !catalog_node(p->f, q->Node, &p->f->work, &n) ||
	    n.ID.len == 0 || span_eq_nocase(n.ID, q->ID))
		return false;
	apply_fail(p, TV_ECONFLICT, "Node name %.*s is reserved by node %.*s with name %.*s (%.*s)", (int)q->Node.len,
	    (const char *)q->Node.p, (int)n.ID.len, (const char *)n.ID.p, (int)n.Node.len, (const char *)n.Node.p,
	    (int)n.Address.len, (const char *)n.Address.p);
	return true;
}

static void
deregister_apply(struct apply *p, const void *rec)
{
	const struct catalog_deregister *q = rec;
	struct fsm *f = p->f;
	struct node n;
	struct service s;
	struct check c;

	if (is_of_another(p, q))
		return;
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
