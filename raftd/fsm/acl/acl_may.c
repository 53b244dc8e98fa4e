/*
 * Who may what: by the access column of common/record/ops.h.  Source: Consul's documentation of ACLs, http-api, section 10.1.
 *
 * A read is judged in the state that it is read in, and what it lists is filtered as it is written.  Writes are acl_judge.c's.
 */
#include "common/record/op_access.h"
#include "raftd/fsm/acl/acl_int.h"

/* Where Consul says what is missing. */
const char *
acl_denied_text(const struct op *op)
{
	switch (op->code) {
	case OP_AUTOPILOT_READ:
	case OP_AUTOPILOT_HEALTH:
		return ACL_DENIED ": Missing operator:read permissions";
	case OP_AUTOPILOT_SET:
		return ACL_DENIED ": Missing operator:write permissions";
	default:
		return ACL_DENIED;
	}
}

/* -- reads -- */

bool
may_read_at_node(const struct reading *r, enum acl_resource resource, struct span node, struct arena *a)
{
	struct span stored;

	if (may_read_all(r, resource))
		return true;
	return may_read(r, resource, premise_look(r->f, PREMISE_NODE, SPAN_NONE, node, a, &stored) ? stored : node);
}

/* By the row; a node by its name as it is stored. */
static bool
may_read_object(struct reading *r, const struct op *op, const void *rec)
{
	if (op->code == OP_COORDINATE_NODE)
		return may_read_at_node(r, ACL_NODE, ((const struct coordinate_read *)rec)->Node, r->a);
	return op_access_allows(r->who, op, rec);
}

bool
may_ask(struct reading *r, const struct op *op, const void *rec)
{
	/* Lists of keys are filtered, unless they need a right of their own. */
	if (r->who == NULL || (op->access.right == OP_MAY_LIST && !r->f->opt.acl_key_list) || may_read_object(r, op, rec))
		return true;
	read_fail(r, TV_EPERM, "%s", acl_denied_text(op));
	return false;
}

/* -- transactions -- */

static bool
may_see_result(const struct reading *r, const struct txn_result *x)
{
	if (x->has_kv)
		return may_read(r, ACL_KEY, x->KV.Key);
	if (x->has_node)
		return may_read_node(r, x->Node.Node);
	if (x->has_service)
		return may_read(r, ACL_SERVICE, x->Service.Service);
	return !x->has_check || (x->Check.ServiceID.len > 0 ? may_read(r, ACL_SERVICE, x->Check.ServiceName) :
	    may_read_node(r, x->Check.Node));
}

enum tv_err
fsm_txn_filter(const struct fsm_rights *rights, struct span reply, struct buf *out)
{
	struct reading r = { .who = rights == NULL ? NULL : fsm_rights_set(rights) };
	struct arena a = ARENA_INIT(2 * FSM_RECORD_MEMORY);
	struct rd in = rd_span_over(reply);
	struct txn_reply t = { .Results = { .n = 0 } };
	struct txn_result *v;
	uint32_t n = 0;
	enum tv_err err;

	if (may_read_all(&r, ACL_KEY) && may_read_all(&r, ACL_NODE) && may_read_all(&r, ACL_SERVICE)) {
		buf_putspan(out, reply);
		return TV_OK;
	}
	err = schema_unpack(&txn_reply_schema, &in, &a, &t);
	v = t.Results.v;
	for (uint32_t i = 0; err == TV_OK && i < t.Results.n; i++)
		if (may_see_result(&r, &v[i]))
			v[n++] = v[i];
	if (err == TV_OK) {
		t.Results.n = n;
		schema_pack(&txn_reply_schema, &t, out);
	}
	arena_done(&a);
	return err;
}
