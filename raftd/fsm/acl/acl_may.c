/*
 * Who may what: by the access column of common/record/ops.h.  Source: Consul's documentation of ACLs, http-api, section 10.1.
 *
 * A read is judged in the state that it is read in, and what it lists is filtered as it is written.  Writes are acl_judge.c's.
 */
#include "common/record/mpack.h"
#include "common/record/op_access.h"
#include "raftd/fsm/acl/acl_int.h"
#include "raftd/fsm/query/query_int.h"

#define DENIED "Permission denied"
#define UNKNOWN_TOKEN "ACL not found"

/* Where Consul says what is missing. */
const char *
acl_denied_text(const struct op *op)
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

	if (rights != NULL && fsm_may(r->f, op, args, rights, r->out, NULL, &why) == TV_EPERM && r->out->len > at)
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
	/* Whoever has no token could find out by filters what there is. */
	ans->hidden = ans->hidden && token.len > 0;
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
	struct buf premises = BUF_INIT(PREMISES_BYTES_MAX);
	const char *why = DENIED;
	size_t at = out->len;
	enum tv_err err;

	*ans = (struct fsm_answer){ .err = TV_OK, .index = 1 };
	*rights = NULL;
	if (!take_rights(&r, token, rights))
		return;
	err = fsm_may(f, op, args, *rights, out, &premises, &why);
	ans->refused = err == TV_EPERM && out->len > at;
	if (ans->refused)
		err = TV_OK;			/* the reply says it */
	if (err == TV_OK && !ans->refused)
		buf_putspan(out, buf_span(&premises));
	buf_done(&premises);
	if (err != TV_OK)
		read_fail(&r, err, "%s", why);
	fsm_read_ended(&r, at);
	if (ans->err == TV_OK && f->owner != NULL && f->view == NULL && is_outdated(f, *rights)) {
		out->len = at;
		read_fail(&r, TV_EAGAIN, "access control has just changed");
	}
}
