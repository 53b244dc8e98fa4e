/*
 * Who may what: by the access column of common/record/ops.h, and by rules of its own where an operation needs more than one
 * right, or a look at the state.  Source: Consul's documentation of ACLs, http-api, section 10.1.
 *
 * A read is judged in the state that it is read in, and what it lists is filtered as it is written.  A write is judged before it
 * goes to the log, by a leader that has applied all that was acknowledged before.
 */
#include "common/record/mpack.h"
#include "raftd/fsm/acl/acl_int.h"
#include "raftd/fsm/query/query_int.h"

#define DENIED "Permission denied"
#define UNKNOWN_TOKEN "ACL not found"

/* -- rows -- */

static enum acl_resource
resource_of(enum op_resource r)
{
	switch (r) {
	case OP_RES_KEY:
		return ACL_KEY;
	case OP_RES_NODE:
		return ACL_NODE;
	case OP_RES_SERVICE:
		return ACL_SERVICE;
	case OP_RES_EVENT:
		return ACL_EVENT;
	case OP_RES_SESSION:
	case OP_RES_SESSION_ID:
		return ACL_SESSION;
	case OP_RES_OPERATOR:
		return ACL_OPERATOR;
	case OP_RES_KEYRING:
		return ACL_KEYRING;
	case OP_RES_AGENT:
		return ACL_AGENT;
	case OP_RES_QUERY:
	case OP_RES_QUERY_ID:
		return ACL_QUERY;
	case OP_RES_STATE:
	case OP_RES_ACL:
		break;
	}
	return ACL_ACL;
}

/* All of the state holds the secrets of all tokens. */
static enum acl_access
access_of(const struct op_access *a)
{
	if (a->resource == OP_RES_STATE || a->right == OP_MAY_WRITE)
		return ACL_WRITE;
	return a->right == OP_MAY_LIST ? ACL_LIST : ACL_READ;
}

/* Where Consul says what is missing. */
static const char *
denied_text(const struct op *op)
{
	switch (op->code) {
	case OP_AUTOPILOT_READ:
	case OP_AUTOPILOT_HEALTH:
		return DENIED ": Missing operator:read permissions";
	case OP_AUTOPILOT_SET:
		return DENIED ": Missing operator:write permissions";
	default:
		return DENIED;
	}
}

static struct span
field_of(const struct op *op, const void *rec)
{
	return *(const struct span *)(const void *)((const char *)rec + op->access.field);
}

/* By the row alone. */
static bool
row_allows(const struct op *op, const void *rec, const struct acl_set *who)
{
	const struct op_access *a = &op->access;

	switch (a->scope) {
	case OP_OBJECT:
		return acl_set_allows(who, resource_of(a->resource), field_of(op, rec), access_of(a));
	case OP_ALL:
		return acl_set_allows(who, resource_of(a->resource), SPAN_NONE, access_of(a));
	case OP_FILTER:
	case OP_NONE:
		return true;
	case OP_VERB:
		break;				/* none of raftd's */
	}
	return false;
}

/* -- reads -- */

bool
may_ask(struct reading *r, const struct op *op, const void *rec)
{
	const struct op_access *a = &op->access;

	/* Lists of keys are filtered, unless they need a right of their own. */
	if (r->who == NULL || (a->right == OP_MAY_LIST && !r->f->opt.acl_key_list) || row_allows(op, rec, r->who))
		return true;
	read_fail(r, TV_EPERM, "%s", denied_text(op));
	return false;
}

/* -- writes that need more than their row says -- */

struct judging {
	struct fsm *f;			/* NULL: the state is not to be looked at */
	const struct acl_set *who;
	struct arena *a;
	bool look;			/* it would have to be */
};

static bool
may(const struct judging *j, enum acl_resource resource, struct span name)
{
	return acl_set_allows(j->who, resource, name, ACL_WRITE);
}

/* May the state be looked at? */
static bool
looks(struct judging *j)
{
	j->look = j->f == NULL;
	return !j->look;
}

static bool
may_write_key(const struct judging *j, const struct kv_apply *q)
{
	if (q->Verb == KV_DELETE_TREE || q->Verb == KV_DELETE_PART || q->Verb == KV_DELETE_TREE_PARTS)
		return acl_set_writes_below(j->who, ACL_KEY, q->Key);
	return may(j, ACL_KEY, q->Key);
}

/* One that is not there may be ended by anybody: nothing happens. */
static bool
may_end_session(struct judging *j, struct span text)
{
	struct session s;
	struct span why;
	char id[37];

	if (!looks(j))
		return true;
	return !session_id(text, id, j->a, &why) || !session_find(j->f, id, j->a, &s) || may(j, ACL_SESSION, s.Node);
}

static bool
node_changes(const struct catalog_register *q, const struct node *now)
{
	return !q->SkipNodeUpdate && !(span_eq(now->ID, q->ID) && span_eq(now->Node, q->Node) &&
	    span_eq(now->Address, q->Address) && catalog_map_eq(&now->TaggedAddresses, &q->TaggedAddresses) &&
	    catalog_map_eq(&now->Meta, &q->NodeMeta));
}

/* The service itself, what it is registered as now, and what it speaks for. */
static bool
may_register_service(struct judging *j, struct span node, const struct service *s)
{
	struct service now;

	if (!may(j, ACL_SERVICE, s->Service))
		return false;
	if (span_eqs(s->Kind, "connect-proxy") && !may(j, ACL_SERVICE, s->Proxy.DestinationServiceName))
		return false;
	return !catalog_service(j->f, node, s->ID.len > 0 ? s->ID : s->Service, j->a, &now) || may(j, ACL_SERVICE, now.Service);
}

/* A check is its node's, or a service's: of one that is there, or that comes with it. */
static bool
may_register_check(struct judging *j, struct span node, const struct service *with, const struct check *c)
{
	struct service now;
	struct check before;

	if (catalog_check(j->f, node, c->CheckID.len > 0 ? c->CheckID : c->Name, j->a, &before) &&
	    !(before.ServiceID.len == 0 ? may(j, ACL_NODE, node) : may(j, ACL_SERVICE, before.ServiceName)))
		return false;			/* it would be another one's afterwards */
	if (c->ServiceID.len == 0)
		return may(j, ACL_NODE, node);
	if (catalog_service(j->f, node, c->ServiceID, j->a, &now))
		return may(j, ACL_SERVICE, now.Service);
	if (with != NULL && span_eq_nocase(with->ID.len > 0 ? with->ID : with->Service, c->ServiceID))
		return may(j, ACL_SERVICE, with->Service);
	return c->ServiceName.len > 0 && may(j, ACL_SERVICE, c->ServiceName);
}

static bool
may_register(struct judging *j, const struct catalog_register *q)
{
	const struct service *with = q->has_service ? &q->Service : NULL;
	const struct check *checks = q->Checks.v;
	struct span node = q->Node;
	struct node now, other;
	bool there;

	if (!looks(j))
		return true;
	there = catalog_node(j->f, node, j->a, &now);
	if (q->ID.len > 0 && catalog_node_by_id(j->f, q->ID, j->a, &other)) {
		if (node.len == 0) {		/* it is named by its id alone */
			node = other.Node;
			now = other;
			there = true;
		} else if (!span_eq_nocase(other.Node, node) && !may(j, ACL_NODE, other.Node)) {
			return false;		/* it would get another name */
		}
	}
	if ((!there || node_changes(q, &now)) && !may(j, ACL_NODE, node))
		return false;
	if (with != NULL && !may_register_service(j, node, with))
		return false;
	if (q->has_check && !may_register_check(j, node, with, &q->Check))
		return false;
	for (uint32_t i = 0; i < q->Checks.n; i++)
		if (!may_register_check(j, node, with, &checks[i]))
			return false;
	return true;
}

static bool
may_deregister(struct judging *j, const struct catalog_deregister *q)
{
	struct service s;
	struct check c;

	if (may(j, ACL_NODE, q->Node))
		return true;
	if (q->ServiceID.len == 0 && q->CheckID.len == 0)
		return false;
	if (!looks(j))
		return true;
	if (q->ServiceID.len > 0)
		return catalog_service(j->f, q->Node, q->ServiceID, j->a, &s) && may(j, ACL_SERVICE, s.Service);
	return catalog_check(j->f, q->Node, q->CheckID, j->a, &c) && c.ServiceID.len > 0 && may(j, ACL_SERVICE, c.ServiceName);
}

/* name: that it is to have; NULL: it is to be deleted. */
static bool
may_change_query(struct judging *j, struct span id_text, const struct span *name)
{
	struct prepared_query now;
	struct span why;
	char id[37];

	if (name != NULL && !may(j, ACL_QUERY, *name))
		return false;
	if (!looks(j))
		return true;
	return !uuid_id(id_text, "", id, j->a, &why) || !query_find(j->f, id, j->a, &now) || may(j, ACL_QUERY, now.Name);
}

/* -- transactions -- */

static bool
may_txn_kv(struct judging *j, const struct txn_kv *q)
{
	if (span_eqs(q->Verb, "get") || span_eqs(q->Verb, "get-tree"))
		return true;			/* what may not be seen is left out of the answer */
	if (span_starts(q->Verb, span_str("check-")))
		return acl_set_allows(j->who, ACL_KEY, q->Key, ACL_READ);
	if (span_eqs(q->Verb, "delete-tree"))
		return acl_set_writes_below(j->who, ACL_KEY, q->Key);
	return may(j, ACL_KEY, q->Key);
}

static bool
may_txn_service(struct judging *j, const struct txn_service *q)
{
	struct service now;

	if (span_eqs(q->Verb, "get"))
		return true;
	if (!looks(j))
		return true;
	if (span_eqs(q->Verb, "delete") || span_eqs(q->Verb, "delete-cas"))
		return catalog_service(j->f, q->Node, q->Service.ID, j->a, &now) ? may(j, ACL_SERVICE, now.Service) :
		    may(j, ACL_SERVICE, q->Service.Service);
	return may_register_service(j, q->Node, &q->Service);
}

static bool
may_txn_check(struct judging *j, const struct txn_check *q)
{
	struct check now;

	if (span_eqs(q->Verb, "get"))
		return true;
	if (!looks(j))
		return true;
	if (span_eqs(q->Verb, "delete") || span_eqs(q->Verb, "delete-cas")) {
		if (!catalog_check(j->f, q->Check.Node, q->Check.CheckID, j->a, &now))
			now = q->Check;
		return now.ServiceID.len == 0 ? may(j, ACL_NODE, q->Check.Node) : may(j, ACL_SERVICE, now.ServiceName);
	}
	return may_register_check(j, q->Check.Node, NULL, &q->Check);
}

static bool
may_txn_op(struct judging *j, const struct txn_op *op)
{
	struct node now;

	if (op->has_kv)
		return may_txn_kv(j, &op->KV);
	if (op->has_service)
		return may_txn_service(j, &op->Service);
	if (op->has_check)
		return may_txn_check(j, &op->Check);
	if (!op->has_node || span_eqs(op->Node.Verb, "get"))
		return true;
	if (!may(j, ACL_NODE, op->Node.Node.Node))
		return false;
	if (op->Node.Node.ID.len == 0)
		return true;
	return !looks(j) || !catalog_node_by_id(j->f, op->Node.Node.ID, j->a, &now) || may(j, ACL_NODE, now.Node);
}

/* The errors of those that are refused, as the transaction's reply; false: there are none. */
static bool
txn_refused(struct judging *j, const struct txn *q, struct buf *reply)
{
	struct txn_error *errors = arena_array(j->a, q->Ops.n + 1, sizeof(*errors));
	const struct txn_op *ops = q->Ops.v;
	struct txn_reply r = { .Errors = { .v = errors, .set = true } };

	for (uint32_t i = 0; errors != NULL && i < q->Ops.n; i++)
		if (!may_txn_op(j, &ops[i]))
			errors[r.Errors.n++] = (struct txn_error){ .OpIndex = i, .What = span_str(DENIED) };
	if (errors != NULL && r.Errors.n == 0)
		return false;
	schema_pack(&txn_reply_schema, &r, reply);
	return true;
}

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

/* -- all of it -- */

static bool
judge(struct judging *j, const struct op *op, const void *rec, struct buf *reply)
{
	switch (op->code) {
	case OP_KV_APPLY:
		return may_write_key(j, rec);
	case OP_SESSION_DESTROY:
		return may_end_session(j, ((const struct session_destroy *)rec)->ID);
	case OP_SESSION_RENEW:
		return may_end_session(j, ((const struct session_read *)rec)->ID);
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
		return row_allows(op, rec, j->who);
	}
}

enum tv_err
fsm_may(struct fsm *f, const struct op *op, struct span args, const struct fsm_rights *rights, struct buf *reply, const char **why)
{
	struct arena a = ARENA_INIT(2 * FSM_RECORD_MEMORY);
	struct judging j = { .f = f, .who = rights == NULL ? NULL : fsm_rights_set(rights), .a = &a };
	struct rd in = rd_span_over(args);
	size_t before = reply->len;
	enum tv_err err = TV_OK;
	void *rec;
	bool good;

	if (rights == NULL)
		return TV_OK;
	rec = arena_alloc(&a, op->args->size);
	if (rec == NULL || schema_unpack(op->args, &in, &a, rec) != TV_OK || rd_end(&in) != TV_OK) {
		*why = "malformed arguments";
		err = TV_EFORMAT;
	} else {
		good = judge(&j, op, rec, reply);
		if (j.look) {
			reply->len = before;
			err = TV_EAGAIN;
		} else if (!good) {
			*why = denied_text(op);
			err = TV_EPERM;
		}
	}
	arena_done(&a);
	return err;
}

/* -- with a token, in the state -- */

/* False: the read has failed. */
static bool
take_rights(struct reading *r, struct span token, const struct fsm_rights **rights)
{
	enum tv_err err = fsm_rights_get(r->f, token, fsm_wall_now(r->f), rights);

	if (err == TV_OK) {
		r->who = *rights == NULL ? NULL : fsm_rights_set(*rights);
		return true;
	}
	if (err == TV_ENOENT)
		read_fail(r, TV_EPERM, UNKNOWN_TOKEN);
	else if (err == TV_EAGAIN)
		read_fail(r, TV_EAGAIN, "not in the cache");
	else
		read_fail(r, err, "the rights of this token cannot be made out: %s", tv_strerror(err));
	return false;
}

/* Has access control begun, or changed, since?  Then what was read may be newer than what it was judged by. */
static bool
is_outdated(const struct fsm *f, const struct fsm_rights *rights)
{
	return rights == NULL ? fsm_acl_since(f) != 0 : fsm_acl_index(f) > fsm_rights_index(rights);
}

/* Comparisons are judged first; then what may not be seen is left out. */
static void
read_txn_as(struct reading *r, const struct op *op, struct span args, const struct fsm_rights *rights)
{
	struct buf filtered = BUF_INIT(FSM_ANSWER_BYTES_MAX);
	size_t at = r->out->len;
	const char *why;
	enum tv_err err = TV_OK;

	if (rights != NULL && fsm_may(r->f, op, args, rights, r->out, &why) == TV_EPERM && r->out->len > at)
		return;
	fsm_read_with(r, op, args);
	if (r->ans->err == TV_OK && rights != NULL) {
		err = fsm_txn_filter(rights, span_of(r->out->data + at, r->out->len - at), &filtered);
		r->out->len = at;
		buf_putspan(r->out, buf_span(&filtered));
	}
	if (err != TV_OK || filtered.failed)
		read_fail(r, TV_ELIMIT, "the answer is too large");
	buf_done(&filtered);
}

void
fsm_read_as(struct fsm *f, const struct op *op, struct span args, struct span token, struct arena *a, struct buf *out,
    struct fsm_answer *ans, const struct fsm_rights **rights)
{
	struct reading r = { .f = f, .a = a, .out = out, .ans = ans };
	size_t at = out->len;

	*ans = (struct fsm_answer){ .err = TV_OK, .index = 1 };
	*rights = NULL;
	if (op->access.scope != OP_NONE || op->code == OP_TXN_READ || op->code == OP_QUERY_EXECUTE || op->code == OP_QUERY_REMOTE)
		if (!take_rights(&r, token, rights))
			return;
	if (op->code == OP_TXN_READ) {
		read_txn_as(&r, op, args, *rights);
		return;
	}
	fsm_read_with(&r, op, args);
	/* With a view all is of one index, and nothing is newer. */
	if (ans->err == TV_OK && f->owner != NULL && f->view == NULL && op->access.scope != OP_NONE && is_outdated(f, *rights)) {
		out->len = at;
		read_fail(&r, TV_EAGAIN, "access control has just changed");
	}
}

void
fsm_judge(struct fsm *f, const struct op *op, struct span args, struct span token, struct arena *a, struct buf *out,
    struct fsm_answer *ans, const struct fsm_rights **rights)
{
	struct reading r = { .f = f, .a = a, .out = out, .ans = ans };
	const char *why = DENIED;
	size_t at = out->len;
	enum tv_err err;

	*ans = (struct fsm_answer){ .err = TV_OK, .index = 1 };
	*rights = NULL;
	if (!take_rights(&r, token, rights))
		return;
	err = fsm_may(f, op, args, *rights, out, &why);
	if (err == TV_EPERM && out->len > at)
		err = TV_OK;			/* the reply says it */
	if (err != TV_OK)
		read_fail(&r, err, "%s", why);
	fsm_read_ended(&r, at);
	if (ans->err == TV_OK && f->owner != NULL && f->view == NULL && is_outdated(f, *rights)) {
		out->len = at;
		read_fail(&r, TV_EAGAIN, "access control has just changed");
	}
}
