/* Policies: a name and rules.  What the rules say is looked at before the log; the state keeps their text. */
#include <errno.h>

#include "common/acl/rules.h"
#include "common/record/mpack.h"
#include "raftd/fsm/acl/acl_int.h"
#include "raftd/fsm/table/meta.h"
#include "raftd/fsm/table/table.h"

#define DATACENTERS_MAX 64u
#define BUILTIN "builtin global-management policy"

/* -- before the log -- */

static enum tv_err
check_rules(struct prepare *p, struct span text)
{
	struct buf why = BUF_INIT(8192);
	struct acl_rules *rules = NULL;
	enum tv_err err = acl_rules_parse(text, &rules, &why);

	if (err != TV_OK)
		err = prepare_fail(p, "%s", why.len > 0 ? buf_cstr(&why) : "out of memory");
	acl_rules_free(rules);
	buf_done(&why);
	return err;
}

/*
 * A server that does not know rules about mesh and peering cannot read a policy that has some, and denies all to its tokens: so
 * it is written once all servers know them.
 */
static uint8_t
set_needs(struct span args)
{
	struct acl_policy_set q = { .Create = false };
	struct arena a = ARENA_INIT(FSM_RECORD_MEMORY);
	struct rd r = rd_span_over(args);
	struct buf why = BUF_INIT(8192);
	struct acl_rules *rules = NULL;
	uint8_t needs = 0;

	if (schema_unpack(&acl_policy_set_schema, &r, &a, &q) == TV_OK)
		(void)acl_rules_parse(q.Policy.Rules, &rules, &why);
	for (uint32_t i = 0; rules != NULL && i < rules->count; i++)
		if (rules->rule[i].resource == ACL_MESH || rules->rule[i].resource == ACL_PEERING)
			needs = FSM_MESH_RULES_SINCE;
	acl_rules_free(rules);
	buf_done(&why);
	arena_done(&a);
	return needs;
}

static enum tv_err
set_prepare(struct prepare *p, void *rec)
{
	struct acl_policy_set *q = rec;
	struct acl_policy *o = &q->Policy;
	enum tv_err err = acl_prepares(p);

	if (err != TV_OK || (err = acl_check_primary(p)) != TV_OK || (err = acl_check_name(p, &acl_policies, o->Name)) != TV_OK ||
	    (err = acl_prepare_id(p, &acl_policies, &o->ID, &q->Create)) != TV_OK)
		return err;
	if (o->Datacenters.n > DATACENTERS_MAX)
		return prepare_fail(p, "Invalid Policy: more than %u datacenters", DATACENTERS_MAX);
	o->Hash = SPAN_NONE;
	o->CreateIndex = o->ModifyIndex = 0;
	err = check_rules(p, o->Rules);
	return err != TV_OK ? err : acl_check_size(p, "Policy", &acl_policy_schema, o, ACL_POLICY_BYTES_MAX);
}

static enum tv_err
delete_prepare(struct prepare *p, void *rec)
{
	struct acl_id *q = rec;
	enum tv_err err = acl_prepare_delete(p, &acl_policies, q);

	if (err == TV_OK && span_eqs(q->ID, ACL_MANAGEMENT_ID))
		err = prepare_fail(p, "Delete operation not permitted on the " BUILTIN);
	return err;
}

/* -- entries -- */

bool
acl_policy_find(struct fsm *f, struct span id, struct arena *a, struct acl_policy *out)
{
	return acl_record_find(f, &acl_policies, id, a, out);
}

void
acl_policy_put(struct apply *p, struct acl_policy *q, const struct acl_policy *old)
{
	struct fsm *f = p->f;
	uint8_t *hash = arena_alloc(&f->work, ACL_HASH_BYTES);
	crypto_generichash_state h;

	if (hash == NULL) {
		f->failed = ENOMEM;
		return;
	}
	(void)crypto_generichash_init(&h, NULL, 0, ACL_HASH_BYTES);
	acl_hash_text(&h, q->Name);
	acl_hash_text(&h, q->Description);
	acl_hash_text(&h, q->Rules);
	for (uint32_t i = 0; i < q->Datacenters.n; i++)
		acl_hash_text(&h, q->Datacenters.v[i]);
	(void)crypto_generichash_final(&h, hash, ACL_HASH_BYTES);
	q->Hash = span_of(hash, ACL_HASH_BYTES);
	acl_policy_copy(p, q, old);
}

void
acl_policy_copy(struct apply *p, struct acl_policy *q, const struct acl_policy *old)
{
	q->CreateIndex = old != NULL ? old->CreateIndex : p->f->at;
	q->ModifyIndex = p->f->at;
	acl_record_put(p->f, &acl_policies, q->ID, q->Name, old != NULL ? &old->Name : NULL, q);
}

/* Of the builtin one everything but its rules and its reach may change. */
static bool
fits_builtin(struct apply *p, const struct acl_policy *q, const struct acl_policy *old)
{
	if (q->Datacenters.n > 0)
		apply_fail(p, TV_EINVAL, "Changing the Datacenters of the " BUILTIN " is not permitted");
	else if (!span_eq(q->Rules, old->Rules))
		apply_fail(p, TV_EINVAL, "Changing the Rules for the " BUILTIN " is not permitted");
	else
		return true;
	return false;
}

static void
set_apply(struct apply *p, const void *rec)
{
	const struct acl_policy_set *s = rec;
	struct acl_policy q = s->Policy, old = { .ID = SPAN_NONE };
	struct acl_state st;

	if (!acl_applies(p, &st) || !acl_may_set(p, &acl_policies, s->Create, q.ID, q.Name, &old))
		return;
	if (span_eqs(q.ID, ACL_MANAGEMENT_ID) && !fits_builtin(p, &q, &old))
		return;
	acl_policy_put(p, &q, s->Create ? NULL : &old);
	acl_answer(p, &acl_policy_schema, &q);
}

void
acl_policy_remove(struct fsm *f, const struct acl_policy *q)
{
	acl_record_remove(f, &acl_policies, q->ID, q->Name);
}

/* Links to it stay where they are: they are left out of answers, and no other policy ever has its id. */
static void
delete_apply(struct apply *p, const void *rec)
{
	const struct acl_id *q = rec;
	struct acl_state st;
	struct acl_policy old;

	if (!acl_applies(p, &st))
		return;
	if (span_eqs(q->ID, ACL_MANAGEMENT_ID)) {
		apply_fail(p, TV_EINVAL, "Delete operation not permitted on the " BUILTIN);
		return;
	}
	if (acl_policy_find(p->f, q->ID, &p->f->work, &old))
		acl_policy_remove(p->f, &old);
	apply_bool(p, true);
}

/* -- reads -- */

static void
read_one(struct reading *r, const void *rec)
{
	struct span val;

	r->ans->index = fsm_index_of(r->f, FX_ACL_POLICIES);
	if (acl_reads(r) && acl_find(r, &acl_policies, rec, &val)) {
		mpw_array(r->out, 1);
		buf_putspan(r->out, val);
	}
}

static bool
list_one(struct reading *r, struct span val, struct arena *one, const void *ctx UNUSED)
{
	struct acl_policy q = { .ID = SPAN_NONE };

	if (!tbl_decode(r->f, &acl_policy_schema, val, one, &q))
		return false;
	q.Rules = SPAN_NONE;
	schema_pack(&acl_policy_stub_schema, &q, r->out);
	return true;
}

static void
read_list(struct reading *r, const void *rec UNUSED)
{
	r->ans->index = fsm_index_of(r->f, FX_ACL_POLICIES);
	if (acl_reads(r))
		acl_list(r, TBL_ACL_POLICY, list_one, NULL);
}

const struct fsm_op acl_policy_ops[] = {
	{ OP_ACL_POLICY_SET, .since = 7, .needs = set_needs, .prepare = set_prepare, .apply = set_apply },
	{ OP_ACL_POLICY_DELETE, .since = 7, .prepare = delete_prepare, .apply = delete_apply },
	{ OP_ACL_POLICY_GET, .read = read_one },
	{ OP_ACL_POLICY_LIST, .read = read_list },
	{ 0 },
};
