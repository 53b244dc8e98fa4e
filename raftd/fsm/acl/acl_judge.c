/*
 * May these rights do this?  Of writes, and of what the leader answers from memory: by the row of the operation, or by rules of their own
 * where an operation needs more than one right, or a look at the state.  Source: Consul's documentation of ACLs, http-api, section 10.1.
 *
 * A write is judged before it goes to the log, by a leader that has applied all that was acknowledged before; what the judgement saw
 * goes with it (acl_premise.c).  All looks at the state go through seen(), which writes that down.
 *
 * Names of nodes and services are compared without case, rules by letter.  So that a rule for a name holds for whatever means the same
 * object, the right is needed to the name as it is given, and to the name of what is there.
 */
#include "common/acl/set.h"
#include "common/record/mpack.h"
#include "common/record/op_access.h"
#include "raftd/fsm/acl/acl_int.h"
#include "raftd/fsm/catalog/catalog.h"
#include "raftd/fsm/session/session.h"

#define DENIED "Permission denied"

struct judging {
	struct fsm *f;			/* NULL: the state is not to be looked at */
	const struct acl_set *who;
	struct arena *a;
	bool look;			/* it would have to be */
	struct premises seen;		/* out NULL: not wanted */
};

static bool
may(const struct judging *j, enum acl_resource resource, struct span name)
{
	return acl_set_allows(j->who, resource, name, ACL_WRITE);
}

/* Whatever its name is. */
static bool
may_all(const struct judging *j, enum acl_resource resource)
{
	return acl_set_allows_all(j->who, resource, ACL_WRITE);
}

/* May the state be looked at? */
static bool
looks(struct judging *j)
{
	j->look = j->f == NULL;
	return !j->look;
}

/* Is there such an object, and what matters of it?  The judgement rests on that. */
static bool
seen(struct judging *j, enum premise_kind kind, struct span node, struct span key, struct span *text)
{
	bool there = premise_look(j->f, kind, node, key, j->a, text);

	/* What has a longer name is never there. */
	if (j->seen.out != NULL && node.len <= FSM_NAME_BYTES_MAX && key.len <= FSM_NAME_BYTES_MAX)
		premises_add(&j->seen, kind, node, key, there, *text);
	return there;
}

/* -- names, which mean the same without regard to case -- */

static bool
may_name(struct judging *j, enum acl_resource resource, enum premise_kind kind, struct span name)
{
	struct span stored;

	if (!may(j, resource, name))
		return false;
	if (may_all(j, resource) || !looks(j) || !seen(j, kind, SPAN_NONE, name, &stored))
		return true;
	return may(j, resource, stored);
}

/* A node, or its sessions. */
static bool
may_node(struct judging *j, enum acl_resource resource, struct span name)
{
	return may_name(j, resource, PREMISE_NODE, name);
}

static bool
may_service(struct judging *j, struct span name)
{
	return may_name(j, ACL_SERVICE, PREMISE_SPELLING, name);
}

/* -- keys and sessions -- */

static bool
may_write_key(const struct judging *j, const struct kv_apply *q)
{
	if (q->Verb == KV_DELETE_TREE || q->Verb == KV_DELETE_PART || q->Verb == KV_DELETE_TREE_PARTS)
		return acl_set_writes_below(j->who, ACL_KEY, q->Key);
	return may(j, ACL_KEY, q->Key);
}

/* One that is not there may be ended with any token: nothing happens. */
static bool
may_end_session(struct judging *j, struct span text)
{
	struct span why, node;
	char id[37];

	if (may_all(j, ACL_SESSION) || !looks(j))
		return true;
	if (!session_id(text, id, j->a, &why) || !seen(j, PREMISE_SESSION, SPAN_NONE, arena_copy(j->a, span_str(id)), &node))
		return true;
	return may_node(j, ACL_SESSION, node);
}

/* -- the catalog -- */

static bool
node_changes(const struct catalog_register *q, const struct node *now)
{
	return !q->SkipNodeUpdate && !(span_eq(now->ID, q->ID) && span_eq(now->Node, q->Node) &&
	    span_eq(now->Address, q->Address) && catalog_map_eq(&now->TaggedAddresses, &q->TaggedAddresses) &&
	    catalog_map_eq(&now->Meta, &q->NodeMeta));
}

/* A node that is there, and stays as it is, needs no right to it. */
static bool
node_stays(struct judging *j, struct span node, const struct catalog_register *q)
{
	struct span text;
	struct node now;

	if (!seen(j, PREMISE_NODE, SPAN_NONE, node, &text))
		return false;
	if (q->SkipNodeUpdate)
		return true;
	return catalog_node(j->f, node, j->a, &now) && !node_changes(q, &now) &&
	    seen(j, PREMISE_NODE_WHOLE, SPAN_NONE, node, &text);
}

/* The node that a registration is about: *node is its name then, where it is given by its id alone. */
static bool
may_register_node(struct judging *j, const struct catalog_register *q, struct span *node)
{
	struct span other;

	*node = q->Node;
	if (q->ID.len > 0 && seen(j, PREMISE_NODE_ID, SPAN_NONE, q->ID, &other)) {
		if (node->len == 0)
			*node = other;
		else if (!span_eq_nocase(other, *node) && !may_node(j, ACL_NODE, other))
			return false;		/* it would get another name */
	}
	return may_node(j, ACL_NODE, *node) || node_stays(j, *node, q);
}

/* The service itself, what it is registered as now, and what it speaks for. */
static bool
may_register_service(struct judging *j, struct span node, const struct service *s)
{
	struct span now;

	if (!may_service(j, s->Service))
		return false;
	if (span_eqs(s->Kind, "connect-proxy") && !may_service(j, s->Proxy.DestinationServiceName))
		return false;
	return !seen(j, PREMISE_SERVICE, node, s->ID.len > 0 ? s->ID : s->Service, &now) || may(j, ACL_SERVICE, now);
}

/* What there is: a node's, or a service's. */
static bool
may_change_check(struct judging *j, struct span node, struct span service)
{
	return service.len == 0 ? may_node(j, ACL_NODE, node) : may(j, ACL_SERVICE, service);
}

/*
 * A check is its node's, or a service's: of the one that comes with it, for which there is a right then, or of one that is there.
 * Of neither it cannot be: that is an error, of which those are told who may write the node.
 */
static bool
may_register_check(struct judging *j, struct span node, bool with_service, const struct check *c)
{
	struct span now;

	if (seen(j, PREMISE_CHECK, node, c->CheckID.len > 0 ? c->CheckID : c->Name, &now) && !may_change_check(j, node, now))
		return false;			/* it would be another one's afterwards */
	if (c->ServiceID.len == 0)
		return may_node(j, ACL_NODE, node);
	if (with_service)
		return true;
	return seen(j, PREMISE_SERVICE, node, c->ServiceID, &now) ? may(j, ACL_SERVICE, now) : may_node(j, ACL_NODE, node);
}

static bool
is_check_of(const struct service *s, const struct check *c)
{
	return c->ServiceID.len > 0 && span_eq_nocase(s->ID.len > 0 ? s->ID : s->Service, c->ServiceID);
}

static bool
may_register(struct judging *j, const struct catalog_register *q)
{
	const struct check *checks = q->Checks.v;
	struct span node;

	if ((may_all(j, ACL_NODE) && may_all(j, ACL_SERVICE)) || !looks(j))
		return true;
	if (!may_register_node(j, q, &node))
		return false;
	if (q->has_service && !may_register_service(j, node, &q->Service))
		return false;
	if (q->has_check && !may_register_check(j, node, q->has_service && is_check_of(&q->Service, &q->Check), &q->Check))
		return false;
	for (uint32_t i = 0; i < q->Checks.n; i++)
		if (!may_register_check(j, node, q->has_service && is_check_of(&q->Service, &checks[i]), &checks[i]))
			return false;
	return true;
}

static bool
may_deregister(struct judging *j, const struct catalog_deregister *q)
{
	struct span service;

	if (may_node(j, ACL_NODE, q->Node))
		return true;
	if (q->ServiceID.len == 0 && q->CheckID.len == 0)
		return false;
	if (!looks(j))
		return true;
	if (q->ServiceID.len > 0)
		return seen(j, PREMISE_SERVICE, q->Node, q->ServiceID, &service) && may(j, ACL_SERVICE, service);
	return seen(j, PREMISE_CHECK, q->Node, q->CheckID, &service) && service.len > 0 && may(j, ACL_SERVICE, service);
}

/* -- prepared queries -- */

/* name: that it is to have; NULL: it is to be deleted. */
static bool
may_change_query(struct judging *j, struct span id_text, const struct span *name)
{
	struct span why, now;
	char id[37];

	if (name != NULL && !may(j, ACL_QUERY, *name))
		return false;
	if (may_all(j, ACL_QUERY) || !looks(j))
		return true;
	return !uuid_id(id_text, "", id, j->a, &why) || !seen(j, PREMISE_QUERY, SPAN_NONE, arena_copy(j->a, span_str(id)), &now) ||
	    may(j, ACL_QUERY, now);
}

/* -- transactions -- */

static bool
may_txn_kv(struct judging *j, const struct txn_kv *q)
{
	if (span_eqs(q->Verb, "get") || span_eqs(q->Verb, "get-or-empty") || span_eqs(q->Verb, "get-tree"))
		return true;			/* what may not be seen is left out of the answer */
	if (span_starts(q->Verb, span_str("check-")))
		return acl_set_allows(j->who, ACL_KEY, q->Key, ACL_READ);
	if (span_eqs(q->Verb, "delete-tree"))
		return acl_set_writes_below(j->who, ACL_KEY, q->Key);
	return may(j, ACL_KEY, q->Key);
}

static bool
deletes(struct span verb)
{
	return span_eqs(verb, "delete") || span_eqs(verb, "delete-cas");
}

static bool
may_txn_node(struct judging *j, const struct txn_node *q)
{
	struct span other;

	if (span_eqs(q->Verb, "get"))
		return true;
	if (!may_node(j, ACL_NODE, q->Node.Node))
		return false;
	if (q->Node.ID.len == 0 || may_all(j, ACL_NODE) || !looks(j))
		return true;
	return !seen(j, PREMISE_NODE_ID, SPAN_NONE, q->Node.ID, &other) || may_node(j, ACL_NODE, other);
}

static bool
may_txn_service(struct judging *j, const struct txn_service *q)
{
	struct span now;

	if (span_eqs(q->Verb, "get") || may_all(j, ACL_SERVICE) || !looks(j))
		return true;
	if (deletes(q->Verb))
		return seen(j, PREMISE_SERVICE, q->Node, q->Service.ID, &now) ? may(j, ACL_SERVICE, now) :
		    may_service(j, q->Service.Service);
	return may_register_service(j, q->Node, &q->Service);
}

/* Does an operation before this one register the check's service? */
static bool
comes_before(const struct txn_op *ops, uint32_t before, const struct check *c)
{
	for (uint32_t i = 0; i < before; i++) {
		const struct txn_service *s = &ops[i].Service;

		if (ops[i].has_service && (span_eqs(s->Verb, "set") || span_eqs(s->Verb, "cas")) &&
		    span_eq_nocase(s->Node, c->Node) && is_check_of(&s->Service, c))
			return true;
	}
	return false;
}

static bool
may_txn_check(struct judging *j, const struct txn_op *ops, uint32_t at)
{
	const struct txn_check *q = &ops[at].Check;
	struct span now;

	if (span_eqs(q->Verb, "get") || (may_all(j, ACL_NODE) && may_all(j, ACL_SERVICE)) || !looks(j))
		return true;
	if (!deletes(q->Verb))
		return may_register_check(j, q->Check.Node, comes_before(ops, at, &q->Check), &q->Check);
	if (!seen(j, PREMISE_CHECK, q->Check.Node, q->Check.CheckID, &now))
		now = q->Check.ServiceID.len > 0 ? q->Check.ServiceName : SPAN_NONE;
	return may_change_check(j, q->Check.Node, now);
}

static bool
may_txn_op(struct judging *j, const struct txn_op *ops, uint32_t at)
{
	const struct txn_op *op = &ops[at];

	if (op->has_kv)
		return may_txn_kv(j, &op->KV);
	if (op->has_service)
		return may_txn_service(j, &op->Service);
	if (op->has_check)
		return may_txn_check(j, ops, at);
	return !op->has_node || may_txn_node(j, &op->Node);
}

/* The errors of those that are refused, as the transaction's reply; false: there are none. */
static bool
txn_refused(struct judging *j, const struct txn *q, struct buf *reply)
{
	struct txn_error *errors = arena_array(j->a, q->Ops.n + 1, sizeof(*errors));
	const struct txn_op *ops = q->Ops.v;
	struct txn_reply r = { .Errors = { .v = errors, .set = true } };

	for (uint32_t i = 0; errors != NULL && i < q->Ops.n; i++)
		if (!may_txn_op(j, ops, i))
			errors[r.Errors.n++] = (struct txn_error){ .OpIndex = i, .What = span_str(DENIED) };
	if (errors != NULL && r.Errors.n == 0)
		return false;
	schema_pack(&txn_reply_schema, &r, reply);
	return true;
}

/* -- all of it -- */

static bool
judge_op(struct judging *j, const struct op *op, const void *rec, struct buf *reply)
{
	switch (op->code) {
	case OP_KV_APPLY:
		return may_write_key(j, rec);
	case OP_SESSION_CREATE:
		return may_node(j, ACL_SESSION, ((const struct session *)rec)->Node);
	case OP_SESSION_DESTROY:
		return may_end_session(j, ((const struct session_destroy *)rec)->ID);
	case OP_SESSION_RENEW:
		return may_end_session(j, ((const struct session_read *)rec)->ID);
	case OP_COORDINATE_UPDATE:
		return may_node(j, ACL_NODE, ((const struct coordinate_update *)rec)->Node);
	case OP_CATALOG_REGISTER:
		return may_register(j, rec);
	case OP_CATALOG_DEREGISTER:
		return may_deregister(j, rec);
	case OP_QUERY_UPDATE:
		return may_change_query(j, ((const struct prepared_query *)rec)->ID, &((const struct prepared_query *)rec)->Name);
	case OP_QUERY_DELETE:
		return may_change_query(j, ((const struct prepared_read *)rec)->ID, NULL);
	case OP_TXN_READ:
	case OP_TXN_APPLY:
		return !txn_refused(j, rec, reply) || j->look;
	default:
		return op_access_allows(j->who, op, rec);
	}
}

/* What was found is what the caller is told. */
static enum tv_err
judged(struct judging *j, const struct op *op, bool good, const char **why)
{
	if (j->look)
		return TV_EAGAIN;
	if (!good) {
		*why = acl_denied_text(op);
		return TV_EPERM;
	}
	premises_end(&j->seen);
	if (j->seen.out == NULL || !j->seen.out->failed)
		return TV_OK;
	*why = "the rights to so many objects at once cannot be judged: write them in several requests";
	return TV_ELIMIT;
}

enum tv_err
fsm_may(struct fsm *f, const struct op *op, struct span args, const struct fsm_rights *rights, struct buf *reply,
    struct buf *premises, const char **why)
{
	struct arena a = ARENA_INIT(2 * FSM_RECORD_MEMORY);
	struct judging j = { .f = f, .who = rights == NULL ? NULL : fsm_rights_set(rights), .a = &a, .seen = { .out = premises } };
	struct rd in = rd_span_over(args);
	size_t before = reply->len;
	enum tv_err err = TV_EFORMAT;
	void *rec;

	if (rights == NULL)
		return TV_OK;
	rec = arena_alloc(&a, op->args->size);
	if (rec == NULL || schema_unpack(op->args, &in, &a, rec) != TV_OK || rd_end(&in) != TV_OK)
		*why = "malformed arguments";
	else
		err = judged(&j, op, judge_op(&j, op, rec, reply), why);
	if (err == TV_EAGAIN)
		reply->len = before;
	arena_done(&a);
	return err;
}
